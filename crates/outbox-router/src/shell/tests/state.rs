//! The state topic is read twice for each session; the second time mostly by asking where it ends.

use relay::{Lsn, testing::Source, witness::Witness};

use super::{kafka::Ask, *};

/// A record of another router that has just started.
fn other_router() -> Vec<u8> {
    let source = Source::of("outbox", OUTBOX, &COLUMNS);
    let (history, catalog) = (Some(source.server().history), source.catalog());
    Witness { history, catalog, cluster: "c".into(), ..Witness::at(Lsn::ZERO) }.encode()
}

#[tokio::test(start_paused = true)]
async fn a_state_topic_without_new_records_is_not_read_again() {
    let stage = super::order::witnessed_stage().await;
    let asked = stage.world.kafka.desk().asked();
    assert_eq!(asked[..3], [Ask::Open(0), Ask::StateRead(0), Ask::StateEnd(0)]);
    assert_eq!(stage.world.kafka.desk().count(&Ask::StateRead(0)), 1);
}

/// Another router held the slot between our look and our start.
#[tokio::test(start_paused = true)]
async fn a_state_topic_that_another_router_wrote_to_is_read_again_by_a_new_session() {
    let mut stage = Stage::begun(witnessed());
    stage.world.postgres.desk().keep(|ask| matches!(ask, postgres::Ask::Start(0)));
    let asked = |world: &mut World| !world.postgres.desk().waiting().is_empty();
    stage.until("the last step", asked).await;
    let mut key = pipeline().prefix();
    key.extend(b"other");
    stage.world.kafka.write(&key, Some(&other_router()));
    stage.world.postgres.desk().answer(Ok(()));
    stage.until("another stream", |world| world.postgres.walsenders() == 2).await;
    let asked = stage.world.kafka.desk().asked();
    let readings = [Ask::StateRead(0), Ask::StateEnd(0), Ask::StateRead(0), Ask::StateRead(0)];
    assert_eq!(asked[1..5], readings, "the last is the second session's first");
    assert_eq!(stage.shell.relay.snapshot(stage.shell.clock.now().at).errors[&Code::SlotInUse], 1);
}

/// What the router has written itself is no news, however much it is.
#[tokio::test(start_paused = true)]
async fn own_writes_are_not_read_back_and_those_of_others_are() {
    let mut stage = super::order::witnessed_stage().await;
    let reads = stage.world.kafka.desk().count(&Ask::StateRead(0));
    for at in [100, 200, 300] {
        let writes = stage.world.producer().writes();
        stage.world.walsender().send(&transaction(at, &["a"]));
        stage.produced(1).await;
        stage.world.producer().ack_all();
        stage.until("a write", |world| world.producer().writes() > writes).await;
        stage.world.producer().ack_write(&stage.world.kafka);
    }
    let ends = stage.world.kafka.desk().count(&Ask::StateEnd(0));
    let looked = |world: &World| world.kafka.desk().count(&Ask::StateEnd(0)) >= ends + 3;
    within_the_session(&mut stage, "three looks", looked).await;
    let after = readings(&stage.world);
    // A write in flight during the last read may be in the result, or not.
    assert!(after <= 1, "read {after} times");

    let mut key = pipeline().prefix();
    key.extend(b"other");
    stage.world.kafka.write(&key, Some(&other_router()));
    let is_read = |world: &World| readings(world) > after;
    within_the_session(&mut stage, "another's record", is_read).await;
    let whole = stage.world.kafka.desk().count(&Ask::StateRead(0));
    assert_eq!(whole, reads, "the whole topic is read for a session, and not while it lasts");
}

fn readings(world: &World) -> usize {
    world.kafka.desk().count(&Ask::StateReadOn(0))
}

/// Until then the server is heard of every second.
async fn within_the_session(stage: &mut Stage, what: &str, seen: impl Fn(&World) -> bool) {
    for _ in 0..60 {
        stage.world.walsender().send(&[wire::keepalive(16)]);
        stage.pass_time(Duration::from_secs(1)).await;
        if seen(&stage.world) {
            assert_eq!(stage.world.postgres.walsenders(), 1, "the session lasts");
            return;
        }
    }
    panic!("waited in vain for {what}");
}

/// Another pipeline that shares the topic, and writes all the time.
#[tokio::test(start_paused = true)]
async fn a_topic_that_another_pipeline_writes_to_is_read_further_at_each_check() {
    let mut stage = super::order::witnessed_stage().await;
    let reads = stage.world.kafka.desk().count(&Ask::StateRead(0));
    for reading in 1..5 {
        stage.world.kafka.write(b"another/pipeline", Some(b"{}"));
        let is_read = |world: &World| readings(world) >= reading;
        within_the_session(&mut stage, "what is new", is_read).await;
    }
    assert_eq!(stage.world.kafka.desk().count(&Ask::StateRead(0)), reads);
    assert_eq!(stage.state(), (State::Streaming, None));
}

/// The copy has the same offsets, and nobody has written to it.
#[tokio::test(start_paused = true)]
async fn another_cluster_with_a_copy_of_the_topic_is_noticed_while_the_router_streams() {
    let mut stage = super::order::witnessed_stage().await;
    stage.world.kafka.is_another();
    within_the_session(&mut stage, "a reading", |world| readings(world) > 0).await;
    halts_at_another_cluster(&mut stage).await;
}

/// What an earlier session has read is of another cluster.
#[tokio::test(start_paused = true)]
async fn another_cluster_with_a_copy_of_the_topic_is_noticed_by_the_next_session() {
    let mut stage = super::order::witnessed_stage().await;
    stage.world.kafka.is_another();
    stage.world.walsender().hang_up();
    halts_at_another_cluster(&mut stage).await;
    assert_eq!(readings(&stage.world), 0);
}

async fn halts_at_another_cluster(stage: &mut Stage) {
    for _ in 0..60 {
        if stage.state() == (State::Failed, Some(Code::ClusterChanged)) {
            assert_eq!(stage.world.postgres.walsenders(), 1, "no other stream was begun");
            return;
        }
        stage.pass_time(Duration::from_secs(1)).await;
    }
    panic!("{:?} instead of a halt", stage.state());
}
