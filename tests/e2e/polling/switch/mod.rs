//! From polling to the stream and back, as docs/polling.md describes it: writers go on all the
//! time.

mod altered;
mod command;
mod identity;
mod kills;
mod refusals;
mod restored;
mod standbys;
mod tables;

use std::time::Duration;

use e2e::{
    Fixture, FixtureBuilder, PUBLICATION, ROLE, RouterConfig, SHORT_DEADLINE, SLOT, wait_committed,
};
use serde_json::Value;
use testbed::checker::LateReplays;
use testbed::load::{Load, Partitioning, Preset, Schema};
use testbed::postgres::{DATABASE, PgBouncer, SUPERUSER};
use testbed::router::RouterProcess;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{BATCH, COLUMNS, drop_slot, load, set_up, stop, wait_polling, wait_published};

/// The same tables, by both sources.
struct Configurations {
    polling: RouterConfig,
    stream: RouterConfig,
}

/// A worker polls; there is neither publication nor slot.
async fn begun() -> (Fixture, Configurations) {
    begun_with(Fixture::builder(), COLUMNS).await
}

async fn begun_with(builder: FixtureBuilder, columns: &str) -> (Fixture, Configurations) {
    let mut fixture = builder.prepare().await.unwrap();
    fixture.late_replays = LateReplays::Allowed;
    let session = fixture.session().await.unwrap();
    session.batch_execute(columns).await.unwrap();
    drop_slot(&session).await;
    session.batch_execute(&format!("DROP PUBLICATION {PUBLICATION}")).await.unwrap();
    let stream = fixture.config.clone();
    fixture
        .config
        .set("postgres.source", "polling")
        .set("polling.batch", BATCH)
        .set("polling.lease", "4s")
        .set_outbox("order_by", vec!["n"]);
    let polling = fixture.config.clone();
    fixture.rewrite_config().unwrap();
    set_up(&fixture, &[]).await.unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    (fixture, Configurations { polling, stream })
}

fn configure(fixture: &mut Fixture, config: &RouterConfig) {
    fixture.config = config.clone();
    fixture.rewrite_config().unwrap();
}

fn line(fixture: &Fixture, to: &str) -> Vec<String> {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    ["switch", to, "--yes", "--admin-url", &url].map(str::to_owned).into()
}

async fn switch(fixture: &Fixture, to: &str, flag: &str) -> (Option<i32>, String) {
    run(fixture, &["switch", to, flag]).await
}

/// Runs a command to its end. Returns its exit code and what it says.
async fn run(fixture: &Fixture, line: &[&str]) -> (Option<i32>, String) {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    typed(fixture, &[line, &["--admin-url", &url]].concat()).await
}

async fn typed(fixture: &Fixture, line: &[&str]) -> (Option<i32>, String) {
    let output = fixture.router.command(line).await.unwrap();
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    (output.status.code(), format!("{out}{err}"))
}

async fn switched(fixture: &Fixture, to: &str) -> String {
    let (exit, said) = switch(fixture, to, "--yes").await;
    assert_eq!(exit, Some(0), "{said}");
    said
}

/// Starts the command, and kills it when it says this of what it does.
async fn killed_when(fixture: &Fixture, to: &str, what: &str) {
    assert!(was_killed_when(fixture, to, what).await, "it has never said {what}");
}

/// The same, unless it ends in order without saying it. A run that is killed goes on for a moment
/// after it has said what it is killed at, and may do what comes next.
async fn was_killed_when(fixture: &Fixture, to: &str, what: &str) -> bool {
    let line = line(fixture, to);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let mut run = fixture.router.start_command(&line).unwrap();
    let mut said = BufReader::new(run.stdout.take().unwrap()).lines();
    while let Some(line) = said.next_line().await.unwrap() {
        // First it says what it will do, in numbered lines.
        if line.contains(what) && !line.starts_with(|first: char| first.is_ascii_digit()) {
            run.kill().await.unwrap();
            return true;
        }
    }
    assert!(run.wait().await.unwrap().success(), "it has failed and never said {what}");
    false
}

/// What is done once, however often a command is typed.
const ONCE: [&str; 4] = [
    "witness: created",
    "slot outbox_router: dropped",
    "witness: deleted",
    "publication outbox_router: dropped",
];

/// Kills the command at one of its steps.
async fn killed_at(fixture: &Fixture, to: &str, step: &str) {
    if !was_killed_when(fixture, to, step).await {
        assert!(ONCE.contains(&step), "it has never said {step}");
    }
}

fn is_refused(status: &Value) -> bool {
    status.to_string().contains("P043")
}

/// So many writes a second as docs/polling.md speaks of.
fn busy() -> Load {
    Load { writers: 16, think: Duration::from_millis(2), events_per_second: Some(2_000), ..load() }
}

#[tokio::test]
async fn tables_are_streamed_and_polled_again_while_writers_go_on_and_each_row_comes_once() {
    println!("{}", each_row_comes_once(begun().await, load()).await);
}

/// The publication names its root, and its rows are marked through it. Before PostgreSQL 17 such a
/// table can have no identity column.
#[tokio::test]
async fn a_partitioned_table_is_streamed_and_polled_again() {
    let schema = Schema::new(Preset::Default).partitioned(Partitioning::Hash);
    let columns = "create sequence numbers; grant usage on sequence numbers to public; \
        alter table outbox add n bigint not null default nextval('numbers'), \
        add published_at timestamptz";
    let begun = begun_with(Fixture::builder().schema(schema), columns).await;
    println!("{}", each_row_comes_once(begun, load()).await);
}

/// With a release build: `--ignored two_thousand`.
#[tokio::test]
#[ignore = "a debug build does not keep up"]
async fn each_row_comes_once_at_two_thousand_writes_a_second() {
    println!("{}", each_row_comes_once(begun().await, busy()).await);
}

/// Returns what the checker has found.
async fn each_row_comes_once(begun: (Fixture, Configurations), load: Load) -> String {
    let (mut fixture, configurations) = begun;
    let mut second = RouterProcess::start(&fixture.config.to_string()).unwrap();
    wait_polling(&mut second).await;
    let running = fixture.load(load);
    wait_committed(&running, 300).await.unwrap();

    let (exit, said) = switch(&fixture, "stream", "--dry-run").await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("nothing was changed"), "{said}");
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_none());

    let [created, dropped @ ..] = ONCE;
    let said = switched(&fixture, "stream").await;
    assert!(said.contains("postgres.source = \"stream\"") && said.contains(created), "{said}");
    // Workers that poll on by mistake are given nothing.
    for worker in [&mut fixture.router, &mut second] {
        worker.wait_status("refused", SHORT_DEADLINE, is_refused).await.unwrap();
        stop(worker).await;
    }
    wait_committed(&running, 200).await.unwrap();
    configure(&mut fixture, &configurations.stream);
    fixture.restart().await.unwrap();
    wait_committed(&running, 300).await.unwrap();
    // The router has read its file.
    configure(&mut fixture, &configurations.polling);
    let (exit, said) = switch(&fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("is in use by pid"), "{said}");

    stop(&mut fixture.router).await;
    wait_committed(&running, 200).await.unwrap();
    let said = switched(&fixture, "polling").await;
    assert!(said.contains("start outbox-router run again"), "{said}");
    assert!(dropped.iter().all(|what| said.contains(what)), "{said}");
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_none());
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    wait_committed(&running, 200).await.unwrap();

    // Nothing of the first time is in the way of the second.
    switched(&fixture, "stream").await;
    // It holds nothing, so nothing of it is repeated.
    fixture.router.kill9().await.unwrap();
    configure(&mut fixture, &configurations.stream);
    fixture.restart().await.unwrap();
    wait_committed(&running, 100).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(super::DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "nothing was interrupted");
    result.to_string()
}

#[tokio::test]
async fn a_switch_that_is_killed_after_each_of_its_steps_goes_on() {
    println!("{}", goes_on_after_kills(load()).await);
}

/// With a release build: `--ignored two_thousand`.
#[tokio::test]
#[ignore = "a debug build does not keep up"]
async fn a_switch_that_is_killed_goes_on_at_two_thousand_writes_a_second() {
    println!("{}", goes_on_after_kills(busy()).await);
}

/// Returns what the checker has found.
async fn goes_on_after_kills(load: Load) -> String {
    const TO_STREAM: [&str; 6] = [
        "give back their keys",
        "hold nothing any more",
        "created at",
        "are older than the slot",
        "are sent and marked",
        "witness: created",
    ];
    const TO_POLLING: [&str; 6] = [
        "is delivered",
        "are not delivered",
        "are marked as delivered",
        "slot outbox_router: dropped",
        "witness: deleted",
        "publication outbox_router: dropped",
    ];
    let (mut fixture, configurations) = begun().await;
    let running = fixture.load(load);
    wait_committed(&running, 300).await.unwrap();
    for step in TO_STREAM {
        killed_at(&fixture, "stream", step).await;
        wait_committed(&running, 50).await.unwrap();
    }
    switched(&fixture, "stream").await;
    stop(&mut fixture.router).await;
    configure(&mut fixture, &configurations.stream);
    fixture.restart().await.unwrap();
    wait_committed(&running, 200).await.unwrap();
    stop(&mut fixture.router).await;
    wait_committed(&running, 100).await.unwrap();

    configure(&mut fixture, &configurations.polling);
    for step in TO_POLLING {
        killed_at(&fixture, "polling", step).await;
        wait_committed(&running, 50).await.unwrap();
    }
    switched(&fixture, "polling").await;
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    wait_committed(&running, 200).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    // Two kills may hit the command while it sends.
    assert!(result.duplicates <= 3 * BATCH, "{result}");
    result.to_string()
}

#[tokio::test]
async fn a_switch_that_is_cancelled_leaves_the_tables_to_the_workers() {
    let (mut fixture, _) = begun().await;
    let running = fixture.load(load());
    wait_committed(&running, 200).await.unwrap();
    killed_when(&fixture, "stream", "created at").await;
    // Nobody polls now, and whoever looks learns it.
    fixture.router.wait_status("nobody polls", SHORT_DEADLINE, is_refused).await.unwrap();
    assert_eq!(fixture.router.get("/readyz").await.unwrap().status, 503);
    let said = switched(&fixture, "polling").await;
    assert!(said.contains("workers that run take the tables again"), "{said}");
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_none());
    wait_committed(&running, 200).await.unwrap();
    let (exit, said) = switch(&fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains("polled already"), "{said}");
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert!(result.duplicates <= BATCH, "{result}");
}

/// With the configuration of the stream. A slot that was made now would not have the rows that are
/// pending, and no worker has begun yet.
async fn expect_polled_last(fixture: &Fixture) {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let setup = ["setup", "--apply", "--role", ROLE, "--admin-url", &url];
    for line in [&["status"][..], &["doctor"], &setup] {
        let (exit, said) = typed(fixture, line).await;
        assert_ne!(exit, Some(0), "{line:?}: {said}");
        assert!(said.contains("public.outbox was polled last"), "{line:?}: {said}");
        assert!(said.contains("switch stream") && !said.contains("P010"), "{line:?}: {said}");
    }
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_none(), "nothing was made");
}

/// The witness shows that the slot is theirs, although no switch was ever typed: what the stream
/// has delivered is marked, and not sent again.
#[tokio::test]
async fn tables_that_were_streamed_from_the_beginning_are_polled() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    fixture.late_replays = LateReplays::Allowed;
    fixture.session().await.unwrap().batch_execute(COLUMNS).await.unwrap();
    let running = fixture.load(load());
    wait_committed(&running, 300).await.unwrap();
    stop(&mut fixture.router).await;
    // Its slot was made without `setup`, which writes where the pipeline begins.
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let accept = ["accept", "--yes", "--admin-url", &url];
    let accepted = fixture.router.command(&accept).await.unwrap();
    assert!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stderr));
    wait_committed(&running, 100).await.unwrap();
    let stream = fixture.config.clone();
    fixture
        .config
        .set("postgres.source", "polling")
        .set("polling.batch", BATCH)
        .set_outbox("order_by", vec!["n"]);
    let polling = fixture.config.clone();
    fixture.rewrite_config().unwrap();
    let said = switched(&fixture, "polling").await;
    assert!(said.contains("are marked as delivered"), "{said}");
    configure(&mut fixture, &stream);
    expect_polled_last(&fixture).await;
    configure(&mut fixture, &polling);
    set_up(&fixture, &[]).await.unwrap();
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    wait_committed(&running, 100).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "{result}");
}

/// A slot that the switch has not made begins anywhere.
#[tokio::test]
async fn a_slot_that_exists_is_refused_and_nothing_is_changed() {
    let (mut fixture, _) = begun().await;
    let session = fixture.session().await.unwrap();
    let make = "SELECT pg_create_logical_replication_slot($1, 'pgoutput')::text";
    session.execute(make, &[&SLOT]).await.unwrap();
    let (exit, said) = switch(&fixture, "stream", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P043") && said.contains("exists already"), "{said}");
    let (exit, said) = switch(&fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("--streamed") && said.contains("teardown"), "{said}");
    tokio::time::sleep(Duration::from_millis(10)).await;
    wait_polling(&mut fixture.router).await;
}

/// A slot is made over a connection for replication, which a pooler does not pass on.
#[tokio::test]
async fn behind_a_pooler_the_switch_is_refused_before_workers_give_back_their_keys() {
    let (mut fixture, _) = begun().await;
    let pooler = PgBouncer::start(fixture.postgres.port(), ROLE).await.unwrap();
    let url = format!("postgres://{ROLE}@127.0.0.1:{}/{DATABASE}", pooler.port());
    fixture.config.set("postgres.url", url);
    fixture.rewrite_config().unwrap();
    stop(&mut fixture.router).await;
    fixture.router.start_again().unwrap();
    wait_polling(&mut fixture.router).await;
    let (exit, said) = switch(&fixture, "stream", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("postgres.url"), "{said}");
    let session = fixture.session().await.unwrap();
    let state = "select count(*) from outbox_router.switch";
    let states: i64 = session.query_one(state, &[]).await.unwrap().get(0);
    assert_eq!(states, 0, "nothing was changed");
    let running = fixture.load(load());
    wait_committed(&running, 100).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
}

/// The stream knows no time before which a row is not to be sent.
#[tokio::test]
async fn rows_that_are_not_to_be_sent_yet_refuse_the_switch_or_are_waited_for() {
    let (mut fixture, _) = begun().await;
    stop(&mut fixture.router).await;
    let session = fixture.session().await.unwrap();
    session
        .batch_execute(
            "alter table outbox add available_at timestamptz; \
             insert into outbox (aggregate_type, aggregate_id, event_type, payload, available_at) \
             values ('order', 'a', 'Made', '{}', now() + interval '1 hour')",
        )
        .await
        .unwrap();
    set_up(&fixture, &[]).await.unwrap();
    let (exit, said) = switch(&fixture, "stream", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P043") && said.contains("not to be sent yet"), "{said}");
    let state = "select count(*) from outbox_router.switch";
    let states: i64 = session.query_one(state, &[]).await.unwrap().get(0);
    assert_eq!(states, 0, "nothing was changed");

    let soon = "update outbox set available_at = now() + interval '5 seconds'";
    session.batch_execute(soon).await.unwrap();
    let said = switched(&fixture, "stream").await;
    assert!(said.contains("are sent and marked"), "{said}");
    let pending = "select count(*) from outbox where published_at is null";
    let pending: i64 = session.query_one(pending, &[]).await.unwrap().get(0);
    assert_eq!(pending, 0);
}
