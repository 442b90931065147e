//! What the witness says before a position is confirmed, what it is compared with, and which gaps
//! stay open.

use super::{world::World, *};
use crate::{
    StateTopicRead,
    protocol::StateTopicRecord,
    session::WaitReason,
    source::History,
    witness::{OpenFinding, Witness},
};

#[test]
fn a_position_is_confirmed_after_the_witness_with_it_is_acknowledged() {
    // I9
    let mut world = World::streaming();
    world.script.transaction(100, &["a"]);
    world.script.settle();
    world.script.run_for(Duration::from_secs(1));
    world.answer_all();
    assert_eq!(world.in_flight.len(), 1, "one write at a time");
    let written = Witness::decode(world.in_flight[0].value.as_ref().unwrap()).unwrap();
    assert_eq!(written.position.as_u64(), 108);
    assert_eq!(written.last.unwrap().end_lsn.as_u64(), 108);
    assert_eq!(written.partitions.get("outbox.event.order"), Some(&3));
    world.script.run_for(Duration::from_secs(2));
    assert_eq!(world.script.confirmed(), 16, "not before Kafka has the witness");
    world.store();
    world.script.run_for(Duration::from_millis(200));
    assert_eq!(world.script.confirmed(), 108);
}

#[test]
fn the_witness_is_written_as_the_window_moves_and_not_while_nothing_moves() {
    let mut world = World::streaming();
    world.answer_all();
    let before = world.script.relay.snapshot(world.script.at).witness.position;
    for _ in 0..50 {
        world.script.handle(Input::BytesArrived);
        world.script.run_for(Duration::from_secs(1));
        world.answer_all();
    }
    assert!(world.in_flight.is_empty(), "idle");
    assert_eq!(world.script.relay.snapshot(world.script.at).witness.position, before);
    // A quarter of the window does not wait for the timer.
    for n in 0..250_u64 {
        world.script.transaction(1_000 + 8 * n, &["a"]);
    }
    world.script.settle();
    world.answer_all();
    assert_eq!(world.in_flight.len(), 1);
}

#[test]
fn while_positions_move_the_witness_is_written_twice_a_second() {
    let mut world = World::streaming();
    let mut writes = 0;
    for n in 0..400_u64 {
        world.transaction(1_000 + 8 * n, &["a"]);
        world.script.settle();
        world.script.run_for(Duration::from_millis(10));
        world.answer_all();
        writes += world.in_flight.len();
        while world.store() {}
    }
    assert!((7..=9).contains(&writes), "{writes} in four seconds");
}

#[test]
fn an_unacknowledged_witness_fills_the_window_and_blocks_the_router() {
    let mut world = World::streaming();
    for n in 0..999_u64 {
        world.script.transaction(1_000 + 8 * n, &["a"]);
        world.script.settle();
    }
    world.script.begin(20_000);
    world.script.take(&row("a"));
    world.script.settle();
    assert!(!world.script.relay.wants_wal(), "everything is acknowledged, and in no witness");
    world.script.run_for(Duration::from_secs(4));
    assert_eq!(world.script.state().0, State::Blocked);
    world.settle_down();
    assert!(world.script.relay.wants_wal());
    assert_eq!(world.script.confirmed(), 1_000 + 8 * 998 + 8);
}

#[test]
fn the_next_session_deletes_the_keys_of_those_before_it() {
    let mut world = World::streaming();
    world.restart();
    world.settle_down();
    assert_eq!(world.topic.len(), 1);
    assert_eq!(world.witness().position.as_u64(), 16);
    // A late write of the first router is harmless.
    let late = StateTopicRecord {
        key: b"late".to_vec(),
        value: Witness { position: Lsn::from_u64(8), ..world.witness() }.encode(),
        offset: 99,
    };
    world.topic.push(late);
    world.restart();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
}

#[test]
fn a_slot_past_the_witness_is_a_gap_however_long_no_router_ran() {
    let mut world = World::streaming();
    world.restart();
    world.script.source.slot_at = 500;
    world.script.at = world.script.at + Duration::from_secs(86_400);
    world.connect();
    assert_eq!(world.gap().0, Some(Code::SlotMoved));
    assert_eq!(world.gap().1, 16);
}

#[test]
fn a_gap_outlives_every_restart_until_a_person_accepts_it() {
    let mut world = World::streaming();
    world.restart();
    world.script.source.slot_at = 500;
    world.settle_down();
    for _ in 0..3 {
        world.restart();
        world.settle_down();
        assert_eq!((world.gap().0, world.gap().1), (Some(Code::SlotMoved), 16));
        assert_eq!(world.witness().gaps.len(), 1);
    }
    world.accept();
    world.settle_down();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None), "it goes on by itself");
    let accepted: Vec<String> = world.witness().accepted.into_iter().map(|a| a.code).collect();
    assert_eq!(accepted, ["P014", "K022"], "and that it began without a witness");
    world.restart();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
}

/// The person saw another gap, before this one was in the witness.
#[test]
fn a_gap_recorded_beside_an_acceptance_of_another_stays_open() {
    let mut world = World::streaming();
    let before = world.witness();
    let other = [gap(Code::PublicationLacksTable)];
    world.script.handle(Input::GapSuspected(gap(Code::PublicationReplaced)));
    let accepted = before.with_gaps(&other);
    let accepted = accepted.accept(&[OpenFinding::Gap(other[0].clone())], accepted.clone(), "ann");
    world.another_writes(&accepted);
    for _ in 0..3 {
        world.settle_down();
        assert_eq!(world.gap().0, Some(Code::PublicationReplaced));
    }
    assert_eq!(world.witness().gaps.len(), 1, "in the generation that counts");
    world.accept();
    world.settle_down();
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
    assert_eq!(world.witness().gaps, []);
}

#[test]
fn a_process_that_exits_for_a_gap_records_it_first() {
    let mut world = World::streaming();
    world.script.relay.on_failed = OnFailed::Exit;
    world.script.handle(Input::GapSuspected(gap(Code::PublicationReplaced)));
    world.answer_all();
    assert_eq!(world.in_flight.len(), 1);
    assert!(!world.script.actions().contains(&Action::Exit(ExitReason::Failed)));
    world.store();
    assert!(world.script.actions().contains(&Action::Exit(ExitReason::Failed)));
    // Kafka cannot be reached: the process reports that for ten seconds, then exits.
    let mut world = World::streaming();
    world.script.relay.on_failed = OnFailed::Exit;
    world.script.handle(Input::GapSuspected(gap(Code::PublicationReplaced)));
    world.script.run_for(Duration::from_secs(9));
    let report = world.script.relay.snapshot(world.script.at).witness;
    assert!(!report.are_gaps_written);
    assert!(!world.script.actions().contains(&Action::Exit(ExitReason::Failed)));
    world.script.run_for(Duration::from_secs(2));
    assert!(world.script.actions().contains(&Action::Exit(ExitReason::Failed)));
}

#[test]
fn what_the_server_repeats_after_a_crash_is_read_and_not_produced() {
    let mut world = World::streaming();
    world.script.transaction(100, &["a"]);
    world.script.transaction(200, &["b"]);
    world.script.settle();
    world.settle_down();
    assert_eq!(world.script.confirmed(), 208);
    world.restart();
    world.script.source.slot_at = 0;
    world.connect();
    world.script.transaction(8, &["warm-up"]);
    world.script.transaction(100, &["a"]);
    world.script.run_for(Duration::from_secs(1));
    assert_eq!(world.script.source.slot_at, 0, "nothing is confirmed on faith");
    world.script.transaction(200, &["b"]);
    assert!(world.script.keys().is_empty(), "all of it is in Kafka");
    world.transaction(300, &["c"]);
    assert_eq!(world.script.keys(), ["c"]);
    world.script.settle();
    world.settle_down();
    assert_eq!(world.script.confirmed(), 308);
    assert_eq!(world.script.state(), (State::Streaming, None));
}

#[test]
fn what_is_covered_is_confirmed_with_the_next_keepalive_of_an_idle_server() {
    let mut world = World::streaming();
    world.restart();
    world.script.source.slot_at = 0;
    world.connect();
    world.script.transaction(8, &["warm-up"]);
    world.script.take(&wire::keepalive(400));
    world.settle_down();
    assert_eq!(world.script.source.slot_at, 400);
    assert_eq!(world.witness().last.unwrap().end_lsn.as_u64(), 16);
}

/// The witness says 208, after transactions at 100 and 200; a restored storage snapshot has the
/// slot at 16.
fn restored() -> World {
    let mut world = World::streaming();
    world.script.transaction(100, &["a"]);
    world.script.transaction(200, &["b"]);
    world.script.settle();
    world.settle_down();
    world.restart();
    world.script.source.slot_at = 16;
    world.connect();
    world
}

#[test]
fn a_server_restored_on_the_same_timeline_is_recognised_by_what_it_does_not_send_again() {
    let is_another = |world: &World| {
        let (code, from, to) = world.gap();
        assert_eq!((code, from, to), (Some(Code::HistoryChanged), 16, 208));
        assert_eq!(world.script.source.slot_at, 16, "nothing was confirmed");
        assert!(world.script.keys().is_empty(), "and nothing produced");
    };
    // Another transaction in the place of one.
    let mut world = restored();
    world.script.begin(150);
    world.script.take(&row("x"));
    world.script.take(&wire::commit(150, 158));
    assert_eq!(world.script.frame(&wire::begin(216, 0)), FrameOutcome::NotTaken);
    is_another(&world);
    // A transaction that ends past the witness's last.
    let mut world = restored();
    world.script.begin(204);
    world.script.take(&row("x"));
    assert_eq!(world.script.frame(&wire::commit(204, 212)), FrameOutcome::NotTaken);
    is_another(&world);
    // The same end, another commit time.
    let mut world = restored();
    world.script.take(&wire::begin(200, 77));
    world.script.take(&row("b"));
    assert_eq!(world.script.frame(&wire::commit(200, 208)), FrameOutcome::NotTaken);
    is_another(&world);
    // No transaction at all.
    let mut world = restored();
    assert_eq!(world.script.frame(&wire::keepalive(900)), FrameOutcome::NotTaken);
    is_another(&world);
}

#[test]
fn rows_of_other_tables_are_no_evidence_of_another_history() {
    let mut world = restored();
    world.script.begin(120);
    world.script.take(&foreign_row());
    world.script.commit(120);
    world.script.transaction(100, &["a"]);
    world.script.transaction(200, &["b"]);
    world.transaction(300, &["c"]);
    assert_eq!(world.script.keys(), ["c"]);
}

/// The table's earlier rows were no events, so it proves nothing that they come again.
#[test]
fn rows_of_a_table_that_became_an_outbox_later_are_no_events_before_that() {
    let mut world = World::streaming();
    world.script.transaction(100, &["a"]);
    world.script.settle();
    world.script.take(&wire::keepalive(400));
    world.settle_down();
    let mut known = world.witness();
    let before = known.tables.clone();
    known.set_tables(
        before.into_iter().chain([pgoutput::Oid::from_u32(OTHER)]).collect(),
        &crate::source::Catalog::default(),
    );
    assert_eq!(known.added.get(&OTHER), Some(&known.position));
    let read = Witness::decode(&known.encode()).unwrap();
    assert_eq!(read.added, known.added);
    let (position, other) = (known.position.as_u64(), pgoutput::Oid::from_u32(OTHER));
    world.topic.clear();
    world.topic.push(StateTopicRecord { key: b"known".to_vec(), value: known.encode(), offset: 1 });
    world.restart();
    world.script.source.others.push((Source::of("orders", OTHER, &COLUMNS).table, OTHER));
    world.script.source.slot_at = 16;
    world.connect();
    world.script.transaction(100, &["a"]);
    world.script.begin(200);
    world.script.take(&foreign_row());
    world.script.commit(200);
    world.script.take(&wire::keepalive(position + 100));
    assert_eq!(world.script.state(), (State::Streaming, None));
    assert!(known.tables.contains(&other));
}

/// The router finds that the slot stands past what is left of the witness, which ends at 16.
#[track_caller]
fn expect_loss_behind_warm_up(world: &mut World, case: &str) {
    world.settle_down();
    world.script.run_for(Duration::from_secs(6));
    world.settle_down();
    let (code, from, _) = world.gap();
    assert_eq!((code, from), (Some(Code::SlotMoved), 16), "{case}");
}

/// A broker that lacked the latest writes was elected leader.
#[test]
fn what_kafka_has_lost_of_the_witness_counts_no_more_for_the_process_that_wrote_it() {
    for streams in [true, false] {
        let mut world = World::streaming();
        let stored = world.topic.clone();
        world.transaction(100, &["a"]);
        world.script.settle();
        world.settle_down();
        let confirmed = world.script.source.slot_at;
        assert!(confirmed > 100, "{confirmed}");
        world.topic = stored;
        if streams {
            world.script.run_for(Duration::from_secs(6));
        } else {
            world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
        }
        expect_loss_behind_warm_up(&mut world, &format!("streams: {streams}"));
    }
}

/// The brokers' disks were put back to a copy from before the process, while it ran. Its producer
/// is unknown there, so the next write is stored, and is the first that the process hears of it.
#[test]
fn a_write_at_an_offset_that_was_given_before_counts_for_no_process() {
    for rows in [true, false] {
        let mut world = World::streaming();
        let copy = (world.topic.clone(), world.stored);
        world.restart();
        world.settle_down();
        world.describe();
        world.transaction(100, &["a"]);
        world.script.settle();
        world.settle_down();
        let confirmed = world.script.source.slot_at;
        assert!(confirmed > 100, "{confirmed}");
        (world.topic, world.stored) = copy;
        if rows {
            world.transaction(200, &["b"]);
            world.script.settle();
        } else {
            world.script.take(&wire::keepalive(300));
        }
        for _ in 0..20 {
            world.script.run_for(Duration::from_millis(100));
            // The topic is looked at every five seconds only.
            while !matches!(world.script.actions.front(), None | Some(Action::CheckStateTopic(_)))
                && world.answer()
            {}
        }
        assert!(world.store(), "something is written");
        assert_eq!(world.script.source.slot_at, confirmed, "nothing more is confirmed");
        expect_loss_behind_warm_up(&mut world, &format!("rows: {rows}"));
    }
}

/// A state topic that was deleted and made again has its offsets from zero on.
#[test]
fn a_topic_that_was_made_again_is_no_loss() {
    let mut world = World::streaming();
    world.restart();
    world.settle_down();
    world.describe();
    (world.topic, world.stored) = (Vec::new(), -1);
    world.transaction(100, &["a"]);
    world.script.settle();
    world.settle_down();
    world.describe();
    assert_eq!(world.script.state(), (State::Streaming, None));
    assert_eq!(world.witness().position.as_u64(), 108);
}

/// A broker that lacked the latest writes was elected leader before the process that had just
/// started wrote its own record.
#[test]
fn what_kafka_has_lost_of_a_former_process_counts_no_more_for_one_that_has_read_it() {
    let mut world = World::streaming();
    let stored = world.topic.clone();
    world.transaction(100, &["a"]);
    world.script.settle();
    world.settle_down();
    world.restart();
    assert!(world.answer(), "the state topic is read");
    assert!(world.in_flight.is_empty(), "nothing is written yet");
    world.topic = stored;
    world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    expect_loss_behind_warm_up(&mut world, "a process that has only read");
}

#[test]
fn another_router_between_the_preflight_and_the_start_is_noticed() {
    let mut world = World::streaming();
    world.restart();
    world.script.run_for(Duration::from_secs(1));
    for _ in 0..6 {
        assert!(world.answer());
    }
    let asked = world.script.actions.front();
    assert!(matches!(asked, Some(Action::ReadStateTopic(_))), "the slot is ours");
    let value = Witness { position: Lsn::from_u64(300), ..world.witness() }.encode();
    world.topic.push(StateTopicRecord { key: b"other".to_vec(), value, offset: 50 });
    world.answer();
    assert_eq!(world.script.state(), (State::Starting, Some(Code::SlotInUse)));
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
    assert_eq!(world.witness().position.as_u64(), 300, "everything was read again");
}

#[test]
fn a_promotion_that_lost_nothing_continues_and_one_that_lost_a_transaction_is_a_gap() {
    let promoted = |left: u64| {
        let mut world = World::streaming();
        world.restart();
        world.server.history = History { system_id: "1".into(), timeline: 2 };
        world.script.source.slot_at = left.min(16);
        world.script.run_for(Duration::from_secs(1));
        while world.script.actions.front() != Some(&Action::ReadTimelines(2)) {
            assert!(world.answer());
        }
        world.script.actions.pop_front();
        let text = format!("1\t{}\tpromoted\n", Lsn::from_u64(left));
        let timelines = source::TimelineHistory::parse(&text).unwrap();
        world.script.handle(Input::Timelines(timelines));
        world.settle_down();
        world
    };
    let mut world = promoted(16);
    assert_eq!(world.script.state(), (State::Streaming, None));
    assert_eq!(world.witness().history.unwrap().timeline, 2);
    let begun = world.witness();
    let history = Some(History { system_id: "1".into(), timeline: 1 });
    let position = Lsn::from_u64(900);
    let value = Witness { history, position, ..begun.clone() }.encode();
    world.topic.push(StateTopicRecord { key: b"late".to_vec(), value, offset: 50 });
    assert_eq!(world.witness(), begun, "a late write of timeline 1 must not count");
    assert_eq!(promoted(15).gap(), (Some(Code::HistoryChanged), 15, 16));
}

#[test]
fn another_kafka_cluster_or_another_database_cluster_is_a_gap() {
    let mut world = World::streaming();
    world.restart();
    world.cluster = "another".into();
    world.connect();
    assert_eq!(world.gap().0, Some(Code::ClusterChanged));
    let mut world = World::streaming();
    world.restart();
    world.server.history.system_id = "another".into();
    world.connect();
    assert_eq!(world.gap().0, Some(Code::HistoryChanged));
}

#[test]
fn a_pipeline_without_a_witness_starts_and_reports_it() {
    let mut world = World::streaming();
    let report = world.script.relay.snapshot(world.script.at).witness;
    assert_eq!(report.began_without.map(|mark| mark.lsn), Some(Lsn::ZERO));
    // The topic was deleted while the router runs: what this router has written itself still
    // counts.
    world.topic.clear();
    world.script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    world.script.source.slot_at = 500;
    world.connect();
    assert_eq!(world.gap().0, Some(Code::SlotMoved));
}

#[test]
fn a_state_topic_that_cannot_be_read_blocks_before_the_server_is_contacted() {
    let mut world = World::new();
    assert_eq!(world.script.actions(), [Action::ReadStateTopic(1)]);
    world.script.handle(Input::StateTopic(1, Err(failure(Code::TopicMissing))));
    assert_eq!(world.script.state(), (State::Blocked, Some(Code::TopicMissing)));
    world.script.run_for(Duration::from_secs(5));
    let records =
        vec![StateTopicRecord { key: b"k".to_vec(), value: b"{\"v\":9}".to_vec(), offset: 0 }];
    let read = StateTopicRead { cluster: "c".into(), records };
    world.script.handle(Input::StateTopic(2, Ok(read)));
    assert_eq!(world.script.state(), (State::Blocked, Some(Code::StateTopicUnsuitable)));
    world.settle_down();
    assert_eq!(world.script.state(), (State::Streaming, None));
}

#[test]
fn keys_keep_their_partition_until_what_was_in_flight_has_passed() {
    let mut world = World::streaming();
    world.restart();
    world.connect();
    world.script.begin(100);
    assert_eq!(world.script.frame(&row("a")), FrameOutcome::NotTaken);
    let id = looked_up(&world.script.actions())[0];
    world.script.handle(Input::Topic(id, Ok(facts(6))));
    while !world.script.relay.wants_wal() {
        assert!(world.answer() || world.store(), "held for ever");
    }
    world.script.take(&row("a"));
    let three = NonZeroI32::new(3).unwrap();
    let partition = crate::partition_for_key(b"a", three);
    assert_eq!(world.script.sink.produced()[0].partition, partition);
    assert_eq!(world.script.relay.topics.facts(id).unwrap().partitions, three);
}

#[test]
fn a_stopping_process_records_and_confirms_what_was_acknowledged() {
    let mut world = World::streaming();
    world.script.transaction(100, &["a"]);
    world.script.settle();
    world.script.handle(Input::Shutdown);
    world.answer_all();
    assert_eq!(world.in_flight.len(), 1, "without waiting for the timer");
    world.store();
    let actions = world.script.actions();
    assert_eq!(statuses(&actions).last().unwrap().flush.lsn().as_u64(), 108);
    assert_eq!(actions.last(), Some(&Action::CopyDone));
}

#[test]
fn an_isolated_transaction_waits_for_the_witness() {
    let mut world = World::streaming();
    world.script.transaction(100, &["a"]);
    world.script.transaction(200, &["b"]);
    let lane = world.script.sink.waiting()[0];
    let transaction = world.script.sink.fail(lane);
    let failed = failure(Code::RecordRefused);
    world.script.handle(Input::DeliveryFailed { transaction, failure: failed });
    world.script.new_sink();
    world.connect();
    world.transaction(100, &["a"]);
    assert_eq!(world.script.frame(&wire::begin(200, 0)), FrameOutcome::NotTaken);
    world.script.settle();
    world.settle_down();
    assert_eq!(world.script.confirmed(), 108);
    let Phase::Streaming(session) = &world.script.relay.phase else { panic!("no session") };
    assert_ne!(session.wait_reason, Some(WaitReason::Isolate), "and goes on then");
}
