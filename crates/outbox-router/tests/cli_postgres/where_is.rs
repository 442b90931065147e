//! `where`, of ids that other rows have, too.

use outbox_router::cli::Exit;
use serde_json::Value;

use crate::{
    held::{hold, tables},
    kafka::StateCluster,
    server::Server,
};

const TABLE: &str = "\
create table outbox (id bigint primary key generated always as identity, \
  aggregate_type text not null default 'order', aggregate_id text not null, \
  event_type text not null default 'made', payload jsonb default '{}', \
  created_at timestamptz not null default now());
create publication outbox_router for table outbox;
select pg_create_logical_replication_slot('outbox_router', 'pgoutput');
";

async fn answer(server: &Server, cluster: &StateCluster, words: &[&str]) -> (Exit, Value) {
    let table = ["--json", "--table", "public.outbox"];
    let line = cluster.without_state(&[&["where"], words, &table[..]].concat());
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let output = server.run_command(&line).await;
    let document = serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{output:?}"));
    (output.exit, document)
}

/// The row with the id is another one since the ids began again, and has another key.
#[tokio::test]
async fn a_dead_letter_of_a_former_row_with_the_id_says_nothing_of_the_row() {
    let (server, cluster) = (Server::start(), StateCluster::start());
    cluster.create_topic("outbox.event.order", 1);
    server.script(&format!("{}{TABLE}", tables()));
    server.sql("insert into outbox (aggregate_id) values ('7')");
    hold(&server, 1, "1", b"7", Some(("R003", "topic a*b is illegal")));
    for words in [&["1"][..], &["--key", "7"]] {
        let (exit, said) = answer(&server, &cluster, words).await;
        let event = said["events"].get(0).unwrap_or(&said);
        assert_eq!((exit, &event["state"]), (Exit::Failure, &"dead_lettered".into()), "{said}");
    }

    server.sql("truncate outbox restart identity");
    server.sql("insert into outbox (aggregate_id) values ('8')");
    for words in [&["1"][..], &["--key", "8"]] {
        let (exit, said) = answer(&server, &cluster, words).await;
        let event = said["events"].get(0).unwrap_or(&said);
        assert_eq!(event["held"], Value::Null, "{said}");
        assert_eq!((exit, &event["state"]), (Exit::Failure, &"waiting".into()), "{said}");
    }
}

/// Two tables may have a row of one id each.
#[tokio::test]
async fn a_skip_of_another_tables_row_says_nothing_of_the_row() {
    let (server, cluster) = (Server::start(), StateCluster::start());
    cluster.create_topic("outbox.event.order", 1);
    server.script(&format!("{}{TABLE}", tables()));
    server.sql("insert into outbox (aggregate_id) values ('7')");
    for (table, state) in
        [("'public.other'", "waiting"), ("null", "skipped"), ("'public.outbox'", "skipped")]
    {
        server.sql(&format!(
            "delete from outbox_router.decision; insert into outbox_router.decision (pipeline, \
             slot, commit_lsn, event_id, action, decided_by, table_name) values \
             ('outbox-router', 'outbox_router', '0/1', '1', 'skip', 'ann', {table})"
        ));
        for words in [&["1"][..], &["--key", "7"]] {
            let (exit, said) = answer(&server, &cluster, words).await;
            let event = said["events"].get(0).unwrap_or(&said);
            assert_eq!((exit, &event["state"]), (Exit::Failure, &state.into()), "{table} {said}");
        }
    }
}

/// Columns of another table decide nothing about this one's rows.
#[tokio::test]
async fn a_table_whose_columns_do_not_fit_is_left_out() {
    let (server, cluster) = (Server::start(), StateCluster::start());
    cluster.create_topic("outbox.event.order", 1);
    server.script(&format!("{}{TABLE}", tables()));
    server.sql("create table invoices (id bigint); insert into outbox (aggregate_id) values ('7')");
    let find = async |first: &str, second: &str| {
        let (first, second) =
            (format!("outbox.0.table={first}"), format!("outbox.1.table={second}"));
        let words = ["where", "1", "--json", "--set", &first, "--set", &second];
        let line = cluster.without_state(&words);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        server.run_command(&line).await
    };
    let found = find("public.invoices", "public.outbox").await;
    assert!(found.out.contains("\"waiting\""), "{found:?}");
    assert!(found.err.contains("note: public.invoices is left out: R007"), "{found:?}");
    server.sql("create table bills (id bigint)");
    let none = find("public.invoices", "public.bills").await;
    assert!(none.exit == Exit::Failure && none.err.contains("error: R007"), "{none:?}");
}
