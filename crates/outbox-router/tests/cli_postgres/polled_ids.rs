//! `explain --id`, `replay --id` and `where` take what `dead-letters` and `tap` call a polled row,
//! and a record is a row's by its key, too.

use outbox_router::cli::{Audience, Exit};
use serde_json::{Value, json};

use crate::{
    kafka::StateCluster,
    server::{CommandOutput, Server, run_line},
};

/// A table whose primary key has two columns beside the event's id. One row is published, one is
/// abandoned, and one is pending.
const COMPOSITE: &str = "\
    create table outbox (n bigint, tag text, id uuid not null unique, \
      aggregate_type text not null default 'order', aggregate_id text, \
      event_type text not null default 'E', payload jsonb default '{}', \
      created_at timestamptz not null default now(), published_at timestamptz, \
      abandoned_at timestamptz, primary key (n, tag)); \
    insert into outbox (n, tag, id, aggregate_id, published_at, abandoned_at) values \
      (7, 'b', '00000000-0000-0000-0000-000000000001', 'k7', now(), null), \
      (8, 'b,c', '00000000-0000-0000-0000-000000000002', 'k8', null, now()), \
      (9, 'b', '00000000-0000-0000-0000-000000000003', 'k9', null, null);";

const SEVENTH: &str = "00000000-0000-0000-0000-000000000001";

/// A table whose rows have ids that are primary keys of others.
const CROSSED: &str = "\
    create table outbox (seq bigint primary key, id bigint not null, \
      aggregate_type text not null default 'order', aggregate_id text, \
      event_type text not null default 'E', payload jsonb default '{}', \
      created_at timestamptz not null default now(), published_at timestamptz); \
    insert into outbox (seq, id, aggregate_id, published_at) \
      values (1, 2, 'one', now()), (2, 1, 'two', now()), (3, 9, 'three', now());";

const TOPIC: &str = "outbox.event.order";

/// To Kafka's protocol, two milliseconds before 1970 is the first offset. The mock cluster has no
/// offsets by other times.
const ALL: &str = "--since 1969-12-31T23:59:59.998Z";

struct Stage {
    server: Server,
    cluster: StateCluster,
    tables: &'static [&'static str],
    source: &'static str,
    /// More of each table in the configuration.
    of_table: &'static str,
}

impl Stage {
    fn new(sql: &str, tables: &'static [&'static str]) -> Self {
        let server = Server::start();
        server.sql(sql);
        let cluster = StateCluster::start();
        cluster.create_topic(TOPIC, 1);
        Self { server, cluster, tables, source: "polling", of_table: "" }
    }

    /// Types a command; words are separated by one space.
    async fn type_line(&self, line: &str) -> CommandOutput {
        let config = tempfile::NamedTempFile::new().expect("a file");
        let of_table = self.of_table;
        let tables = self.tables.iter();
        let tables: String =
            tables.map(|table| format!("[[outbox]]\ntable = \"{table}\"\n{of_table}\n")).collect();
        let text = format!(
            "name = \"orders\"\n[postgres]\nsource = \"{}\"\nurl = \"{}\"\n\
             [kafka]\nstate_topic = \"\"\n{tables}",
            self.source,
            self.server.url("postgres"),
        );
        std::fs::write(config.path(), text).expect("written");
        let file = config.path().to_str().expect("UTF-8");
        let words: Vec<&str> = ["--config", file].into_iter().chain(line.split(' ')).collect();
        run_line(Audience::Person, &self.cluster.without_state(&words), "").await
    }

    async fn json(&self, line: &str) -> (Exit, Value) {
        let output = self.type_line(&format!("{line} --json")).await;
        let document = serde_json::from_str(&output.out);
        (output.exit, document.unwrap_or_else(|_| panic!("{output:?}")))
    }
}

#[tokio::test]
async fn a_row_is_explained_by_its_primary_key_as_by_its_id() {
    let stage = Stage::new(COMPOSITE, &["public.outbox"]);
    let (exit, by_id) = stage.json(&format!("explain --id {SEVENTH}")).await;
    assert_eq!((exit, &by_id["key"]["value"]), (Exit::Done, &json!("k7")), "{by_id:#}");
    let (exit, by_key) = stage.json("explain --id 7,b").await;
    assert_eq!((exit, &by_key), (Exit::Done, &by_id));
    let (_, with_comma) = stage.json("explain --id 8,b,c").await;
    assert_eq!(with_comma["key"]["value"], json!("k8"), "{with_comma:#}");
    let none = stage.type_line("explain --id 7,c").await;
    let why = "error: public.outbox has no row whose id or primary key (n,tag) is 7,c: it was";
    assert!(none.exit == Exit::Failure && none.err.starts_with(why), "{none:?}");
    let refused = stage.type_line("explain --id 7").await;
    let why = "is uuid, and that is none, nor a value of the primary key (n bigint, tag text)";
    assert!(refused.exit == Exit::Usage && refused.err.contains(why), "{refused:?}");
}

#[tokio::test]
async fn a_row_is_sent_again_by_its_primary_key() {
    let stage = Stage::new(COMPOSITE, &["public.outbox"]);
    let line = format!("replay --id 7,b --id {SEVENTH} --id 9,b --id 7,z --dry-run");
    let dry = stage.type_line(&line).await;
    for words in [
        "replay 1 row of public.outbox, ",
        "\n  id: 4 values of id or primary key (n,tag)\n",
        "note: 1 more rows are left out, since they are not marked as published",
        "note: no row has the id 7,z\n",
    ] {
        assert!(dry.out.contains(words), "{words}: {dry:?}");
    }
    let (exit, sent) = stage.json("replay --id 7,b --yes").await;
    assert_eq!((exit, &sent["sent"]), (Exit::Done, &json!(1)), "{sent:#}");
    let refused = stage.type_line("replay --id 7 --yes").await;
    assert_eq!(refused.exit, Exit::Usage, "{refused:?}");
    assert!(refused.err.starts_with("error: --id 7: column id of public.outbox is uuid"));
}

#[tokio::test]
async fn a_row_is_found_by_its_primary_key_and_called_by_its_id() {
    let stage = Stage::new(COMPOSITE, &["public.outbox"]);
    for (name, state) in [("9,b", "waiting"), ("8,b,c", "dead_lettered"), ("7,b", "before_topic")] {
        let (_, answer) = stage.json(&format!("where {name}")).await;
        assert_eq!(answer["state"], state, "{answer:#}");
    }
    stage.type_line("replay --id 7,b --yes").await;
    let (exit, answer) = stage.json(&format!("where 7,b {ALL}")).await;
    assert_eq!((exit, &answer["state"]), (Exit::Done, &json!("acknowledged")), "{answer:#}");
    assert_eq!(answer["id"], SEVENTH);
    let none = stage.type_line("where 7,z").await;
    assert_eq!(none.exit, Exit::Usage, "{none:?}");
    assert!(none.err.starts_with("error: no row has the primary key 7,z; "), "{none:?}");
}

#[tokio::test]
async fn a_row_whose_id_is_null_is_found_by_its_primary_key() {
    let stage = Stage::new(COMPOSITE, &["public.outbox"]);
    stage.server.sql("alter table outbox alter id drop not null; update outbox set id = null");
    let (_, answer) = stage.json("where 9,b").await;
    assert_eq!((&answer["state"], &answer["id"]), (&json!("waiting"), &json!("9,b")), "{answer:#}");
}

#[tokio::test]
async fn an_id_that_is_the_primary_key_of_another_row_names_both_and_its_own_comes_first() {
    let stage = Stage::new(CROSSED, &["public.outbox"]);
    let explained = stage.type_line("explain --id 1").await;
    assert!(
        explained.err.contains("note: several rows have this id; this is one"),
        "{explained:?}"
    );
    assert!(explained.out.contains("two"), "{explained:?}");
    let found = stage.type_line("where 1").await;
    assert!(found.err.contains("note: several rows have this id; this is one"), "{found:?}");
    assert!(found.out.starts_with("event      1\n"), "{found:?}");
    let (_, sent) = stage.json("replay --id 1 --dry-run").await;
    assert_eq!(sent["selected"], 1, "{sent:#}");
    let (_, sent) = stage.json("replay --id 1 --id 3 --dry-run").await;
    assert_eq!(sent["selected"], 2, "{sent:#}");
    let by_key = stage.type_line("where 3").await;
    assert!(by_key.out.starts_with("event      9\n"), "{by_key:?}");
    let note = "note: no row has the id 3; this one has it as its primary key\n";
    assert_eq!(by_key.err, note);
    let (_, alone) = stage.json("explain --id 3").await;
    assert_eq!(alone["key"]["value"], json!("three"), "{alone:#}");
}

#[tokio::test]
async fn an_id_of_rows_of_two_tables_is_answered_once_the_table_is_named() {
    let sql = format!(
        "{CROSSED} create table second as select * from outbox; \
                       alter table second add primary key (seq);"
    );
    let stage = Stage::new(&sql, &["public.outbox", "public.second"]);
    let refused = stage.type_line("where 3").await;
    let why = "error: 3: rows of several tables are named so; say whose is meant: --table, one of \
               public.outbox, public.second\n";
    assert_eq!((refused.exit, refused.err.as_str()), (Exit::Usage, why));
    let (_, answer) = stage.json("where 3 --table second").await;
    assert_eq!((&answer["table"], &answer["id"]), (&json!("public.second"), &json!("9")));
    for line in ["explain --id 3", "replay --id 3 --yes"] {
        let refused = stage.type_line(line).await;
        let why = "say whose row it is: --table, one of public.outbox, public.second";
        assert!(refused.exit == Exit::Usage && refused.err.contains(why), "{refused:?}");
    }
}

#[tokio::test]
async fn a_record_with_the_id_of_a_row_and_another_key_is_not_the_rows() {
    let mut stage = Stage::new(CROSSED, &["public.outbox"]);
    stage.cluster.produce(TOPIC, "another", "9");
    let (_, answer) = stage.json(&format!("where 9 {ALL}")).await;
    assert_eq!(answer["state"], "missing", "{answer:#}");
    let reason = answer["reason"].as_str().unwrap_or_default();
    let other = "a record with its id and another key, another, is at offset 0 of outbox.event.ord";
    assert!(reason.contains(other), "{reason}");
    stage.type_line("replay --id 9 --yes").await;
    let (_, answer) = stage.json(&format!("where 9 {ALL}")).await;
    let expected = (&json!("acknowledged"), &json!(1), &json!("three"));
    assert_eq!((&answer["state"], &answer["offset"], &answer["key"]), expected, "{answer:#}");
    // Of rows that a slot streams, the same holds.
    stage.server.sql("update outbox set aggregate_id = 'changed'");
    stage.source = "stream";
    let (_, answer) = stage.json(&format!("where 9 {ALL}")).await;
    assert_eq!(answer["state"], "waiting", "{answer:#}");
}

#[tokio::test]
async fn a_record_with_the_uuid_of_a_row_is_the_rows_after_a_change_of_its_key() {
    let mut stage = Stage::new(COMPOSITE, &["public.outbox"]);
    stage.type_line("replay --id 7,b --yes").await;
    let line = format!("where {SEVENTH} {ALL}");
    let expect = async |stage: &Stage, change: &str| {
        let (exit, answer) = stage.json(&line).await;
        assert_eq!((exit, &answer["state"]), (Exit::Done, &json!("acknowledged")), "{change}");
        assert_eq!((&answer["offset"], &answer["key"]), (&json!(0), &json!("k7")), "{answer:#}");
        let reason = answer["reason"].as_str().unwrap_or_default();
        let words = "at offset 0 of outbox.event.order-0, under another key than it would get now";
        assert!(reason.starts_with(words), "{change}: {reason}");
    };
    stage.of_table = "key_format = \"json\"";
    expect(&stage, "of the configuration").await;
    stage.of_table = "";
    stage.server.sql("update outbox set aggregate_id = 'changed' where n = 7");
    expect(&stage, "of the row").await;
    stage.source = "stream";
    expect(&stage, "of the row, which is streamed").await;
}

#[tokio::test]
async fn of_a_row_that_is_deleted_a_record_of_another_key_than_the_named_one_is_not_taken() {
    let stage = Stage::new(CROSSED, &["public.outbox"]);
    stage.cluster.produce(TOPIC, "another", "77");
    stage.cluster.produce(TOPIC, "mine", "77");
    stage.cluster.produce(TOPIC, "\"json\"", "77");
    for (key, offset, of_record) in [("mine", 1, "mine"), ("json", 2, "\"json\"")] {
        let (exit, answer) = stage.json(&format!("where 77 --key {key} {ALL}")).await;
        assert_eq!((exit, &answer["state"]), (Exit::Done, &json!("deleted")), "{answer:#}");
        let expected = (&json!(offset), &json!(of_record));
        assert_eq!((&answer["offset"], &answer["key"]), expected, "{answer:#}");
    }
    let (exit, answer) = stage.json(&format!("where 77 --key none {ALL}")).await;
    assert_eq!((exit, &answer["state"]), (Exit::Failure, &json!("not_committed")), "{answer:#}");
    let reason = answer["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("and another key than --key says, "), "{reason}");
}

#[tokio::test]
async fn where_a_row_of_one_table_has_an_id_other_tables_are_named_that_may_have_had_it() {
    let sql = format!(
        "{CROSSED} create table second as select * from outbox; \
                       alter table second add primary key (seq); delete from second where id = 9;"
    );
    let stage = Stage::new(&sql, &["public.outbox", "public.second"]);
    let found = stage.type_line("where 9").await;
    let note = "note: the row is of public.outbox; other tables have ids of this form, too, and \
                their row may be deleted (public.second): --table says whose is meant\n";
    assert!(found.out.starts_with("event      9\n"), "{found:?}");
    assert_eq!(found.err, note);
    let named = stage.type_line("where 9 --table outbox").await;
    assert!(named.out.starts_with("event      9\n"), "{named:?}");
    assert_eq!(named.err, "");
}

#[tokio::test]
async fn of_a_row_that_is_deleted_the_answer_says_that_the_id_alone_was_compared() {
    let stage = Stage::new(CROSSED, &["public.outbox"]);
    stage.cluster.produce(TOPIC, "another", "77");
    let (exit, answer) = stage.json(&format!("where 77 {ALL}")).await;
    assert_eq!((exit, &answer["state"]), (Exit::Done, &json!("deleted")), "{answer:#}");
    let reason = answer["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("a record with its id, which alone says whose it is, is at"),
        "{reason}"
    );
}
