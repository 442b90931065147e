//! How far a backlog is read by SQL where the slot's walsender waits for standbys.

use outbox_router::{
    held::Pipeline,
    postgres::{ConnInfo, Session},
    shell::{Endpoint, Postgres as _, Source, Started},
};
use relay::{BacklogFrom, Lsn};
use testbed::postgres::{DATABASE, DatabaseSession, PostgresServer, SUPERUSER};

use super::{server, settings};

/// What a router of slot `x` connects by.
pub(super) fn source(server: &PostgresServer) -> Source {
    let url = server.url(SUPERUSER, DATABASE);
    let settings = settings("x");
    Source {
        endpoint: Endpoint {
            conninfo: ConnInfo::resolve(Some(&url), &|_| None).unwrap(),
            application_name: settings.name.clone(),
            session: Session::Own,
        },
        pipeline: Pipeline { name: settings.name, slot: settings.slot.clone() },
        slot: settings.slot,
        publication: settings.publication,
        outboxes: settings.outboxes,
        row_bytes: 1 << 20,
    }
}

/// Up to where the router reads by SQL what the slot has now.
async fn by_sql(server: &PostgresServer, session: &DatabaseSession) -> Option<Lsn> {
    let source = source(server);
    let (open, _) = source.open().await.unwrap();
    let Started::Streaming(stream, _) = source.start(open, BacklogFrom::Sql).await.unwrap() else {
        panic!("the slot is free");
    };
    let until = stream.backlog_until();
    drop(stream);
    let active = "select count(*) from pg_replication_slots where active_pid is not null";
    while session.query_one(active, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::task::yield_now().await;
    }
    until
}

async fn lsn(session: &DatabaseSession, query: &str) -> Lsn {
    let text: String = session.query_one(query, &[]).await.unwrap().get(0);
    text.parse().unwrap()
}

/// A row, and the rest of its segment of 16 MiB.
async fn write_segments(session: &DatabaseSession, number: usize) {
    for _ in 0..number {
        let row = "insert into outbox_x (aggregate_type, aggregate_id, event_type) \
                   values ('a', '1', 't'); select pg_switch_wal()";
        session.batch_execute(row).await.unwrap();
    }
}

#[tokio::test]
async fn a_backlog_by_sql_ends_before_what_a_named_standby_has_not_received() {
    for version in [17, 18] {
        let (mut server, session) = server(version, &[]).await;
        let failover = "select pg_drop_replication_slot('s_x'); \
            select pg_create_logical_replication_slot('s_x', 'pgoutput', failover => true); \
            select pg_create_physical_replication_slot('near', true); \
            select pg_create_physical_replication_slot('far', true)";
        session.batch_execute(failover).await.unwrap();
        write_segments(&session, 4).await;
        let end = lsn(&session, "select pg_current_wal_flush_lsn()::text").await;
        assert!(by_sql(&server, &session).await >= Some(end), "no standby is named");

        server.set(&[("synchronized_standby_slots", "near,far")]).await.unwrap();
        assert_eq!(by_sql(&server, &session).await, None, "both standbys have nothing of it");
        let advance = "select end_lsn::text from pg_replication_slot_advance($1::text::name, \
                       pg_current_wal_flush_lsn())";
        session.query_one(advance, &[&"near"]).await.unwrap();
        assert_eq!(by_sql(&server, &session).await, None, "one standby has nothing of it");
        session.query_one(advance, &[&"far"]).await.unwrap();
        write_segments(&session, 1).await;
        let received = "select min(restart_lsn)::text from pg_replication_slots \
                        where slot_type = 'physical'";
        let received = lsn(&session, received).await;
        let border = Lsn::from_u64(received.as_u64() - (16 << 20));
        assert_eq!(by_sql(&server, &session).await, Some(border));

        server.set(&[("synchronized_standby_slots", "near,gone")]).await.unwrap();
        assert_eq!(by_sql(&server, &session).await, None, "one slot is missing");
        // The walsender of such a slot waits for no standby.
        let plain = "select pg_drop_replication_slot('s_x'); \
            select pg_create_logical_replication_slot('s_x', 'pgoutput')";
        session.batch_execute(plain).await.unwrap();
        write_segments(&session, 1).await;
        assert!(by_sql(&server, &session).await.is_some());
    }
}
