//! `dead-letters --left-out`, on a real PostgreSQL and librdkafka's mock cluster.

use outbox_router::cli::{Audience, Exit};
use serde_json::{Value, json};

use crate::{
    cleanup::leave_out,
    kafka::StateCluster,
    server::{CommandOutput, Server, run_command_for, run_line},
};

const TABLE: &str = "\
create table outbox (id text primary key, aggregate_type text not null, aggregate_id text, \
  event_type text not null, payload jsonb, created_at timestamptz not null default now()); \
insert into outbox (id, aggregate_type, aggregate_id, event_type) \
  values ('e1', 'order', 'k', 'made'), ('e2', 'order', null, 'made'), ('e3', 'order', 'k', 'made')";

struct Stage {
    server: Server,
    cluster: StateCluster,
}

impl Stage {
    /// `recover` left out e2 and e3, and e9, whose row was deleted since; e3 is corrected.
    fn new() -> Self {
        let stage = Self { server: Server::start(), cluster: StateCluster::start() };
        stage.cluster.create_topic("outbox.event.order", 1);
        stage.server.sql(TABLE);
        ["e2", "e3", "e9"].iter().for_each(|id| leave_out(&stage.server, id));
        stage
    }

    async fn type_as(&self, audience: Audience, more: &[&str], answer: &str) -> CommandOutput {
        let line = self.cluster.without_state(&[&["dead-letters"], more].concat());
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        run_command_for(audience, &self.server.url("postgres"), &line, answer).await
    }

    async fn typed(&self, more: &[&str]) -> CommandOutput {
        self.type_as(Audience::Machine, &[more, &["--left-out"]].concat(), "").await
    }

    async fn json(&self, more: &[&str]) -> (Exit, Value) {
        let output = self.typed(&[more, &["--json"]].concat()).await;
        let document = serde_json::from_str(&output.out);
        (output.exit, document.unwrap_or_else(|_| panic!("{output:?}")))
    }

    fn left(&self) -> String {
        self.server.sql(
            "select string_agg(event_id || ' ' || code, ', ' order by event_id) \
             from outbox_router.left_out o where to_jsonb(o) ->> 'sent_at' is null",
        )
    }

    fn runs(&self) -> String {
        self.server.sql(
            "select string_agg(concat_ws(' | ', command, selection, decided_by, reason, outcome, \
             finished_at is not null), '; ' order by id) from outbox_router.republication",
        )
    }
}

#[tokio::test]
async fn a_row_that_became_a_record_after_all_is_settled_and_the_others_say_why_not() {
    let stage = Stage::new();
    let listed = stage.typed(&["list"]).await;
    assert_eq!((listed.exit, listed.err.as_str()), (Exit::Failure, ""), "{listed:?}");
    assert!(listed.out.contains("public.outbox  e3  20"), "{}", listed.out);
    assert!(listed.out.contains("\n3 rows, in no topic"), "{}", listed.out);
    let (exit, one) = stage.json(&["list", "--id", "e3"]).await;
    assert_eq!((exit, &one["left_out"][0]["id"]), (Exit::Failure, &json!("e3")), "{one:#}");
    assert_eq!(one["left_out"][1], Value::Null);

    let dry = stage.typed(&["requeue", "--all", "--dry-run"]).await;
    assert_eq!(dry.exit, Exit::Done, "{dry:?}");
    assert!(
        dry.out.starts_with("requeue 3 rows that were left out\n  public.outbox  e2"),
        "{dry:?}"
    );
    assert!(dry.out.ends_with("\nnothing was requeued\n"), "{dry:?}");
    assert_eq!(stage.left(), "e2 R003, e3 R003, e9 R003");

    let all = ["requeue", "--all", "--yes", "--by", "ann", "--reason", "corrected"];
    let (exit, document) = stage.json(&all).await;
    assert_eq!((exit, &document["changed"]), (Exit::Failure, &json!(1)), "{document:#}");
    let became = |row: usize| document["rows"][row]["outcome"].clone();
    assert_eq!([0, 1, 2].map(became), [json!("left_out"), json!("sent"), json!("without_row")]);
    assert_eq!(document["rows"][0]["code"], json!("R001"));
    assert_eq!(stage.left(), "e2 R001, e9 R003", "why it cannot be sent now");
    assert_eq!(
        stage.runs(),
        "dead-letters requeue | {\"left_out\":[\"e2\",\"e3\",\"e9\"],\"table\":\"public.outbox\"} \
         | ann as postgres | corrected | complete: sent 1, filtered 0, left out 1 (e2) | t"
    );

    let again = stage.typed(&["requeue", "--id", "e2", "--id", "e3", "--yes"]).await;
    assert_eq!(again.exit, Exit::Failure, "{again:?}");
    for expected in [
        "error: no row of the id e3 was left out\n",
        "error: e2 of public.outbox stays left out: R001: ",
    ] {
        assert!(again.err.contains(expected), "{expected} in {}", again.err);
    }
}

#[tokio::test]
async fn a_person_gives_rows_up_by_name_and_is_asked() {
    let stage = Stage::new();
    let none = stage.typed(&["drop", "--id", "e1", "--yes"]).await;
    assert_eq!((none.exit, none.out.as_str()), (Exit::Failure, ""), "{none:?}");
    assert!(none.err.contains("error: no row of the id e1 was left out"), "{}", none.err);
    let nobody = stage.typed(&["drop", "--id", "e2"]).await;
    assert_eq!(nobody.exit, Exit::Usage, "{nobody:?}");
    let asked = ["drop", "--left-out", "--id", "e2", "--reason", "a test"];
    let no = stage.type_as(Audience::Person, &asked, "no\n").await;
    assert_eq!((no.exit, no.err.as_str()), (Exit::Failure, "nothing was dropped\n"), "{no:?}");
    let yes = stage.type_as(Audience::Person, &asked, "outbox_router\n").await;
    assert_eq!(yes.exit, Exit::Done, "{yes:?}");
    assert!(yes.out.contains("dropped 1 row; this is run 1 of outbox_router.repub"), "{}", yes.out);
    assert_eq!(stage.left(), "e3 R003, e9 R003");
    let (exit, all) = stage.json(&["drop", "--all", "--yes", "--by", "bob"]).await;
    assert_eq!((exit, &all["changed"], &all["runs"]), (Exit::Done, &json!(2), &json!([2])));
    let runs = stage.runs();
    assert!(runs.contains("dead-letters drop | {\"left_out\":[\"e2\"],"), "{runs}");
    assert!(runs.contains(" | a test | complete: gave up 1 row | t; "), "{runs}");
    let listed = stage.typed(&["list"]).await;
    assert_eq!((listed.exit, listed.out.as_str()), (Exit::Done, "no row is left out\n"));
    assert_eq!(stage.server.sql("select count(*) from outbox"), "3", "retention removes them");
}

/// One that sends rows may leave the same out again.
#[tokio::test]
async fn while_another_command_sends_rows_no_one_decides() {
    let stage = Stage::new();
    let lock = "select pg_current_xact_id(), pg_advisory_lock(hashtextextended(\
                'outbox_router republication outbox-router', 0))";
    let session = stage.server.transaction("first", lock);
    for verb in ["requeue", "drop"] {
        let refused = stage.typed(&[verb, "--all", "--yes"]).await;
        assert_eq!((refused.exit, refused.out.as_str()), (Exit::Failure, ""), "{refused:?}");
        assert!(refused.err.contains("a command of this pipeline is at work"), "{}", refused.err);
    }
    drop(session);
}

#[tokio::test]
async fn where_ids_or_tables_do_not_fit_nothing_is_lost() {
    let stage = Stage::new();
    let file = tempfile::NamedTempFile::new().expect("a file");
    let outbox = "[[outbox]]\ntable = \"public.outbox\"\ncolumns.id = \"${id}-${event_type}\"\n";
    std::fs::write(file.path(), outbox).expect("written");
    let url = format!("postgres.url={}", stage.server.url("postgres"));
    let line = ["--config", file.path().to_str().expect("UTF-8"), "--set", &url];
    let requeue = ["dead-letters", "requeue", "--left-out", "--all", "--yes"];
    let line = stage.cluster.without_state(&[&line[..], &requeue].concat());
    let unnamed = run_line(Audience::Machine, &line, "").await;
    assert_eq!(unnamed.exit, Exit::Failure, "{unnamed:?}");
    assert!(
        unnamed.err.contains("columns.id is not the column now that had its id"),
        "{}",
        unnamed.err
    );
    stage.server.sql(
        "create table other (like outbox including all); insert into outbox_router.left_out \
           values ('outbox-router', 'other'::regclass, 'e2', 'outbox_router', 1, 'R003', 'no')",
    );
    let two = stage.typed(&["drop", "--id", "e2", "--yes"]).await;
    assert_eq!(two.exit, Exit::Usage, "{two:?}");
    assert!(two.err.contains("--table, one of public.other, public.outbox"), "{}", two.err);
    stage.server.sql("drop table other");
    let (exit, gone) = stage.json(&["requeue", "--code", "R003", "--yes"]).await;
    assert_eq!(exit, Exit::Failure, "{gone:#}");
    let outcomes: Vec<_> =
        gone["rows"].as_array().unwrap().iter().map(|row| row["outcome"].clone()).collect();
    let expected = ["left_out", "sent", "without_row", "without_row"].map(|one| json!(one));
    assert_eq!(outcomes, expected, "{gone:#}");
}

/// By another column, or one that an earlier version did not write down, it is another row.
#[tokio::test]
async fn a_row_is_sent_by_the_column_alone_by_which_it_was_left_out() {
    let stage = Stage::new();
    stage.server.sql("alter table outbox add ev text; update outbox set ev = 'e3' where id = 'e1'");
    let by_ev = ["--set", "outbox.0.table=public.outbox", "--set", "outbox.0.columns.id=ev"];
    let line = [&["requeue", "--id", "e3", "--yes"], &by_ev[..]].concat();
    let (exit, other) = stage.json(&line).await;
    let outcome = |document: &Value| document["rows"][0]["outcome"].clone();
    assert_eq!((exit, outcome(&other)), (Exit::Failure, json!("without_id")), "{other:#}");
    stage.server.sql("alter table outbox_router.left_out drop id_column, drop rows");
    let (exit, unknown) = stage.json(&["requeue", "--id", "e3", "--yes"]).await;
    assert_eq!((exit, outcome(&unknown)), (Exit::Failure, json!("without_id")), "{unknown:#}");
    assert_eq!(stage.left(), "e2 R003, e3 R003, e9 R003");
}

/// Its table is a partition of the one that is configured now.
#[tokio::test]
async fn a_row_is_sent_through_the_root_of_which_its_table_has_become_a_partition() {
    let stage = Stage::new();
    stage.server.sql(
        "alter table outbox rename to old; \
         create table outbox (like old including defaults) partition by range (created_at); \
         alter table outbox attach partition old default",
    );
    let (exit, sent) = stage.json(&["requeue", "--all", "--yes"]).await;
    assert_eq!((exit, &sent["changed"]), (Exit::Failure, &json!(1)), "{sent:#}");
    assert_eq!(sent["rows"][0]["table"], json!("public.outbox"));
    assert_eq!(stage.left(), "e2 R001, e9 R003");
}

#[tokio::test]
async fn several_rows_of_one_id_are_counted_and_rows_that_are_filtered_stay_left_out() {
    let stage = Stage::new();
    stage.server.sql("update outbox_router.left_out set rows = 2 where event_id = 'e9'");
    let listed = stage.typed(&["list"]).await;
    assert!(listed.out.contains("  e9 (2 rows)  "), "{}", listed.out);
    assert!(listed.out.contains("\n4 rows, in no topic"), "{}", listed.out);
    let dropped = stage.typed(&["drop", "--id", "e9", "--yes", "--by", "ann"]).await;
    assert!(dropped.out.contains("\ndropped 2 rows; this is run 1 of"), "{}", dropped.out);
    let runs = stage.runs();
    assert!(runs.contains("complete: gave up 2 rows"), "{runs}");
    let filter = ["table=public.outbox", "where.column=event_type", "where.in=x"];
    let filter = filter.map(|setting| format!("outbox.0.{setting}"));
    let filter = filter.iter().flat_map(|setting| ["--set", setting.as_str()]);
    let line: Vec<&str> = ["requeue", "--id", "e3", "--yes"].into_iter().chain(filter).collect();
    let filtered = stage.typed(&line).await;
    assert_eq!(filtered.exit, Exit::Failure, "{filtered:?}");
    let says = "error: e3 of public.outbox stays left out: P035: `where` leaves the row out";
    assert!(filtered.err.contains(says), "{filtered:?}");
    assert_eq!(stage.left(), "e2 R003, e3 P035");
}
