//! `teardown` and `cleanup` of a pipeline whose publication other pipelines of the database have,
//! too.

use outbox_router::cli::Exit;
use relay::source::Oid;

use crate::{
    kafka::StateCluster,
    server::{CommandOutput, Server},
};

const OWN: [&str; 4] = ["--set", "outbox.0.table=public.outbox", "--set", "name=own"];

const OTHER: [&str; 6] = [
    "--set",
    "outbox.0.table=public.other",
    "--set",
    "name=other",
    "--set",
    "postgres.slot=other_slot",
];

/// The pipelines own and other, of a table each, with one publication.
async fn two() -> Server {
    let server = Server::start();
    for pipeline in [&OWN[..], &OTHER[..]] {
        let line = [&["setup", "--apply", "--create-table", "--skip-kafka"], pipeline].concat();
        let made = server.run_command(&line).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
    }
    server
}

async fn teardown(server: &Server, pipeline: &[&str]) -> String {
    let line = [&["teardown", "--apply", "--yes", "--skip-kafka"], pipeline].concat();
    let done = server.run_command(&line).await;
    assert_eq!((done.exit, done.err.as_str()), (Exit::Done, ""), "{done:?}");
    done.out
}

fn published(server: &Server) -> String {
    server.sql(
        "select coalesce(string_agg(coalesce(tablename, 'empty'), ' ' order by tablename), 'dropped') \
         from pg_publication p left join pg_publication_tables t using (pubname) \
         where pubname = 'outbox_router'",
    )
}

#[tokio::test]
async fn a_publication_from_which_another_slot_may_stream_is_left_as_it_is() {
    let server = two().await;
    let out = teardown(&server, &OTHER).await;
    let expected = "\
publication outbox_router: left as it is, since slot outbox_router may use it
  it also publishes public.outbox, which is no outbox of this configuration
  to take out public.other, if nothing reads it: alter publication \"outbox_router\" drop table \
only public.other
  to drop it, if no other pipeline uses it: drop publication \"outbox_router\"
";
    assert!(out.contains(expected), "{out}");
    assert_eq!(published(&server), "other outbox");
}

#[tokio::test]
async fn without_another_slot_the_tables_of_others_stay_published() {
    let server = two().await;
    server.sql("select pg_drop_replication_slot('outbox_router')");
    let out = teardown(&server, &OTHER).await;
    let expected = "\
publication outbox_router: left, without public.other
  it also publishes public.outbox, which is no outbox of this configuration
  to drop it, if no other pipeline uses it: drop publication \"outbox_router\"
";
    assert!(out.contains(expected), "{out}");
    assert_eq!(published(&server), "outbox");
    let again = teardown(&server, &OTHER).await;
    assert!(again.contains("publication outbox_router: left as it is\n  it also"), "{again}");
    assert!(teardown(&server, &OWN).await.contains("publication outbox_router: dropped\n"));
}

#[tokio::test]
async fn the_printed_statements_do_the_same() {
    let server = two().await;
    for (pipeline, left) in [(&OTHER[..], "other outbox"), (&OTHER, "outbox"), (&OWN, "dropped")] {
        let line = [&["teardown"], pipeline].concat();
        let printed = server.run_command(&line).await;
        assert_eq!(printed.exit, Exit::Done, "{printed:?}");
        let of_slot = "select pg_drop_replication_slot";
        let lines = printed.out.lines().filter(|line| !line.starts_with(of_slot));
        server.script(&lines.collect::<Vec<_>>().join("\n"));
        assert_eq!(published(&server), left);
        server.sql("select pg_drop_replication_slot(slot_name) from pg_replication_slots");
    }
}

#[tokio::test]
async fn a_publication_is_dropped_where_others_stream_from_another_one() {
    let server = two().await;
    server.sql("alter publication outbox_router drop table other");
    server.sql("create publication elsewhere for table other");
    let reader = server.read_slot("other_slot", "elsewhere");
    assert!(teardown(&server, &OWN).await.contains("publication outbox_router: dropped\n"));
    drop(reader);
}

#[tokio::test]
async fn a_publication_stays_that_another_reads_now() {
    let server = two().await;
    server.sql("alter publication outbox_router drop table other");
    let reader = server.read_slot("other_slot", "\"outbox_router\"");
    let out = teardown(&server, &OWN).await;
    assert!(out.contains(": left as it is, since slot other_slot may use it\n  to drop"), "{out}");
    drop(reader);
}

/// No table can be taken out of it.
#[tokio::test]
async fn a_publication_of_all_tables_stays() {
    let server = two().await;
    server.sql("select pg_drop_replication_slot('other_slot')");
    for scope in ["all tables", "tables in schema public"] {
        server.sql("drop publication outbox_router");
        server.sql(&format!("create publication outbox_router for {scope}"));
        let out = teardown(&server, &OWN).await;
        let expected =
            "publication outbox_router: left as it is\n  it also publishes public.other, ";
        assert!(out.contains(expected), "{out}");
    }
    server.sql("drop table other");
    assert!(teardown(&server, &OWN).await.contains("publication outbox_router: dropped\n"));
}

/// Each published table is one of its outboxes.
#[tokio::test]
async fn of_a_configuration_without_tables_all_are_its_own() {
    let server = two().await;
    let out = teardown(&server, &[]).await;
    assert!(out.contains("left as it is, since slot other_slot may use it\n  to drop"), "{out}");
    server.sql("select pg_drop_replication_slot('other_slot')");
    assert!(teardown(&server, &[]).await.contains("publication outbox_router: dropped\n"));
}

/// A pipeline with a witness, and a publication that has another table.
struct Fixture {
    server: Server,
    kafka: StateCluster,
}

const TABLE: [&str; 4] =
    ["--set", "outbox.0.table=public.outbox", "--set", "retention.mode=delete"];

impl Fixture {
    async fn start() -> Self {
        let fixture = Self { server: Server::start(), kafka: StateCluster::start() };
        let made = fixture.run(&["setup", "--apply", "--create-table"]).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        fixture.server.sql("create table other (like outbox including all)");
        fixture.server.sql("alter publication outbox_router add table other");
        // A session has begun, and knows its table.
        let mut known = fixture.kafka.record().await.expect("a record");
        known.generation += 1;
        known.tables = vec![fixture.oid("outbox")];
        fixture.kafka.put("router", &known).await;
        fixture.insert("other");
        fixture
    }

    fn oid(&self, table: &str) -> Oid {
        let oid = self.server.sql(&format!("select '{table}'::regclass::oid"));
        Oid::from_u32(oid.parse().expect("a number"))
    }

    fn insert(&self, table: &str) {
        self.server.sql(&format!(
            "insert into {table} (aggregate_type, aggregate_id, event_type) values ('a', 'b', 'c')"
        ));
    }

    async fn run(&self, line: &[&str]) -> CommandOutput {
        let line = [line, &TABLE].concat();
        let line = self.kafka.with(&line);
        self.server.run_command(&line.iter().map(String::as_str).collect::<Vec<_>>()).await
    }

    async fn cleanup(&self) -> CommandOutput {
        self.run(&["cleanup", "--yes", "--wait", "2s"]).await
    }

    async fn teardown(&self) -> String {
        let output = self.run(&["teardown", "--apply", "--yes"]).await;
        assert_eq!(output.exit, Exit::Done, "{output:?}");
        output.out
    }
}

#[tokio::test]
async fn rows_of_another_pipelines_table_are_none_that_are_missing() {
    let fixture = Fixture::start().await;
    let output = fixture.cleanup().await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
    let out = fixture.teardown().await;
    assert!(!out.contains("has committed rows"), "{out}");
    assert!(out.contains("witness: deleted\n"), "{out}");
}

#[tokio::test]
async fn own_rows_behind_those_of_another_pipeline_are_missing() {
    let fixture = Fixture::start().await;
    fixture.insert("outbox");
    let output = fixture.cleanup().await;
    assert!(output.err.contains("has committed rows that are not delivered"), "{output:?}");
    let out = fixture.teardown().await;
    assert!(out.contains("has committed rows that were not delivered"), "{out}");
    assert!(out.contains("witness: kept"), "{out}");
}

/// The table is an outbox by the witness, by its name when the row was written, or perhaps.
#[tokio::test]
async fn rows_of_a_table_that_was_an_outbox_are_missing() {
    for was_one in ["by the witness", "by its name", "perhaps"] {
        let fixture = Fixture::start().await;
        match was_one {
            "by the witness" => {
                let mut known = fixture.kafka.record().await.expect("a record");
                known.generation += 1;
                known.tables.push(fixture.oid("other"));
                fixture.kafka.put("router", &known).await;
            }
            "by its name" => {
                fixture.server.sql("alter table outbox rename to former");
                fixture.server.sql("alter table other rename to outbox");
                fixture.insert("outbox");
                fixture.server.sql("alter table outbox rename to other");
                fixture.server.sql("alter table former rename to outbox");
            }
            _ => {
                fixture.server.sql("drop table other");
            }
        }
        let out = fixture.teardown().await;
        assert!(out.contains("has committed rows that were not delivered"), "{was_one}: {out}");
    }
}

/// A slot is seen from every database of its server, and what it has not delivered is not; and rows
/// of another database, as of a copy, are no events of this pipeline.
#[tokio::test]
async fn no_command_works_in_another_database_than_the_routers() {
    let server = two().await;
    server.sql("create database elsewhere");
    let admin = format!("postgres://postgres@127.0.0.1:{}/elsewhere", server.port);
    for command in [
        &["teardown", "--apply", "--yes"][..],
        &["setup", "--apply"],
        &["setup", "--apply", "--backfill"],
        &["switch", "stream", "--yes", "--set", "postgres.source=polling"],
        &["skip", "--lsn", "0/1", "--yes"],
        &["replay", "--all", "--yes"],
        &["dead-letters", "requeue", "--all", "--yes"],
        &["dead-letters", "requeue", "--left-out", "--all", "--yes"],
        &["where", "1"],
    ] {
        let line = [command, &["--admin-url", &admin], &OWN[..]].concat();
        let refused = server.run_command(&line).await;
        assert_ne!(refused.exit, Exit::Done, "{refused:?}");
        let says = "P013: this connection is to the database elsewhere";
        assert!(refused.err.contains(says), "{command:?}: {refused:?}");
    }
    assert_eq!(server.sql("select count(*) from pg_replication_slots"), "2");
}
