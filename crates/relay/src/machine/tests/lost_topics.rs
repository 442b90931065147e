//! Topics that are deleted, and what the witness keeps of that.

use super::{world::World, *};
use crate::{
    telemetry::TopicLook,
    witness::{LostTopic, TopicSight, TopicUuid},
};

const TOPIC: &str = "outbox.event.order";

fn see(world: &mut World, sight: TopicSight) {
    let topic = TopicName::new(TOPIC).unwrap();
    world.script.handle(Input::TopicsSeen(&[(topic, sight)]));
    world.settle_down();
}

fn is(uuid: &str) -> TopicSight {
    TopicSight::Is(TopicUuid::new(uuid))
}

fn lost(world: &World) -> Vec<LostTopic> {
    world.script.relay.snapshot(world.script.at).witness.lost_topics
}

#[test]
fn a_topic_made_again_while_no_router_ran_is_noted_until_a_person_accepts_it() {
    let mut world = World::streaming();
    see(&mut world, is("A"));
    assert_eq!(world.script.relay.topics_produced_to().collect::<Vec<_>>(), [TOPIC]);
    world.restart();
    world.connect();
    assert_eq!(world.script.relay.topics_produced_to().collect::<Vec<_>>(), [TOPIC]);
    let look = |world: &World| world.script.relay.snapshot(world.script.at).witness.topic_look;
    assert_eq!(look(&world), TopicLook::Due);
    see(&mut world, is("B"));
    assert_eq!(look(&world), TopicLook::Complete);
    assert_eq!(world.script.state(), (State::Streaming, None), "nothing stops for it");
    let noted = lost(&world);
    assert_eq!(noted.len(), 1);
    assert_eq!((noted[0].was.as_str(), &noted[0].now), ("A", &Some(TopicUuid::new("B"))));

    world.restart();
    world.connect();
    world.settle_down();
    see(&mut world, is("B"));
    assert_eq!(lost(&world), noted, "it outlives the process");
    let witness = world.witness();
    let accepted = witness.accept_notes(&witness.open_findings(), "ann", "now");
    world.another_writes(&accepted);
    world.script.run_for(Duration::from_secs(6));
    world.settle_down();
    assert_eq!((lost(&world), world.script.state().0), (vec![], State::Streaming));
    world.restart();
    world.connect();
    see(&mut world, is("B"));
    assert_eq!(lost(&world), []);
}

#[test]
fn a_topic_that_is_missing_is_noted_before_anything_is_produced_to_it() {
    let mut world = World::streaming();
    see(&mut world, is("A"));
    world.restart();
    world.connect();
    see(&mut world, TopicSight::Missing);
    assert_eq!(lost(&world).len(), 1);
    assert_eq!(world.witness().lost_topics, lost(&world), "and it is in Kafka");
    see(&mut world, is("B"));
    assert_eq!(lost(&world)[0].now, Some(TopicUuid::new("B")));
}

#[test]
fn without_a_state_topic_the_note_lasts_as_long_as_the_process() {
    let mut script = Script::streaming();
    let topic = TopicName::new(TOPIC).unwrap();
    for sight in [is("A"), is("B")] {
        script.handle(Input::TopicsSeen(&[(topic.clone(), sight)]));
    }
    assert_eq!(script.relay.snapshot(script.at).witness.lost_topics.len(), 1);
}
