//! A worker produces only what belongs to it.

use std::time::Duration;

use super::{
    super::{table::BETWEEN_NOTIFIED, *},
    world::{RowState, World, settings, two_tables},
};
use crate::{
    clock::Now,
    failure::{Case, Code, Failure},
};

const K: Option<&str> = Some("k");
const HALF: Duration = Duration::from_secs(5);

#[test]
fn without_a_lease_nothing_is_read() {
    let mut world = World::new(settings());
    world.held = ShardSet::NONE;
    world.workers = 64;
    world.insert(&[K]);
    world.run();
    assert!(world.produced().is_empty());
    assert_eq!(world.core.report(world.now).state, PollState::Standby);
    world.held = ShardSet::ALL;
    world.pass(Duration::from_secs(4));
    world.run();
    assert_eq!(world.states(), [RowState::Published]);
}

/// The shell reads the table as it is now, and the core would read the columns by their former
/// places.
#[test]
fn a_table_whose_marks_were_refused_is_described_before_it_is_read_again() {
    let mut world = World::new(settings());
    world.insert(&[K]);
    world.settle();
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    let Some(PollAction::Settle(_)) = world.take_asked() else { panic!("marks") };
    let failure = Failure::new(Code::ColumnMissing, "column published_at does not exist");
    world.input(PollInput::Settled(Err(failure)));
    world.pass(Duration::from_secs(1));
    world.asked.retain(|asked| !matches!(asked, PollAction::Lease(_)));
    let Some(marks @ PollAction::Settle(_)) = world.take_asked() else { panic!("marks, again") };
    world.answer(marks);
    assert_eq!(world.asked, [PollAction::Describe(TableIndex(0))]);
}

/// Its columns may have other types, and its rows another key.
#[test]
fn a_table_that_was_altered_is_described_at_once_and_nothing_is_wrong() {
    let mut world = World::new(settings());
    world.run();
    world.insert(&[K]);
    world.pass(Duration::from_secs(1));
    world.asked.retain(|asked| !matches!(asked, PollAction::Lease(_)));
    let Some(PollAction::Fetch(_)) = world.take_asked() else { panic!("a reading") };
    let failure = Failure::of(Case::TableAltered, "it was altered");
    world.input(PollInput::Fetched(Err(failure)));
    let report = world.core.report(world.now);
    assert!(report.tables[0].failure.is_none() && report.errors.is_empty(), "{report:?}");
    world.pass(Duration::from_secs(1));
    let Some(describe @ PollAction::Describe(_)) = world.take_asked() else { panic!("what it is") };
    world.answer(describe);
    world.run();
    assert_eq!(world.states(), [RowState::Published]);
}

/// Another worker may have its shards of the one that bears the name now.
#[test]
fn a_table_that_was_made_anew_is_read_only_when_it_is_described_and_leased() {
    let mut world = World::new(settings());
    world.run();
    world.remade = 1;
    world.pass(Duration::from_secs(4));
    let Some(lease @ PollAction::Lease(_)) = world.take_asked() else { panic!("a renewal") };
    let Some(PollAction::Fetch(_)) = world.take_asked() else { panic!("a reading") };
    let failure = Failure::new(Code::ServerUnreachable, "the connection broke");
    world.input(PollInput::Fetched(Err(failure)));
    world.pass(Duration::from_millis(900));
    let Some(describe @ PollAction::Describe(_)) = world.take_asked() else { panic!("what it is") };
    world.answer(describe);
    assert_eq!(world.asked, [], "its lease is the former table's");
    world.answer(lease);
    assert!(matches!(world.asked[..], [PollAction::Fetch(_)]), "{:?}", world.asked);
    world.settle();

    world.remade = 2;
    world.insert(&[K]);
    world.pass(Duration::from_secs(4));
    let Some(lease @ PollAction::Lease(_)) = world.take_asked() else { panic!("a renewal") };
    let Some(PollAction::Fetch(_)) = world.take_asked() else { panic!("a reading") };
    world.answer(lease);
    let (rows, more, claimed) = (Vec::new(), More::No, Claimed::No);
    world.input(PollInput::Fetched(Ok(Fetched { rows, more, claimed, session: world.session })));
    assert_eq!(world.asked, [PollAction::Describe(TableIndex(0))], "at once");
    world.run();
    assert_eq!(world.states(), [RowState::Published]);
}

/// A worker that was frozen between reading rows and producing them.
#[test]
fn after_half_of_a_lease_that_was_not_renewed_nothing_more_is_produced() {
    let mut world = World::new(settings());
    world.insert(&[K; 3]);
    world.collect_until_fetched();
    world.now = world.now + HALF;
    world.produce();
    assert!(world.produced().is_empty());
    world.pass(Duration::from_millis(1));
    assert_eq!(world.core.report(world.now).claims_lost, 1);
}

/// A worker that is frozen for this time after the first row of a pass, and produces none of the
/// others when it goes on.
fn frozen_amid_a_pass(frozen: Duration) -> World {
    let mut world = World::new(settings());
    // Its topic is known.
    world.insert(&[K]);
    world.run();
    world.insert(&[K; 3]);
    world.pass(BETWEEN_NOTIFIED);
    world.input(PollInput::Notified(TableIndex(0)));
    world.collect_until_fetched();
    let frozen = [world.time(), Now { at: world.now + frozen, ..world.time() }];
    let mut times = frozen.into_iter();
    let clock = || times.next().unwrap_or(frozen[1]);
    assert_eq!(world.core.produce(&mut world.sink, clock), Produced::AllForNow);
    assert_eq!(world.produced(), ["0", "1"]);
    world
}

/// A worker that was frozen while it produced them.
#[test]
fn the_lease_is_looked_at_before_each_row() {
    frozen_amid_a_pass(HALF);
}

/// A worker that was frozen amid a pass for less than half a lease: the producer gives up the first
/// record when the worker goes on, and would send what is produced then.
#[test]
fn how_long_a_record_is_in_flight_is_looked_at_before_each_row() {
    let frozen = Duration::from_millis(3_600);
    let mut world = frozen_amid_a_pass(frozen);
    world.pass(frozen);
    assert!(world.asked.contains(&PollAction::ReplaceSink { wait: Duration::ZERO }));
}

#[test]
fn what_is_in_flight_at_the_end_of_a_lease_is_purged() {
    let mut world = World::new(settings());
    world.insert(&[K; 3]);
    world.settle();
    assert_eq!(world.produced().len(), 3);
    // No answer comes: the connection hangs, and so does the process.
    world.asked.clear();
    world.pass(HALF * 2);
    assert!(world.asked.contains(&PollAction::ReplaceSink { wait: Duration::ZERO }));
    assert_eq!(world.core.report(world.now).tables[0].shards, ShardSet::NONE);
}

/// The producer would give them up one by one, and send a later record of a key meanwhile.
#[test]
fn what_kafka_does_not_acknowledge_is_purged_before_the_producer_gives_it_up() {
    let mut world = World::new(settings());
    world.insert(&[K; 3]);
    world.settle();
    world.pass(Duration::from_secs(3));
    world.settle();
    assert_eq!(world.produced().len(), 3, "still in flight");
    world.pass(Duration::from_millis(500));
    assert!(world.asked.contains(&PollAction::ReplaceSink { wait: Duration::ZERO }));
    world.run();
    assert_eq!(world.states(), [RowState::Published; 3]);
}

/// Another worker may have had the shards since: the server compares.
#[test]
fn marks_name_the_lease_request_that_was_answered_before_their_rows_were_read() {
    fn written(world: &mut World) -> Option<RequestNumber> {
        let mut asked = world.asked.drain(..);
        asked.find_map(|action| match action {
            PollAction::Settle(request) => Some(request.as_of),
            PollAction::Describe(_)
            | PollAction::Lease(_)
            | PollAction::Fetch(_)
            | PollAction::ReplaceSink { .. }
            | PollAction::LookUpTopic(..)
            | PollAction::Exit(_) => None,
        })
    }
    let mut world = World::new(settings());
    world.insert(&[K; 3]);
    world.settle();
    let read_by = world.leases;
    world.pass(Duration::from_millis(3_400));
    world.settle();
    assert_eq!(world.leases, read_by.next(), "it is renewed while the rows are in flight");
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    assert_eq!(written(&mut world), Some(read_by));
    world.input(PollInput::Settled(Err(Failure::new(Code::ServerUnreachable, "no answer"))));
    world.pass(HALF);
    assert_eq!(written(&mut world), Some(read_by), "what is written again is the same");
}

#[test]
fn a_lease_is_renewed_long_before_it_ends() {
    let mut world = World::new(settings());
    world.run();
    for _ in 0..30 {
        world.pass(Duration::from_secs(1));
        world.run();
        assert_eq!(world.core.report(world.now).tables[0].shards, ShardSet::ALL);
    }
}

/// A batch is given up if this has changed when its worker's leases are renewed.
fn given_up_after(change: impl FnOnce(&mut World)) {
    let mut world = World::new(settings());
    world.insert(&[K; 3]);
    world.collect_until_fetched();
    change(&mut world);
    world.now = world.now + Duration::from_secs(4);
    world.core.handle(PollInput::Tick, world.time());
    let lease = world.core.next_action().expect("a renewal");
    world.answer(lease);
    world.produce();
    assert!(world.produced().is_empty());
    assert_eq!(world.core.report(world.now).claims_lost, 1);
}

#[test]
fn a_batch_whose_shards_went_to_another_worker_is_given_up() {
    given_up_after(|world| {
        world.held = (0..3).collect();
        world.workers = 20;
    });
}

/// Its shards are those of the table that bears the name now.
#[test]
fn a_batch_of_a_table_that_was_made_anew_is_given_up() {
    given_up_after(|world| world.remade = 1);
}

/// Its marks have no place any more.
#[test]
fn a_table_that_is_dropped_before_its_marks_does_not_keep_the_others_waiting() {
    let mut world = World::new(two_tables());
    world.insert(&[K]);
    world.settle();
    world.dropped = Some(TableIndex(0));
    world.ack_all();
    assert_eq!(world.states(), [RowState::Pending]);
    let report = world.core.report(world.now);
    assert_eq!(report.reason.unwrap().code, Code::TableMissing);
    world.insert_into(TableIndex(1), &[K]);
    // The next answer about the leases names the table no more.
    for _ in 0..10 {
        world.pass(Duration::from_secs(1));
        world.run();
    }
    assert_eq!(world.states(), [RowState::Pending, RowState::Published]);
}

/// Another table has the name: its rows have the ids of the former one's.
#[test]
fn waits_and_attempts_are_those_of_the_table_that_was_read() {
    let mut world = World::new(settings());
    world.insert(&[None]);
    world.run();
    let waits = |world: &World| world.core.report(world.now).tables[0].waiting;
    assert_eq!((world.table[0].attempts, waits(&world)), (1, 1));
    world.remade = 1;
    world.table[0].attempts = 0;
    world.pass(Duration::from_secs(60));
    world.run();
    assert_eq!(world.table[0].attempts, 1, "it was tried for the first time");
    world.table[0].key = K;
    world.pass(Duration::from_secs(2));
    world.run();
    assert_eq!(world.states(), [RowState::Published]);
}

#[test]
fn a_batch_that_was_stopped_and_then_not_marked_counts_once_as_a_lost_claim() {
    let mut world = World::new(settings());
    world.insert(&[K; 2]);
    world.table[1].topic = "u";
    // Its first row is in flight, and the second one waits for its topic.
    world.produce_first();
    world.asked.clear();
    world.held = (0..3).collect();
    world.workers = 20;
    world.pass(Duration::from_millis(3_400));
    let Some(lease @ PollAction::Lease(_)) = world.take_asked() else { panic!("a renewal") };
    world.answer(lease);
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    let Some(PollAction::Settle(_)) = world.take_asked() else { panic!("marks") };
    world.input(PollInput::Settled(Ok(Settled { written: Written::NotOurs, published: 0 })));
    assert_eq!(world.core.report(world.now).claims_lost, 1);
}

/// Its clock may have jumped: the lease that this worker counts on has ended there.
#[test]
fn rows_that_the_server_does_not_let_it_mark_are_not_read_again_before_its_leases_are_renewed() {
    let mut world = World::new(settings());
    world.insert(&[K; 2]);
    world.settle();
    assert_eq!(world.produced().len(), 2);
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    let Some(PollAction::Settle(_)) = world.take_asked() else { panic!("marks") };
    world.input(PollInput::Settled(Ok(Settled { written: Written::NotOurs, published: 0 })));
    let Some(describe @ PollAction::Describe(_)) = world.take_asked() else {
        panic!("another table may have the name")
    };
    world.answer(describe);
    assert_eq!(world.asked, []);
    assert_eq!(world.core.report(world.now).tables[0].shards, ShardSet::NONE);
    world.pass(Duration::from_secs(1));
    let Some(lease @ PollAction::Lease(_)) = world.take_asked() else { panic!("a renewal, soon") };
    assert_eq!(world.asked, []);
    world.answer(lease);
    world.settle();
    assert_eq!(world.produced().len(), 4, "the shards are its own after all");
}

#[test]
fn when_another_worker_comes_shards_are_given_back_after_the_marks() {
    let mut world = World::new(settings());
    world.insert(&[K; 6]);
    world.settle();
    world.workers = 2;
    world.pass(Duration::from_secs(4));
    world.settle();
    assert_eq!(world.core.report(world.now).tables[0].shards, ShardSet::ALL, "rows are in flight");
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    let Some(marks @ PollAction::Settle(_)) = world.take_asked() else { panic!("marks") };
    world.answer(marks);
    assert_eq!(world.asked, [PollAction::Lease(LeaseRequest::Hold { wanted: vec![32] })]);
    world.settle();
    assert_eq!(world.core.report(world.now).tables[0].shards.len(), 32);
}

#[test]
fn a_lease_table_that_is_missing_needs_a_person() {
    let mut world = World::new(settings());
    world.settle_describes();
    let missing = Failure::new(Code::LeaseTable, "outbox_router.lease does not exist");
    world.input(PollInput::Leased(Err(missing)));
    assert_eq!(world.core.report(world.now).state, PollState::Failed);
}

/// Every shard goes to other workers, and this one goes on for two minutes.
fn without_shards(world: &mut World) {
    world.held = ShardSet::NONE;
    world.workers = 64;
    for _ in 0..120 {
        world.pass(Duration::from_secs(1));
        world.run();
    }
}

#[test]
fn a_worker_without_shards_waits_for_no_topic() {
    let mut world = World::new(settings());
    world.insert(&[K]);
    world.table[0].topic = "missing";
    world.run();
    assert_eq!(world.core.report(world.now).state, PollState::Blocked);
    without_shards(&mut world);
    let report = world.core.report(world.now);
    assert_eq!((report.state, report.reason), (PollState::Standby, None));
}

#[test]
fn a_worker_without_shards_has_no_keys_that_wait() {
    let mut world = World::new(PollerSettings { keys_max: 1, ..settings() });
    world.insert(&[K]);
    world.table[0].topic = "not legal!";
    world.run();
    world.pass(BETWEEN_NOTIFIED);
    world.input(PollInput::Notified(TableIndex(0)));
    world.run();
    let report = world.core.report(world.now);
    assert_eq!(report.tables[0].failure.as_ref().map(|it| it.code), Some(Code::HeldFull));
    without_shards(&mut world);
    let report = world.core.report(world.now);
    assert_eq!((report.state, report.reason), (PollState::Standby, None));
    assert_eq!(report.tables[0].failure, None);
}

/// Whoever has the shards delivers the row, or says why it does not.
#[test]
fn a_row_that_halts_needs_no_person_at_a_worker_without_its_shards() {
    let mut world = World::new(settings());
    world.insert(&[K]);
    world.table[0].topic = "not legal!";
    world.run();
    assert_eq!(world.core.report(world.now).state, PollState::Failed);
    without_shards(&mut world);
    let report = world.core.report(world.now);
    assert_eq!((report.state, report.reason), (PollState::Standby, None));
    assert_eq!((report.tables[0].waiting, report.tables[0].failure.clone()), (0, None));
}

/// The server may still have all of them for this worker, and a statement with marks may be under
/// way.
#[test]
fn a_worker_whose_lease_has_ended_gives_nothing_back_while_marks_are_written() {
    let mut world = World::new(settings());
    world.insert(&[K]);
    world.settle();
    world.workers = 2;
    world.pass(Duration::from_millis(3_400));
    world.settle();
    let acks = world.sink.ack_all();
    world.input(PollInput::Acks(&acks));
    let Some(PollAction::Settle(_)) = world.take_asked() else { panic!("marks") };
    let mut wanted = Vec::new();
    for _ in 0..30 {
        world.pass(Duration::from_secs(1));
        while let Some(asked) = world.take_asked() {
            let PollAction::Lease(LeaseRequest::Hold { wanted: of_tables }) = asked else {
                panic!("{asked:?}")
            };
            wanted.push(of_tables[0]);
            let gone = Failure::new(Code::ServerUnreachable, "no answer");
            world.input(PollInput::Leased(Err(gone)));
        }
    }
    assert_eq!(world.core.report(world.now).tables[0].shards, ShardSet::NONE, "it has ended");
    assert!(wanted.len() > 10 && wanted.iter().all(|wanted| *wanted == 64), "{wanted:?}");
}

impl World {
    /// Answers everything up to the first batch, and produces nothing of it.
    fn collect_until_fetched(&mut self) {
        self.input(PollInput::Tick);
        while let Some(action) = self.take_asked() {
            let is_fetch = matches!(action, PollAction::Fetch(_));
            self.answer(action);
            if is_fetch {
                return;
            }
        }
        panic!("nothing was read");
    }

    /// Answers everything but leases.
    fn settle_describes(&mut self) {
        self.input(PollInput::Tick);
        while let Some(at) = self.asked.iter().position(|a| !matches!(a, PollAction::Lease(_))) {
            let action = self.asked.remove(at);
            self.answer(action);
        }
    }
}

/// Its role lacks a right, say, that those of the other workers have.
#[test]
fn a_worker_that_cannot_read_a_table_leaves_it_to_the_others_until_it_can() {
    let mut world = World::new(settings());
    let refused = |world: &mut World| {
        let failure = Failure::of(Case::PermissionDenied, "permission denied");
        world.asked.retain(|action| !matches!(action, PollAction::Describe(_)));
        world.input(PollInput::Described(TableIndex(0), Err(failure)));
    };
    let wanted = |world: &World| {
        world.asked.iter().find_map(|action| {
            let PollAction::Lease(LeaseRequest::Hold { wanted }) = action else { return None };
            wanted.first().copied()
        })
    };
    world.pass(Duration::ZERO);
    refused(&mut world);
    assert_eq!(wanted(&world), Some(64), "another one may have the same trouble");
    while world.now < Moment::default() + HALF * 3 {
        let leases: Vec<_> = world.asked.drain(..).collect();
        for action in leases {
            if let PollAction::Describe(_) = action {
                refused(&mut world);
            } else {
                world.answer(action);
            }
        }
        world.pass(Duration::from_millis(500));
    }
    assert_eq!(world.core.report(world.now).tables[0].shards, ShardSet::NONE);
    assert_eq!(world.core.report(world.now).state, PollState::Failed);
    world.insert(&[K]);
    world.pass(Duration::from_secs(10));
    world.run();
    world.pass(Duration::from_secs(4));
    world.run();
    assert_eq!(world.states(), [RowState::Published]);
}
