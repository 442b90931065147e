//! Through PgBouncer in transaction mode: nothing relies on a session.

use e2e::{ROLE, SHORT_DEADLINE, wait_committed};
use testbed::postgres::{DATABASE, PgBouncer};

use super::{BATCH, COLUMNS, load, polling, prepared, wait_polling, wait_published};

#[tokio::test]
async fn two_workers_behind_a_pooler_lose_nothing() {
    let mut fixture = prepared(polling().set("polling.lease", "4s"), COLUMNS).await;
    let pooler = PgBouncer::start(fixture.postgres.port(), ROLE).await.unwrap();
    let url = format!("postgres://{ROLE}@127.0.0.1:{}/{DATABASE}", pooler.port());
    fixture.config.set("postgres.url", url);
    fixture.rewrite_config().unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    let mut second = testbed::router::RouterProcess::start(&fixture.config.to_string()).unwrap();
    wait_polling(&mut second).await;
    let running = fixture.load(load());
    wait_committed(&running, 1_000).await.unwrap();
    fixture.router.kill9().await.unwrap();
    wait_committed(&running, 500).await.unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert!(result.duplicates <= BATCH, "{result}");
    second.sigterm().unwrap();
    assert_eq!(second.wait_exit(SHORT_DEADLINE).await.unwrap().code(), Some(0));
}
