//! `tap`: what it shows of the events of a running router, and that it holds nothing up.

use std::cell::RefCell;
use std::time::Duration;

use e2e::{Fixture, FixtureBuilder, SHORT_DEADLINE, create_event_function};
use serde_json::{Value, json};
use testbed::postgres::DatabaseSession;
use testbed::process::{Signal, signal};
use testbed::wait::eventually;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::time::timeout;

/// For some ten thousand events, on a machine that is busy with other things.
const LONG_DEADLINE: Duration = Duration::from_secs(120);

/// `outbox-router tap` beside the router.
pub(crate) struct Tap {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Tap {
    /// Starts it, and waits until it listens.
    pub(crate) async fn start(fixture: &Fixture, arguments: &[&str]) -> Self {
        let line = [&["tap"], arguments].concat();
        let mut child = fixture.router.start_command(&line).unwrap();
        let out = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut err = BufReader::new(child.stderr.take().unwrap()).lines();
        let told = timeout(SHORT_DEADLINE, err.next_line()).await.unwrap().unwrap();
        let told = told.expect("it says that it listens");
        assert!(told.starts_with("tapping the router at 127.0.0.1:"), "{told}");
        Self { child, out, err }
    }

    async fn line(&mut self) -> Value {
        let line = timeout(SHORT_DEADLINE, self.out.next_line()).await.unwrap().unwrap();
        serde_json::from_str(&line.expect("a line")).unwrap()
    }

    pub(crate) async fn lines(&mut self, count: usize) -> Vec<Value> {
        let mut lines = Vec::new();
        while lines.len() < count {
            lines.push(self.line().await);
        }
        lines
    }

    /// Waits until it has ended. Returns its exit code, and what it said last.
    pub(crate) async fn end(mut self) -> (Option<i32>, String) {
        let status = timeout(SHORT_DEADLINE, self.child.wait()).await.unwrap().unwrap();
        let mut told = String::new();
        while let Some(line) = self.err.next_line().await.unwrap() {
            told.push_str(&line);
            told.push('\n');
        }
        (status.code(), told)
    }
}

async fn started(builder: FixtureBuilder) -> (Fixture, DatabaseSession) {
    let fixture = builder.start().await.unwrap();
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    (fixture, session)
}

/// Writes events in one transaction.
async fn write(session: &DatabaseSession, events: u32) {
    let sql = format!("SELECT testbed.event(1 + g % 5) FROM generate_series(1, {events}) g");
    session.batch_execute(&sql).await.unwrap();
}

/// Topic, partition, and sizes of key and value of each record, or of each line, in one order.
fn sorted(mut described: Vec<Value>) -> Vec<Value> {
    described.sort_by_key(Value::to_string);
    described
}

#[tokio::test]
async fn its_lines_are_those_of_the_records_in_kafka_and_show_no_content() {
    let (fixture, session) = started(Fixture::builder()).await;
    let mut tap = Tap::start(&fixture, &[]).await;
    write(&session, 20).await;
    let lines = tap.lines(20).await;
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    let records = fixture.seen().await.unwrap();
    let in_kafka = records.iter().map(|record| {
        json!([
            &*record.topic,
            record.partition,
            record.key.as_ref().map(Vec::len),
            record.value.as_ref().map(Vec::len),
            record.headers.len(),
        ])
    });
    let shown = lines.iter().map(|line| {
        let member = |name: &str| line[name].clone();
        json!([
            member("topic"),
            member("partition"),
            member("key_bytes"),
            member("value_bytes"),
            member("headers"),
        ])
    });
    assert_eq!(sorted(shown.collect()), sorted(in_kafka.collect()));
    for (index, line) in lines.iter().enumerate() {
        assert_eq!(line["outcome"], "routed", "{line}");
        assert_eq!((&line["table"], &line["index"]), (&json!("public.outbox"), &json!(index)));
        assert_eq!(line["commit_lsn"], lines[0]["commit_lsn"], "{line}");
        assert!(line["committed_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{line}");
        let text = line.to_string();
        for record in &records {
            let key = String::from_utf8_lossy(record.key.as_deref().unwrap()).into_owned();
            let id = record.header("id").unwrap();
            assert!(!text.contains(&format!("\"{key}\"")) && !text.contains(id), "{text}");
        }
        assert_eq!(line.get("content"), None, "{line}");
    }
}

#[tokio::test]
async fn content_is_refused_unless_the_router_is_configured_to_show_it() {
    let (mut fixture, session) = started(Fixture::builder()).await;
    for asked in [&["tap", "--content"][..], &["tap", "--key", "order-1"]] {
        let output = fixture.router.command(asked).await.unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains("admin.tap = \"content\""), "{told}");
        assert!(output.stdout.is_empty());
    }

    fixture.kill_router().await.unwrap();
    fixture.config.set("admin.tap", "content");
    fixture.rewrite_config().unwrap();
    fixture.restart().await.unwrap();
    let mut tap = Tap::start(&fixture, &["--content", "--key", "order-3", "--limit", "2"]).await;
    write(&session, 10).await;
    let lines = tap.lines(2).await;
    assert_eq!(tap.end().await.0, Some(0), "as many as were asked for");
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    let records = fixture.seen().await.unwrap();
    let mut of_key: Vec<_> =
        records.iter().filter(|record| record.key.as_deref() == Some(b"order-3")).collect();
    of_key.sort_by_key(|record| record.offset);
    assert_eq!(of_key.len(), 2);
    for (line, record) in lines.iter().zip(of_key) {
        let content = &line["content"];
        assert_eq!(content["key"], "order-3");
        let value = String::from_utf8(record.value.clone().unwrap()).unwrap();
        assert_eq!(content["value"], value);
        let id = json!(["id", record.header("id").unwrap()]);
        assert!(content["headers"].as_array().unwrap().contains(&id), "{content}");
    }
}

/// Two listeners read nothing: a command whose pipe is full, and a tap that is never asked. Every
/// event is delivered meanwhile, and the command is told how many it has not shown.
#[tokio::test]
async fn listeners_that_read_nothing_hold_nothing_up() {
    const EVENTS: u32 = 20_000;
    let (fixture, session) = started(Fixture::builder()).await;
    let mut tap = Tap::start(&fixture, &[]).await;
    assert_eq!(fixture.router.get("/tap").await.unwrap().status, 200);
    for _ in 0..EVENTS / 1_000 {
        write(&session, 1_000).await;
    }
    // Nobody has read a line of either.
    fixture.wait_delivered(LONG_DEADLINE).await.unwrap();
    write(&session, 1).await;
    let (mut shown, mut missed) = (0, 0);
    while shown + missed < u64::from(EVENTS) + 1 {
        let line = tap.line().await;
        match line["kind"].as_str().unwrap() {
            "event" => shown += 1,
            "not_shown" => missed += line["events"].as_u64().unwrap(),
            kind => panic!("{kind}"),
        }
    }
    assert_eq!(shown + missed, u64::from(EVENTS) + 1, "each is shown once, or counted once");
    assert!(missed > 0, "it was slow, and all {shown} events are shown");
    fixture.check().await.unwrap();
}

/// A tap that waits for events is ended by the end of the router, and does not keep it.
#[tokio::test]
async fn a_router_that_stops_ends_the_tap_which_says_so() {
    let (mut fixture, session) = started(Fixture::builder()).await;
    let mut tap = Tap::start(&fixture, &["--topic", "*order"]).await;
    write(&session, 1).await;
    assert_eq!(tap.line().await["kind"], "event");
    fixture.router.sigterm().unwrap();
    let status = fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    assert_eq!(status.code(), Some(0), "it is drained");
    let (code, told) = tap.end().await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("does not answer any more"), "{told}");

    let output = fixture.router.command(&["tap"]).await.unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("no router answers at 127.0.0.1:"), "{told}");
}

#[tokio::test]
async fn it_ends_at_ctrl_c_and_when_its_reader_goes() {
    let (fixture, session) = started(Fixture::builder()).await;
    let tap = Tap::start(&fixture, &["--json"]).await;
    signal(&tap.child, Signal::INT).unwrap();
    assert_eq!(tap.end().await, (Some(0), String::new()));

    let Tap { child, out, mut err } = Tap::start(&fixture, &[]).await;
    drop(out);
    let child = RefCell::new(child);
    let ended = eventually(SHORT_DEADLINE, "the end of the command", async || {
        write(&session, 1).await;
        Ok(child.borrow_mut().try_wait()?)
    });
    assert_eq!(ended.await.unwrap().code(), Some(0));
    assert_eq!(err.next_line().await.unwrap(), None);
}

/// A dead letter, and what is held behind it.
#[tokio::test]
async fn what_is_not_routed_is_shown_with_what_became_of_it() {
    let builder =
        Fixture::builder().set("on_error.bad_row", "dead_letter").set("dead_letters.topic", "");
    let mut fixture = builder.prepare().await.unwrap();
    let url = fixture.postgres.url(testbed::postgres::SUPERUSER, testbed::postgres::DATABASE);
    let setup = ["setup", "--apply", "--dead-letters", "--skip-kafka", "--admin-url", &url];
    let output = fixture.router.command(&setup).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let session = fixture.session().await.unwrap();
    create_event_function(&session).await.unwrap();
    fixture.restart().await.unwrap();

    let mut tap = Tap::start(&fixture, &[]).await;
    let sql = "BEGIN; INSERT INTO outbox \
               (aggregate_type, aggregate_id, event_type, payload, headers) \
               VALUES ('order', 'order-7', 'Poison', '{}', '[7]'); \
               SELECT testbed.event(7); SELECT testbed.event(8); COMMIT";
    session.batch_execute(sql).await.unwrap();
    let lines = tap.lines(3).await;
    let outcomes: Vec<&str> = lines.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["dead_letter", "held", "routed"]);
    assert_eq!(lines[0]["code"], "R009");
    assert_eq!(lines[0]["event_type"], "Poison");

    // What is decided leaves the table, and is shown then.
    let drop = ["dead-letters", "drop", "--all", "--yes", "--by", "ann", "--reason", "a test"];
    let line = [&drop[..], &["--admin-url", &url]].concat();
    let output = fixture.router.command(&line).await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let released = tap.line().await;
    assert_eq!((&released["outcome"], &released["index"]), (&json!("released"), &json!(1)));
    assert_eq!(released["commit_lsn"], lines[1]["commit_lsn"]);
    assert_eq!(released["key_bytes"], 7);
}
