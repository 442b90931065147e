use pgoutput::{Lsn, Oid};

use super::*;
use crate::{
    source::{
        Child, Encoding, WalStatus,
        samples::{healthy, look, name, slot},
    },
    table::Outboxes,
};

const MIB: u64 = 1 << 20;

fn expectations() -> Expectations {
    Expectations {
        slot: "s".to_owned(),
        publication: "p".to_owned(),
        outboxes: Outboxes::default(),
        confirmed: None,
        furthest: None,
        earlier: None,
    }
}

/// What this process knows after a session that began at the sample's position and confirmed up to `confirmed`.
fn after_a_session(confirmed: Option<u64>) -> Expectations {
    let mut earlier = judged(&expectations(), &look(Some(slot())), healthy()).unwrap();
    earlier.checked = Mark { lsn: Lsn::from_u64(90 * MIB), at: Some("earlier".to_owned()) };
    Expectations {
        confirmed: confirmed.map(Lsn::from_u64),
        earlier: Some(earlier),
        ..expectations()
    }
}

fn judged(
    expected: &Expectations,
    look: &SlotLook,
    catalog: Catalog,
) -> Result<Baseline, Obstacle> {
    let server = Server { version: 15_00_00, encoding: Encoding::Known("UTF8".to_owned()) };
    judge(expected, server, look, catalog)
}

fn refusal(expected: &Expectations, look: &SlotLook, catalog: Catalog) -> Failure {
    match judged(expected, look, catalog).unwrap_err() {
        Obstacle::Gap(gap) => gap.failure,
        Obstacle::Failed(failure) => failure,
        in_use @ Obstacle::SlotInUse { .. } => panic!("{in_use:?}"),
    }
}

/// The failure's code and from where on rows are at risk, in MiB.
fn refused(expected: &Expectations, look: &SlotLook, catalog: Catalog) -> (Code, Option<u64>) {
    let failure = refusal(expected, look, catalog);
    (failure.code, failure.lsn.map(|lsn| lsn.as_u64() / MIB))
}

#[test]
fn what_setup_makes_is_let_through_and_remembered() {
    let baseline = judged(&expectations(), &look(Some(slot())), healthy()).unwrap();
    assert_eq!((&baseline.slot, &baseline.catalog), (&slot(), &healthy()));
    assert_eq!(
        (baseline.confirmed(), baseline.checked),
        (Lsn::from_u64(40 * MIB), look(None).mark())
    );
}

#[test]
fn a_slot_that_is_gone_puts_at_risk_what_was_written_since_the_last_word() {
    assert_eq!(refused(&expectations(), &look(None), healthy()), (Code::SlotMissing, None));
    let told = after_a_session(Some(60 * MIB));
    assert_eq!(refused(&told, &look(None), healthy()), (Code::SlotMissing, Some(60)));
    // After somebody else may have held it, our own word says nothing: where it stood when we last looked does.
    let silent = after_a_session(None);
    assert_eq!(refused(&silent, &look(None), healthy()), (Code::SlotMissing, Some(40)));
}

#[test]
fn a_lost_slot_still_tells_what_was_confirmed_to_it() {
    let lost = look(Some(SlotHealth { wal_status: WalStatus::Lost, ..slot() }));
    assert_eq!(refused(&expectations(), &lost, healthy()), (Code::SlotLost, Some(40)));
}

#[test]
fn a_slot_ahead_of_our_word_is_told_only_while_the_word_holds() {
    let seen = look(Some(slot()));
    let told = after_a_session(Some(39 * MIB));
    assert_eq!(refused(&told, &seen, healthy()), (Code::SlotMoved, Some(39)));
    assert!(judged(&after_a_session(None), &seen, healthy()).is_ok());
}

#[test]
fn wal_that_ends_before_what_was_ever_confirmed_is_another_history_at_any_time() {
    let reached = |furthest| Expectations {
        furthest: Some(Lsn::from_u64(furthest)),
        ..after_a_session(None)
    };
    let seen = look(Some(slot()));
    assert!(judged(&reached(100 * MIB), &seen, healthy()).is_ok());
    let Err(Obstacle::Gap(gap)) = judged(&reached(101 * MIB), &seen, healthy()) else {
        panic!("another history is no gap")
    };
    // From the end of the one to that of the other, and told once.
    let [from, to] = [100, 101].map(|at| Mark { lsn: Lsn::from_u64(at * MIB), at: None });
    assert_eq!(gap.interval, Interval { from: Some(from), to });
    let Failure { code, message, .. } = gap.failure;
    assert_eq!(code, Code::SlotMoved);
    assert!(
        message.contains("another history") && !message.contains("may be missing"),
        "{message}"
    );
    // Whoever holds the slot there.
    let held = look(Some(SlotHealth { active_pid: Some(7), ..slot() }));
    assert_eq!(refused(&reached(100 * MIB + 1), &held, healthy()).0, Code::SlotMoved);
}

#[test]
fn a_publication_made_anew_puts_at_risk_what_was_written_since_the_last_look() {
    let mut catalog = healthy();
    catalog.publication.as_mut().unwrap().oid = Oid::from_u32(2);
    let seen = look(Some(slot()));
    let expected = after_a_session(Some(60 * MIB));
    assert_eq!(refused(&expected, &seen, catalog), (Code::PublicationReplaced, Some(90)));
    let none = Catalog::default();
    assert_eq!(refused(&expectations(), &seen, none), (Code::PublicationMissing, Some(40)));
}

#[test]
fn a_held_slot_is_stood_by_unless_something_is_wrong() {
    let held = look(Some(SlotHealth { active_pid: Some(7), ..slot() }));
    let obstacle = judged(&expectations(), &held, healthy()).unwrap_err();
    assert_eq!(obstacle, Obstacle::SlotInUse { pid: 7 });
    let none = Catalog::default();
    assert_eq!(refused(&expectations(), &held, none).0, Code::PublicationMissing);
}

#[test]
fn where_a_slot_stands_that_another_holds_is_its_holders_work() {
    let told = after_a_session(Some(39 * MIB));
    let held = look(Some(SlotHealth { active_pid: Some(7), ..slot() }));
    assert_eq!(judged(&told, &held, healthy()).unwrap_err(), Obstacle::SlotInUse { pid: 7 });
    // A defect is one, whoever holds the slot.
    assert_eq!(refused(&told, &held, Catalog::default()).0, Code::PublicationMissing);
    let lost = SlotHealth { active_pid: Some(7), wal_status: WalStatus::Lost, ..slot() };
    assert_eq!(refused(&told, &look(Some(lost)), healthy()).0, Code::SlotLost);
}

#[test]
fn the_slot_comes_before_the_publication() {
    let none = Catalog::default();
    assert_eq!(refused(&expectations(), &look(None), none), (Code::SlotMissing, None));
}

#[test]
fn a_child_of_an_outbox_is_a_gap_only_when_the_outbox_was_known_without_it() {
    let mut catalog = healthy();
    catalog.relations[0].children = vec![Child { oid: Oid::from_u32(20), name: name("child") }];
    let seen = look(Some(slot()));
    let first = refused(&expectations(), &seen, catalog.clone());
    assert_eq!(first, (Code::TableInherited, None));
    let later = refused(&after_a_session(None), &seen, catalog);
    assert_eq!(later, (Code::TableInherited, Some(90)));
}

#[test]
fn a_publication_altered_and_back_since_the_last_session_is_a_gap() {
    let mut catalog = healthy();
    catalog.publication.as_mut().unwrap().written_by = 701;
    let seen = look(Some(slot()));
    let later = refused(&after_a_session(None), &seen, catalog.clone());
    assert_eq!(later, (Code::PublicationAltered, Some(90)));
    assert!(judged(&expectations(), &seen, catalog).is_ok(), "nobody knows how it was");
}

#[test]
fn a_renamed_table_is_no_obstacle_and_its_rows_are_known() {
    let renamed = |called: &str| {
        let mut catalog = healthy();
        catalog.relations[0].name = name(called);
        catalog.publication.as_mut().unwrap().tables[0].name = name(called);
        catalog
    };
    let outboxes =
        Outboxes { tables: vec![crate::table::OutboxTable::with_defaults(name("outbox"))] };
    let seen = look(Some(slot()));
    let first = Expectations { outboxes, ..expectations() };
    let earlier = judged(&first, &seen, healthy()).unwrap();
    let again = Expectations { earlier: Some(earlier), ..first.clone() };
    let baseline = judged(&again, &seen, renamed("outbox_v2")).unwrap();
    assert_eq!(baseline.tables.table(Oid::from_u32(10)), Some(&name("outbox")));
    // And again, by what that one remembers.
    let again = Expectations { earlier: Some(baseline), ..first.clone() };
    let baseline = judged(&again, &seen, renamed("outbox_v3")).unwrap();
    assert_eq!(baseline.tables.table(Oid::from_u32(10)), Some(&name("outbox")));
    assert_eq!(refused(&first, &seen, renamed("outbox_v2")), (Code::TableMissing, None));
}
