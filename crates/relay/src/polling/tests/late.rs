//! What comes too late: the answer to a reading, and acknowledgements.

use std::time::Duration;

use super::{
    super::{table::BETWEEN_NOTIFIED, *},
    world::{RowState, World, settings, two_tables},
};
use crate::failure::{Case, Code, Failure};

const K: Option<&str> = Some("k");
const SECOND: Duration = Duration::from_secs(1);
const TABLE: TableIndex = TableIndex(0);
const OTHER: TableIndex = TableIndex(1);

/// Lets so many seconds pass, in which everything is answered but readings.
fn pass_without_readings(world: &mut World, seconds: u64) {
    world.input(PollInput::Tick);
    for second in 0..=seconds {
        if second > 0 {
            world.pass(SECOND);
        }
        while let Some(place) =
            world.asked.iter().position(|asked| !matches!(asked, PollAction::Fetch(_)))
        {
            let action = world.asked.remove(place);
            world.answer(action);
        }
    }
}

/// The next reading takes so many seconds. Leases are renewed meanwhile, over a connection of their
/// own.
fn read_for(world: &mut World, seconds: u64) {
    pass_without_readings(world, 0);
    let Some(fetch @ PollAction::Fetch(_)) = world.take_asked() else { panic!("a reading") };
    pass_without_readings(world, seconds);
    world.answer(fetch);
}

fn reason(world: &World) -> (PollState, Option<Case>) {
    let report = world.core.report(world.now);
    (report.state, report.reason.and_then(|failure| failure.case))
}

const SLOW: (PollState, Option<Case>) = (PollState::Failed, Some(Case::ReadingSlow));
const SILENT: (PollState, Option<Case>) = (PollState::Blocked, Some(Case::ReplicasSilent));
const WELL: (PollState, Option<Case>) = (PollState::Polling, None);

#[test]
fn a_reading_that_takes_longer_than_half_a_lease_is_a_failure_of_its_table() {
    for claimed in [Claimed::Yes, Claimed::No] {
        let mut world = World::new(settings());
        world.claimed = claimed;
        world.insert(&[K; 3]);
        read_for(&mut world, 6);
        world.settle();
        assert!(world.produced().is_empty());
        assert_eq!(reason(&world), SLOW);
        let report = world.core.report(world.now);
        let failure = report.tables[0].failure.as_ref().unwrap();
        assert_eq!(failure.code, Code::Polling);
        assert!(failure.message.contains("took 6.0 s"), "{failure}");
        assert!(failure.message.contains("polling.lease (10 s)"), "{failure}");
        assert_eq!((report.tables[0].batches, report.claims_lost), (1, 0));
        // It is read again when the wait is over, and not before.
        world.input(PollInput::Notified(TABLE));
        pass_without_readings(&mut world, 9);
        assert!(world.asked.is_empty());
        pass_without_readings(&mut world, 1);
        read_for(&mut world, 4);
        world.run();
        assert_eq!(world.states(), [RowState::Published; 3]);
        assert_eq!(reason(&world), WELL);
    }
}

/// Otherwise what people see would change with each reading.
#[test]
fn a_table_that_is_read_too_slowly_has_its_failure_until_a_reading_is_in_time() {
    let mut world = World::new(settings());
    world.insert(&[K; 3]);
    for _ in 0..3 {
        read_for(&mut world, 6);
        world.settle();
        pass_without_readings(&mut world, 12);
        assert!(matches!(world.asked[..], [PollAction::Fetch(_)]), "it is being read");
        assert_eq!(reason(&world), SLOW);
    }
}

/// Nothing is read of it any more.
#[test]
fn a_table_that_was_read_too_slowly_has_no_failure_without_its_shards() {
    let mut world = World::new(settings());
    world.insert(&[K; 3]);
    read_for(&mut world, 6);
    world.settle();
    world.held = ShardSet::NONE;
    world.workers = 64;
    for _ in 0..20 {
        world.pass(SECOND);
        world.settle();
    }
    assert_eq!(reason(&world), (PollState::Standby, None));
}

#[test]
fn a_table_without_rows_that_is_read_slowly_holds_nothing_up() {
    let mut world = World::new(settings());
    read_for(&mut world, 6);
    world.settle();
    assert_eq!(reason(&world), WELL);
}

/// The worker is stopped and not the server slow: its lease was not renewed either.
#[test]
fn a_worker_that_was_frozen_while_it_read_blames_no_table() {
    let mut world = World::new(settings());
    world.insert(&[K; 3]);
    read_for(&mut world, 0);
    world.settle();
    world.ack_all();
    world.insert(&[K]);
    world.pass(SECOND);
    let Some(fetch @ PollAction::Fetch(_)) = world.take_asked() else { panic!("a reading") };
    world.now = world.now + SECOND * 6;
    world.answer(fetch);
    assert_eq!(world.core.report(world.now).claims_lost, 1);
    assert_eq!(world.core.report(world.now).tables[0].failure, None);
}

/// Lets time pass in which brokers append what they are given, and acknowledge nothing. Returns how
/// often rows were handed over.
fn without_acks(world: &mut World, seconds: u64) -> usize {
    let mut times = 0;
    let mut fetched = world.core.report(world.now).tables[0].fetched;
    for _ in 0..seconds * 10 {
        world.pass(Duration::from_millis(100));
        world.settle();
        let now = world.core.report(world.now).tables[0].fetched;
        times += usize::from(now > fetched);
        fetched = now;
    }
    times
}

#[test]
fn records_that_are_not_acknowledged_are_sent_again_more_and_more_rarely() {
    let mut world = World::new(settings());
    world.insert(&[K; 3]);
    world.settle();
    // Beside the first time.
    assert_eq!(without_acks(&mut world, 90), 7);
    assert_eq!(without_acks(&mut world, 510), 8, "about once a minute");
    assert_eq!(reason(&world), SILENT);
    // The brokers acknowledge again: the next attempt is the last one.
    for _ in 0..64 {
        world.pass(SECOND);
        world.run();
    }
    assert_eq!(world.states(), [RowState::Published; 3]);
    assert_eq!(reason(&world), WELL);
    // And the next time begins anew.
    world.insert(&[K]);
    world.pass(BETWEEN_NOTIFIED);
    world.input(PollInput::Notified(TABLE));
    world.settle();
    assert_eq!(world.sink.in_flight(), 1);
    assert_eq!(without_acks(&mut world, 9), 2);
}

/// A producer that lasts is no sign that it works while its records are not acknowledged.
#[test]
fn the_state_says_so_all_the_time_also_where_a_lease_is_long() {
    for lease in [10, 120] {
        let lease = LeaseLength::new(Duration::from_secs(lease));
        let mut world = World::new(PollerSettings { lease, ..settings() });
        world.insert(&[K]);
        world.settle();
        world.pass(lease.unacknowledged());
        world.settle();
        for _ in 0..300 {
            assert_eq!(reason(&world), SILENT);
            world.pass(SECOND);
            world.settle();
        }
        let report = world.core.report(world.now);
        let text = report.reason.unwrap().message;
        assert!(text.contains("did not acknowledge records"), "{text}");
        assert!(text.contains("times in a row"), "{text}");
    }
}

/// Acknowledgements of other rows say nothing of those that are not acknowledged.
#[test]
fn a_batch_that_is_acknowledged_in_part_ends_no_waits() {
    let mut world = World::new(settings());
    world.insert(&[K, Some("l")]);
    world.settle();
    for _ in 0..600 {
        // The partition of the first row acknowledges nothing, the others everything.
        let mut acks = crate::Acks::default();
        let mut lanes = world.sink.waiting();
        lanes.retain(|lane| !has(&world, *lane, "0"));
        for lane in lanes {
            while world.sink.store(lane).is_some() {
                world.sink.ack(lane, &mut acks);
            }
        }
        if !acks.is_empty() {
            world.input(PollInput::Acks(&acks));
        }
        world.insert(&[Some("l")]);
        world.pass(SECOND);
        world.settle();
    }
    let report = world.core.report(world.now);
    assert!(report.tables[0].published > 10, "the others are delivered");
    let times = report.errors[&Code::KafkaUnreachable];
    assert!(times <= 16, "{times}");
}

fn has(world: &World, lane: crate::testing::Lane, id: &str) -> bool {
    world.sink.waiting_records(lane).any(|record| {
        let is_id = |(name, value): &(String, Option<Vec<u8>>)| {
            name == "id" && value.as_deref() == Some(id.as_bytes())
        };
        record.headers.iter().any(is_id)
    })
}

#[test]
fn other_tables_go_on_while_records_of_one_wait_for_another_attempt() {
    let mut world = World::new(two_tables());
    world.insert_into(TABLE, &[K]);
    world.settle();
    without_acks(&mut world, 40);
    assert_eq!(world.sink.in_flight(), 0, "it waits");
    world.insert_into(OTHER, &[K; 3]);
    world.pass(BETWEEN_NOTIFIED);
    world.input(PollInput::Notified(OTHER));
    world.run();
    assert_eq!(world.core.report(world.now).tables[OTHER.0].published, 3);
    assert_eq!(reason(&world), SILENT);
}

/// The keys of which nothing is acknowledged may be those of another worker by now.
#[test]
fn rows_wait_no_longer_when_other_shards_are_held() {
    let mut world = World::new(settings());
    world.insert(&[K]);
    world.settle();
    without_acks(&mut world, 40);
    assert_eq!(world.sink.in_flight(), 0, "it waits");
    world.held = (0..32).collect();
    world.workers = 2;
    world.pass(SECOND * 4);
    world.run();
    assert_eq!(world.states(), [RowState::Published]);
    assert_eq!(reason(&world), WELL);
}

/// A process that gets too little time may hear it of the producer before its own deadline.
#[test]
fn records_that_the_producer_gives_up_are_sent_again_more_and_more_rarely_too() {
    let mut world = World::new(settings());
    world.insert(&[K]);
    let mut times = 0;
    for _ in 0..60 {
        world.settle();
        if world.sink.in_flight() > 0 {
            times += 1;
            world.now = world.now + SECOND * 4;
            let failure = Failure::new(Code::KafkaUnreachable, "message timed out");
            world.input(PollInput::DeliveryFailed { transaction: None, failure });
        } else {
            world.pass(SECOND * 4);
        }
    }
    assert!(times <= 12, "{times}");
    assert_eq!(reason(&world), SILENT);
}

#[test]
fn rows_that_are_gone_meanwhile_block_nothing_any_more() {
    let mut world = World::new(settings());
    world.insert(&[K]);
    world.settle();
    without_acks(&mut world, 4);
    assert_eq!(reason(&world), SILENT);
    world.asked.clear();
    world.table.clear();
    for _ in 0..20 {
        world.pass(SECOND);
        world.settle();
    }
    assert_eq!(reason(&world), WELL);
}
