//! `setup` with `postgres.source = "polling"`: what it prints for `psql`, and what it refuses with
//! what to type; and `explain --id` of a row.

use std::time::Duration;

use outbox_router::cli::Exit;

use crate::{
    kafka::StateCluster,
    server::{CommandOutput, Server, run_command_at},
    status::{no_router, router},
};

const TABLE: &str = "\
    create table outbox (id bigint primary key, aggregate_type text not null default 'order', \
      aggregate_id text, event_type text not null default 'E', payload jsonb default '{}', \
      created_at timestamptz not null default '2026-01-01T01:00:00.123Z', \
      status text not null default 'PENDING', attempts int not null default 0, last_error text, \
      available_at timestamptz not null default '2026-01-01', \
      locked_until timestamptz, locked_by text)";

const POLLED: [&str; 4] =
    ["--set", "postgres.source=polling", "--set", "outbox.0.table=public.outbox"];

const MADE: &str = "select string_agg(relname, ' ' order by relname) from pg_class \
                    where relname like 'outbox\\_router\\_%'";

const INDEXES: &str = "outbox_router_pending_outbox outbox_router_waiting_outbox";

const ADMIN: &str = "--admin-url postgres://ADMIN@HOST:PORT/DATABASE";

/// `setup` for the router's role `router`, typed as another one.
async fn setup_as(server: &Server, admin: &str, more: &[&str]) -> CommandOutput {
    let admin = server.url(admin);
    let line = [&["setup", "--admin-url", admin.as_str()], &POLLED[..], more].concat();
    run_command_at(&server.url("router"), &line, "").await
}

async fn setup(server: &Server, more: &[&str]) -> CommandOutput {
    setup_as(server, "postgres", more).await
}

#[tokio::test]
async fn the_printed_sql_makes_what_apply_would() {
    let server = Server::start();
    server.sql(TABLE);
    let printed = setup(&server, &[]).await;
    assert_eq!(printed.exit, Exit::Done, "{printed:?}");
    assert!(printed.out.contains("\ncreate role \"router\" login;\n"), "{printed:?}");
    assert_eq!(server.sql(MADE), "", "nothing is made by printing");
    server.script(&printed.out);
    assert_eq!(server.sql(MADE), INDEXES);
    let applied = setup(&server, &["--apply"]).await;
    assert_eq!(applied.exit, Exit::Done, "{applied:?}");
    assert!(!applied.out.contains("index of"), "nothing is left to make: {applied:?}");
    let again = setup(&server, &[]).await;
    for there in ["-- the role \"router\" exists already", "-- the indexes of public.outbox exist"]
    {
        assert!(again.out.contains(there), "{again:?}");
    }
    server.script(&again.out);
}

#[tokio::test]
async fn where_the_indexes_cannot_be_known_it_is_printed_what_to_type() {
    let server = Server::start();
    let missing = setup(&server, &["--create-table"]).await;
    let why = "-- the indexes of public.outbox depend on its columns, which could not be read:\n\
               --   P028: table public.outbox does not exist\n";
    assert!(missing.out.contains(why), "{missing:?}");
    assert!(missing.out.contains(&format!("--   outbox-router setup {ADMIN}\n")), "{missing:?}");
    let apply =
        format!("-- to run it: outbox-router setup --apply --create-table {ADMIN}    to undo");
    assert!(missing.out.contains(&apply), "{missing:?}");
    server.script(&missing.out);
    let printed = setup(&server, &[]).await;
    server.script(&printed.out);
    assert_eq!(server.sql(MADE), INDEXES);
    let down = "postgres://router@127.0.0.1:1/postgres";
    let down = run_command_at(down, &[&["setup"], &POLLED[..]].concat(), "").await;
    assert_eq!(down.exit, Exit::Done, "{down:?}");
    for line in ["-- create role \"router\" login;\n", "--   P001: "] {
        assert!(down.out.contains(line), "{line}: {down:?}");
    }
}

/// A transaction that is open for longer than statements on tables wait for a lock: what was built
/// of an index is not thrown away, and it is said for what the command waits.
#[tokio::test]
async fn an_index_waits_for_open_transactions_and_says_for_which() {
    let server = Server::start();
    server.sql(&format!("create role router login; {TABLE}"));
    let _open = server.transaction("reports", "insert into outbox (id) values (1)");
    let later = async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        server.end_transaction("reports");
    };
    let (made, ()) = tokio::join!(setup(&server, &["--apply"]), later);
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let waits =
        "the index outbox_router_pending_outbox waits for transactions that are open:\n  pid ";
    for part in [waits, ", reports, database ", "index of public.outbox: finds pending rows"] {
        assert!(made.out.contains(part), "{part}: {made:?}");
    }
    assert_eq!(server.sql(MADE), INDEXES);
}

/// As where `postgres.source` is set to `"polling"` before `switch polling` is typed.
#[tokio::test]
async fn a_table_that_a_slot_streams_is_named_with_what_to_type_before_it_is_polled() {
    let server = Server::start();
    server.sql(&format!("create role router login; {TABLE}"));
    server.sql("create publication outbox_router for table outbox");
    server.sql("select pg_create_logical_replication_slot('outbox_router', 'pgoutput')");
    let made = setup(&server, &["--apply"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let hint = format!("outbox-router switch polling {ADMIN} marks them");
    let next = "next: what P043 says, and only then: outbox-router run\n";
    for said in ["P043: table public.outbox is streamed by slot outbox_router", &hint, next] {
        assert!(made.out.contains(said), "{said}: {made:?}");
    }
    server.sql("select pg_drop_replication_slot('outbox_router')");
    let made = setup(&server, &["--apply"]).await;
    assert!(made.out.ends_with("next: outbox-router run\n"), "{made:?}");
}

/// A worker that is started then is given no keys. What is made is made for the way back.
#[tokio::test]
async fn a_table_that_a_switch_keeps_from_workers_is_named_before_run_is() {
    let server = Server::start();
    server.sql(&format!("create role router login; {TABLE}"));
    let made = setup(&server, &["--apply"]).await;
    assert!(made.out.ends_with("\nnext: outbox-router run\n"), "nothing is switched: {made:?}");
    let both = format!("outbox-router switch stream {ADMIN} goes on");
    let complete = "set postgres.source = \"stream\" and start the router again".to_owned();
    let back = format!("outbox-router switch polling {ADMIN} completes it");
    for (state, said, hint) in [
        ("closing", "is being handed to the stream, and nobody polls it\n", &both),
        ("sent", "is being handed to the stream: rows that are older", &both),
        ("stream", "was handed to the stream by ann at ", &complete),
        ("marked", "is being given back to the workers\n", &back),
    ] {
        server.sql(&format!(
            "delete from outbox_router.switch; \
             insert into outbox_router.switch (relation, state, \"by\") \
             values ('outbox'::regclass, '{state}', 'ann')"
        ));
        let made = setup(&server, &["--apply"]).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        let said = format!("warning: P043: table public.outbox {said}");
        let next = "\nnext: what P043 says, and only then: outbox-router run\n";
        assert!(made.out.contains(&said) && made.out.contains(hint.as_str()), "{made:?}");
        assert!(made.out.ends_with(next), "{made:?}");
        let printed = setup(&server, &[]).await;
        assert!(printed.out.contains(&format!("-- {said}")), "{printed:?}");
        assert!(printed.out.contains("-- what P043 says comes before outbox-router run"));
        server.script(&printed.out);
    }
    server.sql("delete from outbox_router.switch");
    let made = setup(&server, &["--apply"]).await;
    assert!(made.out.ends_with("\nnext: outbox-router run\n"), "given back: {made:?}");
    assert!(!setup(&server, &[]).await.out.contains("P043"));
}

/// Its indexes keep their names.
#[tokio::test]
async fn a_table_that_was_renamed_is_named_where_its_index_has_the_name() {
    let server = Server::start();
    server.sql(&format!("create role router login; {TABLE}"));
    assert_eq!(setup(&server, &["--apply"]).await.exit, Exit::Done);
    server.sql(&format!("alter table outbox rename to outbox_old; {TABLE}"));
    let refused = setup(&server, &["--apply"]).await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    let expected = "error: P041: the index \"public\".\"outbox_router_pending_outbox\" that \
                    public.outbox needs exists, and is of public.outbox_old\n  hint: a table that \
                    is renamed keeps the names of its indexes: rename or drop the index that the \
                    message names (alter index NAME rename to OTHER), then outbox-router setup ";
    assert!(refused.err.starts_with(expected), "{refused:?}");
    server.sql(
        "alter index outbox_router_pending_outbox rename to a; \
         alter index outbox_router_waiting_outbox rename to b",
    );
    assert_eq!(setup(&server, &["--apply"]).await.exit, Exit::Done);
}

/// The server refuses to prepare a transaction with an announcement.
#[tokio::test]
async fn whoever_may_prepare_transactions_is_told_what_an_announcement_costs() {
    for (settings, expected) in [("", false), ("max_prepared_transactions = 5", true)] {
        let server = Server::with_settings(settings);
        server.sql(&format!("create role router login; {TABLE}"));
        let made = setup(&server, &["--apply", "--notify"]).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        let note = "note: max_prepared_transactions is 5, and a transaction with an announcement";
        assert_eq!(made.out.contains(note), expected, "{made:?}");
    }
}

#[tokio::test]
async fn a_role_that_does_not_exist_is_refused_with_what_makes_it() {
    let server = Server::start();
    server.sql(TABLE);
    let refused = setup(&server, &["--apply"]).await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    let expected = format!(
        "error: P002: the role router, as which the router connects, does not exist; nothing was \
         made, since all of it is one transaction\n  hint: a role that does not exist yet is made by \
         outbox-router setup --apply {ADMIN} --role router; else "
    );
    assert!(refused.err.starts_with(&expected), "{refused:?}");
    let made = setup(&server, &["--apply", "--role", "router"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
}

/// Otherwise PostgreSQL's "permission denied for schema" says neither whose it is nor what to do.
#[tokio::test]
async fn the_owner_of_the_tables_is_told_whose_the_schema_is_that_another_has_made() {
    let server = Server::start();
    server.sql(&format!("create role owner login; create role router login; {TABLE}"));
    server.sql("alter table outbox owner to owner");
    assert_eq!(setup(&server, &["--apply"]).await.exit, Exit::Done);
    let refused = setup_as(&server, "owner", &["--apply"]).await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    for part in [
        "P002: role owner may make nothing in the schema outbox_router, which belongs to role postgres",
        "the owner of what the message names or a superuser: --admin-url ",
    ] {
        assert!(refused.err.contains(part), "{part}: {refused:?}");
    }
}

#[tokio::test]
async fn dead_letters_of_polled_rows_need_no_table_but_a_column() {
    let server = Server::start();
    server.sql(&format!("create role router login; {TABLE}"));
    for more in [&["--dead-letters"][..], &["--dead-letters", "--apply"]] {
        let output = setup(&server, more).await;
        assert_eq!(output.exit, Exit::Done, "{output:?}");
        for part in [
            "--dead-letters makes no table, since an abandoned row stays in its own one",
            "alter table TABLE add column abandoned_at timestamptz",
            "no class of [on_error] is \"dead_letter\"",
        ] {
            assert!(output.out.contains(part), "{part}: {output:?}");
        }
    }
    assert_eq!(server.sql("select to_regclass('outbox_router.held') is null"), "t");
}

#[tokio::test]
async fn a_row_that_is_polled_is_explained_with_its_own_time() {
    let (server, kafka) = (Server::start(), StateCluster::start());
    server
        .sql(&format!("{TABLE}; insert into outbox (id, aggregate_id) values (7, 'a'), (8, null)"));
    kafka.create_topic("outbox.event.order", 1);
    let explain = async |id: &str| {
        let line = [&["explain", "--id", id], &POLLED[..]].concat();
        let line = kafka.without_state(&line);
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        server.run_command(&line).await
    };
    let found = explain("7").await;
    let time = "timestamp  2026-01-01T01:00:00Z, 1767229200123 ms, from column created_at\n";
    assert!(found.out.contains(time), "{found:?}");
    let refused = explain("8").await;
    let update =
        "hint: update \"public\".\"outbox\" set \"aggregate_id\" = VALUE where \"id\" = '8'; or,";
    assert!(refused.out.contains(update), "{refused:?}");
}

/// A slot beside workers would send every row twice, and none that is pending.
#[tokio::test]
async fn no_slot_is_made_for_tables_that_workers_poll() {
    let server = Server::start();
    server.sql("create role router login");
    server.sql(TABLE);
    let stream = async || {
        let admin = server.url("postgres");
        let line = ["setup", "--apply", "--skip-kafka", "--admin-url", admin.as_str(), "--set"];
        let line = [&line[..], &["outbox.0.table=public.outbox"]].concat();
        run_command_at(&server.url("router"), &line, "").await
    };
    let polled = setup(&server, &["--apply"]).await;
    assert_eq!(polled.exit, Exit::Done, "{polled:?}");
    // Nobody has polled it yet.
    server.sql(
        "insert into outbox_router.lease (relation, shard) values ('outbox'::regclass, 0); \
         insert into outbox_router.worker values ('outbox'::regclass, gen_random_uuid(), \
           'outbox-router', now() + interval '1 minute', 1)",
    );
    for (worker, why) in [("", "is polled by 1 of"), ("delete from outbox_router.worker", "last")] {
        if !worker.is_empty() {
            server.sql(worker);
        }
        let refused = stream().await;
        assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
        let said = refused.err.contains("P043") && refused.err.contains("switch stream");
        assert!(said && refused.err.contains(why), "{refused:?}");
    }
    assert_eq!(server.sql("select count(*) from pg_replication_slots"), "0");
    // Another pipeline has its own marks.
    server.sql(
        "insert into outbox_router.worker values ('outbox'::regclass, gen_random_uuid(), \
           'others', now() + interval '1 minute', 1)",
    );
    let beside = stream().await;
    assert_eq!(beside.exit, Exit::Done, "{beside:?}");
}

/// Somebody has set `postgres.source` to "stream" in place of `switch stream`. A slot that `setup`
/// or `recover` makes passes over the rows that are pending.
#[tokio::test]
async fn a_table_that_was_polled_last_is_said_before_a_slot_that_is_missing() {
    let (server, kafka) = (Server::start(), StateCluster::start());
    server.sql(&format!("create role router login; create role limited login; {TABLE}"));
    assert_eq!(setup(&server, &["--apply"]).await.exit, Exit::Done);
    // A switch back to polling leaves one that it has not made.
    server.sql("create publication outbox_router for table outbox");
    let listen = no_router();
    let settings = ["--set", listen.as_str(), "--set", "outbox.0.table=public.outbox"];
    let typed = async |user: &str, line: &[&str]| {
        let line = kafka.with(&[line, &settings[..]].concat());
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        run_command_at(&server.url(user), &line, "").await
    };
    let expect_missing = async |user: &str, why: &str| {
        let status = typed(user, &["status"]).await;
        let is_of_slot = status.out.contains("P010: ") && !status.out.contains("P043");
        assert!(is_of_slot, "{why}: {status:?}");
    };
    // As every role that polls.
    let may_not_replicate = async |user: &str, why: &str| {
        let output = typed(user, &["recover", "--dry-run"]).await;
        let is_of_role = output.err.contains("P003: ") && !output.err.contains("P043");
        assert!(is_of_role, "{why}: {output:?}");
    };
    expect_missing("postgres", "nobody has polled it yet").await;
    may_not_replicate("router", "nobody has polled it yet").await;
    server.sql("insert into outbox_router.lease (relation, shard) values ('outbox'::regclass, 0)");
    let lines = [&["status"][..], &["recover", "--dry-run"], &["accept", "--yes"]];
    for (user, line) in
        ["postgres", "router"].iter().flat_map(|user| lines.map(|line| (user, line)))
    {
        let output = typed(user, line).await;
        assert_eq!(output.exit, Exit::Failure, "{output:?}");
        let said = format!("{}{}", output.out, output.err);
        for part in [
            "P043: table public.outbox was polled last",
            "outbox-router switch stream ",
            "set postgres.source = \"polling\" again",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        for wrong in ["P003", "P010", "K022", "setup --apply", "outbox-router recover"] {
            assert!(!said.contains(wrong), "{wrong}: {said}");
        }
    }
    expect_missing("limited", "it may not read the leases").await;
    may_not_replicate("limited", "it may not read the leases").await;
    server.sql(
        "insert into outbox_router.switch (relation, state, \"by\") \
         values ('outbox'::regclass, 'stream', 'ann')",
    );
    expect_missing("postgres", "a switch says that it is streamed").await;
    may_not_replicate("router", "a switch says that it is streamed").await;
}

/// A router that may not read the leases knows only what else is missing.
#[tokio::test]
async fn what_a_switch_mends_is_not_to_do_beside_it() {
    let server = Server::start();
    server.sql(&format!("create role router login; {TABLE}"));
    assert_eq!(setup(&server, &["--apply"]).await.exit, Exit::Done);
    let status = async || {
        let (address, _request) = router(
            r#"{"state":"starting","verdict":{"word":"blocked","sentence":"it waits","to_do":[
                {"code":"P003","message":"role \"router\" may not replicate"},
                {"code":"P010","message":"the slot does not exist"},
                {"code":"P020","message":"the publication does not exist"},
                {"code":"P028","message":"a table is missing"}]}}"#,
        );
        let listen = format!("admin.listen={address}");
        let line = ["status", "--set", &listen, "--set", "outbox.0.table=public.outbox"];
        server.run_command(&line).await
    };
    let named = |said: &str| {
        ["P043: ", "P003: ", "P010: ", "P020: ", "P028: "].map(|code| said.contains(code))
    };
    let before = status().await;
    assert_eq!(named(&before.out), [false, true, true, true, true], "{before:?}");
    server.sql("insert into outbox_router.lease (relation, shard) values ('outbox'::regclass, 0)");
    let after = status().await;
    assert_eq!(named(&after.out), [true, false, false, false, true], "{after:?}");
    assert!(after.out.contains("to do     P043: "), "it comes first: {after:?}");
}

/// Deployments type `setup --apply` each time. By another column, pending rows would count as
/// published, and published ones as pending.
#[tokio::test]
async fn a_column_that_the_application_adds_decides_only_once_it_is_named() {
    let server = Server::start();
    server.sql(
        "create role router login; \
         create table outbox (id bigint primary key, aggregate_type text, aggregate_id text, \
           event_type text, payload jsonb, published_at timestamptz)",
    );
    let made = setup(&server, &["--apply"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let note = "select decided->>'column' from outbox_router.mark";
    assert_eq!(server.sql(note), "published_at");
    server.sql("alter table outbox add processed boolean not null default false");
    let refused = setup(&server, &["--apply"]).await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    let what =
        "P041: public.outbox cannot be polled: processed says now whether a row is published";
    assert!(refused.err.contains(what), "{refused:?}");
    assert_eq!(server.sql(note), "published_at");
    for (how, column) in [("timestamp", "published_at"), ("flag", "processed")] {
        let how = format!("outbox.0.mark.how={how}");
        let column_is = format!("outbox.0.mark.column={column}");
        let named = ["--apply", "--set", &how, "--set", &column_is];
        let made = setup(&server, &named).await;
        assert_eq!(made.exit, Exit::Done, "{made:?}");
        assert_eq!(server.sql(note), column);
    }
}

/// An earlier version has set it up, and noted in the comment of the index what decides.
#[tokio::test]
async fn what_decides_is_noted_and_no_index_is_made_again() {
    let server = Server::start();
    server.sql(&format!("create role router login; {TABLE}"));
    let made = setup(&server, &["--apply"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    let noted =
        "table public.outbox: noted that status = \"PUBLISHED\" says that a row is published";
    assert!(made.out.contains(noted), "{made:?}");
    let file = "select pg_relation_filenode('outbox_router_pending_outbox')";
    let note = "select relation || ' ' || decided from outbox_router.mark";
    let before = (server.sql(file), server.sql(note));
    let former = "do $$ begin execute format('comment on index outbox_router_pending_outbox is %L', \
                  obj_description('outbox_router_pending_outbox'::regclass) || ', decided by ' || \
                    (select decided from outbox_router.mark)); end $$";
    server.sql(former);
    server.sql("drop table outbox_router.mark");
    let printed = setup(&server, &[]).await;
    assert!(!printed.out.contains("create index"), "{printed:?}");
    let made = setup(&server, &["--apply"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    assert!(made.out.contains(noted), "{made:?}");
    assert_eq!((server.sql(file), server.sql(note)), before);
    let again = setup(&server, &["--apply"]).await;
    assert!(!again.out.contains("noted"), "{again:?}");
    server.sql("drop table outbox_router.mark");
    server.script(&printed.out);
    assert_eq!((server.sql(file), server.sql(note)), before);
}

/// A typo in the connection string: the server of a test system has a database of the same name.
#[tokio::test]
async fn nothing_is_made_on_another_server_than_the_routers() {
    let (server, other) = (Server::start(), Server::start());
    for made in [&server, &other] {
        made.sql(&format!("create role router login; {TABLE}"));
    }
    let admin = other.url("postgres");
    let line = [&["setup", "--apply", "--admin-url", admin.as_str()], &POLLED[..]].concat();
    let refused = run_command_at(&server.url("router"), &line, "").await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    assert!(refused.err.contains("P013: this connection is to the server at "), "{refused:?}");
    assert!(refused.err.contains("name the router's server in --admin-url"), "{refused:?}");
    assert_eq!(other.sql(MADE), "");
    // Where the router's does not answer, nothing can be compared.
    let down = "postgres://router@127.0.0.1:1/postgres";
    let made = run_command_at(down, &line, "").await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
}
