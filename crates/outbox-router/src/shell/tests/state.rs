//! The state topic is read twice for each session; the second time mostly by asking where it ends.

use relay::{Lsn, testing::Source, witness::Witness};

use super::{kafka::Ask, *};

/// What another router writes that has just begun.
fn other_router() -> Vec<u8> {
    let source = Source::of("outbox", OUTBOX, &COLUMNS);
    let (history, catalog) = (Some(source.server().history), source.catalog());
    Witness { history, catalog, cluster: "c".into(), ..Witness::at(Lsn::ZERO) }.encode()
}

#[tokio::test(start_paused = true)]
async fn a_state_topic_that_nobody_wrote_to_is_not_read_again() {
    let stage = super::order::witnessed_stage().await;
    let asked = stage.world.kafka.desk().asked();
    assert_eq!(asked[..3], [Ask::Open(0), Ask::StateRead(0), Ask::StateEnd(0)]);
    assert_eq!(stage.world.kafka.desk().count(&Ask::StateRead(0)), 1);
}

/// Another router held the slot between our look and our start.
#[tokio::test(start_paused = true)]
async fn a_state_topic_that_somebody_wrote_to_is_read_again_and_everything_judged_anew() {
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
    let readings = [Ask::StateRead(0), Ask::StateEnd(0), Ask::StateRead(0), Ask::StateEnd(0)];
    assert_eq!(asked[1..5], readings, "the second session began with what the first had found");
    assert_eq!(stage.shell.relay.snapshot(stage.shell.clock.now().at).errors[&Code::SlotInUse], 1);
}
