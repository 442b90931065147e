//! Code of a table's owner, or of a role that made a table beforehand: no command of a superuser
//! runs it, and neither does a router that may do more than the owner.
//!
//! `seize` is what such code would do. A test would see it succeed by `app` being a superuser.

use std::slice;

use outbox_router::{
    cli::Exit,
    postgres::{
        ConnInfo, HARMLESS, Runs, Touched, connect_sql, locks_against_code, refuse_foreign_code,
    },
};
use relay::TableName;

use crate::{
    cleanup::{HOUR_AGO, SLOT, insert},
    delivered::{self, confirm},
    server::{CommandOutput, Server},
};

/// The owner of the outbox, who may make schemas, and what he would do as somebody else.
pub(crate) const OWNER: &str = "\
create role app login;
grant create on schema public to app;
grant create on database postgres to app;
set role app;
create table outbox (id text primary key, aggregate_type text not null default 'a', \
  aggregate_id text not null default 'b', event_type text not null default 'c', payload jsonb, \
  created_at timestamptz not null default now());
create index on outbox (created_at);
create function seize() returns bool language plpgsql as $$ begin
  reset role;
  execute 'alter role app superuser';
  return true;
exception when others then return true; end $$;
create function seize(x text) returns text immutable language plpgsql as $$ begin
  perform public.seize();
  return x;
end $$;
create function seize_row() returns trigger language plpgsql as $$ begin
  perform public.seize();
  return coalesce(new, old);
end $$;
reset role;
";

const PUBLICATION: &str = "create publication outbox_router for table outbox \
  with (publish = 'insert', publish_via_partition_root = true)";

/// A server on which a role has an outbox of its own with a delivered row, and attacks so.
pub(crate) fn attacked(attack: &str) -> Server {
    let server = Server::start();
    server.script(OWNER);
    server.sql(PUBLICATION);
    server.sql(SLOT);
    server.script(&format!("set role app;\n{attack}"));
    insert(&server, "e-1", HOUR_AGO);
    confirm(&server);
    server
}

const TABLE: [&str; 2] = ["--set", "outbox.0.table=public.outbox"];

/// Types a command about the outbox, where the record of a router is.
pub(crate) async fn typed_as(server: &Server, user: &str, line: &[&str]) -> CommandOutput {
    let line = [line, &TABLE].concat();
    delivered::typed_as(server, user, &line).await
}

const CLEANUP: &[&str] =
    &["cleanup", "--yes", "--set", "retention.mode=delete", "--set", "retention.keep=30m"];
const EXPLAIN: &[&str] = &["explain", "--id", "e-1", "--table", "public.outbox"];
const SKIP: &[&str] = &["skip", "--lsn", "0/16B3748", "--id", "e-1", "--yes"];

/// That the owner got no rights.
#[track_caller]
pub(crate) fn check_kept(server: &Server) {
    let is = server.sql("select rolsuper from pg_roles where rolname = 'app'");
    assert_eq!(is, "f", "the owner became a superuser");
}

/// That a command refused to run this code, and ran none of it.
#[track_caller]
pub(crate) fn check_refused(server: &Server, output: &CommandOutput, code: &str) {
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    assert!(output.err.contains("P084"), "{output:?}");
    assert!(output.err.contains(code), "{output:?}");
    check_kept(server);
}

/// That `cleanup` of a superuser is refused for this code, and deletes nothing.
async fn check_cleanup(attack: &str, code: &str) -> Server {
    let server = attacked(attack);
    let output = typed_as(&server, "postgres", CLEANUP).await;
    check_refused(&server, &output, code);
    assert_eq!(server.sql("select count(*) from outbox"), "1");
    server
}

#[tokio::test]
async fn set_role_alone_would_give_the_owner_the_admins_rights() {
    let server = attacked(
        "create trigger t before delete on outbox for each row execute function seize_row()",
    );
    server.sql("begin; set local role app; delete from public.outbox; commit");
    assert_eq!(server.sql("select rolsuper from pg_roles where rolname = 'app'"), "t");
}

#[tokio::test]
async fn a_superuser_deletes_nothing_where_a_trigger_would_run() {
    let trigger =
        "create trigger t before delete on outbox for each row execute function seize_row()";
    let server = check_cleanup(trigger, "public.outbox: trigger t is code of role app").await;
    let output = typed_as(&server, "postgres", CLEANUP).await;
    let hint = format!("--admin-url postgres://app@127.0.0.1:{}/postgres", server.port);
    assert!(output.err.contains(&hint), "{}", output.err);

    // As the owner it runs as the owner.
    server.sql("grant pg_read_all_data to app");
    let output = typed_as(&server, "app", CLEANUP).await;
    assert!(!output.err.contains("P084"), "{output:?}");
    check_kept(&server);
}

#[tokio::test]
async fn nothing_comes_between_the_look_and_the_statement() {
    let server = attacked("");
    server.script(
        "set role app;
         drop table outbox;
         create table outbox (id text, at int) partition by range (at);
         create table leaf partition of outbox for values from (0) to (9);
         create table next (id text, at int);",
    );
    let info = ConnInfo::resolve(Some(&server.url("postgres")), &|_| None).expect("a server");
    let (client, connection) = connect_sql(&info, "test").await.expect("a session");
    let work = between(&server, client);
    tokio::join!(async { connection.await.expect("it ends without an error") }, work);
}

/// What others can do while the locks are held, and what is seen of it.
async fn between(server: &Server, client: tokio_postgres::Client) {
    let table = TableName { schema: "public".into(), name: "outbox".into() };
    let looked_at = Touched::Tables(slice::from_ref(&table));
    let locks = locks_against_code(&client, &table).await.expect("the table");
    client.batch_execute(&format!("begin; {locks}")).await.expect("locks");
    refuse_foreign_code(&client, looked_at, Runs::Changes).await.expect("no code");
    let attacks = [
        "create trigger t before delete on leaf for each row execute function seize_row()",
        "create rule r as on delete to outbox do also select public.seize()",
        "alter table outbox attach partition next for values from (9) to (99)",
        "create table other partition of outbox default",
    ];
    for attack in attacks {
        assert!(
            !server.try_sql(&["set role app", "set lock_timeout = '50ms'", attack]),
            "{attack}"
        );
    }
    assert!(server.try_sql(&["insert into outbox values ('e', 1)", "vacuum leaf"]));
    client.batch_execute("commit").await.expect("the end");
    for attack in attacks {
        assert!(server.try_sql(&["set role app", attack]), "{attack}");
    }
    let refused = refuse_foreign_code(&client, looked_at, Runs::Changes).await;
    assert_eq!(refused.expect_err("code").code.as_str(), "P084");
}

#[tokio::test]
async fn a_trigger_for_inserts_keeps_nobody_from_deleting() {
    let server = attacked(
        "create trigger n after insert on outbox for each row execute function seize_row()",
    );
    server.sql("alter role app nosuperuser");
    let output = typed_as(&server, "postgres", CLEANUP).await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
    check_kept(&server);
}

#[tokio::test]
async fn a_superuser_deletes_nothing_where_a_rule_would_run() {
    check_cleanup("create rule r as on delete to outbox do also select public.seize()", "rule r")
        .await;
}

#[tokio::test]
async fn a_superuser_deletes_nothing_where_a_key_would_cascade_into_the_owners_table() {
    let attack = "\
        create table mine (id text references outbox on delete cascade deferrable);
        create constraint trigger late after delete on mine deferrable initially deferred
          for each row execute function seize_row();";
    check_cleanup(attack, "a foreign key of public.mine").await;
}

#[tokio::test]
async fn a_superuser_deletes_nothing_where_a_partition_has_a_trigger() {
    let attack = "\
        drop table outbox;
        create table outbox (id text, aggregate_type text default 'a', aggregate_id text default 'b',
          event_type text default 'c', payload jsonb, created_at timestamptz not null default now())
          partition by range (created_at);
        create index on outbox (created_at);
        create table leaf partition of outbox default;
        create trigger t before delete on leaf for each row execute function seize_row();
        reset role;
        alter publication outbox_router add table outbox;";
    check_cleanup(attack, "public.leaf: trigger t").await;
}

#[tokio::test]
async fn a_right_to_make_triggers_is_as_good_as_being_the_owner() {
    let server = Server::start();
    server.script(OWNER);
    server.script(
        "alter table outbox owner to postgres; grant trigger on outbox to app; set role app; \
         create trigger t before delete on public.outbox for each row execute function seize_row();",
    );
    server.sql(PUBLICATION);
    server.sql(SLOT);
    insert(&server, "e-1", HOUR_AGO);
    confirm(&server);
    let output = typed_as(&server, "postgres", CLEANUP).await;
    check_refused(&server, &output, "trigger t is code of role app");
}

#[tokio::test]
async fn a_superuser_reads_no_rows_where_that_would_run_functions() {
    for (attack, code) in [
        // Played: the cast was called by a command that changes nothing.
        (
            "create type word as enum ('e-1', 'e-2');
             create function shown(word) returns text immutable language plpgsql as $$ begin
               perform public.seize(); return 'e-1'; end $$;
             create cast (word as text) with function shown(word) as implicit;
             alter table outbox alter id type word using 'e-1';",
            "a cast of type public.word",
        ),
        ("create index seized on outbox (id) where seize('a') = 'a'", "index seized calls"),
        (
            "create domain word as text check (seize(value) = value);
             alter table outbox alter id type word",
            "constraint word_check calls",
        ),
        (
            "create statistics seized on (seize('a') || id), (id || 'b') from outbox",
            "statistics seized calls",
        ),
        (
            "create function same(text, text) returns bool immutable language plpgsql as $$ begin
               perform public.seize(); return true; end $$;
             create operator public.= (leftarg = text, rightarg = text, function = same);
             alter table outbox add constraint same check (id operator(public.=) 'e-1')",
            "constraint same calls public.same(text,text)",
        ),
    ] {
        let server = attacked(attack);
        server.sql("alter role app nosuperuser");
        let output = typed_as(&server, "postgres", EXPLAIN).await;
        check_refused(&server, &output, code);
    }
}

/// Played: the first made the owner a superuser by an UPDATE of a superuser.
#[tokio::test]
async fn a_superuser_changes_no_rows_where_a_check_would_run_what_its_owner_has_made() {
    let lure = "create table lure (x int);
         create index on lure (seize('a'), x);
         alter table outbox add constraint tidy check \
           (table_to_xml('lure', true, true, '') is not null) not valid";
    let of_domain = |check: &str| {
        format!(
            "create domain word as text check (seize(value) = value);
             create type pair as (word word, at int);
             create domain words as text check ((value::word) is not null);
             alter table outbox add constraint tidy check ({check} is not null) not valid"
        )
    };
    for (attack, code) in [
        (lure.to_owned(), "constraint tidy calls table_to_xml(regclass,boolean,boolean,text)"),
        (of_domain("id::word"), "constraint word_check calls public.seize(text)"),
        (of_domain("id::words"), "constraint word_check calls public.seize(text)"),
        (
            of_domain("id") + "; alter table outbox add column pair pair",
            "constraint word_check calls public.seize(text)",
        ),
        (
            of_domain("to_jsonb(jsonb_populate_record(null::pair, '{}'))"),
            "constraint tidy calls jsonb_populate_record(anyelement,jsonb)",
        ),
        (
            of_domain("string_to_array(id, ',')::word[]"),
            "constraint word_check calls public.seize(text)",
        ),
        (
            "create function far(text, text) returns float8 immutable language plpgsql as \
               $$ begin perform public.seize(); return 1; end $$;
             create type span as range (subtype = text, subtype_diff = far);
             alter table outbox add column span span"
                .to_owned(),
            "range public.span calls public.far(text,text)",
        ),
    ] {
        let server = attacked(&attack);
        server.sql("alter role app nosuperuser");
        let output = typed_as(&server, "postgres", CLEANUP).await;
        check_refused(&server, &output, code);
    }
}

#[tokio::test]
async fn what_a_check_usually_calls_keeps_no_one_from_deleting() {
    let server = attacked(
        "create domain word as text check (value <> '');
         alter table outbox alter id type word;
         alter table outbox add column at date default current_date;
         alter table outbox add constraint usual check ( \
           created_at < now() + interval '1 day' and to_char(created_at, 'YYYY') > '2000' \
           and date_trunc('day', created_at) >= date '2000-01-01' and at <= created_at + interval '1 day' \
           and extract(year from created_at) > 2000 and id || 1 <> '' \
           and coalesce(current_setting('app.name', true), current_user) is not null \
           and concat(id, event_type) <> '' and to_jsonb(id) is not null)",
    );
    let output = typed_as(&server, "postgres", CLEANUP).await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
    assert_eq!(server.sql("select count(*) from outbox"), "0");
}

/// A function that a new version brings, or an overload of one, is looked at by a person before it
/// counts as harmless.
#[tokio::test]
async fn the_functions_of_this_server_that_are_harmless_are_known() {
    let server = Server::start();
    let with_texts = server.sql(&format!(
        "select string_agg(f.oid::regprocedure::text, ';') from pg_proc f \
         where {HARMLESS} and f.provolatile = 's' \
         and exists (select from unnest(f.proargtypes) given (type) join pg_type t \
           on t.oid = given.type where t.typcategory not in ('D', 'N', 'T') or t.typname ~ '^reg')"
    ));
    let new = with_texts.split(';').filter(|name| !HARMLESS_WITH_TEXTS.contains(name));
    assert_eq!(new.collect::<Vec<_>>(), [""; 0]);
    // Each runs SQL, code of a type, or changes something.
    let dangerous = server.sql(&format!(
        "select count(*) filter (where {HARMLESS}) || ' of ' || (count(*) > 20) from pg_proc f \
         where f.pronamespace = 'pg_catalog'::regnamespace and f.provolatile <> 'i' \
         and (f.proname ~ '_to_xml|^lo_|^pg_(read|ls|logical|input|terminate|create|drop)|^dblink' \
           or f.proname in ('ts_stat', 'set_config', 'json_populate_record', \
             'jsonb_populate_record', 'setval') \
           or f.proname = 'ts_rewrite' and f.pronargs = 2)"
    ));
    assert_eq!(dangerous, "0 of true");
}

/// Stable functions that take a text, or any value.
const HARMLESS_WITH_TEXTS: &[&str] = &[
    r#""extract"(text,timestamp with time zone)"#,
    "anytextcat(anynonarray,text)",
    "array_to_json(anyarray)",
    "array_to_json(anyarray,boolean)",
    "array_to_string(anyarray,text)",
    "array_to_string(anyarray,text,text)",
    r#"concat("any")"#,
    r#"concat_ws(text,"any")"#,
    "current_schemas(boolean)",
    "current_setting(text)",
    "current_setting(text,boolean)",
    "date_part(text,timestamp with time zone)",
    "date_trunc(text,timestamp with time zone)",
    "date_trunc(text,timestamp with time zone,text)",
    "format(text)",
    r#"format(text,"any")"#,
    "in_range(timestamp with time zone,timestamp with time zone,interval,boolean,boolean)",
    r#"json_build_array("any")"#,
    r#"json_build_object("any")"#,
    r#"jsonb_build_array("any")"#,
    r#"jsonb_build_object("any")"#,
    "row_to_json(record)",
    "row_to_json(record,boolean)",
    "textanycat(text,anynonarray)",
    "timezone(text,time with time zone)",
    "to_char(bigint,text)",
    "to_char(double precision,text)",
    "to_char(integer,text)",
    "to_char(interval,text)",
    "to_char(numeric,text)",
    "to_char(real,text)",
    "to_char(timestamp with time zone,text)",
    "to_char(timestamp without time zone,text)",
    "to_date(text,text)",
    "to_json(anyelement)",
    "to_jsonb(anyelement)",
    "to_timestamp(text,text)",
    "to_tsvector(json)",
    "to_tsvector(jsonb)",
    "to_tsvector(text)",
];

#[tokio::test]
async fn names_of_functions_and_operators_lead_to_no_other_schema() {
    let server = attacked(
        "create function format(text, text) returns text language plpgsql as $$ begin
           perform public.seize(); return 'x'; end $$;
         create function same(text, text) returns bool language plpgsql as $$ begin
           perform public.seize(); return true; end $$;
         create operator public.= (leftarg = text, rightarg = text, function = same);",
    );
    server.sql("alter role postgres set search_path = public, pg_catalog");
    let output = typed_as(&server, "postgres", EXPLAIN).await;
    assert!(!output.err.contains("P084"), "{output:?}");
    check_kept(&server);
    let output = typed_as(&server, "postgres", CLEANUP).await;
    assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
    check_kept(&server);
}

#[tokio::test]
async fn a_view_in_the_place_of_the_table_is_not_read() {
    let server = attacked("");
    server.script(
        "drop publication outbox_router; set role app; alter table outbox rename to was; \
         create view outbox as select was.*, public.seize() as seized from was;",
    );
    let output = typed_as(&server, "postgres", EXPLAIN).await;
    assert_eq!(output.exit, Exit::Failure, "{output:?}");
    check_kept(&server);
}

/// Played: the second made a slot, as a role that may replicate.
#[tokio::test]
async fn a_router_that_may_replicate_runs_no_function_of_a_policy() {
    for call in ["public.seize()", "query_to_xml('select public.seize()', true, true, '') is null"]
    {
        let server = attacked(&format!(
            "create table seized (by text);
             grant insert on seized to public;
             create or replace function seize() returns bool language plpgsql as $$ begin
               insert into public.seized values (session_user); return true; end $$;
             alter table outbox enable row level security;
             create policy p on outbox using ({call});"
        ));
        server.script("create role router login replication; grant select on outbox to router;");
        let output = typed_as(&server, "router", EXPLAIN).await;
        assert_eq!(output.exit, Exit::Failure, "{output:?}");
        assert!(output.err.contains("because of row-level security"), "{output:?}");
        assert_eq!(server.sql("select count(*) from seized"), "0");

        // A session in which policies run is told of each.
        let info = ConnInfo::resolve(Some(&server.url("router")), &|_| None).expect("a server");
        let (client, connection) = connect_sql(&info, "test").await.expect("a session");
        let table = [TableName { schema: "public".into(), name: "outbox".into() }];
        let look = async {
            let looked_at = Touched::Tables(&table);
            let refused = refuse_foreign_code(&client, looked_at, Runs::Reads).await;
            client.batch_execute("set row_security = off").await.expect("a setting");
            let passed = refuse_foreign_code(&client, looked_at, Runs::Reads).await;
            drop(client);
            (refused, passed)
        };
        let (_, (refused, passed)) = tokio::join!(connection, look);
        let what = "public.outbox: policy p is code of role app";
        let refused = refused.expect_err("a policy");
        assert!(refused.message.starts_with(what), "{refused:?}");
        passed.expect("no code");
    }
}

/// The tables as a role with the right to make schemas makes them first.
const PREMADE: &str = "\
create schema outbox_router;
create table outbox_router.decision (id bigint generated always as identity, pipeline text, \
  slot text, commit_lsn pg_lsn, event_index bigint, event_id text, action text, reason text, \
  decided_by text, decided_at timestamptz default now());
";

#[tokio::test]
async fn tables_of_the_router_that_somebody_made_beforehand_are_not_used() {
    for (attack, code) in [
        (
            "create trigger t before insert on outbox_router.decision for each row \
             execute function seize_row();",
            "outbox_router.decision: trigger t is code of role app",
        ),
        (
            "alter table outbox_router.decision alter reason set default public.seize('x');",
            "the default of column reason calls",
        ),
        (
            "create view outbox_router.held as select public.seize();",
            "outbox_router.held: it is a view",
        ),
        (
            "alter table outbox_router.decision add check (query_to_xml('select public.seize()', \
             true, true, '') is not null);",
            "calls query_to_xml",
        ),
    ] {
        let server = attacked(&format!("{PREMADE}{attack}"));
        let output = typed_as(&server, "postgres", SKIP).await;
        check_refused(&server, &output, code);
        let status = typed_as(&server, "postgres", &["status"]).await;
        assert!(!status.out.is_empty() || status.err.contains("P084"), "{status:?}");
        check_kept(&server);
    }
}

#[tokio::test]
async fn setup_takes_no_schema_of_a_role_that_it_does_not_trust() {
    let server = attacked(PREMADE);
    let line = ["setup", "--apply", "--dead-letters", "--role", "router"];
    let output = typed_as(&server, "postgres", &line).await;
    check_refused(&server, &output, "schema outbox_router belongs to role app");
    let hand_over = "alter schema outbox_router owner to \"postgres\"";
    assert!(output.err.contains(hand_over), "{}", output.err);
    assert_eq!(server.sql("select to_regclass('outbox_router.held') is null"), "t");

    // The owner of the database may do so anyway.
    server.sql("alter database postgres owner to app");
    let output = typed_as(&server, "postgres", &line).await;
    assert_eq!(output.exit, Exit::Done, "{output:?}");
    check_kept(&server);
}
