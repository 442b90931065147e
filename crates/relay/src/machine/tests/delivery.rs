//! Records go out in order, positions come back, and what fails is replayed.

use std::time::Duration;

use super::*;

const SHORT_PAUSE: ReadPace = ReadPace::Coalesce(Duration::from_micros(300));

#[test]
fn a_topic_is_looked_up_before_the_first_record_goes_to_it() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.connect();
    script.begin(8);
    assert_eq!(script.frame(&row("a")), FrameOutcome::NotTaken);
    assert!(!script.relay.wants_wal());
    let topics = looked_up(&script.actions());
    assert_eq!(topics.len(), 1);
    assert!(script.sink.produced().is_empty());
    script.handle(Input::Topic(topics[0], Ok(facts(3))));
    assert!(script.relay.wants_wal());
    assert_eq!(script.frame(&row("a")), FrameOutcome::Taken);
    assert_eq!(script.keys(), ["a"]);
}

#[test]
fn records_enter_the_sink_in_wal_order() {
    // I5
    let mut script = Script::streaming();
    script.transaction(100, &["a", "b"]);
    script.transaction(200, &["a"]);
    assert_eq!(script.keys()[1..], ["a", "b", "a"]);
}

#[test]
fn what_is_not_acknowledged_is_not_confirmed() {
    // I1, I3
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.run_for(Duration::from_secs(5));
    let before = statuses(&script.actions());
    assert!(!before.is_empty(), "the server is told that we live");
    assert!(before.iter().all(|status| status.flush.lsn().as_u64() == 16));
    script.settle();
    assert_eq!(statuses(&script.actions())[0].flush.lsn().as_u64(), 108);
}

#[test]
fn a_keepalive_is_confirmed_when_what_precedes_it_is_acknowledged_and_no_transaction_is_open() {
    // I4
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.take(&wire::keepalive(500));
    script.tick_after(200);
    assert_eq!(script.confirmed(), 16);
    script.settle();
    script.tick_after(200);
    assert_eq!(script.confirmed(), 500);
    script.begin(600);
    script.take(&wire::keepalive(700));
    script.tick_after(200);
    assert_eq!(script.confirmed(), 500);
}

#[test]
fn an_idle_outbox_moves_with_the_keepalives_but_never_back_behind_the_slot() {
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    script.source.slot_at = 400;
    script.connect();
    script.take(&wire::keepalive(300));
    script.tick_after(200);
    assert_eq!(script.confirmed(), 0, "the walsender decodes again from further back");
    script.take(&wire::keepalive(500));
    script.tick_after(200);
    assert_eq!(script.confirmed(), 500);
}

#[test]
fn a_full_queue_holds_the_same_record_until_there_is_room() {
    let mut script = Script::streaming();
    script.sink = MemorySink::new(1);
    script.begin(100);
    script.take(&row("a"));
    assert_eq!(script.frame(&row("b")), FrameOutcome::NotTaken);
    assert!(!script.relay.wants_wal());
    script.settle();
    assert!(script.relay.wants_wal());
    assert_eq!(script.frame(&row("b")), FrameOutcome::Taken);
    assert_eq!(script.keys(), ["a", "b"]);
}

#[test]
fn a_full_queue_is_not_tried_again_before_an_acknowledgement_or_a_short_wait() {
    let mut script = Script::streaming();
    script.sink = MemorySink::new(1);
    script.begin(100);
    script.take(&row("a"));
    assert_eq!(script.frame(&row("b")), FrameOutcome::NotTaken);
    for input in [Input::Tick, Input::BytesArrived, Input::Acks(&Acks::default())] {
        script.handle(input);
        assert!(!script.relay.wants_wal(), "the shell would offer it again and again");
    }
    script.run_for(Duration::from_millis(50));
    assert!(script.relay.wants_wal(), "nothing is held for ever");
}

#[test]
fn acknowledgements_of_an_earlier_session_make_room_in_the_queue() {
    let mut script = Script::streaming();
    script.sink = MemorySink::new(1);
    script.transaction(100, &["a"]);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.connect();
    script.begin(100);
    assert_eq!(script.frame(&row("a")), FrameOutcome::NotTaken);
    script.settle();
    script.take(&row("a"));
}

#[test]
fn the_socket_is_not_read_while_the_window_is_full() {
    let mut script = Script::streaming();
    for at in [100, 200, 300] {
        script.transaction(at, &["a"]);
    }
    script.begin(400);
    script.take(&row("a"));
    assert!(!script.relay.wants_wal());
    // Acknowledged but not confirmed: still in the window, since a crash now would repeat it.
    let lane: Lane = script.sink.waiting()[0];
    let mut acks = Acks::default();
    script.sink.store(lane);
    script.sink.ack(lane, &mut acks);
    script.handle(Input::Acks(&acks));
    assert_eq!(script.confirmed(), 108);
    assert!(script.relay.wants_wal());
}

#[test]
fn the_window_counts_bytes_as_well_as_events() {
    let window = Window { events: 1_000, bytes: 4_096 };
    let mut script = Script::streaming_with(RelaySettings { window, ..settings() });
    script.begin(100);
    script.take(&row_of("order", "a", &"x".repeat(4_096)));
    assert!(!script.relay.wants_wal());
    assert_eq!(script.relay.snapshot(script.at).window_events, 1);
}

#[test]
fn a_transaction_larger_than_the_window_passes_through() {
    let mut script = Script::streaming();
    script.begin(100);
    for number in 0..50 {
        if !script.relay.wants_wal() {
            assert_eq!(script.sink.in_flight(), 4);
            script.settle();
        }
        script.take(&row(&number.to_string()));
    }
    script.settle();
    script.commit(100);
    script.tick_after(200);
    assert_eq!(script.confirmed(), 108);
}

#[test]
fn status_updates_are_paced_and_a_new_position_does_not_wait_for_the_interval() {
    let mut script = Script::streaming();
    script.take_time(Duration::from_secs(30));
    let idle = statuses(&script.actions()).len();
    assert!((10..=11).contains(&idle), "{idle} updates in 30 idle seconds");
    for number in 0..100_u64 {
        script.take(&wire::reply_request(1_000 + number * 8));
        script.tick_after(10);
    }
    let asked = statuses(&script.actions()).len();
    assert!((8..=11).contains(&asked), "{asked} updates in a second of questions");
}

#[test]
fn a_failed_delivery_ends_the_session_and_the_slot_replays() {
    // I5
    let mut script = Script::streaming();
    script.transaction(100, &["a", "b"]);
    script.fail_next(Code::DeliveryFailed);
    assert_eq!(script.actions(), [REPLACED_AT_ONCE, Action::Disconnect]);
    assert!(!script.relay.wants_wal());
    let produced = script.keys().len();
    script.frame(&wire::begin(200, 0));
    script.frame(&row("c"));
    assert_eq!(script.keys().len(), produced, "nothing is produced after it");
    script.run_for(Duration::from_secs(30));
    assert_eq!(script.actions(), [], "no session without a sink");
    script.new_sink();
    script.connect();
    script.transaction(100, &["a", "b"]);
    script.settle();
    assert_eq!(script.keys(), ["a", "b"]);
    assert_eq!(script.confirmed(), 108);
    let reconnects = script.relay.snapshot(script.at).reconnects;
    assert_eq!((reconnects.postgres, reconnects.kafka), (1, 1));
}

#[test]
fn the_same_data_failure_three_times_at_one_position_needs_a_person() {
    let mut script = Script::streaming();
    for attempt in 1..=3 {
        script.transaction(100, &["a"]);
        script.fail_next(Code::RecordRefused);
        let expected = if attempt < 3 { State::Starting } else { State::Failed };
        assert_eq!(script.state(), (expected, Some(Code::RecordRefused)), "attempt {attempt}");
        script.new_sink();
        script.connect();
    }
    let failed = (State::Failed, Some(Code::RecordRefused));
    assert_eq!(script.state(), failed, "trying again is no recovery");
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(script.state(), failed, "nor is losing the server");
    script.connect();
    script.transaction(100, &["a"]);
    assert_eq!(script.state(), failed);
    script.settle();
    script.tick_after(200);
    assert_eq!(script.state(), (State::Streaming, None), "getting past the place is");
}

#[test]
fn transport_failures_never_need_a_person() {
    let mut script = Script::streaming();
    for _ in 0..6 {
        script.transaction(100, &["a"]);
        script.fail_next(Code::KafkaUnreachable);
        assert_eq!(script.state(), (State::Blocked, Some(Code::KafkaUnreachable)));
        script.new_sink();
        script.connect();
    }
}

#[test]
fn acknowledgements_of_an_earlier_session_confirm_nothing() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.connect();
    script.transaction(100, &["a"]);
    let (lane, mut acks) = (script.sink.waiting()[0], Acks::default());
    script.sink.store(lane);
    script.sink.ack(lane, &mut acks);
    script.handle(Input::Acks(&acks));
    script.tick_after(200);
    assert_eq!(script.confirmed(), 16);
    script.settle();
    script.tick_after(200);
    assert_eq!(script.confirmed(), 108);
    let snapshot = script.relay.snapshot(script.at);
    assert_eq!(snapshot.topics[0].acked, 3, "what Kafka took is counted, stale or not");
}

#[test]
fn no_more_than_one_earlier_session_is_in_flight() {
    // Tickets distinguish sessions modulo 256, and each session may leave a window of records in
    // the producer.
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(script.actions(), [Action::Disconnect], "the producer stays, its records finish");
    script.connect();
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(script.actions(), [Action::Disconnect, REPLACED_AT_ONCE]);
    script.new_sink();
    script.connect();
    script.transaction(100, &["a"]);
    script.settle();
    script.actions();
    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    assert_eq!(script.actions(), [Action::Disconnect]);
}

#[test]
fn a_surplus_acknowledgement_ends_the_session() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.transaction(200, &["b"]);
    let acks = script.sink.ack_all();
    script.handle(Input::Acks(&acks));
    script.handle(Input::Acks(&acks));
    assert!(script.actions().contains(&REPLACED_AT_ONCE));
    assert_eq!(script.state(), (State::Starting, Some(Code::ProducerFatal)));
}

#[test]
fn a_sink_that_fails_while_connecting_ends_the_attempt() {
    // Without a sink the session would read nothing, and a stopping server would wait as long as
    // Kafka is unreachable.
    let mut script = Script::new(settings());
    script.handle(Input::SinkReady);
    let opened = script.source.answer(&Action::Connect).unwrap();
    script.handle(opened);
    script.handle(Input::DeliveryFailed {
        transaction: None,
        failure: failure(Code::KafkaUnreachable),
    });
    let begun = [Action::Connect, Action::ReadSlot, REPLACED_AT_ONCE, Action::Disconnect];
    assert_eq!(script.actions(), begun);
    script.run_for(Duration::from_secs(60));
    assert_eq!(script.actions(), [], "not before there is a sink");
    script.new_sink();
    assert_eq!(script.actions(), [Action::Connect]);
    script.answer();
    script.frame(&wire::relation(OUTBOX, "outbox", &COLUMNS));
    script.transaction(100, &["a"]);
    assert_eq!(script.keys(), ["a"]);
}

#[test]
fn latency_is_not_measured_by_another_servers_clock() {
    let mut script = Script::streaming();
    let months_ago = -10_000_000_000_000;
    let wall = script.now().wall.as_micros();
    script.take(&wire::begin_sent_at(100, months_ago, wall));
    assert!(matches!(script.relay.pace(), ReadPace::Backlog { .. }));
    script.take(&wire::origin(wall));
    assert_eq!(script.relay.pace(), ReadPace::AtOnce);
    script.take(&row("a"));
    script.commit(100);
    let before = script.relay.snapshot(script.at).topics[0].latencies.sum_micros;
    script.settle();
    let snapshot = script.relay.snapshot(script.at);
    assert_eq!(snapshot.topics[0].latencies.sum_micros, before);
    let timestamp = script.sink.produced().last().unwrap().timestamp_ms;
    assert_eq!(timestamp, PgTimestamp::from_micros(months_ago).unix_millis());
}

fn behind(millis: u64) -> ReadPace {
    ReadPace::Backlog { behind: Duration::from_millis(millis) }
}

/// A frame of the server with another send time.
fn sent_at(micros: i64, mut frame: Vec<u8>) -> Vec<u8> {
    frame[17..25].copy_from_slice(&micros.to_be_bytes());
    frame
}

#[test]
fn what_is_sent_late_is_a_backlog_until_the_server_has_no_more() {
    let mut script = Script::streaming();
    script.take(&wire::begin_sent_at(100, 1_000, 61_000));
    assert_eq!(script.relay.pace(), behind(60), "also amid a transaction");
    script.take(&sent_at(61_000, row("a")));
    script.take(&sent_at(61_000, wire::commit(100, 100 + 8)));
    assert_eq!(script.relay.pace(), behind(60), "however far apart they committed");
    script.take(&wire::keepalive(108));
    assert_eq!(script.relay.pace(), ReadPace::AtOnce);
}

#[test]
fn a_transaction_that_takes_long_to_send_becomes_a_backlog() {
    let mut script = Script::streaming();
    script.take(&wire::begin_sent_at(100, 1_000, 2_000));
    assert_eq!(script.relay.pace(), ReadPace::AtOnce);
    script.take(&sent_at(50_000, row("a")));
    assert_eq!(script.relay.pace(), ReadPace::AtOnce);
    script.take(&sent_at(52_000, row("b")));
    assert_eq!(script.relay.pace(), behind(51));
}

#[test]
fn commits_close_together_share_a_coalesced_read_and_others_are_read_at_once() {
    let mut script = Script::streaming();
    let mut pace_after = |commit, micros| {
        // A server that waits for its disk sends late, and is followed all the same.
        let sent = micros + 10_000;
        script.take(&wire::begin_sent_at(commit, micros, sent));
        script.take(&sent_at(sent, row("a")));
        assert_eq!(script.relay.pace(), ReadPace::AtOnce, "the commit is right behind");
        script.take(&sent_at(sent, wire::commit(commit, commit + 8)));
        script.relay.pace()
    };
    assert_eq!(pace_after(100, 1_000), ReadPace::AtOnce);
    assert_eq!(pace_after(200, 1_200), SHORT_PAUSE);
    assert_eq!(pace_after(300, 1_800), ReadPace::AtOnce);
}

#[test]
fn a_broker_that_acknowledges_nothing_blocks_the_router() {
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.run_for(Duration::from_secs(4));
    assert_eq!(script.state(), (State::Blocked, Some(Code::KafkaUnreachable)));
    script.settle();
    assert_eq!(script.state(), (State::Streaming, None));
    script.handle(Input::BrokersUnreachable(Some(failure(Code::KafkaUnreachable))));
    assert_eq!(script.state(), (State::Blocked, Some(Code::KafkaUnreachable)));
    script.handle(Input::BrokersUnreachable(Some(failure(Code::KafkaAuthentication))));
    assert_eq!(script.state(), (State::Failed, Some(Code::KafkaAuthentication)));
}

#[test]
fn one_stuck_partition_blocks_the_router_although_others_continue() {
    let mut script = Script::streaming_with(RelaySettings {
        window: Window { events: 1_000, bytes: 1 << 20 },
        ..settings()
    });
    script.transaction(100, &["stuck"]);
    let stuck = script.sink.waiting()[0];
    let other = (0..).map(|key: u32| key.to_string()).find(|key| {
        crate::partition_for_key(key.as_bytes(), NonZeroI32::new(3).unwrap()) != stuck.1
    });
    let other = other.unwrap();
    script.handle(Input::Tick);
    for number in 2..10 {
        script.transaction(number * 100, &[&other]);
        let lane = *script.sink.waiting().iter().find(|lane| **lane != stuck).unwrap();
        let mut acks = Acks::default();
        script.sink.store(lane);
        script.sink.ack(lane, &mut acks);
        script.handle(Input::Acks(&acks));
        script.run_for(Duration::from_millis(500));
    }
    let reason = script.relay.condition(script.at).reason.unwrap();
    assert_eq!(script.state(), (State::Blocked, Some(Code::KafkaUnreachable)));
    assert_eq!(reason.message, "the oldest event has waited 4 s for Kafka's acknowledgement");
    assert_eq!(reason.lsn, Some(Lsn::from_u64(100)), "it says which");
    assert_eq!(reason.case, Some(Case::ReplicasSilent));
    script.settle();
    assert_eq!(script.state(), (State::Streaming, None));
}

#[test]
fn a_long_transaction_that_is_acknowledged_gradually_does_not_block_the_router() {
    let mut script = Script::streaming();
    script.begin(100);
    for number in 0..20 {
        if !script.relay.wants_wal() {
            let (lane, mut acks) = (script.sink.waiting()[0], Acks::default());
            script.sink.store(lane);
            script.sink.ack(lane, &mut acks);
            script.handle(Input::Acks(&acks));
        }
        script.take(&row(&number.to_string()));
        script.handle(Input::BytesArrived);
        script.run_for(Duration::from_secs(1));
        if number >= 4 {
            assert_eq!(script.state(), (State::Streaming, None));
        }
    }
}
