//! Rows that cannot become records, rows of other tables, and tables whose columns change.

use super::*;
use crate::telemetry::RowsIgnored;

fn oversized(script: &mut Script, payload: &[u8]) -> FrameOutcome {
    let step = script.oversized(5_000_000, payload);
    script.collect();
    step
}

#[test]
fn a_bad_row_stops_the_relay_at_its_place_and_is_offered_again() {
    // I7
    let mut script = Script::streaming();
    script.transaction(100, &["a"]);
    script.begin(200);
    assert_eq!(script.frame(&null_key()), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Failed, Some(Code::KeyIsNull)));
    let reason = script.relay.condition(script.at).reason.unwrap();
    assert_eq!(reason.lsn, Some(Lsn::from_u64(200)));
    script.settle();
    script.tick_after(200);
    assert_eq!(script.confirmed(), 108, "what precedes it is confirmed");
    for _ in 0..5 {
        assert!(!script.relay.wants_wal());
        script.take_time(Duration::from_secs(31));
        assert!(script.relay.wants_wal());
        assert_eq!(script.state().0, State::Failed, "offering it again repairs nothing");
        assert_eq!(script.frame(&null_key()), FrameOutcome::NotTaken);
    }
    script.take_time(Duration::from_secs(31));
    script.take(&row("repaired"));
    assert_eq!(script.state(), (State::Streaming, None));
    assert_eq!(script.relay.snapshot(script.at).errors[&Code::KeyIsNull], 6);
}

#[test]
fn rows_of_other_tables_are_ignored() {
    // I7
    let mut script = Script::streaming();
    script.begin(100);
    script.take(&foreign_row());
    script.take(&wire::truncate(OTHER));
    script.commit(100);
    script.tick_after(200);
    assert_eq!(script.confirmed(), 108);
    let ignored = script.relay.snapshot(script.at).rows_ignored;
    assert_eq!(ignored, RowsIgnored { insert: 1, truncate: 1, ..RowsIgnored::default() });
}

/// The counts are those of the process: a session that ends takes none of them with it.
#[test]
fn changes_that_are_no_events_are_counted_by_operation_whole_or_oversized_and_across_sessions() {
    let mut script = Script::streaming();
    let ignored = |script: &Script| script.relay.snapshot(script.at).rows_ignored;
    let change = |letter: u8| wire::change(letter, OUTBOX);
    script.begin(100);
    script.take(&foreign_row());
    (0..2).for_each(|_| script.take(&change(b'U')));
    (0..3).for_each(|_| script.take(&change(b'D')));
    (0..4).for_each(|_| script.take(&wire::truncate(OUTBOX)));
    assert_eq!(ignored(&script), RowsIgnored { insert: 1, update: 2, delete: 3, truncate: 4 });
    assert_eq!(ignored(&script).total(), 10);

    assert_eq!(oversized(&mut script, &foreign_row()[..45]), FrameOutcome::Taken);
    for letter in [b'U', b'D', b'T', b'M'] {
        assert_eq!(oversized(&mut script, &change(letter)), FrameOutcome::Taken);
    }
    let counted = RowsIgnored { insert: 2, update: 3, delete: 4, truncate: 5 };
    assert_eq!(ignored(&script), counted, "a logical message is no change of a row");

    script.handle(Input::Disconnected(failure(Code::ServerUnreachable)));
    script.connect();
    assert_eq!(ignored(&script), counted);
    script.begin(100);
    script.take(&change(b'D'));
    assert_eq!(ignored(&script), RowsIgnored { delete: 5, ..counted });
}

#[test]
fn a_row_of_a_table_that_was_never_described_ends_the_session() {
    // I7
    let mut script = Script::streaming();
    script.begin(100);
    let unknown = wire::insert(1, 99, &[Value::Null]);
    assert_eq!(script.frame(&unknown), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Starting, Some(Code::Protocol)));
}

#[test]
fn a_row_outside_a_transaction_ends_the_session() {
    let mut script = Script::streaming();
    assert_eq!(script.frame(&row("a")), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Starting, Some(Code::Protocol)));
    assert_eq!(script.keys(), ["warm-up"]);
}

#[test]
fn an_oversized_row_of_an_outbox_is_held_by_name() {
    let mut script = Script::streaming();
    script.begin(100);
    let whole = row_of("order", "a", &"x".repeat(5_000));
    assert_eq!(oversized(&mut script, &whole[..200]), FrameOutcome::NotTaken);
    let reason = script.relay.condition(script.at).reason.unwrap();
    assert_eq!(reason.code, Code::RowTooLarge);
    assert!(reason.message.contains("the row with id a of public.outbox"), "{reason}");
}

#[test]
fn oversized_changes_of_other_tables_are_ignored() {
    let mut script = Script::streaming();
    script.begin(100);
    assert_eq!(oversized(&mut script, &foreign_row()[..45]), FrameOutcome::Taken);
    script.take(&wire::relation(OTHER, "other", &COLUMNS));
    let mut update = vec![b'U'];
    update.extend(OTHER.to_be_bytes());
    update.extend([0; 40]);
    assert_eq!(oversized(&mut script, &wire::wal(1, 0, &update)), FrameOutcome::Taken);
    assert_eq!(script.relay.snapshot(script.at).rows_ignored.total(), 2);
    assert_eq!(oversized(&mut script, &wire::wal(1, 0, b"R123456789")), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Starting, Some(Code::Protocol)));
}

#[test]
fn an_oversized_row_of_an_unknown_table_ends_the_session() {
    let mut script = Script::streaming();
    script.begin(100);
    let unknown = wire::insert(1, 99, &[Value::Text("x")]);
    assert_eq!(oversized(&mut script, &unknown), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Starting, Some(Code::Protocol)));
}

#[test]
fn columns_may_move_within_a_transaction() {
    let mut script = Script::streaming();
    script.begin(100);
    script.take(&row("a"));
    let mut columns = COLUMNS;
    columns.reverse();
    script.take(&wire::relation(OUTBOX, "outbox", &columns));
    script.take(&wire::insert(1, OUTBOX, &["{}", "t", "b", "order", "2"].map(Value::Text)));
    assert_eq!(script.keys()[1..], ["a", "b"]);
}

#[test]
fn a_mapped_column_that_is_gone_stops_the_next_row_and_nothing_newer_is_produced() {
    let mut script = Script::streaming();
    script.begin(100);
    script.take(&wire::relation(OUTBOX, "outbox", &COLUMNS[..4]));
    assert_eq!(
        script.frame(&wire::insert(1, OUTBOX, &["1", "t", "k", "e"].map(Value::Text))),
        FrameOutcome::NotTaken
    );
    assert_eq!(script.state(), (State::Failed, Some(Code::PresetUnclear)));
    assert_eq!(script.keys(), ["warm-up"]);
}

#[test]
fn a_table_described_again_is_routed_as_before() {
    // TRUNCATE and ANALYZE make the server describe a table again.
    let mut script = Script::streaming();
    for number in 1..50_u64 {
        script.take(&wire::relation(OUTBOX, "outbox", &COLUMNS));
        script.transaction(number * 100, &["a"]);
        script.settle();
        script.tick_after(200);
    }
    assert!(looked_up(&script.actions()).is_empty());
    assert_eq!(script.relay.topics_in_use().count(), 1);
}

#[test]
fn a_bytea_in_another_form_is_a_fault_of_the_session_and_not_of_the_row() {
    let mut script = Script::streaming();
    let mut columns = COLUMNS;
    columns[4].1 = 17;
    script.begin(100);
    script.take(&wire::relation(OUTBOX, "outbox", &columns));
    assert_eq!(script.frame(&row("a")), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Starting, Some(Code::ValueForm)));
}

#[test]
fn every_table_is_an_outbox_when_none_is_configured() {
    let outboxes = Outboxes::default();
    let mut script = Script::streaming_with(RelaySettings { outboxes, ..settings() });
    script.begin(100);
    script.take(&foreign_row());
    assert_eq!(script.keys(), ["warm-up", "k"]);
    let table = OutboxTable::with_defaults(TableName { schema: "s".into(), name: "t".into() });
    assert_eq!(table.format, Format::Plain);
}

/// An Update of the outbox: no old tuple, and a new one of no columns.
fn update() -> Vec<u8> {
    let mut message = vec![b'U'];
    message.extend(OUTBOX.to_be_bytes());
    message.extend([b'N', 0, 0]);
    wire::wal(1, 0, &message)
}

/// An Update that leaves a payload out of line (TOAST) as it is: the server sends it only in the
/// old tuple, and that only with REPLICA IDENTITY FULL.
fn updates_with_an_unchanged_payload() -> [Vec<u8>; 2] {
    let mut new = ["a", "order", "k", "Handled", ""].map(Value::Text);
    new[4] = Value::Unchanged;
    let payload = "x".repeat(5_000);
    let old = ["a", "order", "k", "Happened", &payload].map(Value::Text);
    let new = wire::insert_message(OUTBOX, &new);
    let old = wire::insert_message(OUTBOX, &old);
    // An Insert is its letter, the table, and the letter of its tuple before the tuple itself.
    let (table, new) = (&new[1..5], &new[5..]);
    let old = [b"O", &old[6..]].concat();
    [[&b"U"[..], table, new].concat(), [&b"U"[..], table, &old, new].concat()]
        .map(|message| wire::wal(1, 0, &message))
}

#[test]
fn an_update_that_leaves_the_payload_as_it_is_is_counted_or_refused() {
    // I7
    for update in updates_with_an_unchanged_payload() {
        let mut script = Script::streaming();
        let before = script.keys().len();
        script.begin(100);
        script.take(&update);
        script.take(&row("next"));
        script.commit(100);
        assert_eq!(script.keys()[before..], ["next"], "it is no event");
        assert_eq!(script.relay.snapshot(script.at).rows_ignored.update, 1);
        script.settle();
        assert_eq!(script.confirmed(), 108);

        let strict = outbox(|table| table.on_update = crate::OnUpdate::Error);
        let mut script = Script::streaming_with(strict);
        script.begin(100);
        assert_eq!(script.frame(&update), FrameOutcome::NotTaken);
        assert_eq!(script.state(), (State::Failed, Some(Code::RowUpdated)));
        let reason = script.relay.condition(script.at).reason.unwrap();
        assert!(reason.message.contains("public.outbox"), "{reason}");
    }
}

fn outbox(change: impl FnOnce(&mut OutboxTable)) -> RelaySettings {
    let name = TableName { schema: "public".into(), name: "outbox".into() };
    let mut table = OutboxTable::with_defaults(name);
    change(&mut table);
    RelaySettings {
        outboxes: Outboxes { tables: vec![table], ..Outboxes::default() },
        ..settings()
    }
}

#[test]
fn an_update_of_an_event_is_counted_or_refused() {
    // I7
    let mut script = Script::streaming();
    script.begin(100);
    script.take(&update());
    assert_eq!(script.relay.snapshot(script.at).rows_ignored.update, 1);

    let strict = outbox(|table| table.on_update = crate::OnUpdate::Error);
    let mut script = Script::streaming_with(strict);
    script.begin(100);
    assert_eq!(script.frame(&update()), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Failed, Some(Code::RowUpdated)));
    let mut script = Script::streaming_with(outbox(|t| t.on_update = crate::OnUpdate::Error));
    script.begin(100);
    assert_eq!(oversized(&mut script, &update()[..30]), FrameOutcome::NotTaken);
    assert_eq!(script.state(), (State::Failed, Some(Code::RowUpdated)));
}

#[test]
fn a_row_that_the_filter_leaves_out_is_counted_and_its_transaction_confirmed() {
    // I3, I7
    let filter = crate::RowFilter {
        column: "aggregate_type".into(),
        values: vec!["order".into()],
        kind: crate::FilterKind::In,
    };
    let mut script = Script::streaming_with(outbox(|table| table.filter = Some(filter)));
    let before = script.keys().len();
    script.begin(100);
    script.take(&row_of("cart", "a", "{}"));
    script.take(&row_of("order", "b", "{}"));
    script.commit(100);
    script.begin(200);
    script.take(&row_of("cart", "c", "{}"));
    script.commit(200);
    assert_eq!(script.keys()[before..], ["b"]);
    assert_eq!(script.relay.snapshot(script.at).rows_filtered, 2);
    script.settle();
    assert_eq!(script.confirmed(), 208);
}

/// The type of an enum.
const KIND: u32 = 16_600;

/// The outbox's aggregate type is an enum from now on.
fn describe_enum(script: &mut Script) {
    let mut columns = COLUMNS;
    columns[1].1 = KIND;
    script.take(&wire::wal(1, 0, &wire::type_message(KIND, "public", "kind")));
    script.take(&wire::relation(OUTBOX, "outbox", &columns));
}

/// Streams events of one kind, in a session that knows `order` and `cart`.
fn streaming_by_label(kind: crate::FilterKind) -> Script {
    let filter =
        crate::RowFilter { column: "aggregate_type".into(), values: vec!["order".into()], kind };
    let policy =
        crate::ErrorPolicy { bad_row: crate::OnError::DeadLetter, ..crate::ErrorPolicy::default() };
    let settings = outbox(|table| table.filter = Some(filter));
    let held = crate::HeldSettings { policy, ..settings.held.clone() };
    let mut script = Script::new(RelaySettings { held, ..settings });
    script.source.held = Some(crate::testing::HeldTable::default());
    name_labels(&mut script, &["order", "cart"]);
    script.handle(Input::SinkReady);
    script.connect();
    describe_enum(&mut script);
    script.begin(8);
    script.take(&row_of(if kind == crate::FilterKind::In { "order" } else { "cart" }, "w", "{}"));
    script.commit(8);
    script.settle();
    script.tick_after(100);
    script.actions.clear();
    script
}

fn name_labels(script: &mut Script, labels: &[&str]) {
    script.source.labels = source::FilterLabels::default();
    script.source.labels.add(pgoutput::Oid::from_u32(OUTBOX), "aggregate_type", KIND);
    for label in labels {
        script.source.labels.add_label(KIND, (*label).to_owned());
    }
}

#[test]
fn a_value_that_is_no_label_ends_the_session_and_nothing_behind_it_is_confirmed() {
    // I3, I7
    for kind in [crate::FilterKind::In, crate::FilterKind::NotIn] {
        let mut script = streaming_by_label(kind);
        script.begin(100);
        script.take(&row_of("order", "a", "{}"));
        script.take(&row_of("cart", "b", "{}"));
        script.commit(100);
        let sent = script.keys();
        for _ in 0..3 {
            script.settle();
            script.tick_after(200);
            script.begin(200);
            assert_eq!(script.frame(&row_of("ORDER", "c", "{}")), FrameOutcome::NotTaken);
            assert_eq!(script.state().1, Some(Code::ColumnType));
            let reason = script.relay.condition(script.at).reason.unwrap();
            assert_eq!(
                (reason.case, reason.lsn),
                (Some(Case::FilterLabel), Some(Lsn::from_u64(200)))
            );
            assert!(!reason.message.contains("ORDER"), "{}", reason.message);
            assert!(script.actions().contains(&Action::Disconnect));
            script.connect();
            describe_enum(&mut script);
        }
        assert_eq!(script.state().0, State::Failed, "from the third time on a person is needed");
        assert_eq!(script.keys(), sent, "nothing behind it is sent, here or to people");
        assert_eq!(script.confirmed(), 108);
    }
}

#[test]
fn a_label_that_was_added_is_known_to_the_next_session() {
    for (kind, expected) in [(crate::FilterKind::In, 0), (crate::FilterKind::NotIn, 1)] {
        let mut script = streaming_by_label(kind);
        let before = script.keys().len();
        script.begin(100);
        assert_eq!(script.frame(&row_of("refund", "a", "{}")), FrameOutcome::NotTaken);
        name_labels(&mut script, &["order", "cart", "refund"]);
        script.run_for(Duration::from_millis(500));
        assert!(script.actions().contains(&Action::Connect), "no person is needed");
        script.answer();
        describe_enum(&mut script);
        script.begin(100);
        script.take(&row_of("refund", "a", "{}"));
        script.commit(100);
        assert_eq!(script.keys().len(), before + expected);
        script.settle();
        script.tick_after(200);
        assert_eq!(script.confirmed(), 108);
        assert_eq!(script.state(), (State::Streaming, None));
    }
}

#[test]
fn rows_from_before_a_column_became_an_enum_are_filtered_as_texts() {
    let mut script = streaming_by_label(crate::FilterKind::In);
    script.take(&wire::relation(OUTBOX, "outbox", &COLUMNS));
    script.begin(100);
    script.take(&row_of("other", "a", "{}"));
    script.commit(100);
    assert_eq!(script.relay.snapshot(script.at).rows_filtered, 1);
}
