//! Single requests.

use relay::{
    Lsn,
    held::{HeldAnswer, HeldRequest, KeyHash, Leaving, Outcome},
};

use super::fixture::{Fixture, event, id, letter};

#[tokio::test]
async fn a_thousand_events_are_written_by_one_request_and_read_back_as_they_were() {
    let fixture = Fixture::with_table().await;
    let mut store = fixture.store();
    store.load().await.unwrap();
    let events: Vec<_> = (0..1_000).map(|index| event(id(100, index), "a")).collect();
    let inserted = store.insert(events.clone()).await.unwrap();
    let HeldAnswer::Inserted(mark) = inserted else { panic!("not written") };
    assert_eq!((mark.version.unwrap().writes, mark.open), (1, 1_000));
    let keys = vec![KeyHash::of_key(b"a")];
    let next = HeldRequest::ReadNext { keys, events: 1_000, bytes: 4 << 20 };
    let HeldAnswer::Next(next) = store.ask(next).await.unwrap() else { panic!("not the events") };
    assert_eq!(next.into_iter().map(|(event, _)| event).collect::<Vec<_>>(), events);
}

/// An event may have no key, a large one, and messages of many megabytes.
#[tokio::test]
async fn what_a_row_may_have_is_stored() {
    let fixture = Fixture::with_table().await;
    let mut store = fixture.store();
    store.load().await.unwrap();
    let mut events = vec![letter(id(1, 0), "a"), letter(id(1, 1), "b"), letter(id(1, 2), "c")];
    events[0].key = None;
    events[0].hash = KeyHash::of_event(events[0].id);
    events[0].event_id = None;
    events[1].key = Some(vec![7; 1 << 20]);
    events[2].messages = vec![0; 30 << 20];
    store.insert(events.clone()).await.unwrap();
    let dropping = "update outbox_router.held set state = 'dropping'";
    fixture.run(dropping).await;
    let keys = events.iter().map(|event| event.hash).collect();
    let next = HeldRequest::ReadNext { keys, events: 10, bytes: 1 << 30 };
    let HeldAnswer::Next(next) = store.ask(next).await.unwrap() else { panic!("not the events") };
    assert_eq!(next.into_iter().map(|(event, _)| event).collect::<Vec<_>>(), events);
}

/// Two routers, or two slots of one, share the table.
#[tokio::test]
async fn another_pipelines_rows_are_not_seen() {
    let fixture = Fixture::with_table().await;
    let (mut store, mut other) = (fixture.store(), fixture.store_of("router", "payments"));
    store.load().await.unwrap();
    other.load().await.unwrap();
    store.insert(vec![letter(id(1, 0), "a")]).await.unwrap();
    other.insert(vec![letter(id(1, 0), "b")]).await.unwrap();
    let HeldAnswer::Loaded(loaded) = store.load().await.unwrap() else { panic!("no table") };
    assert_eq!(
        loaded.keys.iter().map(|(key, _)| *key).collect::<Vec<_>>(),
        [KeyHash::of_key(b"a")]
    );
    let leaving = vec![Leaving { id: id(1, 0), outcome: Outcome::Delivered }];
    let after = loaded.mark.version;
    let HeldAnswer::Closed(closed) =
        store.ask(HeldRequest::Close { leaving, after }).await.unwrap()
    else {
        panic!("not closed")
    };
    assert_eq!((closed.first.len(), closed.first[0].0), (1, KeyHash::of_key(b"a")));
    let HeldAnswer::Loaded(loaded) = other.load().await.unwrap() else { panic!("no table") };
    assert_eq!(loaded.keys.len(), 1, "it is still held");
}

/// A role whose sessions do not wait for the disk would lose what is confirmed.
#[tokio::test]
async fn a_commit_waits_for_the_disk_and_a_stricter_setting_stays() {
    let fixture = Fixture::with_table().await;
    for (configured, expected) in [("off", "local"), ("remote_apply", "remote_apply")] {
        let set = format!("alter role router set synchronous_commit = '{configured}'");
        fixture.run(&set).await;
        // A trigger tells what the session has.
        fixture
            .run(
                "create or replace function public.note() returns trigger language plpgsql as \
                 $$ begin new.error := current_setting('synchronous_commit'); return new; end $$; \
                 create or replace trigger note before insert on outbox_router.held \
                 for each row execute function public.note(); truncate outbox_router.held",
            )
            .await;
        let mut store = fixture.store();
        store.load().await.unwrap();
        store.insert(vec![letter(id(1, 0), "a")]).await.unwrap();
        let session = fixture.session().await;
        let row = session.query_one("select error from outbox_router.held", &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), expected);
    }
}

/// One transaction may have rows of two tables with one id.
#[tokio::test]
async fn a_skip_is_of_a_row_of_the_table_that_it_names() {
    let fixture = Fixture::with_table().await;
    let mut store = fixture.store();
    let skip = "insert into outbox_router.decision \
         (pipeline, slot, commit_lsn, event_id, action, table_name) \
         values ('orders', 's', '0/8', '1', 'skip', 'public.a')";
    fixture.run(skip).await;
    fixture.run("insert into outbox_router.note_version values ('orders', 3)").await;
    let mut is_skipped = async |table: &str| {
        let (id, event_id, table) = (id(8, 0), Some("1".to_owned()), table.to_owned());
        store.ask(HeldRequest::ReadSkip { id, event_id, table }).await.unwrap()
    };
    let decided = |answer: HeldAnswer| {
        let HeldAnswer::Skipped(notes) = answer else { panic!("{answer:?}") };
        notes.is_some_and(|notes| notes.by > Lsn::ZERO && notes.writes == 3)
    };
    assert!(decided(is_skipped("public.a").await));
    assert_eq!(is_skipped("public.b").await, HeldAnswer::Skipped(None));
    // As it is written by an earlier version, and where the column is missing.
    fixture.run("update outbox_router.decision set table_name = null").await;
    assert!(decided(is_skipped("public.b").await));
}
