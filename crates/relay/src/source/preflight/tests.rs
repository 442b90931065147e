use pgoutput::{Lsn, Oid, PgTimestamp, Xid};

use super::*;
use crate::{
    progress::transaction::LastTransaction,
    routing::table::{OutboxTable, Outboxes},
    source::{
        Child, Inserts, SlotFeature, WalStatus,
        samples::{healthy, name, published, reading, relation, server},
    },
    testing::samples::slot,
};

const MIB: u64 = 1 << 20;

/// The witness of a session that began at the sample's position and brought everything up to
/// `position` to Kafka.
fn witness(position: u64) -> Witness {
    let checked = Mark { lsn: Lsn::from_u64(90 * MIB), at: Some("earlier".to_owned()) };
    Witness {
        checked: Some(checked),
        catalog: healthy(),
        cluster: "c".to_owned(),
        ..Witness::at(Lsn::from_u64(position))
    }
}

fn checked_as(
    witness: Option<&Witness>,
    position_check: PositionCheck,
    reading: &SlotReading,
    catalog: Catalog,
) -> Result<Baseline, Obstacle> {
    let outboxes = Outboxes::default();
    let expected =
        Expectations { slot: "s", publication: "p", outboxes: &outboxes, witness, position_check };
    preflight(expected, server(), reading, catalog)
}

fn checked(
    witness: Option<&Witness>,
    reading: &SlotReading,
    catalog: Catalog,
) -> Result<Baseline, Obstacle> {
    checked_as(witness, PositionCheck::Compared, reading, catalog)
}

/// The failure's code and from where on rows are at risk, in MiB.
fn refused(
    witness: Option<&Witness>,
    reading: &SlotReading,
    catalog: Catalog,
) -> (Code, Option<u64>) {
    let failure = match checked(witness, reading, catalog).unwrap_err() {
        Obstacle::Gaps(gaps) => gaps[0].failure.clone(),
        Obstacle::Failed(failure) => failure,
        other @ (Obstacle::SlotInUse { .. } | Obstacle::OtherServer(_)) => panic!("{other:?}"),
    };
    (failure.code, failure.lsn.map(|lsn| lsn.as_u64() / MIB))
}

#[test]
fn what_setup_creates_passes_the_preflight_and_is_remembered() {
    let baseline = checked(None, &reading(Some(slot())), healthy()).unwrap();
    assert_eq!((&baseline.slot, &baseline.catalog), (&slot(), &healthy()));
    assert_eq!(
        (baseline.confirmed(), baseline.checked),
        (Lsn::from_u64(40 * MIB), reading(None).mark())
    );
}

#[test]
fn a_slot_that_is_gone_puts_at_risk_what_was_written_past_the_witness() {
    assert_eq!(refused(None, &reading(None), healthy()), (Code::SlotMissing, None));
    let case = |witness| match checked(witness, &reading(None), healthy()).unwrap_err() {
        Obstacle::Gaps(gaps) => gaps[0].failure.case,
        Obstacle::Failed(failure) => failure.case,
        other @ (Obstacle::SlotInUse { .. } | Obstacle::OtherServer(_)) => panic!("{other:?}"),
    };
    assert_eq!(case(None), Some(Case::SlotNotMade));
    // As `setup` writes it, before any event.
    assert_eq!(case(Some(&witness(60 * MIB))), Some(Case::SlotDropped));
    let known = witness(60 * MIB);
    assert_eq!(refused(Some(&known), &reading(None), healthy()), (Code::SlotMissing, Some(60)));
}

#[test]
fn a_lost_slot_still_shows_its_confirmed_position() {
    let lost = reading(Some(SlotHealth { wal_status: WalStatus::Lost, ..slot() }));
    assert_eq!(refused(None, &lost, healthy()), (Code::SlotLost, Some(40)));
}

#[test]
fn a_slot_past_the_witness_was_moved_and_one_behind_it_was_not() {
    let seen = reading(Some(slot()));
    assert_eq!(refused(Some(&witness(39 * MIB)), &seen, healthy()), (Code::SlotMoved, Some(39)));
    assert!(checked(Some(&witness(40 * MIB)), &seen, healthy()).is_ok());
    assert!(checked(Some(&witness(41 * MIB)), &seen, healthy()).is_ok());
}

/// `ALTER_REPLICATION_SLOT … (TWO_PHASE true)` leaves the position.
#[test]
fn a_slot_that_was_given_two_phase_is_not_one_that_was_made_again() {
    let unsupported_feature = Some(SlotFeature::TwoPhase);
    let seen = reading(Some(SlotHealth { unsupported_feature, ..slot() }));
    for position in [40, 41] {
        let known = witness(position * MIB);
        assert_eq!(refused(Some(&known), &seen, healthy()), (Code::SlotUnsuitable, None));
    }
    let moved = (Code::SlotMoved, Some(39));
    assert_eq!(refused(Some(&witness(39 * MIB)), &seen, healthy()), moved);
    let temporary = Some(SlotFeature::Temporary);
    let seen = reading(Some(SlotHealth { unsupported_feature: temporary, ..slot() }));
    let moved = (Code::SlotMoved, Some(40));
    assert_eq!(refused(Some(&witness(40 * MIB)), &seen, healthy()), moved);
}

#[test]
fn without_a_state_topic_another_router_may_have_moved_the_slot() {
    let seen = reading(Some(slot()));
    let known = witness(39 * MIB);
    assert!(checked_as(Some(&known), PositionCheck::NotCompared, &seen, healthy()).is_ok());
}

#[test]
fn another_kafka_cluster_does_not_have_what_was_acknowledged() {
    assert_eq!(check_cluster(&witness(MIB), "c"), Ok(()));
    let Err(Obstacle::Gaps(gaps)) = check_cluster(&witness(MIB), "d") else { panic!("no gap") };
    let gap = gaps[0].clone();
    assert_eq!(gap.failure.code, Code::ClusterChanged);
    assert_eq!((gap.interval.from, gap.interval.to.lsn), (None, Lsn::from_u64(MIB)));
}

/// The slot has to be made again, too, and with it goes what it still had.
#[test]
fn a_recreated_publication_puts_at_risk_all_that_is_not_acknowledged() {
    let mut catalog = healthy();
    catalog.publication.as_mut().unwrap().oid = Oid::from_u32(2);
    let seen = reading(Some(slot()));
    let last = LastTransaction {
        commit_lsn: Lsn::from_u64(59 * MIB),
        end_lsn: Lsn::from_u64(59 * MIB + 8),
        xid: Xid::from_u32(7),
        committed_at: PgTimestamp::from_micros(0),
    };
    let known = Witness { last: Some(last), ..witness(60 * MIB) };
    assert_eq!(
        refused(Some(&known), &seen, catalog.clone()),
        (Code::PublicationReplaced, Some(60))
    );
    let Err(Obstacle::Gaps(gaps)) = checked(Some(&known), &seen, catalog) else { panic!("no gap") };
    let from = gaps[0].interval.from.clone().unwrap().at;
    assert_eq!(
        from.as_deref(),
        Some("2000-01-01T00:00:00Z"),
        "the reading was later than the backlog"
    );
    let none = Catalog::default();
    assert_eq!(refused(None, &seen, none), (Code::PublicationMissing, Some(40)));
}

#[test]
fn a_held_slot_makes_a_standby_unless_there_is_a_defect() {
    let held = reading(Some(SlotHealth { active_pid: Some(7), ..slot() }));
    let obstacle = checked(None, &held, healthy()).unwrap_err();
    assert_eq!(obstacle, Obstacle::SlotInUse { pid: 7 });
    let none = Catalog::default();
    assert_eq!(refused(None, &held, none).0, Code::PublicationMissing);
}

#[test]
fn the_position_of_a_slot_that_another_router_holds_is_left_to_its_holder() {
    let known = witness(39 * MIB);
    let held = reading(Some(SlotHealth { active_pid: Some(7), ..slot() }));
    assert_eq!(
        checked(Some(&known), &held, healthy()).unwrap_err(),
        Obstacle::SlotInUse { pid: 7 }
    );
    // A defect is reported although another process holds the slot.
    assert_eq!(refused(Some(&known), &held, Catalog::default()).0, Code::PublicationMissing);
    let lost = SlotHealth { active_pid: Some(7), wal_status: WalStatus::Lost, ..slot() };
    assert_eq!(refused(Some(&known), &reading(Some(lost)), healthy()).0, Code::SlotLost);
}

/// An acceptance makes the present state the measure, so all defects must be known before.
#[test]
fn every_defect_is_reported() {
    let mut catalog = healthy();
    let publication = catalog.publication.as_mut().unwrap();
    publication.inserts = Inserts::Withheld;
    let entry = publication.tables[0].entry.as_mut().unwrap();
    *entry = Oid::from_u32(entry.as_u32() + 1);
    let seen = reading(Some(slot()));
    let obstacle = checked(Some(&witness(39 * MIB)), &seen, catalog).unwrap_err();
    let Obstacle::Gaps(gaps) = obstacle else { panic!("{obstacle:?}") };
    let reported: Vec<(Code, u64)> = gaps
        .iter()
        .map(|gap| (gap.failure.code, gap.interval.begins_at().as_u64() / MIB))
        .collect();
    assert_eq!(
        reported,
        [
            (Code::SlotMoved, 39),
            (Code::PublicationLacksInsert, 90),
            (Code::PublicationLacksTable, 90)
        ]
    );
}

#[test]
fn the_slot_comes_before_the_publication() {
    assert_eq!(refused(None, &reading(None), Catalog::default()), (Code::SlotMissing, None));
}

#[test]
fn an_inheriting_table_is_a_gap_only_when_the_outbox_was_known_without_it() {
    let mut catalog = healthy();
    catalog.relations[0].children = vec![Child { oid: Oid::from_u32(20), name: name("child") }];
    let seen = reading(Some(slot()));
    let first = refused(None, &seen, catalog.clone());
    assert_eq!(first, (Code::TableInherited, None));
    let later = refused(Some(&witness(40 * MIB)), &seen, catalog);
    assert_eq!(later, (Code::TableInherited, Some(90)));
}

#[test]
fn a_publication_altered_and_back_since_the_last_session_is_a_gap() {
    let mut catalog = healthy();
    catalog.publication.as_mut().unwrap().written_by = 701;
    let seen = reading(Some(slot()));
    let later = refused(Some(&witness(40 * MIB)), &seen, catalog.clone());
    assert_eq!(later, (Code::PublicationAltered, Some(90)));
    assert!(checked(None, &seen, catalog).is_ok(), "nobody knows how it was");
}

#[test]
fn a_renamed_table_is_no_obstacle_and_its_rows_are_known() {
    let renamed = |called: &str| {
        let mut catalog = healthy();
        catalog.relations[0].name = name(called);
        catalog.publication.as_mut().unwrap().tables[0].name = name(called);
        catalog
    };
    let outboxes = Outboxes {
        tables: vec![OutboxTable::with_defaults(name("outbox"))],
        ..Outboxes::default()
    };
    let seen = reading(Some(slot()));
    let checked = |remembered: Option<Catalog>, now: Catalog| {
        let witness = remembered.map(|catalog| Witness { catalog, ..witness(40 * MIB) });
        let (witness, position_check) = (witness.as_ref(), PositionCheck::Compared);
        let expected = Expectations {
            slot: "s",
            publication: "p",
            outboxes: &outboxes,
            witness,
            position_check,
        };
        preflight(expected, server(), &seen, now)
    };
    let first = checked(None, healthy()).unwrap();
    let second = checked(Some(first.catalog), renamed("outbox_v2")).unwrap();
    assert_eq!(second.tables.table(Oid::from_u32(10)), Some(&name("outbox")));
    // After another rename the table is still known, by what the second preflight remembered.
    let third = checked(Some(second.catalog), renamed("outbox_v3")).unwrap();
    assert_eq!(third.tables.table(Oid::from_u32(10)), Some(&name("outbox")));
    let unknown = checked(None, renamed("outbox_v2")).unwrap_err();
    assert!(matches!(unknown, Obstacle::Failed(failure) if failure.code == Code::TableMissing));
}

/// The table was renamed, its rows were produced as before, and then another table took its name:
/// the slot may have rows of the former table under neither the configured name nor the OID that
/// has it now.
#[test]
fn rows_of_a_table_whose_name_was_taken_are_known_until_all_are_delivered() {
    let outboxes = Outboxes {
        tables: vec![OutboxTable::with_defaults(name("outbox"))],
        ..Outboxes::default()
    };
    let checked_for = |outboxes: &Outboxes, witness: Option<&Witness>, slot_at, now: Catalog| {
        let slot = SlotHealth { confirmed_flush_lsn: Some(Lsn::from_u64(slot_at)), ..slot() };
        let position_check = PositionCheck::Compared;
        let expected =
            Expectations { slot: "s", publication: "p", outboxes, witness, position_check };
        preflight(expected, server(), &reading(Some(slot)), now)
    };
    let checked = |witness: Option<&Witness>, slot_at: u64, now: Catalog| {
        checked_for(&outboxes, witness, slot_at, now)
    };
    let mut renamed = healthy();
    renamed.relations[0].name = name("outbox_old");
    renamed.publication.as_mut().unwrap().tables[0].name = name("outbox_old");
    let mut taken = renamed.clone();
    taken.relations.push(relation(11, "outbox"));
    taken.publication.as_mut().unwrap().tables.push(published(11, "outbox"));

    let first = checked(None, 40 * MIB, healthy()).unwrap();
    let record = Witness::begin(&first, "c", &outboxes);
    let record = Witness { catalog: renamed.remember(&outboxes, Some(&first.catalog)), ..record };
    let refused = checked(Some(&record), 40 * MIB, taken.clone()).unwrap_err();
    let Obstacle::Gaps(gaps) = refused else { panic!("{refused:?}") };
    assert_eq!(gaps[0].failure.code, Code::TableReplaced);
    let begun = Witness::begin(&checked(None, 40 * MIB, taken.clone()).unwrap(), "c", &outboxes);
    let record = record.with_gaps(&gaps);
    let record = record.accept(&record.open_findings(), begun, "ann");

    let wal_end = reading(None).current_wal_lsn.as_u64();
    let table = |slot_at: u64| {
        let record = Witness { position: Lsn::from_u64(slot_at), ..record.clone() };
        let baseline = checked(Some(&record), slot_at, taken.clone()).unwrap();
        baseline.tables.table(Oid::from_u32(10)).cloned()
    };
    assert_eq!(table(40 * MIB), Some(name("outbox")));
    assert_eq!(table(wal_end), None, "what is written to it from now on is no event");

    // The other is renamed, and configured so, before the slot has passed the former table's rows.
    let mut renamed = taken.clone();
    renamed.relations[1].name = name("outbox_v2");
    renamed.publication.as_mut().unwrap().tables[1].name = name("outbox_v2");
    let second = Outboxes {
        tables: vec![OutboxTable::with_defaults(name("outbox_v2"))],
        ..Outboxes::default()
    };
    let baseline = checked_for(&second, Some(&record), 40 * MIB, renamed).unwrap();
    assert_eq!(baseline.tables.table(Oid::from_u32(10)), Some(&name("outbox_v2")));
    assert_eq!(baseline.alterations, []);
}

/// A rollback to a configuration that does not know one of the outboxes.
#[test]
fn an_outbox_that_is_not_configured_any_more_is_reported() {
    let configured = |names: &[&str]| {
        let tables = names.iter().map(|&called| OutboxTable::with_defaults(name(called)));
        Outboxes { tables: tables.collect(), ..Outboxes::default() }
    };
    let mut both = healthy();
    both.relations.push(relation(11, "second"));
    both.publication.as_mut().unwrap().tables.push(published(11, "second"));
    let seen = reading(Some(slot()));
    let alterations = |outboxes: &Outboxes, tables: &[u32], now: &Catalog| {
        let tables = tables.iter().map(|oid| Oid::from_u32(*oid)).collect();
        let witness = Witness { tables, catalog: both.clone(), ..witness(40 * MIB) };
        let (witness, position_check) = (Some(&witness), PositionCheck::Compared);
        let expected =
            Expectations { slot: "s", publication: "p", outboxes, witness, position_check };
        preflight(expected, server(), &seen, now.clone()).unwrap().alterations
    };
    let reported = alterations(&configured(&["outbox"]), &[10, 11], &both);
    assert_eq!(reported.len(), 1);
    assert_eq!(reported[0].code, Code::TableUnconfigured);
    assert!(reported[0].message.contains("table public.second was an outbox"), "{}", reported[0]);
    assert_eq!(alterations(&configured(&["outbox"]), &[10], &both), [], "told before");
    assert_eq!(alterations(&configured(&["outbox", "second"]), &[10, 11], &both), []);
    assert_eq!(alterations(&Outboxes::default(), &[10, 11], &both), []);
    // The slot may still have rows of a table that is not published any more, or was dropped.
    assert_eq!(alterations(&configured(&["outbox"]), &[10, 11], &healthy()).len(), 1);
}
