//! Commands with `postgres.source = "polling"`: `dead-letters` and `cleanup`, by the marks of the
//! tables.

use outbox_router::cli::{Audience, Exit};
use serde_json::Value;

use crate::{
    dead_letters::{dead_letters, states},
    held::held,
    kafka::StateCluster,
    server::{CommandOutput, Server, run_line, run_line_with},
};

/// A table whose rows have states: one is abandoned, one waits for another attempt, each with a
/// pending row of its key behind it; one is published, and one is pending.
const STATES: &str = "\
    create table outbox (id bigint primary key, aggregate_type text not null default 'order', \
      aggregate_id text, event_type text not null default 'E', payload jsonb default '{}', \
      created_at timestamptz not null default '2026-01-01', status text not null default 'PENDING', \
      attempts int not null default 0, last_error text, \
      available_at timestamptz not null default '2026-01-01', \
      locked_until timestamptz, locked_by text); \
    insert into outbox (id, aggregate_id, status, attempts, last_error, available_at) values \
      (1, 'a', 'ABANDONED', 5, 'R009: headers are no object', '2026-01-02'), \
      (2, 'a', 'PENDING', 0, null, '2026-01-01'), \
      (3, 'b', 'FAILED', 1, 'K003: no answer', '2100-01-01'), \
      (4, 'b', 'PENDING', 0, null, '2026-01-01'), \
      (5, 'c', 'PUBLISHED', 0, null, '2026-01-01'), \
      (6, 'it''s', 'ABANDONED', 5, 'R014: no JSON', '2026-01-02'), \
      (7, 'd', 'PENDING', 0, null, '2026-01-01');";

/// A second table like the first, with ids of its rows and one of its own.
const SECOND: &str = "\
    create table second (like outbox including all); \
    insert into second select * from outbox where id in (1, 3, 7); \
    insert into second (id, aggregate_id, status, attempts, last_error) \
      values (8, 'e', 'ABANDONED', 5, 'R014: no JSON');";

/// A table whose rows have times.
const TIMES: &str = "\
    create table outbox (id uuid primary key default gen_random_uuid(), n int, \
      aggregate_type text not null default 'order', aggregate_id text default 'a', \
      event_type text not null default 'E', payload jsonb default '{}', \
      created_at timestamptz not null default now(), published_at timestamptz, \
      abandoned_at timestamptz, attempts int not null default 0);";

fn json(output: &CommandOutput) -> Value {
    serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

struct Polled {
    server: Server,
    config: tempfile::NamedTempFile,
    user: &'static str,
}

impl Polled {
    fn new(table: &str, more: &str) -> Self {
        Self::with_settings("", table, more)
    }

    fn with_settings(settings: &str, table: &str, more: &str) -> Self {
        let server = Server::with_settings(settings);
        server.sql(table);
        let config = tempfile::NamedTempFile::new().expect("a file");
        let text = format!(
            "name = \"orders\"\n[postgres]\nsource = \"polling\"\n[kafka]\nstate_topic = \"\"\n\
             [[outbox]]\ntable = \"public.outbox\"\n{more}"
        );
        std::fs::write(config.path(), text).expect("written");
        Self { server, config, user: "postgres" }
    }

    /// With the tables of [`STATES`] and [`SECOND`], and more keys of the first.
    fn two(more: &str) -> Self {
        let more = format!("{more}[[outbox]]\ntable = \"public.second\"\n");
        Self::new(&format!("{STATES} {SECOND}"), &more)
    }

    /// Types a command; words are separated by one space.
    async fn type_line(&self, line: &str, answer: &str) -> CommandOutput {
        run_line(Audience::Person, &self.line(line), answer).await
    }

    fn line(&self, line: &str) -> Vec<String> {
        let file = self.config.path().to_str().expect("UTF-8");
        let url = format!("postgres.url={}", self.server.url(self.user));
        let head = ["--config", file, "--set", &url];
        head.into_iter().chain(line.split(' ')).map(str::to_owned).collect()
    }

    fn states(&self) -> String {
        self.states_of("outbox")
    }

    fn states_of(&self, table: &str) -> String {
        self.server.sql(&format!(
            "select string_agg(id || ' ' || status || ' ' || attempts, ', ' order by id) \
             from {table}",
        ))
    }
}

const UNTOUCHED: &str = "1 ABANDONED 5, 2 PENDING 0, 3 FAILED 1, 4 PENDING 0, 5 PUBLISHED 0, \
                         6 ABANDONED 5, 7 PENDING 0";

const SECOND_UNTOUCHED: &str = "1 ABANDONED 5, 3 FAILED 1, 7 PENDING 0, 8 ABANDONED 5";

#[tokio::test]
async fn rows_that_are_abandoned_are_listed_with_what_waits_behind_them() {
    let polled = Polled::new(STATES, "");
    let list = polled.type_line("dead-letters list", "").await;
    assert_eq!((list.exit, list.err.as_str()), (Exit::Failure, ""), "{list:?}");
    let expected = "\
table          id  key   attempts  behind  since                         last error
public.outbox  1   a     5         1       written 2026-01-01T00:00:00Z  R009: headers are no object
public.outbox  6   it's  5         0       written 2026-01-01T00:00:00Z  R014: no JSON

2 rows abandoned, 1 row of their keys behind them
next: outbox-router dead-letters show --id 1
";
    assert_eq!(list.out, expected);
    let waiting = polled.type_line("dead-letters list --waiting --json", "").await;
    assert_eq!(waiting.exit, Exit::Done, "{waiting:?}");
    let waiting = json(&waiting);
    assert_eq!(waiting["rows"][0]["id"], "3");
    assert_eq!(waiting["rows"][0]["available_at"], "2100-01-01T00:00:00Z");
    assert_eq!((&waiting["rows"][0]["behind"], &waiting["rows"][1]), (&1.into(), &Value::Null));
    for (selected, ids) in [
        ("--limit 1", &["1"][..]),
        ("--code r014", &["6"]),
        ("--key it's", &["6"]),
        ("--key-hex 61", &["1"]),
        ("--id 1 --id 6", &["1", "6"]),
        ("--id 3", &[]),
        ("--since 2026-01-02", &[]),
    ] {
        let list = polled.type_line(&format!("dead-letters list --json {selected}"), "").await;
        let document = json(&list);
        let found: Vec<&str> = document["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .filter_map(|it| it["id"].as_str())
            .collect();
        assert_eq!(found, ids, "{selected}");
        assert_eq!(document["cut"], selected.contains("limit"), "{selected}");
    }
    assert_eq!(polled.states(), UNTOUCHED);
}

#[tokio::test]
async fn a_row_is_shown_with_its_columns_and_what_to_type() {
    let polled = Polled::new(STATES, "");
    let show = polled.type_line("dead-letters show --id 1", "").await;
    assert_eq!(show.exit, Exit::Done, "{show:?}");
    for line in [
        "key        a\n",
        "behind     1 pending rows of its key\n",
        "why        R009: headers are no object\n",
        "columns    id  1\n",
        "outbox-router dead-letters requeue --id 1\n",
    ] {
        assert!(show.out.contains(line), "{line}{}", show.out);
    }
    let show = polled.type_line("dead-letters show --key b --json", "").await;
    assert_eq!(json(&show)["state"], "waiting for another attempt");
    let show = polled.type_line("dead-letters show --id 5", "").await;
    assert_eq!(show.exit, Exit::Failure);
}

#[tokio::test]
async fn a_requeued_row_is_as_if_it_had_never_been_tried() {
    let polled = Polled::new(STATES, "");
    let line = "dead-letters requeue --id 1 --id 3 --id 9";
    let dry = polled.type_line(&format!("{line} --dry-run"), "").await;
    assert!(dry.out.contains("requeue 1 row; behind: 1 row") && dry.out.contains("nothing was"));
    assert!(dry.err.contains("left out: 3 waits for another attempt"), "{}", dry.err);
    assert!(dry.err.contains("left out: 9 is no row of the polled tables"), "{}", dry.err);
    let no = polled.type_line(line, "outbox_router\n").await;
    assert_eq!(no.exit, Exit::Failure, "the word is another one: {no:?}");
    assert!(no.out.contains("type orders, the configuration's name, to requeue them"), "{no:?}");
    assert_eq!(polled.states(), UNTOUCHED);
    let done =
        polled.type_line("dead-letters requeue --id 1 --by Ann --reason mended", "orders\n").await;
    assert_eq!(done.exit, Exit::Done, "{done:?}");
    assert!(done.out.contains("requeued 1 row, by Ann: mended"), "{done:?}");
    assert!(polled.states().starts_with("1 PENDING 0, 2 PENDING 0, 3 FAILED 1, "));
    let row =
        "select last_error, available_at > now() - interval '1 minute' from outbox where id = 1";
    assert_eq!(polled.server.sql(row), "R009: headers are no object|t");
    let all = json(&polled.type_line("dead-letters requeue --all --yes --json", "").await);
    assert_eq!((&all["changed"], &all["events"][0]["id"]), (&1.into(), &"6".into()));
    let none = polled.type_line("dead-letters requeue --all --yes", "").await;
    assert_eq!(none.exit, Exit::Failure);
    assert!(none.err.contains("no abandoned row is selected"), "{none:?}");
}

/// Such a row is neither pending nor abandoned, and a stream would leave it behind for good.
#[tokio::test]
async fn a_row_of_an_unknown_status_is_listed_and_keeps_its_table_from_the_stream() {
    let polled = Polled::new(STATES, "");
    polled.server.sql("delete from outbox where status = 'ABANDONED'");
    polled.server.sql("update outbox set status = 'ERROR' where id = 7");
    let list = polled.type_line("dead-letters list", "").await;
    assert_eq!(list.exit, Exit::Failure, "{list:?}");
    let said = "P060: its status is 'ERROR', of which outbox.mark knows nothing";
    assert!(list.out.contains(said), "{list:?}");

    let kafka = StateCluster::start();
    let switch = async || {
        let line = kafka.with(&["switch", "stream", "--yes"]).join(" ");
        polled.type_line(&line, "").await
    };
    assert_eq!(polled.type_line("setup --apply", "").await.exit, Exit::Done);
    let states = polled.states();
    let refused = switch().await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    let said = "P060: 1 row of public.outbox with a status of which outbox.mark knows nothing";
    assert!(refused.err.contains(said), "{refused:?}");
    assert_eq!(polled.states(), states);
    let made = "select (select count(*) from pg_replication_slots), \
                (select count(*) from pg_publication), (select count(*) from outbox_router.switch)";
    assert_eq!(polled.server.sql(made), "0|0|0");
    assert_eq!(kafka.record().await, None);

    // A person decides, and nothing is in its way.
    let drop = polled.type_line("dead-letters drop --id 7 --yes", "").await;
    assert_eq!(drop.exit, Exit::Done, "{drop:?}");
    assert!(!switch().await.err.contains("P060"));
}

/// The stream does not send a row that is pending again, and `switch polling` would mark it.
#[tokio::test]
async fn rows_of_a_table_that_is_streamed_are_not_requeued() {
    let polled = Polled::new(STATES, "");
    polled.server.sql(
        "create schema outbox_router; \
         create table outbox_router.switch (relation oid primary key, state text not null, \
           \"by\" text not null, since timestamptz not null default now()); \
         insert into outbox_router.switch values ('outbox'::regclass, 'stream', 'Ann')",
    );
    let requeue = "dead-letters requeue --id 1 --yes";
    for (state, why) in [
        ("sent", "is being handed to the stream"),
        ("stream", "was handed to the stream by Ann"),
        ("marked", "is being given back to the workers"),
    ] {
        polled.server.sql(&format!("update outbox_router.switch set state = '{state}'"));
        let refused = polled.type_line(requeue, "").await;
        assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
        assert!(refused.err.contains("P043") && refused.err.contains(why), "{refused:?}");
    }
    assert_eq!(polled.states(), UNTOUCHED);
    // A switch that was refused because of the row looks again.
    polled.server.sql("update outbox_router.switch set state = 'closing'");
    assert_eq!(polled.type_line(requeue, "").await.exit, Exit::Done);
}

#[tokio::test]
async fn a_dropped_row_counts_as_published_and_says_who_has_dropped_it() {
    let polled = Polled::new(STATES, "");
    let drop = polled.type_line("dead-letters drop --id 1 --by Ann --reason sent --yes", "").await;
    assert_eq!(drop.exit, Exit::Done, "{drop:?}");
    assert!(drop.out.contains("their last error says who has dropped them"), "{drop:?}");
    assert_eq!(
        polled.server.sql("select status, attempts, last_error from outbox where id = 1"),
        "PUBLISHED|5|dropped by Ann: sent"
    );
    for (line, why) in [
        ("dead-letters drop --all --with-behind --yes", "--with-behind has no meaning"),
        ("dead-letters adopt --yes", "dead-letters adopt has no meaning"),
    ] {
        let refused = polled.type_line(line, "").await;
        assert_eq!(refused.exit, Exit::Usage);
        assert!(refused.err.contains(why), "{refused:?}");
    }
    let deleting = Polled::new(STATES, "mark.how = \"delete\"\n");
    let drop = deleting.type_line("dead-letters drop --id 1 --yes", "").await;
    assert!(drop.out.contains("They are deleted."), "{drop:?}");
    assert!(deleting.states().starts_with("2 PENDING 0, "));
}

#[tokio::test]
async fn nothing_is_decided_by_an_id_of_two_tables_before_the_table_is_named() {
    let polled = Polled::two("");
    for line in ["requeue --id 1 --yes", "drop --id 8 --id 1 --yes", "requeue --id 1 --dry-run"] {
        let refused = polled.type_line(&format!("dead-letters {line}"), "").await;
        assert_eq!((refused.exit, refused.out.as_str()), (Exit::Usage, ""), "{refused:?}");
        let why = "error: --id 1: rows of several tables are named so; say whose are meant: \
                   --table, one of public.outbox, public.second\n";
        assert_eq!(refused.err, why, "{line}");
    }
    let each = polled.type_line("dead-letters requeue --id 6 --id 8 --dry-run", "").await;
    assert_eq!(each.exit, Exit::Done, "each id is that of one row: {each:?}");
    let other = polled.type_line("dead-letters requeue --id 6 --table second --yes", "").await;
    assert_eq!(other.exit, Exit::Failure, "{other:?}");
    let why = "left out: 6 is no row of public.second that is abandoned";
    assert!(other.err.contains(why), "{other:?}");
    assert_eq!(polled.states(), UNTOUCHED);
    assert_eq!(polled.states_of("second"), SECOND_UNTOUCHED);
    let done = polled.type_line("dead-letters requeue --id 1 --table second --yes", "").await;
    assert_eq!(done.exit, Exit::Done, "{done:?}");
    assert_eq!(polled.states(), UNTOUCHED);
    assert!(polled.states_of("second").starts_with("1 PENDING 0, 3 FAILED 1, "));
    let drop = "dead-letters drop --all --table public.second --yes --json";
    let done = json(&polled.type_line(drop, "").await);
    assert_eq!((&done["changed"], &done["events"][0]["id"]), (&1.into(), &"8".into()));
    assert_eq!(polled.states(), UNTOUCHED);
}

#[tokio::test]
async fn rows_of_one_table_are_listed_and_shown_and_every_hint_names_it() {
    let polled = Polled::two("");
    let list = json(&polled.type_line("dead-letters list --json --table second", "").await);
    let rows = list["rows"].as_array().expect("rows");
    let found: Vec<String> =
        rows.iter().map(|row| format!("{} {}", row["table"], row["id"])).collect();
    assert_eq!(found, ["\"public.second\" \"1\"", "\"public.second\" \"8\""]);
    let list = polled.type_line("dead-letters list", "").await;
    let next = "\nnext: outbox-router dead-letters show --id 1 --table public.outbox\n";
    assert!(list.out.contains(next), "{list:?}");
    let show = polled.type_line("dead-letters show --id 1", "").await;
    assert_eq!(show.exit, Exit::Done, "{show:?}");
    for table in ["public.outbox", "public.second"] {
        for command in ["explain", "dead-letters requeue", "dead-letters drop"] {
            let line = format!("outbox-router {command} --id 1 --table {table}\n");
            assert!(show.out.contains(&line), "{line}{}", show.out);
        }
    }
    let show = polled.type_line("dead-letters show --id 1 --table public.second", "").await;
    assert!(show.out.contains("table      public.second\n"), "{show:?}");
    assert!(!show.out.contains("public.outbox"), "{show:?}");
    for source in ["polling", "stream"] {
        let line = format!("dead-letters list --table third --set postgres.source={source}");
        let refused = polled.type_line(&line, "").await;
        assert_eq!(refused.exit, Exit::Usage, "{refused:?}");
        let why = "error: public.third is no configured outbox; there are public.outbox, \
                   public.second\n";
        assert_eq!(refused.err, why);
    }
}

#[tokio::test]
async fn a_table_that_cannot_be_polled_hides_no_row_of_another() {
    const WHY: &str =
        "error: P041: public.second cannot be polled: it has no primary key, by which";
    let polled = Polled::two("");
    polled.server.sql("alter table second drop constraint second_pkey");
    for (line, shown) in [
        ("list", "\n2 rows abandoned, 1 row of their keys behind them\n"),
        ("list --waiting", "\n1 row waiting for another attempt, "),
        ("list --key nobody", "no row of the other tables is abandoned\n"),
        ("show --id 1", "table      public.outbox\n"),
        ("show --id 3", "state      waiting for another attempt, "),
    ] {
        let read = polled.type_line(&format!("dead-letters {line}"), "").await;
        assert_eq!(read.exit, Exit::Failure, "{line}: {read:?}");
        assert!(read.out.contains(shown), "{line}: {read:?}");
        assert!(read.err.starts_with(WHY) && read.err.contains("\n  hint: "), "{line}: {read:?}");
    }
    let list = json(&polled.type_line("dead-letters list --json", "").await);
    assert_eq!(list["rows"][1]["id"], "6");
    let failed = &list["failed"][0];
    assert_eq!((&failed["table"], &failed["code"]), (&"public.second".into(), &"P041".into()));
    let good = polled.type_line("dead-letters list --waiting --table outbox", "").await;
    assert_eq!((good.exit, good.err.as_str()), (Exit::Done, ""), "{good:?}");
    for line in ["list --table second", "show --id 1 --table second"] {
        let bad = polled.type_line(&format!("dead-letters {line}"), "").await;
        assert_eq!((bad.exit, bad.out.as_str()), (Exit::Failure, ""), "{bad:?}");
        assert!(bad.err.starts_with(WHY) && !bad.err.contains("is selected"), "{bad:?}");
    }
    let refused = polled.type_line("dead-letters requeue --id 6 --yes", "").await;
    assert_eq!((refused.exit, refused.out.as_str()), (Exit::Failure, ""), "{refused:?}");
    let add = "\nnothing was requeued; to requeue rows of another table alone, add --table, one of \
               public.outbox\n";
    assert!(refused.err.starts_with(WHY) && refused.err.ends_with(add), "{refused:?}");
    assert_eq!(polled.states(), UNTOUCHED);
    for line in ["requeue --id 6", "drop --id 1"] {
        let line = format!("dead-letters {line} --table outbox --yes");
        let done = polled.type_line(&line, "").await;
        assert_eq!((done.exit, done.err.as_str()), (Exit::Done, ""), "{done:?}");
    }
    assert!(
        polled.states().starts_with("1 PUBLISHED 5, ") && polled.states().contains("6 PENDING")
    );
}

/// A failed statement leaves a transaction open, in which no other statement works.
#[tokio::test]
async fn rows_are_shown_after_the_statement_about_another_table_has_failed() {
    let key = "columns.aggregate_id = \"${doc#/k|aggregate_id}\"\n";
    let mut polled = Polled::two(key);
    polled.server.sql(
        "create role limited login; grant select, update on outbox, second to limited; \
         alter table outbox add doc text; \
         update outbox set doc = repeat('[', 100000) || repeat(']', 100000)",
    );
    polled.user = "limited";
    for (line, row) in [("list", "public.second  8   e"), ("show --id 3", "event      3\n")] {
        let read = polled.type_line(&format!("dead-letters {line}"), "").await;
        assert_eq!(read.exit, Exit::Failure, "{line}: {read:?}");
        assert!(read.out.contains(row) && !read.out.contains("public.outbox"), "{line}: {read:?}");
        assert!(read.err.contains("stack depth"), "{line}: {read:?}");
    }
}

#[tokio::test]
async fn drop_says_of_each_table_what_becomes_of_its_rows() {
    let polled = Polled::two("mark.how = \"delete\"\n");
    for (selected, becomes) in [
        ("--id 6", "\nThey are deleted. They are never delivered; "),
        ("--id 8", "\nThey are marked as published, and their last error says who has dropped"),
        (
            "--all",
            "\nRows of public.outbox are deleted.\nRows of public.second are marked as published, \
             and their last error says who has dropped them.\nThey are never delivered; ",
        ),
    ] {
        let line = format!("dead-letters drop {selected} --dry-run");
        let drop = polled.type_line(&line, "").await;
        assert_eq!(drop.exit, Exit::Done, "{drop:?}");
        assert!(drop.out.contains(becomes), "{drop:?}");
    }
}

/// Events of tables that a slot streams are named in the same way.
#[tokio::test]
async fn held_events_are_selected_by_their_table_too() {
    let server = held();
    server.sql(
        "update outbox_router.held set event_id = 'a1', table_name = 'public.other' \
         where event_id = 'c1'",
    );
    let refused = dead_letters(&server, "requeue --id a1 --yes").await;
    assert_eq!(refused.exit, Exit::Usage, "{refused:?}");
    let why = "error: --id a1: rows of several tables are named so; say whose are meant: --table, \
               one of public.other, public.outbox\n";
    assert_eq!(refused.err, why);
    let list = dead_letters(&server, "list --table other").await;
    assert!(list.out.contains("\n1 dead letter of 1 key, "), "{list:?}");
    let events = dead_letters(&server, "list --events --table outbox --json").await;
    assert_eq!(events.out.lines().count(), 4, "{events:?}");
    let show = json(&dead_letters(&server, "show --id a1 --table public.other --json").await);
    assert_eq!(show["table"], "public.other");
    let left_out = dead_letters(&server, "drop --id b1 --id a1 --table other --dry-run").await;
    let why = "b1 is no event of this pipeline and of public.other that is or was held";
    assert!(left_out.err.contains(why), "{left_out:?}");
    let done = dead_letters(&server, "requeue --id a1 --table other --yes").await;
    assert_eq!(done.exit, Exit::Done, "{done:?}");
    let expected = "a1 held, a2 held, a3 held, b1 held, a1 requeued, o1 held";
    assert_eq!(states(&server), expected);
}

#[tokio::test]
async fn a_row_that_is_abandoned_by_a_time_is_requeued_and_dropped() {
    let polled = Polled::new(TIMES, "");
    let insert = "insert into outbox (n, abandoned_at, attempts) \
                  values (1, '2026-01-03', 5), (2, '2026-01-04', 5), (3, null, 0)";
    polled.server.sql(insert);
    let list = json(&polled.type_line("dead-letters list --json --since 2026-01-04", "").await);
    assert_eq!(list["rows"][0]["abandoned_at"], "2026-01-04T00:00:00Z");
    assert_eq!((&list["rows"][0]["behind"], &list["rows"][0]["code"]), (&1.into(), &Value::Null));
    let id = polled.server.sql("select id from outbox where n = 1");
    let done = polled.type_line(&format!("dead-letters requeue --id {id} --yes"), "").await;
    assert_eq!(done.exit, Exit::Done, "{done:?}");
    let done = polled.type_line("dead-letters drop --all --yes", "").await;
    assert!(done.out.contains("no column of the table says that they were dropped"), "{done:?}");
    let rows = "select string_agg(concat_ws(' ', n, published_at is not null, attempts), ', ' \
                order by n) from outbox";
    assert_eq!(polled.server.sql(rows), "1 f 0, 2 t 5, 3 f 0");
}

/// The time of the next attempt is in the memory of a worker, and the command is none.
#[tokio::test]
async fn a_row_that_waits_is_listed_by_its_attempts_where_its_table_has_no_time_for_it() {
    let polled = Polled::new(TIMES, "");
    polled.server.sql(
        "insert into outbox (n, attempts, published_at) \
         values (1, 4, null), (2, 0, null), (3, 4, now())",
    );
    let first = polled.server.sql("select id from outbox where n = 1");
    let list = polled.type_line("dead-letters list --waiting", "").await;
    assert_eq!((list.exit, list.err.as_str()), (Exit::Done, ""), "{list:?}");
    let lines: Vec<&str> = list.out.lines().collect();
    let row: Vec<&str> = lines[1].split_whitespace().collect();
    let expected = ["public.outbox", &first, "a", "4", "1", "until", "an", "unknown", "time", "-"];
    assert_eq!(row, expected, "{list:?}");
    let count = "1 row waiting for another attempt, 1 row of their keys behind them";
    assert_eq!(lines[2..], ["", count], "{list:?}");
    let document = json(&polled.type_line("dead-letters list --waiting --json", "").await);
    assert_eq!(document["rows"][0]["available_at"], Value::Null, "{document:#}");
    assert_eq!(document["without"], Value::Array(Vec::new()), "{document:#}");
    let requeue = polled.type_line(&format!("dead-letters requeue --id {first} --yes"), "").await;
    assert!(requeue.err.contains("waits for another attempt, which comes by"), "{requeue:?}");
    polled.server.sql("update outbox set attempts = 0");
    let none = polled.type_line("dead-letters list --waiting", "").await;
    assert_eq!(none.out, "no row is waiting for another attempt\n", "{none:?}");
    polled.server.sql("alter table outbox drop column attempts");
    let unknown = polled.type_line("dead-letters list --waiting", "").await;
    let why = "public.outbox does not record such rows, so this list cannot know of them: \
               outbox-router status counts those of the running worker; ";
    assert!(unknown.out.starts_with(why), "{unknown:?}");
}

#[tokio::test]
async fn cleanup_removes_published_rows_and_no_others() {
    const SECTION: &str = "[retention]\nmode = \"delete\"\nkeep = \"1d\"\nabandoned_keep = \"2d\"\n\
                           batch = 2\npause = \"0s\"\n";
    const LEFT: &str = "select string_agg(n::text, ' ' order by n) from outbox";
    let mut polled = Polled::new(TIMES, SECTION);
    polled.server.sql(
        "insert into outbox (n, created_at, published_at) select n, now() - interval '9 days', \
           now() - interval '3 days' from generate_series(1, 5) n; \
         insert into outbox (n, created_at, published_at) values \
           (6, now() - interval '9 days', now() - interval '1 hour'); \
         insert into outbox (n, created_at) values (7, now() - interval '9 days'); \
         insert into outbox (n, created_at, abandoned_at) values \
           (8, now() - interval '9 days', now() - interval '3 days'), \
           (9, now() - interval '9 days', now() - interval '1 day'); \
         create role limited login; grant select, update on outbox to limited",
    );
    let refused = polled.type_line("cleanup --yes", "").await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    assert!(
        refused.err.contains("create index concurrently on \"public\".\"outbox\" (\"created_at\")"),
        "{refused:?}"
    );
    polled.server.sql("create index on outbox (created_at)");
    polled.user = "limited";
    let refused = polled.type_line("cleanup --yes", "").await;
    assert!(
        refused.err.contains("grant delete on \"public\".\"outbox\" to \"limited\""),
        "{refused:?}"
    );
    polled.user = "postgres";
    let older = polled.type_line("cleanup --yes --older", "").await;
    assert_eq!(older.exit, Exit::Usage, "{older:?}");
    assert!(older.err.contains("outbox-router dead-letters drop"), "{older:?}");
    let dry = polled.type_line("cleanup --dry-run", "").await;
    assert!(dry.out.contains("public.outbox: 5 published rows to delete\n"), "{dry:?}");
    assert_eq!(polled.server.sql(LEFT), "1 2 3 4 5 6 7 8 9");
    let no = polled.type_line("cleanup", "no\n").await;
    assert_eq!((no.exit, polled.server.sql(LEFT).as_str()), (Exit::Failure, "1 2 3 4 5 6 7 8 9"));
    let locked = polled.server.transaction("holder", "select from outbox where n = 5 for update");
    let done = json(&polled.type_line("cleanup --yes --json", "").await);
    assert_eq!(
        (&done["tables"][0]["removed"], &done["tables"][0]["abandoned_removed"]),
        (&4.into(), &0.into())
    );
    assert_eq!(polled.server.sql(LEFT), "5 6 7 8 9", "a locked row is left");
    polled.server.end_transaction("holder");
    std::mem::drop(locked);
    let done = polled.type_line("cleanup", "orders\n").await;
    assert!(done.out.contains("public.outbox: 1 published rows deleted\n"), "{done:?}");
    assert_eq!(polled.server.sql(LEFT), "6 7 8 9");
}

#[tokio::test]
async fn rows_of_states_leave_by_their_own_time_with_and_without_an_index() {
    const SECTION: &str =
        "[retention]\nmode = \"delete\"\nkeep = \"1d\"\nabandoned_keep = \"2d\"\n";
    let polled = Polled::new(STATES, SECTION);
    let done = polled.type_line("cleanup --yes --slow", "").await;
    assert_eq!(done.exit, Exit::Done, "{done:?}");
    assert_eq!(
        polled.states(),
        "1 ABANDONED 5, 2 PENDING 0, 3 FAILED 1, 4 PENDING 0, 6 ABANDONED 5, 7 PENDING 0"
    );
}

/// Rows that the application has written with a word of its own were never sent.
#[tokio::test]
async fn a_word_that_a_column_gets_lets_no_row_leave_until_it_is_named() {
    const TABLE: &str = "\
        create table outbox (id bigint primary key, aggregate_type text not null default 'order', \
          aggregate_id text, event_type text not null default 'E', payload jsonb default '{}', \
          created_at timestamptz not null default '2026-01-01', \
          status text not null default 'new' check (status in ('new', 'sent')));";
    const SECTION: &str = "[retention]\nmode = \"delete\"\nkeep = \"1d\"\n";
    let polled = Polled::new(TABLE, SECTION);
    let made = polled.type_line("setup --apply", "").await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    polled.server.sql(
        "alter table outbox drop constraint outbox_status_check, \
           add check (status in ('new', 'published', 'sent')); \
         insert into outbox (id, status) values (1, 'new'), (2, 'published'), (3, 'sent')",
    );
    let left = || polled.server.sql("select string_agg(id || status, ' ' order by id) from outbox");
    for line in [
        "setup --apply",
        "cleanup --yes --slow",
        "doctor",
        "dead-letters list",
        "replay --id 2 --yes",
    ] {
        let refused = polled.type_line(line, "").await;
        let said = format!("{}{}", refused.out, refused.err);
        assert_eq!(refused.exit, Exit::Failure, "{line}: {refused:?}");
        assert!(said.contains("P041") && said.contains("published was \"sent\""), "{line}: {said}");
    }
    assert_eq!(left(), "1new 2published 3sent");
    let named = "--set outbox.0.mark.published=sent";
    for line in ["setup --apply", "cleanup --yes --slow"] {
        let done = polled.type_line(&format!("{line} {named}"), "").await;
        assert_eq!(done.exit, Exit::Done, "{done:?}");
    }
    assert_eq!(left(), "1new 2published");
}

#[tokio::test]
async fn a_row_without_an_event_id_is_called_by_its_primary_key() {
    let table = "\
        create table outbox (seq bigint primary key, id uuid, \
          aggregate_type text not null default 'order', aggregate_id text, \
          event_type text not null default 'E', payload jsonb default '{}', \
          created_at timestamptz not null default '2026-01-01', \
          status text not null default 'PENDING', attempts int not null default 0, \
          last_error text); \
        insert into outbox (seq, aggregate_id, status, attempts, last_error) \
          values (7, 'a', 'ABANDONED', 5, 'R004: the id is NULL');";
    let polled = Polled::new(table, "");
    let list = polled.type_line("dead-letters list", "").await;
    assert!(list.out.contains("public.outbox  7 "), "{list:?}");
    let show = polled.type_line("dead-letters show --id 7", "").await;
    assert!(show.exit == Exit::Done && show.out.contains("--id 7"), "{show:?}");
    let requeue = polled.type_line("dead-letters requeue --id 7 --yes", "").await;
    assert_eq!(requeue.exit, Exit::Done, "{requeue:?}");
}

const MADE: &str = "select string_agg(relname, ' ' order by relname) from pg_class \
                    where relname like 'outbox\\_router\\_%'";

#[tokio::test]
async fn teardown_drops_what_setup_has_made_and_leaves_the_rows() {
    let polled = Polled::new(STATES, "");
    let made = polled.type_line("setup --apply --notify", "").await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let indexes = "outbox_router_pending_outbox outbox_router_waiting_outbox";
    assert_eq!(polled.server.sql(MADE), indexes);
    let print = polled.type_line("teardown --role reader", "").await;
    let drop = "drop index concurrently if exists \"public\".\"outbox_router_pending_outbox\";";
    assert!(print.out.contains(drop), "{print:?}");
    let apply = "\n-- to run it: outbox-router teardown --apply --role reader";
    assert!(print.out.contains(apply), "{print:?}");
    assert_eq!(polled.server.sql(MADE), indexes);
    polled.server.sql(
        "insert into outbox_router.worker \
         values ('outbox'::regclass, gen_random_uuid(), 'orders', now() + interval '1 hour', 1)",
    );
    let refused = polled.type_line("teardown --apply --yes", "").await;
    assert_eq!(refused.exit, Exit::Failure);
    assert!(refused.err.contains("a worker of orders polls public.outbox"), "{refused:?}");
    polled.server.sql("update outbox_router.worker set seen_until = now()");
    let no = polled.type_line("teardown --apply", "no\n").await;
    for state in ["pending", "abandoned"] {
        let said = format!("row is {state}, and sent by nobody from now on");
        let said_of_more = said.replace("row is", "rows are");
        assert!(no.out.contains(&said) || no.out.contains(&said_of_more), "{state}: {no:?}");
    }
    assert_eq!((no.exit, polled.server.sql(MADE).as_str()), (Exit::Failure, indexes));
    let done = polled.type_line("teardown --apply", "orders\n").await;
    assert_eq!(done.exit, Exit::Done, "{done:?}");
    assert_eq!(polled.server.sql(MADE), "");
    let left = "select (select count(*) from pg_trigger where not tgisinternal) \
                + (select count(*) from outbox_router.worker) \
                + (select count(*) from outbox_router.mark)";
    assert_eq!(polled.server.sql(left), "0");
    assert_eq!(polled.states(), UNTOUCHED);
    let again = polled.type_line("teardown --apply --yes", "").await;
    assert_eq!(again.exit, Exit::Done, "{again:?}");
}

#[tokio::test]
async fn teardown_forgets_a_switch_whose_slot_is_gone() {
    let polled = Polled::new(STATES, "");
    assert_eq!(polled.type_line("setup --apply", "").await.exit, Exit::Done);
    polled.server.sql(
        "insert into outbox_router.switch (relation, state, \"by\") \
         values ('outbox'::regclass, 'stream', 'ann')",
    );
    polled.server.sql("select pg_create_logical_replication_slot('outbox_router', 'pgoutput')");
    let refused = polled.type_line("teardown --apply --yes", "").await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    let why = "public.outbox: it was handed to the stream, whose slot outbox_router is there";
    assert!(refused.err.contains(why) && refused.err.contains("switch polling"), "{refused:?}");
    assert_ne!(polled.server.sql(MADE), "", "nothing was dropped");
    let asked = polled.type_line("teardown --apply --set postgres.source=stream", "no\n").await;
    let way = "public.outbox was handed to the stream by ann";
    assert!(asked.out.contains(way) && asked.out.contains("switch polling"), "{asked:?}");
    polled.server.sql("select pg_drop_replication_slot('outbox_router')");
    polled.server.sql("update outbox_router.switch set state = 'marked'");
    let refused = polled.type_line("teardown --apply --yes", "").await;
    assert!(refused.err.contains("a switch of it is not complete"), "{refused:?}");
    polled.server.sql("update outbox_router.switch set state = 'stream'");
    let done = polled.type_line("teardown --apply --yes", "").await;
    assert_eq!(done.exit, Exit::Done, "{done:?}");
    assert_eq!(polled.server.sql("select count(*) from outbox_router.switch"), "0");
}

#[tokio::test]
async fn setup_makes_what_the_other_tables_need_where_one_cannot_be_polled() {
    let polled = Polled::two("");
    polled.server.sql("alter table outbox drop status");
    let made = polled.type_line("setup --apply", "").await;
    assert_eq!(made.exit, Exit::Failure, "{made:?}");
    assert!(made.err.starts_with("error: P041: public.outbox "), "{made:?}");
    assert!(made.out.contains("index of public.second: "), "{made:?}");
    assert!(!made.out.contains("index of public.outbox: "), "{made:?}");
    assert!(made.out.ends_with("when every table can be polled\n"), "{made:?}");
    let indexes = "outbox_router_pending_second outbox_router_waiting_second";
    assert_eq!(polled.server.sql(MADE), indexes);
}

#[tokio::test]
async fn replay_leaves_rows_to_the_router_that_are_not_published() {
    let polled = Polled::new(STATES, "");
    let replay = polled.type_line("replay --id 1 --id 2 --yes", "").await;
    assert_eq!(replay.exit, Exit::Failure, "{replay:?}");
    let note = "note: 2 more rows are left out, since they are not marked as published";
    assert!(replay.out.contains(note), "{replay:?}");
    assert!(replay.err.contains("nothing was sent: no row is selected"), "{replay:?}");
    assert!(replay.out.contains("the router delivers them by itself"), "{replay:?}");
    // After a switch no worker does.
    assert_eq!(polled.type_line("setup --apply", "").await.exit, Exit::Done);
    polled.server.sql(
        "insert into outbox_router.switch (relation, state, \"by\") \
         values ('outbox'::regclass, 'stream', 'ann')",
    );
    let replay = polled.type_line("replay --id 1 --id 2 --yes", "").await;
    assert!(replay.out.contains(note), "{replay:?}");
    assert!(replay.out.contains("no worker polls the table"), "{replay:?}");
}

#[tokio::test]
async fn what_has_no_meaning_where_rows_are_polled_is_refused() {
    let polled = Polled::new(TIMES, "");
    let compare = polled.type_line("compare", "").await;
    assert_eq!(compare.exit, Exit::Usage, "{compare:?}");
    let stream = ["dead-letters list --waiting", "dead-letters list --limit 1"];
    for line in stream {
        let line = format!("{line} --set postgres.source=stream");
        let refused = polled.type_line(&line, "").await;
        assert_eq!(refused.exit, Exit::Usage, "{refused:?}");
    }
    let name = polled.config.path().to_str().expect("UTF-8").to_owned();
    for mode in ["archive", "drop_partitions"] {
        let mode = format!("retention.mode={mode}");
        let line = ["outbox-router", "--config", &name, "cleanup", "--set", &mode];
        let cli = outbox_router::cli::Cli::read(line).expect("a command line");
        let environment = outbox_router::config::Environment::default();
        let refused = outbox_router::cli::load_config(&cli, &environment);
        let refused = refused.expect_err("it has no meaning").to_string();
        assert!(refused.contains("has no meaning with postgres.source = \"polling\""), "{refused}");
    }
}

/// Answers after something has happened.
struct After<'s, F> {
    done: Option<F>,
    answer: std::io::Cursor<&'s str>,
}

impl<F: FnOnce()> std::io::Read for After<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.answer.read(buffer)
    }
}

impl<F: FnOnce()> std::io::BufRead for After<'_, F> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if let Some(done) = self.done.take() {
            done();
        }
        self.answer.fill_buf()
    }

    fn consume(&mut self, read: usize) {
        self.answer.consume(read);
    }
}

/// The server loses the transaction that wrote what the person was shown, and gives its number to
/// one that writes something else.
#[tokio::test]
async fn after_a_crash_nothing_is_decided_about_what_was_shown_before() {
    let settings = "wal_writer_delay = 10s\nautovacuum = off\n";
    for verb in ["drop", "requeue"] {
        let polled = Polled::with_settings(settings, STATES, "");
        let server = &polled.server;
        server.sql("checkpoint");
        server.sql(
            "set synchronous_commit = off; \
             update outbox set payload = '{\"shown\": true}' where id = 1",
        );
        let version = || server.sql("select xmin from outbox where id = 1");
        let shown = version();
        let done = || {
            server.crash();
            assert_eq!(server.sql("select payload from outbox where id = 1"), "{}");
            server.sql("update outbox set payload = '{\"shown\": false}' where id = 1");
            assert_eq!(version(), shown, "another content has the number");
        };
        let mut input = After { done: Some(done), answer: std::io::Cursor::new("orders\n") };
        let line = polled.line(&format!("dead-letters {verb} --id 1 --by ann"));
        let output = run_line_with(Audience::Person, &line, &mut input).await;
        assert!(input.done.is_none(), "{output:?}");
        assert_eq!(output.exit, Exit::Failure, "{output:?}");
        assert_eq!(polled.states(), UNTOUCHED);
    }
}
