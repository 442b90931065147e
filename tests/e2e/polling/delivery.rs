//! What flows when nothing breaks.

use std::time::Duration;

use e2e::{SHORT_DEADLINE, wait_committed};
use testbed::load::{Load, big_transaction};
use testbed::wait::eventually;

use super::{COLUMNS, load, polling, prepared, set_up, started, wait_polling, wait_published};

/// Rows of transactions that were open when later rows were read are found: thirty writers think
/// within their transactions.
#[tokio::test]
async fn thirty_writers_arrive_once_and_in_order_and_no_row_is_passed_over() {
    let mut fixture = started(polling(), COLUMNS).await;
    let running = fixture.load(Load { writers: 30, think: Duration::from_millis(50), ..load() });
    wait_committed(&running, 3_000).await.unwrap();
    let journal = running.stop().await.unwrap();
    assert_eq!(journal.failures, 0);
    fixture.note(journal);
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "duplicates without any fault");
}

#[tokio::test]
async fn a_backlog_is_drained_without_waiting_for_the_interval() {
    // At one batch an interval it would take an hour.
    let mut fixture = prepared(polling().set("polling.interval", "60s"), COLUMNS).await;
    let session = fixture.session().await.unwrap();
    big_transaction(&session, &fixture.schema, 6_000, 200).await.unwrap();
    fixture.router.start_again().unwrap();
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0);
}

#[tokio::test]
async fn a_notify_wakes_the_worker_between_two_intervals() {
    let builder = polling().set("polling.interval", "1h");
    let mut fixture = prepared(builder, COLUMNS).await;
    set_up(&fixture, &["--notify"]).await.unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    let listens = "select count(*) from pg_stat_activity where query ilike 'listen%'";
    eventually(SHORT_DEADLINE, "a listener", async || {
        let listeners: i64 = session.query_one(listens, &[]).await?.try_get(0)?;
        Ok((listeners > 0).then_some(()))
    })
    .await
    .unwrap();
    let journal = fixture.load(Load { events: Some(200), ..load() }).finished().await.unwrap();
    fixture.note(journal);
    wait_published(&fixture).await;
    fixture.check().await.unwrap().clean().unwrap();
}

#[tokio::test]
async fn a_stop_leaves_nothing_in_flight() {
    let mut fixture = started(polling(), COLUMNS).await;
    let running = fixture.load(load());
    for _ in 0..5 {
        wait_committed(&running, 100).await.unwrap();
        fixture.router.sigterm().unwrap();
        let exit = fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
        assert_eq!(exit.code(), Some(0), "{}", fixture.router.log());
        fixture.router.start_again().unwrap();
        // It takes over at once what was given back.
        wait_polling(&mut fixture.router).await;
    }
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "a stop repeats nothing");
}
