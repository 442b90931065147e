//! Faults of polled tables.

use testbed::{
    kafka::{KafkaCluster, KafkaOptions},
    postgres::{DATABASE, DatabaseSession, LENIENT, PgBouncer, PostgresOptions, PostgresServer},
};

use super::{found::Found, ledger::Ledger, pair::TOPIC, place::Place};

/// What is planted here.
pub(super) const CODES: &[&str] = &[
    "D050", "D051", "D052", "D053", "D054", "D055", "D056", "D057", "D058", "D059", "P038", "P041",
    "P042", "P043", "P060",
];

const TABLE: &str = "\
    create table outbox (id uuid primary key default gen_random_uuid(), \
      aggregate_type text not null default 'order', aggregate_id text not null default 'a', \
      event_type text not null default 'E', payload jsonb default '{}', \
      created_at timestamptz not null default now(), published_at timestamptz, \
      abandoned_at timestamptz, seq bigint generated always as identity); \
    create index on outbox (created_at)";

const NOTIFY: &str = "\
    create trigger outbox_router_notify after insert on outbox \
      for each statement execute function suppress_redundant_updates_trigger()";

const SOURCE: [&str; 2] = ["postgres.source=polling", "outbox.0.table=public.outbox"];

struct Polled<'l> {
    server: PostgresServer,
    session: DatabaseSession,
    place: Place<'l>,
}

impl Polled<'_> {
    /// One by one, as psql sends them: an index is not made in a transaction.
    async fn sql(&self, text: &str) {
        for statement in text.split("; ") {
            self.session.batch_execute(statement).await.expect("SQL");
        }
    }

    /// Plants a fault, expects its code alone, mends it, and expects nothing.
    async fn fault(&self, code: &str, plant: &str, mend: &str, words: &[&str]) -> Found {
        self.sql(plant).await;
        let found = self.place.expect(code, words).await;
        self.sql(mend).await;
        self.place.expect_nothing(mend, words).await;
        found
    }
}

#[tokio::test]
pub(super) async fn each_fault_of_a_polled_table_is_named_by_its_code_alone() {
    let kafka = KafkaCluster::start(KafkaOptions::default()).await.expect("Kafka");
    kafka.create_topic(TOPIC, 1, &[]).await.expect("a topic");
    let ledger = Ledger::default();
    let options = PostgresOptions::version(15).set("autovacuum", "off");
    let server = PostgresServer::start(options).await.expect("a server");
    let session = server.connect().await.expect("a session");
    session.batch_execute(TABLE).await.expect("a table");
    let place = Place::new(&ledger, &server.address(), DATABASE, &kafka.bootstrap()).with(&SOURCE);
    place.set_up().await;
    let polled = Polled { server, session, place };
    let found = polled.place.expect("D051", &[]).await;
    let not_run = found.part("not_run").as_u64().expect("a number");
    assert!(not_run > 20, "what is about a slot is not run: {found:?}");
    tables(&polled).await;
    switches(&polled).await;
    order(&polled).await;
    zones(&polled).await;
    rows(&polled).await;
    notifications(&polled).await;
    ledger.assert_proved(CODES);
}

async fn tables(polled: &Polled<'_>) {
    polled.sql("drop index outbox_router_pending_outbox").await;
    let found = polled.place.expect("D050", &[]).await;
    let remedy = found.remedy("D050");
    polled.sql(remedy.split_once(": ").expect("a statement").1).await;
    let column = "alter table outbox rename column published_at to at_last";
    let back = "alter table outbox rename column at_last to published_at";
    polled.fault("P041", column, back, &[]).await;
    let rename = "alter table outbox_router.lease rename to other";
    polled.fault("P042", rename, "alter table outbox_router.other rename to lease", &[]).await;
    let revoke = "revoke update on outbox_router.worker from router";
    polled.fault("P042", revoke, "grant update on outbox_router.worker to router", &[]).await;
    let revoke = "revoke select on outbox_router.mark from router";
    polled.fault("P042", revoke, "grant select on outbox_router.mark to router", &[]).await;
    let stream = "create publication outbox_router for table outbox; \
        select pg_create_logical_replication_slot('outbox_router', 'pgoutput')";
    let none = "select pg_drop_replication_slot('outbox_router'); drop publication outbox_router";
    let found = polled.fault("P043", stream, none, &[]).await;
    assert!(found.remedy("P043").contains("outbox-router switch polling"), "{found:?}");
    let words = ["--set", "retention.mode=delete"];
    let grant = "grant delete on outbox to router";
    let found = polled.fault("P038", "", grant, &words).await;
    assert!(found.remedy("P038").contains("grant delete on \"public\".\"outbox\""), "{found:?}");
    let workers = "insert into outbox_router.worker \
        select 'outbox'::regclass, gen_random_uuid(), name, now() + interval '1 hour', 1 \
        from unnest(array['orders', 'orders', 'bills']) name";
    let found = polled.fault("D054", workers, "delete from outbox_router.worker", &[]).await;
    assert!(found.finding("D054").to_string().contains("bills and orders"), "{found:?}");
}

/// Nobody may poll the table: a switch is complete, or was interrupted.
async fn switches(polled: &Polled<'_>) {
    let complete = "set postgres.source = \"stream\" and start the router again";
    let both = "outbox-router switch stream --admin-url";
    for (state, said, remedy) in [
        ("closing", "public.outbox is being handed to the stream, and nobody polls it", both),
        ("sent", "public.outbox is being handed to the stream: rows that are older", both),
        ("stream", "public.outbox was handed to the stream by ann at ", complete),
        ("marked", "public.outbox is being given back to the workers", "completes it"),
    ] {
        let plant = format!(
            "insert into outbox_router.switch (relation, state, \"by\") \
             values ('outbox'::regclass, '{state}', 'ann')"
        );
        let found = polled.fault("P043", &plant, "delete from outbox_router.switch", &[]).await;
        assert!(found.finding("P043").to_string().contains(said), "{found:?}");
        assert!(found.remedy("P043").contains(remedy), "{found:?}");
        assert!(found.remedy("P043").contains("outbox-router switch polling"), "{found:?}");
    }
}

/// The order of a table without a number, and of one whose order leaves its number out. What the
/// remedy says to type mends it.
async fn order(polled: &Polled<'_>) {
    let without = "alter table outbox drop column seq";
    polled.sql(without).await;
    // The index that setup has made is gone with the column.
    polled.place.set_up().await;
    let found = polled.place.expect("D059", &[]).await;
    assert!(found.finding("D059").to_string().contains("is created_at, id: "), "{found:?}");
    let (_, add) = found.remedy("D059").split_once(": ").expect("a statement");
    polled.sql(add.split_once("; then").expect("more to do").0).await;
    polled.place.expect("D050", &[]).await;
    polled.place.set_up().await;
    polled.place.expect_nothing("a number is added, and its index made", &[]).await;

    let words = ["--set", "outbox.0.order_by=created_at", "--skip", "D050"];
    let found = polled.place.expect("D059", &words).await;
    assert!(found.remedy("D059").starts_with("name seq first"), "{found:?}");
    let alter = "alter table outbox alter column id drop default";
    let back = "alter table outbox alter column id set default gen_random_uuid()";
    polled.sql(alter).await;
    let found = polled.place.doctor(&words).await;
    assert_eq!(found.severity("D059"), "note", "{found:?}");
    polled.sql(back).await;
}

/// Times without a time zone, where the database or a writer's role has another zone than UTC.
async fn zones(polled: &Polled<'_>) {
    polled.sql("alter table outbox add column available_at timestamp default now()").await;
    polled.place.set_up().await;
    polled.place.expect_nothing("the cluster's zone is that of UTC", &[]).await;
    polled.sql("create role writer login; grant insert on outbox to writer").await;
    polled.sql("alter role writer set timezone = 'Asia/Tokyo'").await;
    let found = polled.place.expect("D058", &[]).await;
    let of_role = "TimeZone is Asia/Tokyo for role writer";
    assert!(found.finding("D058").to_string().contains(of_role), "{found:?}");
    polled.sql("revoke insert on outbox from writer").await;
    polled.place.expect_nothing("it is no writer", &[]).await;
    polled.sql("drop role writer").await;

    // The router's own role decides nothing.
    polled.sql("alter role router set timezone = 'Asia/Tokyo'").await;
    polled.place.expect_nothing("the router's role has a zone", &[]).await;
    let zone = format!("alter database {DATABASE} set timezone = 'Europe/Berlin'");
    polled.sql(&zone).await;
    let found = polled.place.expect("D058", &[]).await;
    polled.sql("alter role router reset timezone").await;
    let (_, alter) = found.remedy("D058").rsplit_once(": ").expect("a statement");
    assert!(alter.contains("at time zone 'Europe/Berlin'"), "{alter}");
    polled.sql(alter).await;
    polled.place.expect_nothing("the column has a time zone", &[]).await;
    polled.sql("alter table outbox alter column published_at type timestamp").await;
    polled.place.expect_nothing("the router alone writes it", &[]).await;
    polled.sql("alter table outbox alter column published_at type timestamptz").await;
    polled.sql(&format!("alter database {DATABASE} reset timezone")).await;
    polled.sql("alter table outbox drop column available_at").await;
    polled.place.set_up().await;
}

async fn rows(polled: &Polled<'_>) {
    let clean = "delete from outbox";
    polled.fault("D055", "insert into outbox (abandoned_at) values (now())", clean, &[]).await;
    let old = "insert into outbox (created_at) values (now() - interval '1 hour')";
    polled.fault("D057", old, clean, &[]).await;
    let marks = "insert into outbox (published_at) select now() from generate_series(1, 60000); \
                 update outbox set published_at = now(); select pg_stat_force_next_flush()";
    let clean = "truncate outbox; select pg_stat_force_next_flush()";
    polled.fault("D056", marks, clean, &[]).await;
    // Without note and index, by which column rows were marked is not known.
    let status = "delete from outbox_router.mark; drop index outbox_router_pending_outbox; \
                  alter table outbox add column status text not null default 'PENDING'";
    polled.sql(status).await;
    polled.place.set_up().await;
    polled.place.expect_nothing("rows have a status", &[]).await;
    let other = "insert into outbox (status) values ('ERROR')";
    polled.fault("P060", other, "delete from outbox", &[]).await;
    let without = "alter table outbox drop column status; delete from outbox_router.mark";
    polled.sql(without).await;
    polled.place.set_up().await;
}

async fn notifications(polled: &Polled<'_>) {
    let words = ["--set", "polling.notify=false"];
    polled.fault("D052", NOTIFY, "drop trigger outbox_router_notify on outbox", &words).await;
    polled.sql(NOTIFY).await;
    polled.place.expect_nothing("a trigger is there", &[]).await;
    let pooler =
        PgBouncer::start_with(polled.server.port(), "router", &[LENIENT]).await.expect("a pooler");
    let pooled = polled.place.by(&format!("127.0.0.1:{}", pooler.port()), "");
    pooled.expect("D053", &[]).await;
}
