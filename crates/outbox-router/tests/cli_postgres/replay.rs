//! `replay`, on a real PostgreSQL and librdkafka's mock cluster.

use outbox_router::cli::{Audience, Exit};
use serde_json::{Value, json};

use crate::{
    held,
    kafka::StateCluster,
    server::{CommandOutput, Server, run_command_at, run_command_for},
};

const TABLE: &str = "\
create table outbox (id uuid primary key, aggregate_type text not null, aggregate_id text, \
  event_type text not null, payload jsonb, headers jsonb, \
  created_at timestamptz not null default now());
";

/// A server with the outbox, and a cluster with a topic of three partitions.
struct Stage {
    server: Server,
    cluster: StateCluster,
}

fn id(number: u32) -> String {
    format!("00000000-0000-0000-0000-{number:012}")
}

impl Stage {
    fn new() -> Self {
        let server = Server::start();
        server.sql("create role router login replication");
        Self::on(server)
    }

    fn on(server: Server) -> Self {
        server.script(TABLE);
        let cluster = StateCluster::start();
        cluster.create_topic("outbox.event.order", 3);
        cluster.create_topic("copy", 3);
        Self { server, cluster }
    }

    /// Rows 1 to `rows`, made on the days of January, of keys k0 to k2.
    fn fill(&self, rows: u32) {
        self.server.sql(&format!(
            "insert into outbox select ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, \
             'order', 'k' || n % 3, 'made', jsonb_build_object('n', n), null, \
             '2026-01-01T00:00:00Z'::timestamptz + (n - 1) * interval '1 day' \
             from generate_series(1, {rows}) n"
        ));
    }

    async fn replay(&self, more: &[&str]) -> CommandOutput {
        self.replay_as("postgres", more).await
    }

    async fn replay_as(&self, role: &str, more: &[&str]) -> CommandOutput {
        let line = self.line(more);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        run_command_at(&self.server.url(role), &line, "").await
    }

    fn line(&self, more: &[&str]) -> Vec<String> {
        let table = ["--table", "public.outbox"];
        self.cluster.without_state(&[&["replay"], &table[..], more].concat())
    }

    /// What a program reads.
    async fn json(&self, more: &[&str]) -> (Exit, Value) {
        let output = self.replay(&[more, &["--json"]].concat()).await;
        let document = serde_json::from_str(&output.out);
        (output.exit, document.unwrap_or_else(|_| panic!("{output:?}")))
    }

    fn runs(&self) -> String {
        self.server.sql(
            "select string_agg(concat_ws(' ', command, settled, decided_by, \
             coalesce(reason, 'null'), outcome, finished_at is not null), '; ' order by id) \
             from outbox_router.republication",
        )
    }
}

#[tokio::test]
async fn rows_are_selected_by_id_key_time_and_condition() {
    let stage = Stage::new();
    stage.fill(9);
    let (first, third) = (id(1), id(3));
    for (flags, rows) in [
        (vec!["--id", &first], 1),
        (vec!["--id", &first, "--id", &third], 2),
        (vec!["--key", "k0"], 3),
        (vec!["--key", "k0", "--key", "k1"], 6),
        (vec!["--since", "2026-01-04"], 6),
        (vec!["--until", "2026-01-04"], 3),
        (vec!["--since", "2026-01-02", "--until", "2026-01-05"], 3),
        (vec!["--since", "2026-01-02 01:00+01", "--key", "k2"], 3),
        (vec!["--until", "1s"], 9),
        (vec!["--where", "payload->>'n' > '7' -- those behind"], 2),
        (vec!["--where", "event_type = 'it''s'"], 0),
        (vec!["--all"], 9),
    ] {
        let (exit, document) = stage.json(&[&flags[..], &["--dry-run"]].concat()).await;
        assert_eq!((exit, &document["selected"]), (Exit::Done, &json!(rows)), "{flags:?}");
        assert_eq!((&document["sent"], &document["dry_run"]), (&json!(rows), &json!(true)));
        let topics = if rows == 0 { json!({}) } else { json!({ "outbox.event.order": rows }) };
        assert_eq!((&document["topics"], &document["run"]), (&topics, &Value::Null));
    }
    assert_eq!(stage.server.sql("select to_regnamespace('outbox_router')"), "", "nothing is made");
}

#[tokio::test]
async fn a_person_is_shown_what_is_sent_where_and_is_asked() {
    let stage = Stage::new();
    stage.fill(3);
    let key = ["--key", "k1", "--id", &id(1), "--id", &id(77), "--no-marker", "--rate", "100/s"];
    let line = stage.line(&key);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let url = stage.server.url("postgres");
    let refused = run_command_for(Audience::Person, &url, &line, "yes\n").await;
    assert_eq!((refused.exit, refused.err.as_str()), (Exit::Failure, "nothing was sent\n"));
    let expected = format!(
        "replay 1 row of public.outbox, in the order of created_at, id
  id: 2 values of id
  key: aggregate_id = k1
  to: the topics of the rows, outbox.event.${{aggregate_type}}
  without a header that tells them from the first
  at most 100 a second: 0 s or more
note: no row has the id {}

Consumers get these records again, behind everything that they have got since. The rows stay as they
are, and the router goes on as before.
type outbox_router, the slot's name, to send them: ",
        id(77)
    );
    assert_eq!(refused.out, expected);
    assert_eq!(stage.runs(), "");
    let agreed = run_command_for(Audience::Person, &url, &line, "outbox_router\n").await;
    assert_eq!(agreed.exit, Exit::Failure, "an id is in no row: {agreed:?}");
    assert!(agreed.out.contains("  outbox.event.order: 1 records\nsent 1 records in 0 s, "));
    assert!(agreed.out.ends_with("this is run 1 of outbox_router.republication\n"));
    // Nobody is there to ask.
    let asked = stage.replay(&["--all"]).await;
    assert_eq!(asked.exit, Exit::Usage, "{asked:?}");
    let dry = stage.replay(&["--all", "--dry-run"]).await;
    assert_eq!((dry.exit, dry.err.as_str()), (Exit::Done, ""), "{dry:?}");
    assert!(dry.out.contains("\n  with the header outbox_replay: 1\n"), "{}", dry.out);
    assert!(dry.out.ends_with("\n  outbox.event.order: 3 records\nwould send 3 records\n"));
}

#[tokio::test]
async fn a_run_is_written_down_with_who_and_why() {
    let stage = Stage::new();
    stage.fill(9);
    let flags = ["--all", "--yes", "--by", "ann", "--reason", "a test"];
    let (exit, document) = stage.json(&flags).await;
    assert_eq!(exit, Exit::Done, "{document:#}");
    assert_eq!((&document["outcome"], &document["sent"]), (&json!("complete"), &json!(9)));
    assert_eq!((&document["run"], &document["failure"]), (&json!(1), &Value::Null));
    let written = "replay 9 ann as postgres a test complete: sent 9, filtered 0, left out 0 t";
    assert_eq!(stage.runs(), written);
    let (exit, document) =
        stage.json(&["--key", "k1", "--to-topic", "copy", "--yes", "--no-audit"]).await;
    assert_eq!((exit, &document["topics"]), (Exit::Done, &json!({ "copy": 3 })));
    assert_eq!((&document["run"], stage.runs()), (&Value::Null, written.to_owned()));
    let (exit, document) = stage.json(&["--key", "none", "--yes"]).await;
    assert_eq!((exit, &document["selected"]), (Exit::Failure, &json!(0)));
}

#[tokio::test]
async fn what_is_typed_wrong_is_refused_in_the_servers_words() {
    let stage = Stage::new();
    stage.fill(1);
    stage.server.sql("create sequence public.s");
    for (flags, said) in [
        (
            vec!["--id", "seven"],
            "--id: PostgreSQL says: invalid input syntax for type uuid: \"seven\"",
        ),
        (vec!["--where", "nonsense"], "--where: PostgreSQL says: column \"nonsense\" does not "),
        (vec!["--where", "true) or (("], "--where: PostgreSQL says: syntax error at "),
        (vec!["--where", "true); drop table outbox; --"], "--where: PostgreSQL says: "),
        (vec!["--where", "1 / 0 = 1"], "--where: PostgreSQL says: division by zero"),
        (
            vec!["--where", "nextval('public.s') > 0"],
            "--where: PostgreSQL says: cannot execute nextval() in a read-only transaction",
        ),
        (vec!["--since", "teatime"], "--since: invalid input syntax for type "),
        (vec!["--until", "2026-01-01 Never/Land"], "--until: time zone \"never/land\" not recog"),
    ] {
        let output = stage.replay(&[&flags[..], &["--yes"]].concat()).await;
        assert_eq!((output.exit, output.out.as_str()), (Exit::Usage, ""), "{flags:?} {output:?}");
        assert!(output.err.contains(said), "{said}\nin {}", output.err);
    }
    assert_eq!(stage.server.sql("select count(*) from outbox"), "1");
}

#[tokio::test]
async fn a_role_that_may_not_read_is_told_the_grant() {
    let stage = Stage::new();
    stage.fill(2);
    let denied = stage.replay_as("router", &["--all", "--yes"]).await;
    assert_eq!((denied.exit, denied.out.as_str()), (Exit::Failure, ""), "{denied:?}");
    assert!(denied.err.contains("permission denied for table outbox"), "{}", denied.err);
    let grant = "grant select on table \"public\".\"outbox\" to \"router\"";
    assert!(denied.err.contains(grant), "{}", denied.err);
    assert!(
        denied.err.contains("--admin-url postgres://ADMIN@HOST:PORT/DATABASE"),
        "{}",
        denied.err
    );

    // It may read, and not write down that it did.
    stage.server.sql(grant);
    let denied = stage.replay_as("router", &["--all", "--yes"]).await;
    assert_eq!((denied.exit, denied.out.as_str()), (Exit::Failure, ""), "{denied:?}");
    assert!(denied.err.contains("permission denied for database"), "{}", denied.err);
    assert!(denied.err.contains("--no-audit goes on"), "{}", denied.err);
    let done = stage.replay_as("router", &["--all", "--yes", "--no-audit"]).await;
    assert_eq!(done.exit, Exit::Done, "{done:?}");
    let admin = stage.server.url("postgres");
    let done = stage.replay_as("router", &["--all", "--yes", "--admin-url", &admin]).await;
    assert_eq!(done.exit, Exit::Done, "{done:?}");
    // Rows of another database are none of its events.
    let (at, _) = admin.rsplit_once("/postgres").unwrap();
    let elsewhere = format!("{at}/template1");
    let refused = stage.replay_as("router", &["--all", "--yes", "--admin-url", &elsewhere]).await;
    assert_eq!((refused.exit, refused.out.as_str()), (Exit::Failure, ""), "{refused:?}");
    assert!(refused.err.contains("name the database postgres in --admin-url"), "{}", refused.err);
}

#[tokio::test]
async fn a_bad_row_stops_the_run_and_is_left_out_when_told_so() {
    let stage = Stage::new();
    stage.fill(9);
    stage.server.sql(&format!("update outbox set aggregate_id = null where id = '{}'", id(5)));
    let (exit, document) = stage.json(&["--all", "--dry-run"]).await;
    assert_eq!((exit, &document["left_out"]), (Exit::Failure, &json!(1)), "{document:#}");

    let stopped = stage.replay(&["--all", "--yes", "--by", "ann"]).await;
    assert_eq!(stopped.exit, Exit::Failure, "{stopped:?}");
    assert!(stopped.err.contains("stopped at a row after 4 of 9 rows"), "{}", stopped.err);
    assert!(stopped.err.contains("\n  or leave such rows out: --skip-bad\n"), "{}", stopped.err);
    assert!(stopped.err.contains("error: R001: ") && stopped.err.contains(&id(5)), "{stopped:?}");
    assert!(stage.runs().starts_with("replay 4 ann as postgres null stopped at a row: sent 4"));

    // It goes on where it stopped, and stops again; then it leaves the row out.
    let again = stage.replay(&["--all", "--yes", "--resume"]).await;
    assert_eq!(again.exit, Exit::Failure);
    assert!(again.out.contains("replay 5 rows of public.outbox"), "{}", again.out);
    assert!(again.out.contains("goes on with run 1, which had settled 4 rows"), "{}", again.out);
    let (exit, document) = stage.json(&["--all", "--yes", "--resume", "--skip-bad"]).await;
    assert_eq!((exit, &document["left_out"]), (Exit::Failure, &json!(1)), "{document:#}");
    assert_eq!((&document["sent"], &document["resumed"]), (&json!(4), &json!(1)));
    assert!(stage.runs().starts_with("replay 9 ann as postgres null complete: sent 4, "));

    let none = stage.replay(&["--all", "--yes", "--resume"]).await;
    assert_eq!((none.exit, none.out.as_str()), (Exit::Failure, ""), "{none:?}");
    assert!(none.err.starts_with("error: there is no unfinished run of these rows\n"));
}

#[tokio::test]
async fn an_unfinished_run_of_other_rows_is_not_gone_on_with() {
    let stage = Stage::new();
    stage.fill(9);
    stage.server.sql(&format!("update outbox set aggregate_id = null where id = '{}'", id(5)));
    let stopped = stage.replay(&["--since", "2026-01-02", "--yes", "--by", "ann"]).await;
    assert_eq!(stopped.exit, Exit::Failure);
    for other in [
        &["--since", "2026-01-03"][..],
        &["--all"],
        &["--since", "2026-01-02", "--to-topic", "copy"],
        &["--since", "2026-01-02", "--no-marker"],
    ] {
        let refused = stage.replay(&[other, &["--yes", "--resume"]].concat()).await;
        assert_eq!(refused.exit, Exit::Failure);
        assert!(refused.err.contains("\n  run 1, begun at 20"), "{}", refused.err);
    }
    let anew = stage.replay(&["--since", "2026-01-02", "--yes", "--skip-bad"]).await;
    let note = "note: run 1 of the same rows, begun at ";
    assert!(anew.err.starts_with(note) && anew.err.contains("ended after 3 rows"), "{anew:?}");
    assert!(anew.out.contains("\nsent 7 records in "), "{}", anew.out);
}

#[tokio::test]
async fn of_two_runs_of_a_pipeline_the_second_is_refused() {
    let stage = Stage::new();
    stage.fill(1);
    let lock = "select pg_current_xact_id(), pg_advisory_lock(hashtextextended(\
                'outbox_router republication outbox-router', 0))";
    let session = stage.server.transaction("first", lock);
    let refused = stage.replay(&["--all", "--yes"]).await;
    assert_eq!((refused.exit, refused.out.as_str()), (Exit::Failure, ""), "{refused:?}");
    let expected = "error: nothing was sent: a command of this pipeline is at work in process ";
    assert!(refused.err.starts_with(expected), "{}", refused.err);
    assert!(refused.err.contains("(first, role postgres)"), "{}", refused.err);
    let other = stage.replay(&["--all", "--yes", "--set", "name=other"]).await;
    assert_eq!(other.exit, Exit::Done, "another pipeline: {other:?}");
    let dry = stage.replay(&["--all", "--dry-run"]).await;
    assert_eq!(dry.exit, Exit::Done, "{dry:?}");
    drop(session);
}

#[tokio::test]
async fn rows_that_are_held_are_left_out_unless_they_go_elsewhere() {
    let stage = Stage::on(held::held());
    stage.fill(9);
    let (two, five) = (id(2), id(5));
    // Of these ids, one is held and one was delivered.
    stage.server.sql(&format!(
        "update outbox_router.held set event_id = '{two}' where event_id = 'a1'; \
         update outbox_router.held set event_id = '{five}', state = 'delivered' \
         where event_id = 'a2'"
    ));
    let (exit, document) = stage.json(&["--all", "--yes"]).await;
    assert_eq!((exit, &document["held"]), (Exit::Done, &json!(1)), "{document:#}");
    assert_eq!((&document["selected"], &document["sent"]), (&json!(8), &json!(8)));
    let shown = stage.replay(&["--key", "k2", "--dry-run"]).await;
    let note = "\nnote: 1 more rows are left out, since they are held (outbox-router dead-letters ";
    assert!(shown.out.contains(note), "{}", shown.out);
    let (exit, document) = stage.json(&["--all", "--yes", "--to-topic", "copy"]).await;
    assert_eq!((exit, &document["held"], &document["sent"]), (Exit::Done, &json!(0), &json!(9)));
}

#[tokio::test]
async fn a_table_without_a_time_is_read_by_id_and_says_so() {
    let stage = Stage::new();
    stage.fill(3);
    stage.server.sql("alter table outbox drop column created_at");
    let refused = stage.replay(&["--since", "2026-01-01", "--yes"]).await;
    assert_eq!(refused.exit, Exit::Usage, "{refused:?}");
    assert!(refused.err.contains("no column that says when a row was made"), "{}", refused.err);
    let (exit, document) = stage.json(&["--all", "--yes"]).await;
    assert_eq!((exit, &document["order"]), (Exit::Done, &json!(["id"])), "{document:#}");
}

#[tokio::test]
async fn a_time_is_found_by_its_usual_names() {
    let stage = Stage::new();
    stage.fill(3);
    stage.server.sql("alter table outbox rename column created_at to occurred_at");
    let (exit, document) = stage.json(&["--since", "2026-01-02", "--yes"]).await;
    assert_eq!((exit, &document["sent"]), (Exit::Done, &json!(2)), "{document:#}");
    assert_eq!(document["order"], json!(["occurred_at", "id"]), "{document:#}");
}

#[tokio::test]
async fn an_id_of_a_fixed_length_is_found_as_it_is_typed() {
    let stage = Stage::new();
    stage.fill(2);
    stage.server.sql("alter table outbox alter id type character(36)");
    let (exit, document) = stage.json(&["--id", &id(1), "--id", &id(9), "--yes"]).await;
    assert_eq!((exit, &document["sent"]), (Exit::Failure, &json!(1)), "{document:#}");
    assert_eq!(document["unknown_ids"], json!([id(9)]), "{document:#}");
}
