use std::collections::BTreeMap;

use pgoutput::{Oid, PgTimestamp, Xid};

use super::*;
use crate::{
    delivered::{
        FullXid, Horizon, Place,
        compared::{Compared, Figures, FilteredRows, HasTime, MadeSince, Scope, Settled},
        required::Required,
    },
    held::{TableMark, TableVersion},
    progress::transaction::LastTransaction,
    source::{
        Catalog, History, Interval, NextRows, Partition, PositionCheck, Storage, TableOids, samples,
    },
    testing,
    witness::combine::join,
};

fn mark(lsn: u64) -> Mark {
    Mark { lsn: Lsn::from_u64(lsn), at: Some("2025-12-31T00:00:00Z".to_owned()) }
}

fn gap(code: Code, from: u64, to: u64) -> Gap {
    let interval = Interval { from: Some(mark(from)), to: mark(to) };
    Gap::new(Failure::new(code, "something happened"), interval)
}

/// The source as `setup` leaves it, with the slot at 40 MiB.
fn baseline() -> Baseline {
    let reading = samples::reading(Some(testing::samples::slot()));
    Baseline {
        server: samples::server(),
        slot: testing::samples::slot(),
        catalog: samples::healthy(),
        alterations: Vec::new(),
        tables: TableOids::default(),
        checked: reading.mark(),
        moment: reading.moment(),
    }
}

fn begun() -> Witness {
    Witness::begin(&baseline(), "there", &Outboxes::default())
}

/// A record with two open gaps, which differs from the present state in everything.
fn before() -> Witness {
    Witness {
        generation: 7,
        history: Some(History { system_id: "another".into(), timeline: 9 }),
        cluster: "elsewhere".into(),
        last: Some(LastTransaction {
            commit_lsn: Lsn::from_u64(1),
            end_lsn: Lsn::from_u64(2),
            xid: Xid::from_u32(3),
            committed_at: PgTimestamp::from_micros(4),
        }),
        checked: Some(mark(5)),
        partitions: BTreeMap::from([("outbox.event.order".to_owned(), 6)]),
        tables: vec![Oid::from_u32(99)],
        gaps: vec![gap(Code::SlotMissing, 5, 9), gap(Code::PublicationReplaced, 6, 9)],
        began_without: Some(mark(1)),
        ..Witness::at(Lsn::from_u64(5))
    }
}

#[test]
fn a_first_record_is_the_source_as_it_is() {
    let first = begun();
    assert_eq!((first.generation, first.position), (1, Lsn::from_u64(40 << 20)));
    assert_eq!(first.history, Some(samples::server().history));
    assert_eq!((&*first.cluster, first.last), ("there", None));
    assert_eq!(first.checked, Some(baseline().checked));
    assert_eq!(
        (first.catalog.clone(), first.tables.clone()),
        (samples::healthy(), vec![Oid::from_u32(10)])
    );
    assert_eq!(first.open_findings(), []);
}

#[test]
fn what_is_open_is_named_by_code_and_position() {
    let names: Vec<String> = before().open_findings().iter().map(OpenFinding::name).collect();
    assert_eq!(names, ["P010@0/5", "P026@0/6", "K022@0/1"]);
}

#[test]
fn an_acceptance_is_a_complete_baseline_of_the_next_generation() {
    let before = before();
    let accepted = before.accept(&before.open_findings(), begun(), "ann@desk");
    let expected = Witness {
        generation: 8,
        partitions: before.partitions.clone(),
        accepted: accepted.accepted.clone(),
        ..begun()
    };
    assert_eq!(accepted, expected);
    assert_eq!(accepted.open_findings(), []);
    let names: Vec<String> = accepted.accepted.iter().map(Acceptance::name).collect();
    assert_eq!(names, ["P010@0/5", "P026@0/6", "K022@0/1"]);
    assert!(accepted.accepted.iter().all(|a| a.by == "ann@desk" && a.at == "2026-01-01T00:00:00Z"));
}

#[test]
fn what_is_not_accepted_stays_open() {
    let before = before();
    let [first, second, beginning] = &before.open_findings()[..] else { panic!("three") };
    let one = before.accept(std::slice::from_ref(first), begun(), "ann");
    assert_eq!(one.open_findings(), [second.clone(), beginning.clone()]);
    let other = before.accept(std::slice::from_ref(beginning), begun(), "ann");
    assert_eq!(other.open_findings(), [first.clone(), second.clone()]);
}

/// A gap that is not in the witness yet, such as a slot that was moved while no router ran.
#[test]
fn a_gap_that_the_record_does_not_hold_can_be_accepted_too() {
    let found = OpenFinding::Gap(gap(Code::SlotMoved, 5, 9));
    let accepted = before().accept(std::slice::from_ref(&found), begun(), "ann");
    assert_eq!(accepted.open_findings(), before().open_findings());
    assert_eq!(accepted.accepted.last().unwrap().name(), "P014@0/5");
}

#[test]
fn the_last_acceptances_are_kept() {
    let mut witness = Witness::at(Lsn::ZERO);
    for n in 0..30 {
        let closed = [OpenFinding::Gap(gap(Code::SlotMissing, n, n))];
        witness = witness.accept(&closed, begun(), "ann");
    }
    let begun: Vec<u64> = witness.accepted.iter().map(|accepted| accepted.lsn.as_u64()).collect();
    assert_eq!(begun, (10..30).collect::<Vec<_>>());
}

/// Only a session reads the table: while another gap is open, none does.
#[test]
fn what_the_table_of_held_events_must_have_is_given_up_with_its_own_gap_alone() {
    let mark = TableMark { version: Some(TableVersion { origin: 1, writes: 7 }), open: 2 };
    let gaps = vec![gap(Code::HistoryChanged, 5, 9), gap(Code::HeldTableBehind, 6, 9)];
    let before = Witness { held_table: mark, gaps, ..before() };
    let [history, table, _] = &before.open_findings()[..] else { panic!("three") };
    let accepted =
        |one: &OpenFinding| before.accept(std::slice::from_ref(one), begun(), "ann").held_table;
    assert_eq!((accepted(history), accepted(table)), (mark, TableMark::default()));
}

/// The purpose of an acceptance: the next start finds no defect.
#[test]
fn after_an_acceptance_a_stream_may_start() {
    use crate::source::{Expectations, check_cluster, history, preflight};
    let before = before();
    let accepted = before.accept(&before.open_findings(), begun(), "ann");
    let server = samples::server();
    let outboxes = Outboxes::default();
    let expected = Expectations {
        slot: "s",
        publication: "p",
        outboxes: &outboxes,
        witness: Some(&accepted),
        position_check: PositionCheck::Compared,
    };
    check_cluster(&accepted, "there").unwrap();
    history::continues(&accepted, &server, &crate::source::TimelineHistory::default()).unwrap();
    let reading = samples::reading(Some(testing::samples::slot()));
    preflight(expected, server, &reading, samples::healthy()).unwrap();
}

/// The slot of the samples stands at 40 MiB.
#[test]
fn a_slot_older_than_the_recreated_publication_is_refused() {
    let seen = |code, to: u64| {
        let closed = [OpenFinding::Gap(gap(code, 5, to << 20)), OpenFinding::Beginning(mark(1))];
        let same = Witness { history: Some(samples::server().history), ..before() };
        let refused = same.may_accept(&closed, &baseline()).err();
        assert_eq!(before().may_accept(&closed, &baseline()), Ok(()), "another history");
        refused.map(|failure| failure.code)
    };
    for code in [Code::PublicationMissing, Code::PublicationReplaced] {
        assert_eq!(seen(code, 39), None);
        assert_eq!(seen(code, 40), Some(Code::PublicationReplaced));
    }
    assert_eq!(
        seen(Code::PublicationLacksTable, 40),
        None,
        "its rows were left out, the others come"
    );
}

/// A router that runs meanwhile writes later positions, and does not know of the acceptance.
#[test]
fn a_start_without_a_witness_is_accepted_beside_a_running_router() {
    let before = Witness { gaps: Vec::new(), ..before() };
    let accepted = before.accept_notes(&before.open_findings(), "ann", "now");
    assert_eq!((accepted.rank(), accepted.open_findings()), (before.rank(), vec![]));
    let later = Witness { position: Lsn::from_u64(50), ..before };
    for records in [[accepted.clone(), later.clone()], [later, accepted]] {
        let joined = join(records).unwrap();
        assert_eq!(joined.position, Lsn::from_u64(50));
        assert_eq!(joined.open_findings(), []);
        assert_eq!(joined.accepted.len(), 1);
    }
}

fn gap_at(code: Code, lsn: u64, what: &str) -> Gap {
    let from = Some(Mark { lsn: Lsn::from_u64(lsn), at: None });
    let to = Mark { lsn: Lsn::from_u64(1_000), at: None };
    Gap::new(Failure::new(code, what), Interval { from, to })
}

/// What is accepted becomes the measure of everything that follows.
#[test]
fn a_gap_that_is_not_recorded_yet_is_shown_beside_the_open_ones() {
    let record = Witness::at(Lsn::from_u64(500)).with_gaps(&[gap_at(Code::SlotLost, 500, "lost")]);
    let names = |found: &[Gap]| -> Vec<String> {
        record.with_found(found, &mark(1_000)).gaps.iter().map(Gap::name).collect()
    };
    let table = gap_at(Code::PublicationLacksTable, 700, "outbox");
    assert_eq!(names(&[table]), ["P011@0/1F4", "P021@0/2BC"]);
    let recreated = gap_at(Code::SlotMoved, 500, "made again since");
    assert_eq!(names(&[recreated]), ["P011@0/1F4"], "that is how a lost slot is repaired");
    let earlier = gap_at(Code::SlotMoved, 400, "moved");
    assert_eq!(names(&[earlier]), ["P011@0/1F4", "P014@0/190"]);
}

/// Both gaps are P021 and begin at the last good reading, so they have the same name. The first may
/// not be checked any more, because its table has left the configuration.
#[test]
fn a_gap_of_another_table_is_shown_although_it_has_the_name_of_a_recorded_one() {
    let out = gap_at(Code::PublicationLacksTable, 700, "a is not in the publication");
    let back = gap_at(Code::PublicationLacksTable, 700, "a was taken out and put back");
    let another = gap_at(Code::PublicationLacksTable, 700, "b was taken out and put back");
    let record = Witness::at(Lsn::from_u64(500)).with_gaps(std::slice::from_ref(&out));
    let shown = |found: &[Gap]| record.with_found(found, &mark(1_000)).gaps.len();
    assert_eq!(shown(&[out]), 1, "it is the same");
    assert_eq!(shown(std::slice::from_ref(&another)), 2);
    assert_eq!(shown(&[back, another]), 3, "what is being repaired looks different now");
}

/// If a table is repaired at five, two hours after the defect was found, the rows written at four
/// are missing, too.
#[test]
fn a_gap_that_leaves_rows_out_lasts_until_the_next_check() {
    let found = [
        gap_at(Code::PublicationLacksTable, 700, "out"),
        gap_at(Code::PublicationMissing, 500, "gone"),
    ];
    let record = Witness::at(Lsn::from_u64(500)).with_gaps(&found);
    let shown = record.with_found(&[], &mark(5_000));
    let ends = |record: &Witness| -> Vec<u64> {
        record.gaps.iter().map(|gap| gap.interval.to.lsn.as_u64()).collect()
    };
    assert_eq!(ends(&shown), [5_000, 1_000], "the slot ends what it does not send");
    assert_eq!(
        shown.gaps[0].failure.message,
        "out; rows committed after 0/2BC and up to 0/1388 (2025-12-31T00:00:00Z) may be missing in Kafka"
    );
    assert_eq!(record.with_found(&[], &mark(900)), record, "of a server that is further back");
    let interval = Interval { from: None, to: mark(700) };
    let nameless = Gap::new(Failure::new(Code::PublicationLacksTable, "out"), interval);
    let record = Witness::at(Lsn::from_u64(500)).with_gaps(&[nameless]);
    assert_eq!(record.with_found(&[], &mark(5_000)), record, "its end is its name");
}

/// If the server crashes or is promoted right after the acceptance, transactions that are sent
/// again are recognised, and forgotten ones are noticed.
#[test]
fn the_last_transaction_stays_known_where_only_a_table_left_rows_out() {
    let (code, at) = (Code::PublicationLacksTable, Lsn::from_u64(40 << 20));
    let last = LastTransaction { end_lsn: Lsn::from_u64(39 << 20), ..before().last.unwrap() };
    let record = Witness {
        history: Some(samples::server().history),
        cluster: "there".to_owned(),
        gaps: vec![gap(code, 5, 9)],
        tables: begun().tables,
        last: Some(last),
        position: at,
        ..before()
    };
    let kept = |record: &Witness| record.accept(&record.open_findings(), begun(), "ann").last;
    assert_eq!(kept(&record), Some(last));
    let with = |change: &dyn Fn(&mut Witness)| {
        let mut record = record.clone();
        change(&mut record);
        kept(&record)
    };
    assert_eq!(with(&|r| r.position = Lsn::from_u64(41 << 20)), Some(last), "told before a crash");
    assert_eq!(with(&|r| r.position = Lsn::from_u64(39 << 20)), None, "the slot was moved");
    assert_eq!(with(&|r| r.gaps.push(gap(Code::SlotMoved, 5, 9))), None);
    assert_eq!(with(&|r| r.cluster = "elsewhere".to_owned()), None);
    assert_eq!(with(&|r| r.history = None), None);
    assert_eq!(with(&|r| r.tables.clear()), None, "an outbox since");
    assert_eq!(with(&|r| r.added = BTreeMap::from([(10, at)])), None);
    let ahead = LastTransaction { end_lsn: Lsn::from_u64(41 << 20), ..last };
    assert_eq!(with(&|r| (r.last, r.position) = (Some(ahead), ahead.end_lsn)), None);
    // A slot that was re-created, which is not accepted yet, may stand at the same position.
    let moved = record.with_gaps(&[gap(Code::SlotMoved, 6, 9)]);
    assert_eq!(moved.accept(&moved.open_findings()[..1], begun(), "ann").last, None);
}

/// A server that was restored has no more than its WAL: the next session would miss them again.
#[test]
fn notes_that_a_restored_server_lacks_are_missed_until_a_person_accepts_that() {
    let notes = Notes { any_left_out: true, by: Lsn::from_u64(50 << 20), writes: 2 };
    let of =
        |code| Witness { history: begun().history, gaps: vec![gap(code, 5, 9)], notes, ..before() };
    let accepted = |record: &Witness| record.accept(&record.open_findings(), begun(), "ann");
    let of_history = accepted(&of(Code::HistoryChanged));
    assert_eq!(of_history.notes, Notes { any_left_out: true, ..Notes::default() });
    let of_table = accepted(&of(Code::PublicationLacksTable));
    assert_eq!(of_table.notes, notes);
}

/// The same slot may be lost twice at the same position.
#[test]
fn an_acceptance_closes_what_was_found_before_it_and_nothing_later() {
    let lost = gap(Code::SlotLost, 5, 9);
    let record = Witness { generation: 3, ..before() }.with_gaps(std::slice::from_ref(&lost));
    let accepted = record.accept(&record.open_findings(), begun(), "ann");
    assert_eq!(accepted.generation, 5);
    assert!(accepted.has_accepted(&lost, 4) && accepted.has_accepted(&lost, 5));
    assert!(!accepted.has_accepted(&lost, 6), "found again since");
    assert!(!accepted.has_accepted(&gap(Code::SlotLost, 6, 9), 4), "another");
}

/// The router has found the gap that the person accepts, and writes it down a moment later.
#[test]
fn a_gap_that_a_router_records_after_its_acceptance_is_not_open() {
    let gap = gap_at(Code::SlotMoved, 500, "moved");
    let record =
        Witness { held: Some(samples::reading(None).moment()), ..Witness::at(Lsn::from_u64(500)) };
    let shown = record.with_found(std::slice::from_ref(&gap), &mark(1_000));
    let accepted = shown.accept(&shown.open_findings(), begun(), "ann");
    let late = record.with_gaps(std::slice::from_ref(&gap));
    let joined = join([late.clone(), accepted.clone()]).unwrap();
    assert_eq!((joined.gaps.len(), joined.position), (0, accepted.position));
    // A gap that is found after the acceptance is open.
    let later = joined.with_gaps(&[gap]);
    assert_eq!(join([later, accepted]).unwrap().gaps.len(), 1);
    let other = record.with_gaps(&[gap_at(Code::PublicationLacksTable, 700, "out")]);
    assert_eq!(join([other, late]).unwrap().gaps.len(), 2);
}

/// The configuration was rolled back to one that does not name the second outbox, and something
/// else is accepted under it.
#[test]
fn an_outbox_that_is_not_configured_any_more_was_not_replaced_and_is_remembered() {
    let mut catalog = samples::healthy();
    catalog.relations.push(samples::relation(11, "second"));
    let tables = vec![Oid::from_u32(10), Oid::from_u32(11)];
    let history = begun().history;
    let record = Witness { history, catalog, tables: tables.clone(), ..before() };
    let accepted = record.accept(&record.open_findings(), begun(), "ann");
    assert_eq!(accepted.former, BTreeMap::new());
    assert_eq!(accepted.tables, tables, "the session that begins tells of it");
}

#[test]
fn tables_of_another_server_are_neither_remembered_nor_replaced() {
    let accepted = |history| {
        let mut catalog = samples::healthy();
        catalog.relations.first_mut().unwrap().oid = Oid::from_u32(11);
        let record = Witness { history, catalog, tables: vec![Oid::from_u32(11)], ..before() };
        let accepted = record.accept(&record.open_findings(), begun(), "ann");
        (accepted.tables, accepted.former.into_keys().collect::<Vec<_>>())
    };
    let [former, present] = [11, 10].map(Oid::from_u32);
    assert_eq!(accepted(begun().history), (vec![present, former], vec![11]));
    assert_eq!(accepted(before().history), (vec![present], vec![]));
}

/// A baseline whose tables were read before this transaction.
fn read_before(next: u64) -> Baseline {
    let mut read = baseline();
    read.catalog.next = Some(next_rows(next, &[]));
    read
}

fn next_rows(xid: u64, empty: &[u32]) -> NextRows {
    NextRows {
        xid: FullXid::from_u64(xid),
        at: PgTimestamp::from_micros(7),
        empty: empty.iter().copied().map(Oid::from_u32).collect(),
    }
}

fn since(record: &Witness) -> Vec<(u32, u64)> {
    record.since.iter().map(|(place, since)| (place.oid.as_u32(), since.xid.as_u64())).collect()
}

/// Rows that are written meanwhile are in no stream, and would count as sent afterwards.
#[test]
fn a_table_that_is_no_outbox_when_gaps_are_accepted_has_events_from_then_on() {
    let mut record = Witness::begin(&read_before(800), "there", &Outboxes::default());
    let tables = [10, 20].map(Oid::from_u32).to_vec();
    let catalog = |xid| Catalog { next: Some(next_rows(xid, &[])), ..samples::healthy() };
    record.set_tables(tables.clone(), &catalog(900));
    assert_eq!(since(&record), [(10, 800), (20, 900)]);
    let fresh = Witness::begin(&read_before(950), "there", &Outboxes::default());
    let mut next = record.accept(&[], fresh, "ann");
    assert_eq!(since(&next), [(10, 800)], "the other one is not published");
    next.set_tables(tables, &catalog(990));
    assert_eq!(since(&next), [(10, 800), (20, 990)]);
}

/// Inserts may have been withheld between the readings, which the catalog does not show.
#[test]
fn rows_are_events_from_the_last_alteration_of_the_publication_on() {
    let record = Witness::begin(&read_before(800), "there", &Outboxes::default());
    let altered = |xid| {
        let mut now = Catalog { next: Some(next_rows(xid, &[])), ..samples::healthy() };
        let publication = now.publication.as_mut().unwrap();
        publication.written_by += 1;
        publication.options.push('x');
        now
    };
    assert_eq!(since(&record), [(10, 800)]);
    let read = Witness { since: record.since_by(&altered(900)), ..record.clone() };
    assert_eq!(since(&read), [(10, 900)]);
    let mut next = record.clone();
    next.set_tables(record.tables.clone(), &altered(900));
    next.catalog = altered(900).recorded();
    next.set_tables(record.tables.clone(), &altered(950));
    assert_eq!(since(&next), [(10, 900)], "altered once");
    let fresh = Baseline { catalog: altered(970), ..read_before(970) };
    let fresh = Witness::begin(&fresh, "there", &Outboxes::default());
    assert_eq!(since(&record.accept(&[], fresh, "ann")), [(10, 970)]);
    let fresh = Witness::begin(&read_before(970), "there", &Outboxes::default());
    assert_eq!(since(&record.accept(&[], fresh, "ann")), [(10, 800)]);
}

/// A copy that was written to beside the server has rows with transactions from before the gap.
#[test]
fn rows_that_a_recovery_has_left_out_by_their_times_are_no_events() {
    let record = Witness::begin(&read_before(800), "there", &Outboxes::default());
    let now = read_before(950).catalog;
    let named = MadeSince("2026-12-03 12:35:23.123456+00".to_owned());
    let scope = Scope::of((&[], None), Some(&named), HasTime::Yes).unwrap();
    let table = now.with_oid(Oid::from_u32(10)).unwrap();
    let (server, tables) = ((record.history.as_ref().unwrap(), &now), [table.name.clone()]);
    let required = Required::of(&record, server, &tables, &[]);
    let recovered = |outside| {
        let figures = Figures { outside, ..Figures::default() };
        let compared = Compared::by(scope.clone(), table.name.clone(), figures);
        let settled = [(&compared, Settled::default())];
        let closed = ClosedGap::of(&required, &settled, FilteredRows::Kept).unwrap();
        record.clone().with_recovered(&closed, &now).since
    };
    assert_eq!(recovered(0), record.since);
    let later = recovered(3);
    let since = later[&Place::table(table.oid)];
    let at = PgTimestamp::from_unix_micros(1_796_301_323_124_000);
    assert_eq!(since.older, Some(OlderRows { at, by: table.age }));
    assert_eq!(since.xid, record.since[&Place::table(table.oid)].xid);
}

/// Retention would take rows as delivered that no topic of the other Kafka has.
#[test]
fn rows_from_before_another_kafka_are_no_events_of_the_accepted_record() {
    let record = Witness::begin(&read_before(800), "there", &Outboxes::default());
    let accepted = |cluster| {
        let fresh = Witness::begin(&read_before(950), cluster, &Outboxes::default());
        since(&record.accept(&[], fresh, "ann"))
    };
    assert_eq!(accepted("there"), [(10, 800)]);
    assert_eq!(accepted(""), [(10, 800)], "it was not read");
    assert_eq!(accepted("elsewhere"), [(10, 950)]);
}

#[test]
fn rows_are_events_from_the_first_reading_of_their_table_on() {
    let mut record = Witness::begin(&read_before(800), "there", &Outboxes::default());
    assert_eq!(since(&record), [(10, 800)]);
    let [first, second] = [10, 20].map(Oid::from_u32);
    let read = |xid, empty: &[u32]| {
        let next = Some(next_rows(xid, empty));
        Catalog { next, ..samples::healthy() }
    };
    record.set_tables(vec![first, second], &read(900, &[]));
    assert_eq!(since(&record), [(10, 800), (20, 900)]);
    let stored = Witness::decode(&record.encode()).unwrap();
    assert_eq!(stored.since, record.since);
    // What is written while the table is not configured is no event.
    record.set_tables(vec![first], &read(950, &[]));
    record.set_tables(vec![first, second], &read(990, &[]));
    assert_eq!(since(&record), [(10, 800), (20, 990)]);
    // One that had no rows yet has events alone.
    record.set_tables(vec![first, second, Oid::from_u32(30)], &read(999, &[10, 30]));
    assert_eq!(since(&record), [(10, 800), (20, 990), (30, 0)]);
    record.set_tables(vec![first, Oid::from_u32(40)], &Catalog::default());
    assert_eq!(since(&record), [(10, 800)], "the last was not read");
}

#[test]
fn rows_of_a_partition_are_events_since_it_was_attached_the_last_time() {
    let read = |xid, empty: &[u32], partitions: &[(u32, u32)]| {
        let mut catalog = samples::healthy();
        let partition = |&(oid, attached_by): &(u32, u32)| Partition {
            oid: Oid::from_u32(oid),
            name: None,
            attached_by,
            storage: Storage::default(),
        };
        catalog.relations[0].partitions = partitions.iter().map(partition).collect();
        catalog.next = Some(next_rows(xid, empty));
        catalog
    };
    let mut record = Witness::at(Lsn::ZERO);
    let mut knows = |catalog: &Catalog| {
        record.set_tables(vec![Oid::from_u32(10)], catalog);
        since(&record)
    };
    assert_eq!(knows(&read(800, &[30], &[(30, 7), (31, 7)])), [(10, 800), (30, 0), (31, 800)]);
    // Attached again, behind the back of the readings.
    assert_eq!(knows(&read(900, &[], &[(30, 8), (31, 7)])), [(10, 800), (30, 900), (31, 800)]);
    assert_eq!(knows(&read(950, &[], &[(30, 8)])), [(10, 800), (30, 900)]);
}

/// A back-fill reads what its slot's snapshot shows, of the tables that it is told.
#[test]
fn rows_of_a_partition_that_was_attached_after_the_slot_was_made_were_not_sent_from_the_table() {
    let mut catalog = samples::healthy();
    let attached = |(oid, attached_by)| Partition {
        oid: Oid::from_u32(oid),
        name: None,
        attached_by,
        storage: Storage::default(),
    };
    catalog.relations[0].partitions = [(30, 599), (31, 600)].map(attached).into();
    catalog.relations.push(samples::relation(20, "second"));
    catalog.next = Some(next_rows(800, &[]));
    let mut record = Witness::at(Lsn::ZERO);
    record.set_tables([10, 20].map(Oid::from_u32).into(), &catalog);
    let sent = [catalog.relations[0].name.clone()];
    assert_eq!(since(&record.clone().with_older_rows_sent(&sent, &catalog)), since(&record));
    record.horizon = Some(Horizon { xmin: FullXid::from_u64(600), lsn: Lsn::ZERO });
    let record = record.with_older_rows_sent(&sent, &catalog);
    assert_eq!(since(&record), [(10, 0), (20, 800), (30, 0), (31, 800)]);
}
