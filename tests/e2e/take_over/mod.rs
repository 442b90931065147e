//! From a real Debezium on Kafka Connect to the router on the same slot, and back.

mod connector;

use connector::{Connector, NAME, tutorial};
use e2e::{Fixture, Interruptions, SHORT_DEADLINE, SLOT, wait_committed};
use std::time::Duration;
use testbed::debezium::ConnectorState;
use testbed::load::{Load, Preset, Schema};
use testbed::truth::Format;
use testbed::wait::eventually;

async fn out(fixture: &Fixture, args: &[&str]) -> String {
    let o = fixture.router.command(args).await.unwrap();
    let s = format!(
        "$ {args:?} -> {:?}\n{}\n{}",
        o.status.code(),
        String::from_utf8_lossy(&o.stdout),
        String::from_utf8_lossy(&o.stderr)
    );
    eprintln!("{s}");
    s
}

#[tokio::test]
#[ignore = "explore"]
async fn explore() {
    let kill = std::env::var_os("KILL").is_some();
    let mut fixture = Fixture::builder()
        .empty_database()
        .schema(Schema::new(Preset::Debezium))
        .format(Format::Debezium)
        .postgres("max_prepared_transactions", "10")
        .track_commits()
        .prepare()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    fixture.schema.create(&session).await.unwrap();
    let mut c = Connector::on_a_worker(&fixture, tutorial(&fixture)).await.unwrap();
    c.create("RUNNING").await.unwrap();
    c.wait(&ConnectorState::Running).await.unwrap();
    eventually(Duration::from_secs(60), "slot", async || {
        Ok(fixture.postgres.slot(SLOT).await?.filter(|s| s.active).map(drop))
    })
    .await
    .unwrap();
    let load = fixture.load(Load { events_per_second: Some(1000), ..Load::default() });
    wait_committed(&load, 5000).await.unwrap();
    fixture.router.set_env("POSTGRES_PASSWORD", Some("unused"));
    let file = c.file(fixture.router.dir()).unwrap();
    let file = file.to_str().unwrap();
    let toml = fixture
        .router
        .command(&["migrate", "debezium", file, "--bootstrap-servers", &fixture.kafka.bootstrap()])
        .await
        .unwrap();
    fixture.router.set_config(&String::from_utf8(toml.stdout).unwrap()).unwrap();
    let url = c.worker.url();
    let url = url.as_str();
    out(&fixture, &["migrate", "debezium", file, "--take-over", "--connect-url", url]).await;
    if kill {
        c.worker.kill9().await.unwrap();
    } else {
        c.put("stop").await.unwrap();
        c.wait(&ConnectorState::Stopped).await.unwrap();
    }
    fixture.postgres.wait_slot_free(SLOT, SHORT_DEADLINE).await.unwrap();
    let mut ints = Interruptions::default();
    ints.note(&fixture).await.unwrap();
    let seen = fixture.seen().await.unwrap();
    eprintln!("in kafka {}", seen.len());
    out(&fixture, &["migrate", "debezium", file, "--take-over", "--connect-url", url]).await;
    out(&fixture, &["setup", "--apply"]).await;
    out(&fixture, &["migrate", "debezium", file, "--take-over", "--connect-url", url]).await;
    out(&fixture, &["accept", "--yes"]).await;
    out(&fixture, &["migrate", "debezium", file, "--take-over", "--connect-url", url]).await;
    fixture.router.start_again().unwrap();
    let _ = fixture.wait_streaming().await.inspect_err(|e| eprintln!("{e:#}"));
    out(&fixture, &["migrate", "debezium", file, "--give-back", "--connect-url", url]).await;
    for _ in 0..3 {
        wait_committed(&load, 1000).await.unwrap();
        session.batch_execute("select pg_log_standby_snapshot()").await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    fixture.router.sigterm().unwrap();
    eprintln!("exit {:?}", fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap());
    ints.note(&fixture).await.unwrap();
    out(&fixture, &["migrate", "debezium", file, "--give-back", "--connect-url", url]).await;
    // back
    if kill {
        c.worker.start_again().unwrap();
        c.worker.wait_ready().await.unwrap();
        out(&fixture, &["migrate", "debezium", file, "--give-back", "--connect-url", url]).await;
        c.create("STOPPED").await.unwrap();
    }
    out(&fixture, &["migrate", "debezium", file, "--give-back", "--connect-url", url]).await;
    let _ = c.forget_offsets().await.inspect_err(|e| eprintln!("{e:#}"));
    c.configure("snapshot.mode", "no_data").await.unwrap();
    out(&fixture, &["migrate", "debezium", file, "--give-back", "--connect-url", url]).await;
    c.put("resume").await.unwrap();
    let r = c.wait(&ConnectorState::Running).await;
    eprintln!("resume {}", r.is_ok());
    wait_committed(&load, 3000).await.unwrap();
    let journal = load.stop().await.unwrap();
    fixture.note(journal);
    let r = fixture.wait_delivered(Duration::from_secs(30)).await;
    eprintln!("delivered {r:?}");
    eprintln!(
        "status {}",
        c.worker.send("GET", &format!("/connectors/{NAME}/status"), None).await.unwrap().body
    );
    let seen = fixture.seen().await.unwrap();
    eprintln!("duplicates {:?}", ints.duplicates(&seen));
    let r = fixture.check().await.unwrap();
    eprintln!("{r} {:?}", r.examples());
    c.put("stop").await.unwrap();
    c.wait(&ConnectorState::Stopped).await.unwrap();
    fixture.postgres.wait_slot_free(SLOT, SHORT_DEADLINE).await.unwrap();
    out(&fixture, &["migrate", "debezium", file, "--take-over", "--connect-url", url]).await;
    out(&fixture, &["accept", "--yes"]).await;
    out(&fixture, &["migrate", "debezium", file, "--take-over", "--connect-url", url]).await;
    std::fs::write("/tmp/takeover-worker.log", c.worker.log()).unwrap();
}
