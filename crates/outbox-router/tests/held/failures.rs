//! What the store says when it cannot do what it is asked.

use outbox_router::codes::hint;
use relay::{
    Case, Code,
    held::{HeldAnswer, HeldRequest},
};

use super::fixture::{Fixture, id, letter};

#[tokio::test]
async fn a_table_that_does_not_exist_is_absent_until_it_is_made() {
    let fixture = Fixture::new().await;
    let mut store = fixture.store();
    assert_eq!(store.load().await.unwrap(), HeldAnswer::Absent, "neither is its schema");
    // As replay makes it, for a table that the router does not need.
    fixture.run("create schema outbox_router").await;
    assert_eq!(store.load().await.unwrap(), HeldAnswer::Absent, "its schema may not be used");
    assert_eq!(
        store
            .ask(HeldRequest::ReadSkip { id: id(1, 0), event_id: None, table: String::new() })
            .await
            .unwrap(),
        HeldAnswer::Skipped(None),
        "nobody can have decided"
    );
    fixture.run("grant usage on schema outbox_router to router").await;
    assert_eq!(store.load().await.unwrap(), HeldAnswer::Absent);
    let failure = store.insert(vec![letter(id(1, 0), "a")]).await.unwrap_err();
    assert_eq!((failure.code, failure.case), (Code::HeldTable, None));
    assert!(hint(&failure).unwrap().contains(" --dead-letters"), "{failure}");
    fixture.make_table(Some("router")).await;
    store.load().await.unwrap();
    store.insert(vec![letter(id(1, 0), "a")]).await.unwrap();
}

#[tokio::test]
async fn a_role_that_may_not_use_the_table_is_named() {
    let fixture = Fixture::new().await;
    fixture.make_table(None).await;
    let mut store = fixture.store();
    let grants = [
        "grant usage on schema outbox_router to router",
        "grant select, update on outbox_router.held_version to router",
        "grant select on outbox_router.held to router",
    ];
    for grant in grants {
        let failure = store.load().await.unwrap_err();
        assert_eq!(failure.case, Some(Case::HeldTableForbidden), "{failure}");
        assert!(hint(&failure).unwrap().contains("to \"router\""), "{failure}");
        fixture.run(grant).await;
    }
    store.load().await.unwrap();
    let failure = store.insert(vec![letter(id(1, 0), "a")]).await.unwrap_err();
    assert_eq!(failure.case, Some(Case::HeldTableForbidden), "{failure}");
    fixture.run("grant insert on outbox_router.held to router").await;
    let failure = store.insert(vec![letter(id(1, 0), "a")]).await.unwrap_err();
    assert_eq!(failure.case, Some(Case::HeldTableForbidden), "{failure}");
    fixture.run("grant insert on outbox_router.held_version to router").await;
    store.insert(vec![letter(id(1, 0), "a")]).await.unwrap();
}

#[tokio::test]
async fn a_table_that_is_dropped_meanwhile_fails_every_request_but_the_first_of_a_session() {
    let fixture = Fixture::with_table().await;
    let mut store = fixture.store();
    store.load().await.unwrap();
    store.insert(vec![letter(id(1, 0), "a")]).await.unwrap();
    fixture.run("drop table outbox_router.held").await;
    let next = HeldRequest::ReadNext { keys: Vec::new(), events: 1, bytes: 1 };
    let close = HeldRequest::Close { leaving: Vec::new(), after: None };
    for request in [HeldRequest::ReadDecided, next, close] {
        let failure = store.fails(request).await;
        assert_eq!((failure.code, failure.case), (Code::HeldTable, None), "{failure}");
    }
    assert_eq!(store.load().await.unwrap(), HeldAnswer::Absent);
}

/// A copy of the database: positions of one cluster's WAL mean nothing in another's.
#[tokio::test]
async fn rows_of_another_database_cluster_are_not_taken_for_rows_of_this_one() {
    let fixture = Fixture::with_table().await;
    let mut store = fixture.store();
    store.load().await.unwrap();
    store.insert(vec![letter(id(1, 0), "a")]).await.unwrap();
    store.load().await.unwrap();
    fixture.run("update outbox_router.held_version set system_id = '7'").await;
    let failure = store.load().await.unwrap_err();
    assert_eq!(failure.case, Some(Case::HeldTableElsewhere), "{failure}");
    // What `dead-letters adopt` does last.
    let same = "update outbox_router.held_version set system_id = \
                (select system_identifier from pg_control_system())";
    fixture.run(same).await;
    store.load().await.unwrap();
}

#[tokio::test]
async fn a_table_with_other_columns_or_values_is_no_missing_table() {
    let fixture = Fixture::with_table().await;
    let mut store = fixture.store();
    store.load().await.unwrap();
    store.insert(vec![letter(id(1, 0), "a")]).await.unwrap();
    fixture.run("update outbox_router.held set code = 'R999'").await;
    let failure = store.load().await.unwrap_err();
    assert_eq!(failure.case, Some(Case::HeldTableUnsuitable), "{failure}");
    fixture.run("alter table outbox_router.held rename column messages to message").await;
    let failure = store.insert(vec![letter(id(1, 1), "a")]).await.unwrap_err();
    assert_eq!(failure.case, Some(Case::HeldTableUnsuitable), "{failure}");
}

/// The server goes away: the request fails, and the next one has a new connection.
#[tokio::test]
async fn a_connection_that_broke_is_replaced() {
    let fixture = Fixture::with_table().await;
    let mut store = fixture.store();
    store.load().await.unwrap();
    let end = "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'router'";
    fixture.run(end).await;
    // Whether the end was seen before the request, which then goes to a new connection, is open.
    let first = store.insert(vec![letter(id(1, 0), "a")]).await;
    if let Err(failure) = first {
        assert_eq!(failure.code, Code::ServerUnreachable, "{failure}");
        store.insert(vec![letter(id(1, 0), "a")]).await.unwrap();
    }
    let HeldAnswer::Loaded(loaded) = store.load().await.unwrap() else { panic!("no table") };
    assert_eq!(loaded.known.len(), 1);
}

#[tokio::test]
async fn another_server_than_the_streams_is_refused() {
    let fixture = Fixture::with_table().await;
    // The router's own role may not ask, unless it is let.
    let mut store = fixture.admin_store();
    store.load().await.unwrap();
    store.history.timeline += 1;
    let failure = store.load().await.unwrap_err();
    assert_eq!(failure.case, Some(Case::OtherServer), "{failure}");
    store.history.timeline -= 1;
    store.load().await.unwrap();
}

/// A router may replicate, so it is more than any owner.
#[tokio::test]
async fn no_event_is_held_where_that_would_run_code_of_another_role() {
    let fixture = Fixture::with_table().await;
    fixture
        .run(
            "alter role router replication; create role app; \
             create function away() returns trigger language plpgsql as 'begin return null; end'; \
             alter function away() owner to app; create trigger t before insert \
               on outbox_router.held for each row execute function away()",
        )
        .await;
    let mut store = fixture.store();
    let failure = store.load().await.unwrap_err();
    assert_eq!(failure.code, Code::ForeignCode, "{failure}");
    let code = "outbox_router.held: trigger t is code of role app";
    assert!(failure.message.starts_with(code), "{failure}");
    fixture.run("drop trigger t on outbox_router.held").await;
    store.load().await.unwrap();
    store.insert(vec![letter(id(1, 0), "a")]).await.unwrap();
}
