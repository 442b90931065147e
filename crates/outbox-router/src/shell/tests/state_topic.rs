//! The state topic is read twice for each session; the second time mostly by asking where it ends.

use relay::{Lsn, testing::Source, witness::Witness};

use super::{kafka::Request, *};

/// A record of another router that has just started.
fn other_router() -> Vec<u8> {
    let source = Source::of("outbox", OUTBOX, &COLUMNS);
    let (history, catalog) = (Some(source.server().history), source.catalog());
    Witness { history, catalog, cluster: "c".into(), ..Witness::at(Lsn::ZERO) }.encode()
}

#[tokio::test(start_paused = true)]
async fn a_state_topic_without_new_records_is_not_read_again() {
    let fixture = super::order::witnessed_fixture().await;
    let asked = fixture.world.kafka.requests().made();
    let first = [
        Request::Open(0),
        Request::StateTopicOpen(0),
        Request::StateTopicRead(0),
        Request::StateTopicExtent(0),
    ];
    assert_eq!(asked[..4], first);
    assert_eq!(fixture.world.kafka.requests().count(&Request::StateTopicRead(0)), 1);
}

/// Another router held the slot between our look and our start.
#[tokio::test(start_paused = true)]
async fn a_state_topic_that_another_router_wrote_to_is_read_again_by_a_new_session() {
    let mut fixture = Fixture::begun(witnessed());
    fixture
        .world
        .postgres
        .requests()
        .hold(|request| matches!(request, postgres::Request::Start(0)));
    let asked = |world: &mut World| !world.postgres.requests().waiting().is_empty();
    fixture.until("the last step", asked).await;
    let mut key = witness_key().prefix();
    key.extend(b"other");
    fixture.world.kafka.write(&key, Some(&other_router()));
    fixture.world.postgres.requests().answer(Ok(()));
    fixture.until("another stream", |world| world.postgres.walsenders() == 2).await;
    let asked = fixture.world.kafka.requests().made();
    let readings = [
        Request::StateTopicOpen(0),
        Request::StateTopicRead(0),
        Request::StateTopicExtent(0),
        Request::StateTopicOpen(0),
        Request::StateTopicRead(0),
        Request::StateTopicOpen(0),
        Request::StateTopicRead(0),
    ];
    assert_eq!(asked[1..8], readings, "the last is the second session's first");
    assert_eq!(
        fixture.shell.relay.snapshot(fixture.shell.clock.now().at).errors[&Code::SlotInUse],
        1
    );
}

/// What the router has written itself is no news, however much it is.
#[tokio::test(start_paused = true)]
async fn own_writes_are_not_read_back_and_those_of_others_are() {
    let mut fixture = super::order::witnessed_fixture().await;
    let reads = fixture.world.kafka.requests().count(&Request::StateTopicRead(0));
    for at in [100, 200, 300] {
        let writes = fixture.world.producer().writes();
        fixture.world.walsender().send(&transaction(at, &["a"]));
        fixture.produced(1).await;
        fixture.world.producer().ack_all();
        fixture.until("a write", |world| world.producer().writes() > writes).await;
        fixture.world.producer().ack_write(&fixture.world.kafka);
    }
    let ends = fixture.world.kafka.requests().count(&Request::StateTopicExtent(0));
    let looked =
        |world: &World| world.kafka.requests().count(&Request::StateTopicExtent(0)) >= ends + 3;
    within_the_session(&mut fixture, "three looks", looked).await;
    let after = readings(&fixture.world);
    // A write in flight during the last read may be in the result, or not.
    assert!(after <= 1, "read {after} times");

    let mut key = witness_key().prefix();
    key.extend(b"other");
    fixture.world.kafka.write(&key, Some(&other_router()));
    let is_read = |world: &World| readings(world) > after;
    within_the_session(&mut fixture, "another's record", is_read).await;
    let whole = fixture.world.kafka.requests().count(&Request::StateTopicRead(0));
    assert_eq!(whole, reads, "the whole topic is read for a session, and not while it lasts");
}

fn readings(world: &World) -> usize {
    world.kafka.requests().count(&Request::StateTopicReadOn(0))
}

/// Until then the server is heard of every second.
async fn within_the_session(fixture: &mut Fixture, what: &str, seen: impl Fn(&World) -> bool) {
    for _ in 0..60 {
        fixture.world.walsender().send(&[wire::keepalive(16)]);
        fixture.pass_time(Duration::from_secs(1)).await;
        if seen(&fixture.world) {
            assert_eq!(fixture.world.postgres.walsenders(), 1, "the session lasts");
            return;
        }
    }
    panic!("waited in vain for {what}");
}

/// Another pipeline that shares the topic, and writes all the time.
#[tokio::test(start_paused = true)]
async fn a_topic_that_another_pipeline_writes_to_is_read_further_at_each_check() {
    let mut fixture = super::order::witnessed_fixture().await;
    let reads = fixture.world.kafka.requests().count(&Request::StateTopicRead(0));
    for reading in 1..5 {
        fixture.world.kafka.write(b"another/pipeline", Some(b"{}"));
        let is_read = |world: &World| readings(world) >= reading;
        within_the_session(&mut fixture, "what is new", is_read).await;
    }
    assert_eq!(fixture.world.kafka.requests().count(&Request::StateTopicRead(0)), reads);
    assert_eq!(fixture.state(), (State::Streaming, None));
}

/// The copy has the same offsets, and nobody has written to it.
#[tokio::test(start_paused = true)]
async fn another_cluster_with_a_copy_of_the_topic_is_noticed_while_the_router_streams() {
    let mut fixture = super::order::witnessed_fixture().await;
    fixture.world.kafka.is_another();
    within_the_session(&mut fixture, "a reading", |world| readings(world) > 0).await;
    halts_at_another_cluster(&mut fixture).await;
}

/// What an earlier session has read is of another cluster.
#[tokio::test(start_paused = true)]
async fn another_cluster_with_a_copy_of_the_topic_is_noticed_by_the_next_session() {
    let mut fixture = super::order::witnessed_fixture().await;
    fixture.world.kafka.is_another();
    fixture.world.walsender().hang_up();
    halts_at_another_cluster(&mut fixture).await;
    assert_eq!(readings(&fixture.world), 0);
}

async fn halts_at_another_cluster(fixture: &mut Fixture) {
    for _ in 0..60 {
        if fixture.state() == (State::Failed, Some(Code::ClusterChanged)) {
            assert_eq!(fixture.world.postgres.walsenders(), 1, "no other stream was begun");
            return;
        }
        fixture.pass_time(Duration::from_secs(1)).await;
    }
    panic!("{:?} instead of a halt", fixture.state());
}

/// Somebody sets another policy, and back; nothing has written to the topic, or gone from it.
#[tokio::test(start_paused = true)]
async fn a_topic_that_no_longer_keeps_the_witness_ends_the_session() {
    let mut fixture = super::order::witnessed_fixture().await;
    let in_turn = [(State::Blocked, Some(Code::StateTopicUnsuitable)), (State::Streaming, None)];
    for expected in in_turn {
        fixture.world.kafka.alter_state_topic();
        for _ in 0..60 {
            if fixture.state() == expected {
                break;
            }
            if fixture.world.postgres.is_connected() {
                fixture.world.walsender().send(&[wire::keepalive(16)]);
            }
            fixture.pass_time(Duration::from_secs(1)).await;
        }
        assert_eq!(fixture.state(), expected);
    }
}
