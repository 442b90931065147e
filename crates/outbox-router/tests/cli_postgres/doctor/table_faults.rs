//! Faults of the outbox tables.

use super::pair::Pair;

/// What is planted here.
pub(super) const CODES: &[&str] = &[
    "D022", "D023", "D024", "D025", "D026", "D027", "D028", "D120", "D121", "D122", "D123", "P028",
    "P031", "P036", "P038", "P084", "R007", "R008",
];

#[tokio::test]
pub(super) async fn each_fault_of_a_table_is_named_by_its_code_alone() {
    let pair = Pair::start().await;
    columns(&pair).await;
    restarted(&pair).await;
    settings(&pair).await;
    updated(&pair).await;
    grown(&pair).await;
    partitioned(&pair).await;
    left_out(&pair).await;
    pair.ledger.assert_proved(CODES);
}

async fn columns(pair: &Pair) {
    for (name, fault, code) in [
        ("tab_rule", "create rule away as on insert to outbox do instead nothing", "D025"),
        ("tab_index", "alter table outbox drop constraint outbox_pkey", "D022"),
        ("tab_null", "alter table outbox alter column aggregate_id drop not null", "D026"),
        ("tab_time", "drop index outbox_created_at_idx", "D023"),
    ] {
        let database = pair.database(name).await;
        database.sql(fault);
        let found = database.expect(code, &[]).await;
        let remedy = found.remedy(code);
        database.sql(remedy.split_once(": ").expect("a statement").1);
        let mended = database.expect_nothing("the statement of the remedy is run", &[]).await;
        assert!(mended.quiet().contains(code), "{mended:?}");
    }
    let repeated = pair.database("tab_repeated").await;
    repeated.sql("alter table outbox drop constraint outbox_pkey; create index on outbox (id)");
    let found = repeated.expect("D120", &[]).await;
    repeated.sql(found.remedy("D120").split("; ").next().expect("a statement"));
    repeated.expect_nothing("the ids are unique", &[]).await;
    repeated
        .sql("create subscription two connection 'dbname=x' publication p with (connect = false)");
    repeated.sql(
        "set allow_system_table_mods = on; insert into pg_subscription_rel \
         select oid, 'outbox'::regclass, 'r' from pg_subscription where subname = 'two'",
    );
    repeated.expect("D121", &[]).await;
    repeated.sql("alter subscription two set (slot_name = none)");
    repeated.sql("drop subscription two");
    drop(repeated);

    let words = pair.database("tab_words").await;
    words.sql(
        "create type kind as enum ('order', 'refund'); alter table outbox add kind kind, \
         add is_archived boolean not null default false",
    );
    for (column, word, refused) in [
        ("kind", "ordre", true),
        ("kind", "order", false),
        ("is_archived", "nein", true),
        ("is_archived", "false", false),
    ] {
        let column = format!("outbox.0.where.column={column}");
        let list = format!("outbox.0.where.in={word}");
        let table = "outbox.0.table=public.outbox";
        let line = ["--set", table, "--set", &column, "--set", &list];
        if refused {
            let found = words.expect("R008", &line).await;
            assert!(found.finding("R008").to_string().contains(word), "{found:?}");
        } else {
            words.expect_nothing("the column has the word", &line).await;
        }
    }
    drop(words);

    let renamed = pair.database("tab_columns").await;
    renamed.sql("alter table outbox rename column payload to body");
    renamed.expect("R007", &[]).await;
}

async fn settings(pair: &Pair) {
    let absent = pair.database("tab_absent").await;
    absent.expect("P028", &["--set", "outbox.0.table=public.absent"]).await;
    drop(absent);

    let held = pair.database("tab_held").await;
    let letters = ["--set", "on_error.bad_row=dead_letter", "--set", "dead_letters.topic="];
    held.expect("P036", &letters).await;
    drop(held);

    let retained = pair.database("tab_retained").await;
    let delete = ["--set", "retention.mode=delete", "--set", "outbox.0.table=public.outbox"];
    let found = retained.expect("P038", &delete).await;
    assert!(found.remedy("P038").contains("grant select, delete on"), "{found:?}");
    retained.sql("grant select, delete on outbox to public; create table letter (event uuid)");
    retained.expect_nothing("the role may delete", &delete).await;
    retained.sql("alter table letter add foreign key (event) references outbox");
    let found = retained.expect("P038", &delete).await;
    let remedy = found.remedy("P038");
    let (_, statement) = remedy.rsplit_once(": ").expect("a statement");
    assert!(remedy.contains("rows of public.letter"), "{found:?}");
    retained.sql(statement);
    retained.expect_nothing("the foreign key is dropped", &delete).await;
    retained.sql(
        "create role keeper; create function away() returns trigger language plpgsql \
           as 'begin return old; end'; alter function away() owner to keeper; \
         create trigger away before delete on outbox for each row execute function away()",
    );
    let found = retained.expect("P084", &delete).await;
    let code = "public.outbox: trigger away is code of role keeper";
    assert!(found.finding("P084").to_string().contains(code), "{found:?}");
    retained.sql("drop trigger away on outbox");
    retained.expect_nothing("the trigger is dropped", &delete).await;
    retained.sql(
        "create policy few on outbox using (aggregate_id = 'none'); \
         alter table outbox enable row level security",
    );
    let found = retained.expect("P038", &delete).await;
    let hidden = "may not see every row of public.outbox, because of row-level security";
    assert!(found.finding("P038").to_string().contains(hidden), "{found:?}");
}

/// TRUNCATE … RESTART IDENTITY gives the ids again that rows had.
async fn restarted(pair: &Pair) {
    let restarted = pair.database("tab_restarted").await;
    restarted.sql(
        "alter table outbox drop column id, \
           add column id bigint generated always as identity primary key; \
         grant select on sequence outbox_id_seq to public; \
         insert into outbox (aggregate_type, aggregate_id, event_type) \
           select 'order', '1', 'x' from generate_series(1, 3)",
    );
    restarted.expect_nothing("each id was given once", &[]).await;
    restarted.sql(
        "truncate outbox restart identity; \
         insert into outbox (aggregate_type, aggregate_id, event_type) values ('order', '1', 'x')",
    );
    let found = restarted.expect("D120", &[]).await;
    restarted.sql(found.remedy("D120").split("; ").next().expect("a statement"));
    restarted.expect_nothing("the sequence is past every id", &[]).await;
}

async fn updated(pair: &Pair) {
    let updated = pair.database("tab_updated").await;
    updated.sql(
        "insert into outbox (aggregate_type, aggregate_id, event_type) values ('order', '1', 'x')",
    );
    updated.expect_nothing("a row is inserted", &[]).await;
    updated.sql("update outbox set event_type = 'y'");
    updated.expect("D028", &[]).await;
    // Workers have marked rows before a switch, and nothing tells their updates from others.
    updated.sql(
        "create schema outbox_router; create table outbox_router.switch (relation oid primary key); \
         grant usage on schema outbox_router to public; \
         grant select on outbox_router.switch to public; \
         insert into outbox_router.switch values ('outbox'::regclass)",
    );
    updated.expect_nothing("the updates are marks", &[]).await;
}

async fn left_out(pair: &Pair) {
    let left_out = pair.database("tab_left_out").await;
    left_out.sql(
        "create schema outbox_router; create table outbox_router.left_out (pipeline text, \
           table_oid oid, event_id text, slot text, run bigint, code text, error text, \
           left_out_at timestamptz default now()); \
         grant usage on schema outbox_router to public; \
         grant select on outbox_router.left_out to public",
    );
    left_out.expect_nothing("no row is left out", &[]).await;
    left_out.sql(
        "insert into outbox_router.left_out \
         select p, 'outbox'::regclass, id, 'outbox_router', 1, 'R003', 'no' \
         from unnest(array['other', 'outbox-router']) p, unnest(array['a', 'b']) id",
    );
    left_out.sql("alter table outbox_router.left_out add rows bigint");
    left_out.sql("update outbox_router.left_out set rows = 3 where event_id = 'b'");
    let found = left_out.expect("D122", &[]).await;
    assert!(found.finding("D122").to_string().contains("4 rows of public.outbox"), "{found:?}");
    let list = "outbox-router dead-letters list --left-out --table public.outbox --admin-url";
    assert!(found.remedy("D122").contains(list), "{found:?}");
    left_out.sql("delete from outbox_router.left_out");
    left_out.expect_nothing("a person has decided", &[]).await;
}

async fn partitioned(pair: &Pair) {
    let empty = pair.empty_database("tab_empty");
    empty.sql(
        "create table outbox (id uuid not null, aggregate_type text not null, \
         aggregate_id text not null, event_type text not null, payload jsonb, headers jsonb, \
         created_at timestamptz not null default now(), primary key (id, created_at)) \
         partition by range (created_at)",
    );
    drop(empty);
    let table = pair.database_with_existing("tab_empty", &[]).await;
    table.expect("D027", &[]).await;
    table.sql("create table rest partition of outbox default; create index on outbox (created_at)");
    table.expect_nothing("a partition is made", &[]).await;
    table.sql(
        "insert into outbox (id, aggregate_type, aggregate_id, event_type) \
               values (gen_random_uuid(), 'order', '1', 'x')",
    );
    table.expect("D123", &[]).await;
    table.sql(
        "create temporary table moved as select * from outbox; delete from outbox; \
         create table today partition of outbox for values from (current_date) to (current_date + 2); \
         insert into outbox select * from moved",
    );
    let found = table.expect("D123", &[]).await;
    assert!(format!("{found:?}").contains("1 row deleted"), "{found:?}");
    table.sql("select pg_stat_reset_single_table_counters('rest'::regclass)");
    table.expect_nothing("no row is there, and none was deleted", &[]).await;
    table.sql("create role application; grant insert, update on outbox to application");
    table.expect("P031", &[]).await;
}

/// A page for each row makes a table of a gibibyte from a twentieth of that in rows.
async fn grown(pair: &Pair) {
    let grown = pair.database("tab_grown").await;
    grown.sql("alter table outbox set (fillfactor = 10)");
    grown.sql(
        "insert into outbox (aggregate_type, aggregate_id, event_type) \
         select 'order', repeat('x', 400), 'x' from generate_series(1, 131072)",
    );
    grown.expect("D024", &[]).await;
    let delete = ["--set", "retention.mode=delete", "--set", "outbox.0.table=public.outbox"];
    let delete = [&delete[..], &["--only", "D024"]].concat();
    grown.expect_nothing("the router removes rows", &delete).await;
    grown.sql("delete from outbox where ctid = '(0,1)'");
    grown.expect_nothing("somebody removes rows", &[]).await;
    grown.sql("truncate outbox");
}
