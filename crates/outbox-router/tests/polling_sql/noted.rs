//! What decides whether a row is published, also when columns and words are added.

use outbox_router::polling::sql::{
    MarkConfig, MarkHow, RowCount,
    setup::{self, Deletes},
};
use relay::{
    Code, FilterKind, RowFilter,
    polling::{FetchRequest, PassedOver, ShardSet},
};

use crate::fixture::{Fixture, TABLE, Worker, default_table, ids, polling};

/// By another column, rows that were sent would be pending, or pending ones would not.
#[tokio::test]
async fn a_column_that_is_added_takes_no_marks_place() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let mut worker = fixture.worker(polling()).await;
    fixture.make_indexes(&worker).await;
    worker.database.describe(TABLE).await.unwrap();
    fixture.run("alter table outbox add processed boolean not null default false").await;
    let failure = worker.database.describe(TABLE).await.unwrap_err();
    let what = "public.outbox cannot be polled: processed says now whether a row is published, and \
                another column did when it was set up";
    assert!(failure.message.starts_with(what), "{failure}");
    let time = MarkConfig { how: MarkHow::Timestamp, ..MarkConfig::default() };
    fixture.worker(polling().with_mark(time)).await;
    let flag = MarkConfig { how: MarkHow::Flag, ..MarkConfig::default() };
    let worker = fixture.worker(polling().with_mark(flag)).await;
    fixture.make_indexes(&worker).await;
    fixture.worker(polling()).await;
}

const NEW_AND_SENT: &str = ", status text not null default 'new' check (status in ('new', 'sent'))";

/// Another migration than the one that made the table: the application writes a word of its own.
const ONE_MORE: &str = "alter table outbox drop constraint outbox_status_check, \
                        add check (status in ('new', 'published', 'sent'))";

/// The words of a state that the configuration names.
fn published(word: &str) -> MarkConfig {
    MarkConfig { published: Some(word.to_owned()), ..MarkConfig::default() }
}

async fn refused(worker: &mut Worker) -> String {
    worker.database.describe(TABLE).await.expect_err("it is described").to_string()
}

/// By another word, unsent rows would be published, and retention would remove them.
#[tokio::test]
async fn a_word_that_a_check_gets_takes_no_words_place() {
    let fixture = Fixture::new(&default_table(NEW_AND_SENT)).await;
    let mut worker = fixture.worker(polling()).await;
    fixture.make_indexes(&worker).await;
    worker.database.describe(TABLE).await.unwrap();
    fixture.run(ONE_MORE).await;
    fixture.run("insert into outbox (aggregate_id, status) values ('a', 'published')").await;
    let failure = refused(&mut worker).await;
    let what = "public.outbox cannot be polled: its column status has other words for the states \
                of a row than when it was set up, and nothing names them: published was \"sent\", \
                and is \"published\" now: outbox.mark.published = \"sent\" or = \"published\"; name \
                these words, and then `outbox-router setup --apply`";
    assert!(failure.contains(what), "{failure}");
    // A word that is named is a person's decision.
    fixture.worker(polling().with_mark(published("sent"))).await;
    let worker = fixture.worker(polling().with_mark(published("published"))).await;
    fixture.make_indexes(&worker).await;
    fixture.worker(polling()).await;
    // All of them were listed, and are not: a state without a word gets none.
    fixture.run("alter table outbox drop constraint outbox_status_check").await;
    let worker = fixture.worker(polling()).await;
    assert!(worker.database.table(TABLE).unwrap().note_work().is_none());
}

/// Each of these takes the index of pending rows with it, or lets nobody find it.
#[tokio::test]
async fn what_decides_stays_noted_whatever_becomes_of_the_index() {
    for lose in [
        "alter table outbox rename to events",
        "alter table outbox drop created_at, add created_at timestamptz not null default now()",
        "drop index outbox_router_pending_outbox",
        "alter index outbox_router_pending_outbox rename to pending; comment on index pending is null",
    ] {
        let fixture = Fixture::new(&default_table(NEW_AND_SENT)).await;
        let worker = fixture.worker(polling()).await;
        fixture.make_indexes(&worker).await;
        fixture.run(&format!("{ONE_MORE}; {lose}")).await;
        let mut polling = polling();
        if lose.ends_with("events") {
            polling.config.outbox.name.name = "events".to_owned();
        }
        let mut worker = Worker::new(fixture.connector(), polling.clone());
        let failure = refused(&mut worker).await;
        let what = "outbox.mark.published = \"sent\" or = \"published\"";
        assert!(failure.contains(what), "{lose}: {failure}");
        Worker::on(fixture.connector(), polling.with_mark(published("sent"))).await;
    }
}

/// The first worker notes it, also where nobody has typed `setup` for the table.
#[tokio::test]
async fn a_worker_notes_what_decides_of_a_table_that_was_never_polled() {
    let rows = format!("{} partition by list (id)", default_table(NEW_AND_SENT));
    for table in [default_table(NEW_AND_SENT), rows] {
        let fixture = Fixture::new(&table).await;
        let mut worker = Worker::new(fixture.connector(), polling());
        worker.database.describe(TABLE).await.unwrap();
        let notes = "select count(*) from outbox_router.mark where relation = 'outbox'::regclass";
        assert_eq!(fixture.value(notes).await, "0", "who only looks notes nothing");
        worker.database.adopt(TABLE).await.unwrap();
        assert_eq!(fixture.value(notes).await, "1");
        fixture.run(ONE_MORE).await;
        let failure = worker.database.adopt(TABLE).await.unwrap_err();
        assert!(failure.message.contains("outbox.mark.published = \"sent\""), "{failure}");
        // One that takes its name may be a copy of it.
        fixture.run(&format!("drop table outbox; {table}; {ONE_MORE}")).await;
        fixture.grant(Deletes::No).await;
        let failure = worker.database.adopt(TABLE).await.unwrap_err();
        assert!(failure.message.contains("outbox.mark.published = \"sent\""), "{failure}");
        assert_eq!(fixture.value(notes).await, "0");
        fixture.run("alter table outbox drop constraint outbox_status_check").await;
        let check = "alter table outbox add check (status in ('new', 'sent'))";
        fixture.run(check).await;
        worker.database.adopt(TABLE).await.unwrap();
        assert_eq!(fixture.value(notes).await, "1");
    }
}

/// The comment of the index had the note then.
#[tokio::test]
async fn what_an_earlier_version_has_noted_is_carried_over() {
    let fixture = Fixture::new(&default_table(NEW_AND_SENT)).await;
    let worker = fixture.worker(polling()).await;
    fixture.make_indexes(&worker).await;
    let note = "select decided from outbox_router.mark";
    let file = "select pg_relation_filenode('outbox_router_pending_outbox')";
    let before = (fixture.value(note).await, fixture.value(file).await);
    let former = "do $$ begin execute format('comment on index outbox_router_pending_outbox is %L', \
                  obj_description('outbox_router_pending_outbox'::regclass) || ', decided by ' || \
                    (select decided from outbox_router.mark)); end $$";
    fixture.run(&format!("{former}; drop table outbox_router.mark")).await;
    let mut worker = fixture.worker(polling()).await;
    worker.database.adopt(TABLE).await.unwrap();
    for statement in setup::lease_statements(Some("router")) {
        fixture.run(&statement.sql).await;
    }
    fixture.run(ONE_MORE).await;
    let failure = refused(&mut worker).await;
    assert!(failure.contains("outbox.mark.published = \"sent\""), "{failure}");
    let named = polling().with_mark(published("sent"));
    let mut worker = Worker::new(fixture.connector(), named);
    worker.database.adopt(TABLE).await.unwrap();
    assert_eq!(fixture.value(note).await, before.0);
    fixture.make_indexes(&worker).await;
    assert_eq!((fixture.value(note).await, fixture.value(file).await), before);
}

/// Nothing says then that the table is one that was never polled.
#[tokio::test]
async fn without_its_note_a_table_is_not_polled() {
    let fixture = Fixture::new(&default_table(NEW_AND_SENT)).await;
    let mut worker = fixture.worker(polling()).await;
    let mut code = async || worker.database.describe(TABLE).await.map_err(|failure| failure.code);
    fixture.run("revoke select on outbox_router.mark from router").await;
    assert_eq!(code().await.unwrap_err(), Code::LeaseTable);
    fixture.run("grant select on outbox_router.mark to router").await;
    code().await.unwrap();
    fixture.run("insert into outbox_router.mark values ('outbox'::regclass, '7')").await;
    assert_eq!(code().await.unwrap_err(), Code::Polling, "another version has written it");
    fixture.run("drop table outbox_router.mark").await;
    assert_eq!(code().await.unwrap_err(), Code::LeaseTable, "an earlier version has set it up");
    fixture.run("drop schema outbox_router cascade").await;
    code().await.unwrap();
}

/// A worker that runs goes on, and so does one that starts.
#[tokio::test]
async fn a_word_for_a_state_that_had_none_is_unknown() {
    let table = default_table(", status state not null default 'new'");
    let fixture =
        Fixture::new(&format!("create type state as enum ('new', 'sent'); {table}")).await;
    let mut running = fixture.worker(polling()).await;
    fixture.make_indexes(&running).await;
    for word in ["processing", "failed", "dead"] {
        fixture.run(&format!("alter type state add value '{word}'")).await;
    }
    let rows = "insert into outbox (aggregate_id, status) values \
                ('a', 'processing'), ('a', 'new'), ('b', 'failed'), ('c', 'dead'), ('d', 'new')";
    fixture.run(rows).await;
    let mut started = fixture.worker(polling()).await;
    assert!(started.database.table(TABLE).unwrap().note_work().is_none());
    for worker in [&mut running, &mut started] {
        assert_eq!(ids(&worker.fetch(10).await.rows), ["5"]);
        let survey = worker.database.survey(TABLE).await.unwrap();
        assert_eq!(survey.stranded, RowCount::Exactly(3));
    }
    // A word that is named is a person's decision.
    let dead = MarkConfig { abandoned: Some("dead".to_owned()), ..MarkConfig::default() };
    let mut worker = fixture.worker(polling().with_mark(dead)).await;
    let survey = worker.database.survey(TABLE).await.unwrap();
    assert_eq!((survey.stranded, survey.abandoned), (RowCount::Exactly(2), RowCount::Exactly(1)));
    // One that is gone is said, and which keys name words.
    fixture.run("alter type state rename value 'sent' to 'done'").await;
    let passed_over = PassedOver::Keys(Vec::new());
    let read = FetchRequest { table: TABLE, shards: ShardSet::ALL, limit: 10, passed_over };
    let failure = running.database.fetch(&read).await.unwrap_err();
    assert_eq!(failure.code, Code::Polling);
    let words = "is no label any more: name those that there are in outbox.mark";
    assert!(failure.message.contains(words), "{failure}");
}

#[tokio::test]
async fn a_label_that_an_enum_gets_takes_no_words_place() {
    let table = default_table(", state state not null default 'new'");
    let fixture =
        Fixture::new(&format!("create type state as enum ('new', 'sent'); {table}")).await;
    let column = Some("state".to_owned());
    let status = MarkConfig { how: MarkHow::Status, column, ..MarkConfig::default() };
    let mut worker = fixture.worker(polling().with_mark(status.clone())).await;
    fixture.make_indexes(&worker).await;
    fixture.run("alter type state add value 'published'").await;
    let failure = refused(&mut worker).await;
    assert!(failure.contains("outbox.mark.published = \"sent\" or = \"published\""), "{failure}");
    let named = MarkConfig { published: Some("sent".to_owned()), ..status.clone() };
    fixture.worker(polling().with_mark(named)).await;
    // A label that is gone cannot be named.
    fixture.run("alter type state rename value 'sent' to 'done'").await;
    let failure = refused(&mut worker).await;
    assert!(failure.contains("outbox.mark.published = \"published\"; name"), "{failure}");
    // The same of pending rows, which are read by the default.
    fixture.run("alter type state add value 'pending'").await;
    fixture.run("alter table outbox alter state set default 'pending'").await;
    let failure = refused(&mut worker).await;
    let pending = "pending was [\"new\"], and is [\"pending\"] now: \
                   outbox.mark.pending = [\"new\"] or = [\"pending\"]; ";
    assert!(failure.contains(pending), "{failure}");
}

/// The index of pending rows has it in its condition, and it did not decide.
#[tokio::test]
async fn a_column_of_where_takes_no_marks_place() {
    let more = ", processed int default 1, published_at timestamptz";
    let fixture = Fixture::new(&default_table(more)).await;
    let mut polling = polling();
    let (column, values) = ("processed".to_owned(), vec!["1".to_owned()]);
    polling.config.outbox.filter = Some(RowFilter { column, values, kind: FilterKind::In });
    let mut worker = fixture.worker(polling.clone()).await;
    fixture.make_indexes(&worker).await;
    worker.database.describe(TABLE).await.unwrap();
    // A number whose default is not 0 is no flag.
    fixture.run("alter table outbox alter processed drop default").await;
    let failure = refused(&mut worker).await;
    let what = "processed says now whether a row is published, and another column did when it was \
                set up (published_at): name";
    assert!(failure.contains(what), "{failure}");
}

/// Of the columns that a kind of mark may have, the first one decides, unless one is named.
#[tokio::test]
async fn a_second_time_takes_no_marks_place() {
    let fixture = Fixture::new(&default_table(", sent_at timestamptz")).await;
    let time = MarkConfig { how: MarkHow::Timestamp, ..MarkConfig::default() };
    let mut worker = fixture.worker(polling().with_mark(time.clone())).await;
    fixture.make_indexes(&worker).await;
    fixture.run("alter table outbox add published_at timestamptz").await;
    let failure = refused(&mut worker).await;
    assert!(failure.contains("published_at says now whether a row is published"), "{failure}");
    let named = MarkConfig { column: Some("published_at".to_owned()), ..time };
    fixture.worker(polling().with_mark(named)).await;
}

/// The application takes the name for a column of its own; a column keeps its number.
#[tokio::test]
async fn a_column_that_gets_the_name_takes_no_marks_place() {
    const STATUS: &str = ", status text not null default 'new'";
    for (of_type, name) in [(", published_at timestamptz", "published_at"), (STATUS, "status")] {
        let fixture = Fixture::new(&default_table(of_type)).await;
        let mut worker = fixture.worker(polling()).await;
        fixture.make_indexes(&worker).await;
        fixture.run(&format!("alter table outbox rename {name} to former")).await;
        fixture.run(&format!("alter table outbox rename former to {name}")).await;
        worker.database.describe(TABLE).await.unwrap();
        let definition = of_type.trim_start_matches(", ");
        fixture
            .run(&format!(
                "alter table outbox rename {name} to former; alter table outbox add {definition}"
            ))
            .await;
        let failure = refused(&mut worker).await;
        let what = format!(
            "{name} says now whether a row is published, and another column did when it was set up \
             (which had its name): name the one"
        );
        assert!(failure.contains(&what), "{failure}");
        let column = Some(name.to_owned());
        let named = MarkConfig { column, ..MarkConfig::default() };
        let how = if name == "status" { MarkHow::Status } else { MarkHow::Timestamp };
        let worker = fixture.worker(polling().with_mark(MarkConfig { how, ..named })).await;
        fixture.make_indexes(&worker).await;
        fixture.worker(polling()).await;
    }
}

/// A migration copies the table, and the copy takes its name.
#[tokio::test]
async fn what_decides_stays_noted_of_a_table_that_takes_anothers_name() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let worker = fixture.worker(polling()).await;
    fixture.make_indexes(&worker).await;
    let copy = "create table copy (like outbox including all); alter table outbox rename to former; \
                alter table copy rename to outbox";
    fixture.run(copy).await;
    fixture.grant(Deletes::No).await;
    let mut worker = fixture.worker(polling()).await;
    worker.database.adopt(TABLE).await.unwrap();
    let more = "create table copy (like outbox including all); \
                alter table copy add processed boolean not null default false; \
                drop table outbox; alter table copy rename to outbox";
    fixture.run(more).await;
    fixture.grant(Deletes::No).await;
    let failure = refused(&mut worker).await;
    let what = "processed says now whether a row is published, and another column did when it was \
                set up (published_at): name";
    assert!(failure.contains(what), "{failure}");
    fixture.run("drop table former").await;
    // Whoever sets up another table knows nothing of this one.
    let invoices = default_table(", published_at timestamptz").replace("outbox", "invoices");
    fixture.run(&format!("{invoices}; grant select, update on invoices to router")).await;
    let mut others = polling();
    others.config.outbox.name.name = "invoices".into();
    let other = fixture.worker(others).await;
    fixture.make_indexes(&other).await;
    assert!(refused(&mut worker).await.contains(what), "the note is forgotten");
    let flag = MarkConfig { how: MarkHow::Flag, ..MarkConfig::default() };
    let worker = fixture.worker(polling().with_mark(flag)).await;
    fixture.make_indexes(&worker).await;
    fixture.worker(polling()).await;
    let notes = "select string_agg(decided ->> 'column', ' ' order by relation::oid) \
                 from outbox_router.mark";
    assert_eq!(fixture.value(notes).await, "processed published_at");
}

/// The former table is kept, to be drained under another name.
#[tokio::test]
async fn what_decides_stays_noted_of_a_name_whose_table_got_another() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let worker = fixture.worker(polling()).await;
    fixture.make_indexes(&worker).await;
    let swap = "alter table outbox rename to former; create table outbox (like former including all); \
                alter table outbox add processed boolean not null default false";
    fixture.run(swap).await;
    fixture.grant(Deletes::No).await;
    let mut former = polling();
    former.config.outbox.name.name = "former".into();
    for _ in 0..2 {
        let of_former = fixture.worker(former.clone()).await;
        fixture.make_indexes(&of_former).await;
        let failure = refused(&mut Worker::new(fixture.connector(), polling())).await;
        assert!(failure.contains("processed says now whether"), "{failure}");
    }
}

/// Rows of an unknown status would never be sent.
#[tokio::test]
async fn a_status_that_is_added_keeps_no_row_that_is_there_from_being_sent() {
    let fixture = Fixture::new(&default_table("")).await;
    fixture.grant(Deletes::Yes).await;
    let delete = MarkConfig { how: MarkHow::Delete, ..MarkConfig::default() };
    let mut worker = fixture.worker(polling().with_mark(delete.clone())).await;
    fixture.make_indexes(&worker).await;
    let added = "alter table outbox add status text not null default 'new'; \
                 insert into outbox (aggregate_id, status) values ('a', 'published')";
    fixture.run(added).await;
    worker.database.describe(TABLE).await.unwrap();
    assert_eq!(ids(&worker.fetch(10).await.rows), ["1"]);
    let words = MarkConfig { pending: vec!["new".to_owned()], ..published("published") };
    let named = MarkConfig { how: MarkHow::Delete, ..words };
    let mut worker = fixture.worker(polling().with_mark(named)).await;
    assert_eq!(ids(&worker.fetch(10).await.rows), Vec::<String>::new());
}
