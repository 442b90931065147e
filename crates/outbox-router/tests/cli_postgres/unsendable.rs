//! `skip --transaction` on a real PostgreSQL: a row that the server stores and cannot print.

use outbox_router::cli::{Audience, Exit};
use serde_json::{Value, json};

use crate::{
    kafka::StateCluster,
    retention_beside_workers::dumped,
    server::{CommandOutput, Server, run_command_for},
};

/// A type whose values can be stored, and never printed.
const UNPRINTABLE: &str = "\
    create domain odd as text; alter table outbox add odd odd; \
    update pg_type set typoutput = 'trigger_out'::regproc where typname = 'odd'";

const WRITE: &str = "insert into outbox (aggregate_type, aggregate_id, event_type, odd) values";

struct Stage {
    server: Server,
    cluster: StateCluster,
}

impl Stage {
    /// One transaction with a row that cannot be printed and two others, and one behind it.
    async fn new() -> Self {
        let stage = Self { server: Server::start(), cluster: StateCluster::start() };
        stage.cluster.create_topic("outbox.event.order", 1);
        let made = stage.typed(&["setup", "--apply", "--create-table"]).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        stage.server.sql(UNPRINTABLE);
        stage.server.sql(&format!(
            "{WRITE} ('order', 'k', 'a', null), ('order', 'k', 'b', 'x'), ('order', 'k', 'c', null)"
        ));
        stage.server.sql(&format!("{WRITE} ('order', 'k', 'd', null)"));
        stage
    }

    async fn typed(&self, line: &[&str]) -> CommandOutput {
        let line = self.cluster.with(line);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        run_command_for(Audience::Machine, &self.server.url("postgres"), &line, "").await
    }

    async fn skip(&self, lsn: &str, more: &[&str]) -> CommandOutput {
        self.typed(&[&["skip", "--lsn", lsn, "--transaction"], more].concat()).await
    }

    /// Types the end of WAL, which no transaction commits at, and returns the position that the
    /// refusal names.
    async fn refused(&self, before: &str) -> String {
        let end = self.server.sql("select pg_current_wal_lsn()");
        let refused = self.skip(&end, &["--yes"]).await;
        assert_eq!((refused.exit, refused.out.as_str()), (Exit::Failure, ""), "{refused:?}");
        let (_, named) = refused.err.split_once(before).unwrap_or_else(|| panic!("{refused:?}"));
        named.split([',', ' ']).next().expect("a position").to_owned()
    }

    fn confirmed(&self) -> String {
        self.server.sql("select confirmed_flush_lsn from pg_replication_slots")
    }

    fn id(&self, event_type: &str) -> String {
        self.server.sql(&format!("select id from outbox where event_type = '{event_type}'"))
    }

    fn left_out(&self) -> String {
        self.server.sql(
            "select string_agg(event_type || ' ' || code, ', ' order by event_type) \
             from outbox_router.left_out join outbox on outbox.id::text = event_id \
             where sent_at is null",
        )
    }
}

#[tokio::test]
async fn the_slot_passes_the_one_transaction_whose_row_cannot_be_printed_and_names_its_others() {
    let stage = Stage::new().await;
    let lsn = stage
        .refused(
            "error: nothing was passed: the server cannot send the transaction that \
        commits at ",
        )
        .await;
    let before = stage.confirmed();
    let dry = stage.skip(&lsn, &["--dry-run"]).await;
    assert_eq!((dry.exit, dry.err.as_str()), (Exit::Done, ""), "{dry:?}");
    for expected in [
        format!("which commits at {lsn}\nthe server cannot send it: "),
        "\npublic.outbox: 3 rows\n".to_owned(),
        format!("\n  {}\n", stage.id("a")),
        "\nnothing was passed\n".to_owned(),
    ] {
        assert!(dry.out.contains(&expected), "{expected} in {}", dry.out);
    }
    assert!(!dry.out.contains(&stage.id("d")), "{}", dry.out);
    assert_eq!(stage.confirmed(), before);

    let passed = stage.skip(&lsn, &["--yes", "--by", "ann", "--reason", "a test", "--json"]).await;
    assert_eq!(passed.exit, Exit::Done, "{passed:?}");
    let document: Value = serde_json::from_str(&passed.out).expect("JSON");
    assert_eq!(document["left_out"]["public.outbox"].as_array().unwrap().len(), 3);
    assert_eq!(dumped(&stage.server, "left_out", "table_oid"), "public.outbox");
    assert_eq!((&document["passed"], &document["run"]), (&json!(true), &json!(1)));
    let moved = format!("select confirmed_flush_lsn - '{lsn}' from pg_replication_slots");
    assert_eq!(stage.server.sql(&moved), "1");
    assert_eq!(stage.left_out(), "a P008, b P008, c P008");
    let run = stage.server.sql(
        "select concat_ws(' ', command, decided_by, reason, outcome) \
         from outbox_router.republication",
    );
    assert!(
        run.starts_with("skip ann as postgres a test complete: slot outbox_router was"),
        "{run}"
    );

    // The next one is another.
    let end = stage.server.sql("select pg_current_wal_lsn()");
    for at in [&lsn, &end] {
        let sendable = stage.skip(at, &["--yes"]).await;
        assert_eq!(sendable.exit, Exit::Failure, "{sendable:?}");
        assert!(sendable.err.contains("the server can send everything"), "{}", sendable.err);
    }

    let accepted = stage.typed(&["accept", "--yes"]).await;
    assert_eq!(accepted.exit, Exit::Done, "{accepted:?}");
    assert!(accepted.out.contains("accepted P014@"), "{}", accepted.out);
    let requeue = ["dead-letters", "requeue", "--left-out", "--code", "P008", "--yes", "--json"];
    let sent = stage.typed(&requeue).await;
    let document: Value = serde_json::from_str(&sent.out).expect("JSON");
    assert_eq!((sent.exit, &document["changed"]), (Exit::Failure, &json!(2)), "{document:#}");
    assert_eq!(stage.left_out(), "b P008");
}

/// The server may come to such a row before a router knows that it holds the slot.
#[tokio::test]
async fn what_no_router_has_delivered_before_it_is_passed_with_it_and_named() {
    let stage = Stage { server: Server::start(), cluster: StateCluster::start() };
    let made = stage.typed(&["setup", "--apply", "--create-table"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    stage.server.sql(UNPRINTABLE);
    stage.server.sql(&format!("{WRITE} ('order', 'k', 'a', null)"));
    stage.server.sql(&format!("{WRITE} ('order', 'k', 'b', 'x')"));
    let lsn = stage.refused("the server cannot send the transaction that commits at ").await;
    let passed = stage.skip(&lsn, &["--yes"]).await;
    assert_eq!(passed.exit, Exit::Done, "{passed:?}");
    assert!(passed.out.contains("\nand 1 transaction before it, which no router"), "{passed:?}");
    assert_eq!(stage.left_out(), "a P008, b P008");
}

/// A row behind a savepoint has another `xmin`: that is said, and a gap stays open for it.
#[tokio::test]
async fn the_gap_stays_open_until_a_person_has_looked_for_more() {
    let stage = Stage::new().await;
    let lsn = stage.refused("the server cannot send the transaction that commits at ").await;
    let passed = stage.skip(&lsn, &["--yes"]).await;
    assert!(passed.out.contains("within a savepoint, or updated"), "{}", passed.out);
    assert!(passed.out.contains("outbox-router recover --admin-url"), "{}", passed.out);
    let status = stage.typed(&["status"]).await;
    assert!(status.out.contains("P014"), "{}", status.out);
}
