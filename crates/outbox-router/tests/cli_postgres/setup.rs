use outbox_router::cli::Exit;

use crate::{
    kafka::StateCluster,
    server::{Server, run_command_at},
};

const APPLY: [&str; 3] = ["setup", "--apply", "--create-table"];

#[tokio::test]
async fn what_setup_creates_is_found_by_the_next_setup() {
    let server = Server::start();
    let line = [&APPLY[..], &["--role", "router"]].concat();
    let first = server.run_command(&line).await;
    assert_eq!(first.exit, Exit::Done, "{first:?}");
    let lines: Vec<&str> = first.out.lines().collect();
    assert_eq!(lines[0], "table public.outbox: created");
    assert_eq!(lines[1], "role router: created without a password; in psql: \\password router");
    assert_eq!(lines[2], "publication outbox_router: created, inserts on public.outbox");
    assert!(lines[3].starts_with("slot outbox_router: created at 0/"), "{lines:?}");
    assert_eq!(lines[4], "witness: none is kept, since kafka.state_topic is empty");
    assert_eq!(lines[5], "next: outbox-router run");

    let second = server.run_command(&line).await;
    assert_eq!(second.exit, Exit::Done);
    let lines: Vec<&str> = second.out.lines().collect();
    assert_eq!(lines[0], "table public.outbox: exists already");
    assert_eq!(lines[1], "role router: exists already, may log in and replicate");
    assert_eq!(
        lines[2],
        "publication outbox_router: exists already, publishes inserts on every outbox table"
    );
    assert!(lines[3].starts_with("slot outbox_router: exists already, at 0/"), "{lines:?}");

    // recover finds rows by their time.
    let index = "select indexdef from pg_indexes where tablename = 'outbox' \
                 and indexdef like '%(created_at)'";
    assert!(server.sql(index).contains("USING btree"));
    let publication = "select pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot, \
                       puballtables from pg_publication";
    assert_eq!(server.sql(publication), "t|f|f|f|t|f");
    let slot = "select plugin, database, temporary from pg_replication_slots";
    assert_eq!(server.sql(slot), "pgoutput|postgres|f");
}

#[tokio::test]
async fn rows_that_are_older_than_the_slot_are_said_to_be_in_none() {
    let server = Server::start();
    let older = "rows written to public.outbox before now are not delivered; to have them sent: ";
    server.run_command(&["setup", "--create-table", "--apply"]).await;
    server.sql("select pg_drop_replication_slot('outbox_router')");
    let empty = server.run_command(&APPLY).await;
    assert!(empty.exit == Exit::Done && !empty.out.contains("before now"), "{empty:?}");
    server.sql("select pg_drop_replication_slot('outbox_router')");
    server.sql(
        "insert into outbox (aggregate_type, aggregate_id, event_type) values ('a', 'b', 'c')",
    );
    let older_row = server.run_command(&APPLY).await;
    assert!(older_row.exit == Exit::Done && older_row.out.contains(older), "{older_row:?}");
}

#[tokio::test]
async fn a_table_without_an_index_on_its_time_is_reported_with_the_statement() {
    let server = Server::start();
    let made = server.run_command(&APPLY).await;
    assert!(!made.out.contains("no index"), "{}", made.out);
    server.sql("drop index outbox_created_at_idx");
    let again = server.run_command(&APPLY).await;
    let (_, statement) = again.out.split_once("needs it: ").expect("a note");
    let statement = statement.lines().next().unwrap();
    assert_eq!(statement, "create index concurrently on \"public\".\"outbox\" (\"created_at\")");
    server.sql(statement);
    let again = server.run_command(&APPLY).await;
    assert!(!again.out.contains("no index"), "{}", again.out);
    // PostgreSQL makes no index of a partitioned table concurrently.
    server.sql("create table parted (like outbox) partition by range (created_at)");
    let line = [&APPLY[..], &["--set", "outbox.0.table=public.parted"]].concat();
    let parted = server.run_command(&line).await;
    let expected = "needs it: create index on \"public\".\"parted\" (\"created_at\")\n";
    assert!(parted.out.contains(expected), "{parted:?}");
}

#[tokio::test]
async fn the_role_may_replicate_and_read_no_table() {
    let server = Server::start();
    let made = server.run_command(&[&APPLY[..], &["--role", "Ro'le\""]].concat()).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let may = "select rolsuper, rolreplication, rolcreatedb, rolcreaterole, \
               has_table_privilege(oid, 'public.outbox', 'select, insert, update, delete') \
               from pg_roles where rolname = 'Ro''le\"'";
    assert_eq!(server.sql(may), "f|t|f|f|f");
    let status = run_command_at(&server.url("Ro'le%22"), &["status"], "").await;
    assert!(status.out.contains("\nbehind    "), "{status:?}");
    assert!(!status.out.contains("\nbehind    unknown"), "{status:?}");
}

#[tokio::test]
async fn the_printed_sql_creates_what_apply_would() {
    let server = Server::start();
    let printed = server.run_command(&["setup", "--create-table", "--role", "router"]).await;
    assert_eq!(printed.exit, Exit::Done);
    server.script(&printed.out);
    let found = server.run_command(&["setup", "--apply", "--role", "router"]).await;
    assert_eq!(found.exit, Exit::Done, "{found:?}");
    assert_eq!(found.out.matches("exists already").count(), 4, "{}", found.out);
    let undo = server.run_command(&["teardown", "--role", "router"]).await;
    server.script(&undo.out);
    assert_eq!(server.sql("select count(*) from pg_replication_slots"), "0");
    assert_eq!(server.sql("select count(*) from pg_publication"), "0");
    assert_eq!(server.sql("select count(*) from pg_roles where rolname = 'router'"), "0");
}

#[tokio::test]
async fn the_tables_of_dead_letters_are_made_once_and_the_role_may_use_them() {
    let server = Server::start();
    let line = [&APPLY[..], &["--dead-letters", "--role", "Ro'le\""]].concat();
    for expected in ["created", "exists already"] {
        let made = server.run_command(&line).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        let expected = format!("table outbox_router.held: {expected}, Ro'le\" may use it\n");
        assert!(made.out.contains(&expected), "{made:?}");
    }
    let may = "select has_table_privilege(oid, 'outbox_router.held', 'select'), \
               has_table_privilege(oid, 'outbox_router.held', 'insert'), \
               has_table_privilege(oid, 'outbox_router.held', 'update'), \
               has_table_privilege(oid, 'outbox_router.held', 'delete, truncate'), \
               has_table_privilege(oid, 'outbox_router.decision', 'select'), \
               has_table_privilege(oid, 'outbox_router.decision', 'insert, update, delete'), \
               has_schema_privilege(oid, 'outbox_router', 'usage') \
               from pg_roles where rolname = 'Ro''le\"'";
    assert_eq!(server.sql(may), "t|t|t|f|t|f|t");
    let undo = ["teardown", "--apply", "--yes", "--role", "Ro'le\""];
    let undone = server.run_command(&undo).await;
    assert_eq!(undone.exit, Exit::Done, "{undone:?}");
    assert_eq!(server.sql("select count(*) from pg_roles where rolname like 'Ro%'"), "0");
    assert_eq!(server.sql("select count(*) from outbox_router.held"), "0", "the table stays");
}

#[tokio::test]
async fn the_printed_tables_of_dead_letters_are_those_of_apply() {
    let server = Server::start();
    let line = ["setup", "--create-table", "--dead-letters", "--role", "router"];
    let printed = server.run_command(&line).await;
    server.script(&printed.out);
    let columns = "select string_agg(table_name || '.' || column_name || ' ' || data_type, ',' \
                   order by table_name, ordinal_position) \
                   from information_schema.columns where table_schema = 'outbox_router'";
    let made = server.sql(columns);
    assert!(made.contains("held.key_hash bytea"), "{made}");
    server.sql("drop schema outbox_router cascade");
    let applied = [&["setup", "--apply", "--dead-letters"], &line[3..]].concat();
    assert_eq!(server.run_command(&applied).await.exit, Exit::Done);
    assert_eq!(server.sql(columns), made);
}

/// Otherwise the first dead letter would find it missing.
#[tokio::test]
async fn setup_says_what_makes_the_topic_of_dead_letters() {
    let (server, kafka) = (Server::start(), StateCluster::start());
    let run = async |line: &[&str]| {
        let line = kafka.without_state(line);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        server.run_command(&line).await
    };
    let configured = [
        "--dead-letters",
        "--set",
        "on_error.too_large=dead_letter",
        "--set",
        "dead_letters.topic=shop.dead",
    ];
    let line = [&APPLY[..], &configured].concat();
    let create = "kafka-topics.sh --bootstrap-server 127.0.0.1:";
    let made = run(&line).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let missing = format!("topic shop.dead, of dead letters: does not exist\n  hint: {create}");
    assert!(made.out.contains(&missing), "{made:?}");
    assert!(made.out.contains(" --create --topic shop.dead --partitions "), "{made:?}");

    let created = ["--set", "kafka.create_topics.partitions=3"];
    let created = [&created[..], &["--set", "kafka.create_topics.replication_factor=1"]].concat();
    let made = run(&[&line[..], &created].concat()).await;
    assert!(made.out.contains("shop.dead, of dead letters: the router makes it"), "{made:?}");

    let printed = [&["setup"], &configured[..]].concat();
    let printed = run(&printed).await;
    let command = "-- kafka-topics.sh --bootstrap-server 127.0.0.1:";
    assert!(printed.out.contains(command) && printed.out.contains("shop.dead"), "{printed:?}");

    kafka.create_topic("shop.dead", 1);
    let made = run(&line).await;
    let exists = "topic shop.dead, of dead letters: exists already\n";
    assert!(made.out.contains(exists), "{made:?}");
    let skipped = [&line[..], &["--skip-kafka"]].concat();
    let made = server.run_command(&skipped).await;
    assert!(made.out.contains("topic shop.dead, of dead letters: not looked up\n"), "{made:?}");
    let off = server.run_command(&APPLY).await;
    assert!(!off.out.contains("of dead letters"), "{off:?}");
}

#[tokio::test]
async fn a_table_of_the_preset_takes_the_rows_it_is_for() {
    let server = Server::start();
    let debezium =
        ["--set", "outbox.0.table=\"Odd\".\"t\"\"b\"", "--set", "outbox.0.preset=debezium"];
    server.sql("create schema \"Odd\"");
    let made = server.run_command(&[&APPLY[..], &debezium].concat()).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    server.sql(
        "insert into \"Odd\".\"t\"\"b\" (aggregatetype, aggregateid, type, payload) \
         values ('a', 'b', 'c', '{}')",
    );
}

/// Publications that would lose rows in silence, and what repairs each.
#[tokio::test]
async fn a_publication_that_does_not_fit_is_refused_with_the_remedy() {
    let server = Server::start();
    server.sql("create table outbox (id int); create table parted (id int) partition by list (id)");
    let cases = [
        (
            "for table outbox with (publish = 'update')",
            "outbox",
            "P022: the publication p does not publish inserts",
            "alter publication \"p\" set (publish = 'insert')",
        ),
        (
            "for table outbox where (id > 5)",
            "outbox",
            "P023: the publication p filters rows of public.outbox: (id > 5)",
            "alter publication \"p\" drop table only \"public\".\"outbox\"; ",
        ),
        (
            "for table parted",
            "parted",
            "P025: the publication p publishes public.parted by its partitions",
            "alter publication \"p\" set (publish_via_partition_root = true)",
        ),
    ];
    for (definition, table, message, remedy) in cases {
        server.sql(&format!("create publication p {definition}"));
        let table = format!("outbox.0.table={table}");
        let line = ["setup", "--apply", "--set", "postgres.publication=p", "--set", table.as_str()];
        let refused = server.run_command(&line).await;
        assert_eq!(refused.exit, Exit::Failure);
        assert!(refused.err.starts_with(&format!("error: {message}\n")), "{}", refused.err);
        assert!(refused.err.contains(remedy), "{}", refused.err);
        assert_eq!(server.sql("select count(*) from pg_replication_slots"), "0");
        server.sql("drop publication p");
    }
}

/// Debezium makes such a publication unless it is told not to.
#[tokio::test]
async fn a_publication_for_all_tables_fits_where_the_outbox_tables_are_configured() {
    let server = Server::start();
    server.sql("create table outbox (); create publication p for all tables");
    let line = ["setup", "--apply", "--set", "postgres.publication=p"];
    let refused = server.run_command(&line).await;
    assert_eq!(refused.exit, Exit::Failure);
    let message = "error: P021: the publication p is FOR ALL TABLES\n  hint: every table would be";
    assert!(refused.err.starts_with(message), "{}", refused.err);
    let line = [&line[..], &["--set", "outbox.0.table=outbox"]].concat();
    let fitted = server.run_command(&line).await;
    assert_eq!(fitted.exit, Exit::Done, "{fitted:?}");
    let said = "publication p: exists already, FOR ALL TABLES\n";
    assert!(fitted.out.contains(said), "{}", fitted.out);
}

/// A person pastes it into psql. Another table may be published for another reader.
#[tokio::test]
async fn the_remedy_for_filtered_rows_is_sql_that_ends_the_filter() {
    let server = Server::start();
    server.sql("create table outbox (id int); create table other (id int)");
    server.sql("create publication p for table outbox where (id > 5), other where (id > 7)");
    let line = ["setup", "--apply", "--set", "postgres.publication=p"];
    let refused = server.run_command(&line).await;
    let (_, remedy) = refused.err.split_once("\n  hint: ").expect("a remedy");
    server.sql(remedy);
    let fitted = server.run_command(&line).await;
    assert_eq!(fitted.exit, Exit::Done, "{fitted:?}");
    let left = "select r.prrelid::regclass, pg_get_expr(r.prqual, r.prrelid) \
                from pg_publication_rel r order by r.prrelid::regclass::text";
    assert_eq!(server.sql(left), "other|(id > 7)\noutbox|");
}

#[tokio::test]
async fn a_missing_table_is_added_to_the_publication_and_unexpected_ones_are_named() {
    let server = Server::start();
    server.sql(
        "create table outbox (); create table other (); create schema s; create table s.more ()",
    );
    server.sql("create publication outbox_router for table other, tables in schema s");
    let fitted = server.run_command(&["setup", "--apply"]).await;
    assert_eq!(fitted.exit, Exit::Done, "{fitted:?}");
    assert!(fitted.out.contains("exists already, public.outbox added\n"), "{}", fitted.out);
    assert!(fitted.out.contains("it also publishes public.other,"), "{}", fitted.out);
    assert!(fitted.out.contains("it also publishes s.more,"), "{}", fitted.out);
    let again = server.run_command(&["setup", "--apply"]).await;
    assert!(again.out.contains("publishes inserts on every outbox table"), "{}", again.out);
}

#[tokio::test]
async fn a_slot_that_does_not_fit_is_refused_before_anything_is_created() {
    let server = Server::start();
    server.sql("create table outbox ()");
    server.sql("create database elsewhere");
    let make = |sql: &str| server.sql(&format!("select pg_create_{sql}"));
    make("physical_replication_slot('physical')");
    make("logical_replication_slot('foreign_plugin', 'test_decoding')");
    make("logical_replication_slot('orphan', 'pgoutput')");
    let cases = [
        ("physical", "P013: the slot physical exists already, but it is physical"),
        (
            "foreign_plugin",
            "P013: the slot foreign_plugin exists already, but it is of the plug-in test_decoding, not pgoutput",
        ),
        (
            "orphan",
            "P020: the slot orphan exists already, but the publication outbox_router does not",
        ),
    ];
    for (slot, message) in cases {
        let slot = format!("postgres.slot={slot}");
        let refused = server.run_command(&["setup", "--apply", "--set", &slot]).await;
        assert_eq!(refused.exit, Exit::Failure);
        assert!(refused.err.starts_with(&format!("error: {message}")), "{}", refused.err);
        assert_eq!(server.sql("select count(*) from pg_publication"), "0");
    }
    let url = format!("host=127.0.0.1 port={} user=postgres dbname=elsewhere", server.port);
    let line = ["setup", "--apply", "--set", "postgres.slot=orphan"];
    let refused = run_command_at(&url, &line, "").await;
    let message = "error: P013: the slot orphan exists already, but it is of the database postgres, not elsewhere\n";
    assert!(refused.err.starts_with(message), "{}", refused.err);
}

#[tokio::test]
async fn a_missing_table_is_not_created_unless_requested() {
    let server = Server::start();
    let refused = server.run_command(&["setup", "--apply"]).await;
    assert_eq!(
        refused.err,
        "error: P028: the table public.outbox does not exist\n  hint: create it by your migrations, \
         or: outbox-router setup --apply --create-table\n"
    );
}

#[tokio::test]
async fn the_transaction_that_the_slot_waits_for_is_named() {
    let server = Server::start();
    let held = server.open_transaction("nightly report");
    server.sql("create table outbox ()");
    server.sql("begin; create table x (); prepare transaction 'forgotten'");
    let pid =
        server.sql("select pid from pg_stat_activity where application_name = 'nightly report'");

    let waited = server.run_command(&["setup", "--apply", "--wait", "4s"]).await;
    assert_eq!(waited.exit, Exit::Failure);
    assert!(
        waited.out.contains(&format!("  pid {pid}, nightly report, database postgres, open for "))
    );
    assert!(waited.out.contains("  prepared transaction forgotten, database postgres, since "));
    let message = "error: P008: the slot outbox_router was not created within 4 s: transactions that \
                   were open did not end\n";
    assert!(waited.err.starts_with(message), "{}", waited.err);
    assert!(waited.err.contains(&format!("select pg_terminate_backend({pid})")), "{}", waited.err);
    assert!(waited.err.contains("rollback prepared 'forgotten'"), "{}", waited.err);
    assert_eq!(server.sql("select count(*) from pg_replication_slots"), "0");

    server.sql(&format!("select pg_terminate_backend({pid})"));
    server.sql("rollback prepared 'forgotten'");
    drop(held);
    let made = server.run_command(&["setup", "--apply"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    assert!(made.out.contains("slot outbox_router: created at "), "{}", made.out);
}

/// It was over before anybody had looked, and the hint was `end them ()`.
#[tokio::test]
async fn also_of_a_short_wait_the_transaction_is_named() {
    let (server, kafka) = (Server::start(), StateCluster::start());
    server.run_command(&["setup", "--apply", "--create-table"]).await;
    server.sql("select pg_drop_replication_slot('outbox_router')");
    let held = server.open_transaction("nightly report");
    let pid =
        server.sql("select pid from pg_stat_activity where application_name = 'nightly report'");
    for more in [&[][..], &["--backfill"]] {
        let line = [&["setup", "--apply", "--wait", "1s"], more].concat();
        let line = kafka.without_state(&line);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let waited = server.run_command(&line).await;
        let hint = format!("hint: end them (select pg_terminate_backend({pid})) and type");
        assert!(waited.err.contains(&hint), "{more:?}: {waited:?}");
    }
    drop(held);
}

#[tokio::test]
async fn a_server_that_cannot_decode_is_refused_with_the_remedy() {
    let server = Server::with_settings("wal_level = replica");
    let refused = server.run_command(&APPLY).await;
    assert_eq!(
        refused.err,
        "error: P004: wal_level is replica, not logical\n  hint: alter system set wal_level = \
         logical; then restart PostgreSQL\n"
    );
    assert_eq!(server.sql("select count(*) from pg_class where relname = 'outbox'"), "0");
}

#[tokio::test]
async fn a_role_without_the_privilege_is_shown_how_to_connect_as_another_role() {
    let server = Server::start();
    server.sql("create role nobody_special login");
    let refused = run_command_at(&server.url("nobody_special"), &APPLY, "").await;
    let expected = "error: P002: PostgreSQL said permission denied";
    assert!(refused.err.starts_with(expected), "{refused:?}");
    assert!(refused.err.contains("--admin-url"), "{refused:?}");
    let admin = server.url("postgres");
    let line = [&APPLY[..], &["--admin-url", admin.as_str()]].concat();
    let made = run_command_at(&server.url("nobody_special"), &line, "").await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
}

#[tokio::test]
async fn words_of_where_that_their_column_cannot_have_make_nothing() {
    let server = Server::start();
    server.sql(
        "create type kind as enum ('order', 'refund'); \
         create table outbox (id uuid primary key, aggregate_type text, aggregate_id text, \
           event_type text, payload jsonb, kind kind, number int, code char(5))",
    );
    for (column, word, names) in [
        ("kind", "ordre", "kind is an enum that has no such label, but order, refund"),
        ("number", "one", "no value of column number (integer) is written so"),
        ("code", "abcdef", "no value of column code (character) is written so"),
    ] {
        let (column, list) = (format!("outbox.0.where.column={column}"), "outbox.0.where.not_in=");
        let list = format!("{list}{word}");
        let line = ["setup", "--apply", "--set", "outbox.0.table=public.outbox"];
        let line = [&line[..], &["--set", &column, "--set", &list]].concat();
        let output = server.run_command(&line).await;
        assert_eq!(output.exit, Exit::Failure, "{output:?}");
        assert!(output.err.contains("R008") && output.err.contains(names), "{output:?}");
    }
    assert_eq!(server.sql("select count(*) from pg_publication"), "0");
}

/// A slot would keep WAL whose rows have to be given up: neither it nor a publication is made.
#[tokio::test]
async fn a_table_whose_rows_would_be_left_out_makes_nothing() {
    let server = Server::start();
    let made = "select count(*) from (select from pg_publication union all \
                select from pg_replication_slots) it";
    server.sql(GENERATED);
    server.sql(
        "create table outbox (id uuid, aggregate_type text, aggregate_id text, event_type text, \
           payload jsonb); create table chunk () inherits (outbox)",
    );
    let mut refused = vec![("outbox", "P030", "a hypertable (TimescaleDB)")];
    let version: i32 = server.sql("show server_version_num").parse().unwrap();
    if version >= 180_000 {
        server.sql(&GENERATED.replace("stored", "virtual"));
        refused.push(("virtual", "P024", "aggregate_id = \"${payload#/orderId}\""));
    } else {
        refused.push(("stored", "P024", "aggregate_id = \"${payload#/orderId}\""));
    }
    for (table, code, hint) in refused {
        let table = format!("outbox.0.table={table}");
        let output = server.run_command(&["setup", "--apply", "--set", &table]).await;
        assert_eq!(output.exit, Exit::Failure, "{output:?}");
        assert!(output.err.starts_with(&format!("error: {code}: ")), "{output:?}");
        assert!(output.err.contains("nothing was made"), "{output:?}");
        assert!(output.err.contains(hint), "{output:?}");
        assert_eq!(server.sql(made), "0");
    }
}

const GENERATED: &str = "create table stored (id uuid, aggregate_type text, event_type text, \
    payload jsonb, aggregate_id text generated always as (payload->>'orderId') stored)";

#[tokio::test]
async fn from_18_on_a_stored_generated_column_is_published_where_the_mapping_needs_it() {
    let server = Server::start();
    if server.sql("show server_version_num").parse::<i32>().unwrap() < 180_000 {
        return;
    }
    server.sql(GENERATED);
    let line = ["setup", "--apply", "--set", "outbox.0.table=stored"];
    let made = server.run_command(&line).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    assert!(made.out.contains("with the generated columns that are stored"), "{made:?}");
    assert_eq!(server.sql("select pubgencols from pg_publication"), "s");
}

#[tokio::test]
async fn a_role_that_may_not_note_a_backfill_is_told_what_to_grant() {
    let server = Server::start();
    server.sql("create role maker login replication; create schema shop authorization maker");
    server.sql("set role maker; create table shop.outbox (id uuid)");
    let line = ["setup", "--apply", "--backfill", "--set", "outbox.0.table=shop.outbox"];
    let refused = run_command_at(&server.url("maker"), &line, "").await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    let grant = "hint: grant create on database postgres to maker (as the owner or a superuser)";
    assert!(refused.err.contains(grant), "{refused:?}");
    assert_eq!(server.sql("select count(*) from pg_publication"), "0");
}

/// The table may get its columns later, so that nothing is refused; but `run` would stop.
#[tokio::test]
async fn run_does_not_come_next_where_the_mapping_does_not_fit() {
    let server = Server::start();
    server.sql(
        "create table few (id uuid); \
         create table odd (id uuid, aggregate_type text, aggregate_id text, event_type text, \
           payload jsonb, txid xid8)",
    );
    let header = ["name", "column"].map(|key| format!("outbox.0.extra_headers.0.{key}=txid"));
    let format = "outbox.0.format=debezium";
    let header = ["--set", format, "--set", header[0].as_str(), "--set", header[1].as_str()];
    for (table, more, code) in [("few", &[][..], "R007"), ("odd", &header[..], "R008")] {
        let table = format!("outbox.0.table={table}");
        let line = [&["setup", "--apply", "--set", &table][..], more].concat();
        let made = server.run_command(&line).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        let next = format!("next: what {code} says, and only then: outbox-router run\n");
        assert!(made.out.contains(&format!("warning: {code}: ")), "{made:?}");
        assert!(made.out.ends_with(&next), "{made:?}");
    }
}

#[tokio::test]
async fn whoever_holds_a_lock_is_named_before_a_statement_is_given_up() {
    let server = Server::start();
    server.sql(&format!("{GENERATED}; alter table stored drop column aggregate_id"));
    let held = "select pg_current_xact_id(); lock table stored in share update exclusive mode";
    let held = server.transaction("import", held);
    let table = ["--set", "outbox.0.table=stored"];
    let refused = server.run_command(&[&["setup", "--apply"], &table[..]].concat()).await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    assert!(refused.err.starts_with("error: P008: "), "{refused:?}");
    let holder = server.sql("select pid from pg_stat_activity where application_name = 'import'");
    let end = format!("(select pg_terminate_backend({holder}))");
    assert!(refused.err.contains(&end), "{refused:?}");
    drop(held);
}
