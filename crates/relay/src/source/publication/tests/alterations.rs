//! Tables that left the publication, and rows that were not in the WAL, between two readings.

use super::*;
use crate::source::{Partition, Persistence, SchemaEntry, Storage, ToastOrigin};

fn schema_entry(entry: u32, placed_by: u32) -> Option<SchemaEntry> {
    Some(SchemaEntry { entry: Oid::from_u32(entry), placed_by })
}

/// A publication FOR TABLES IN SCHEMA: its entry 200, the table placed there by transaction 650.
fn by_schema(catalog: &mut Catalog) {
    let table = &mut publication(catalog).tables[0];
    table.entry = None;
    table.schema_entry = schema_entry(200, 650);
}

/// What a change of a catalog is found to be, and how it is said.
#[track_caller]
fn found(of: impl Fn(&mut Catalog), change: impl Fn(&mut Catalog)) -> Option<Failure> {
    let mut before = healthy();
    of(&mut before);
    let mut now = before.clone();
    change(&mut now);
    let outboxes = configured();
    let all = codes(&Outboxes::default(), Some(&before), &now);
    let mut failures =
        compare(Watched { publication: "p", outboxes: &outboxes }, Some(&before), &now);
    let reported: Vec<Code> = failures.iter().map(|failure| failure.code).collect();
    assert_eq!(reported, all, "the same, with tables configured and with none");
    assert!(failures.len() < 2, "{failures:?}");
    failures.pop()
}

#[track_caller]
fn expect_gap(
    of: impl Fn(&mut Catalog),
    change: impl Fn(&mut Catalog),
    (case, message): (Case, &str),
) {
    let failure = found(of, change).unwrap();
    assert_eq!((failure.code, failure.case), (Code::PublicationLacksTable, Some(case)));
    assert!(failure.message.contains(message), "{failure}");
}

#[test]
fn a_schema_taken_out_of_the_publication_and_put_back_took_its_tables_with_it() {
    expect_gap(
        by_schema,
        |now| publication(now).tables[0].schema_entry = schema_entry(201, 650),
        (Case::PutBack, "the schema of table public.outbox was taken out"),
    );
    // In a re-created publication every entry differs.
    let replaced = |now: &mut Catalog| {
        publication(now).tables[0].schema_entry = schema_entry(201, 650);
        publication(now).oid = Oid::from_u32(2);
    };
    assert_eq!(found(by_schema, replaced).unwrap().code, Code::PublicationReplaced);
}

#[test]
fn a_table_moved_out_of_a_published_schema_and_back_was_unpublished_for_a_moment() {
    let placed = |by| move |now: &mut Catalog| publication(now).tables[0].schema_entry = by;
    let moved = "was moved out of that and back";
    expect_gap(by_schema, placed(schema_entry(200, 651)), (Case::PutBack, moved));
    assert_eq!(found(by_schema, placed(schema_entry(200, 2))), None, "frozen by a tool");
    assert_eq!(found(by_schema, placed(schema_entry(200, 650))), None);
}

#[test]
fn a_table_that_stays_published_in_one_of_two_ways_was_never_unpublished() {
    let both = |catalog: &mut Catalog| {
        by_schema(catalog);
        publication(catalog).tables[0].entry = Some(Oid::from_u32(110));
    };
    assert_eq!(found(both, by_schema), None);
    assert_eq!(found(both, |now| publication(now).tables[0].schema_entry = None), None);
    let other = |now: &mut Catalog| publication(now).tables[0].entry = Some(Oid::from_u32(111));
    assert_eq!(found(both, other), None);
    let entry_of_its_own = |now: &mut Catalog| {
        publication(now).tables[0].entry = Some(Oid::from_u32(110));
        publication(now).tables[0].schema_entry = None;
    };
    expect_gap(by_schema, entry_of_its_own, (Case::PutBack, "in another way than before"));
    expect_gap(|_| {}, by_schema, (Case::PutBack, "in another way than before"));
}

#[test]
fn what_an_earlier_router_did_not_remember_is_not_compared() {
    let forgotten = |catalog: &mut Catalog| publication(catalog).tables[0].entry = None;
    assert_eq!(found(forgotten, by_schema), None);
    let more = |now: &mut Catalog| {
        now.relations[0].partitions = vec![partition(30, 640)];
        now.relations[0].storage = unlogged_once(51);
    };
    assert_eq!(found(forgotten, more), None);
}

fn partition(oid: u32, attached_by: u32) -> Partition {
    let storage = Storage { toast: Some(Oid::from_u32(oid + 1)), ..Storage::default() };
    Partition {
        oid: Oid::from_u32(oid),
        name: Some(name(&format!("part_{oid}"))),
        attached_by,
        storage,
    }
}

/// Partitions 34, 32 and 30, the newest first.
fn partitioned(catalog: &mut Catalog) {
    publication(catalog).tables[0].kind = TableKind::Partitioned;
    catalog.relations[0].kind = TableKind::Partitioned;
    catalog.relations[0].partitions = [34, 32, 30].map(|oid| partition(oid, 600 + oid)).to_vec();
}

#[test]
fn a_partition_that_was_detached_and_attached_again_left_rows_out() {
    let again = |now: &mut Catalog| now.relations[0].partitions[1].attached_by = 700;
    let message = "partition public.part_32 of table public.outbox was detached and attached again";
    expect_gap(partitioned, again, (Case::AttachedAgain, message));
    let all = |now: &mut Catalog| {
        now.relations[0].partitions = (0..9).rev().map(|oid| partition(oid, 700)).collect();
    };
    let many = |catalog: &mut Catalog| {
        partitioned(catalog);
        catalog.relations[0].partitions = (0..9).rev().map(|oid| partition(oid, 600)).collect();
    };
    expect_gap(many, all, (Case::AttachedAgain, "public.part_4 (and 4 more)"));
    let frozen = |now: &mut Catalog| now.relations[0].partitions[1].attached_by = 2;
    assert_eq!(found(partitioned, frozen), None);
}

#[test]
fn partitions_may_be_added_and_removed() {
    let changes: [fn(&mut Catalog); 3] = [
        |now| now.relations[0].partitions.clear(),
        |now| now.relations[0].partitions.insert(0, partition(40, 700)),
        |now| drop(now.relations[0].partitions.remove(1)),
    ];
    for change in changes {
        assert_eq!(found(partitioned, change), None);
    }
}

#[test]
fn a_partition_whose_rows_are_in_no_wal_is_refused() {
    let place = |place| {
        move |now: &mut Catalog| {
            partitioned(now);
            now.relations[0].partitions[1].storage.persistence = place;
        }
    };
    let unlogged = "partition public.part_32 of table public.outbox is unlogged";
    expect_gap(partitioned, place(Persistence::Unlogged), (Case::PartitionUnlogged, unlogged));
    expect_gap(
        partitioned,
        place(Persistence::Foreign),
        (Case::PartitionForeign, "is a foreign table"),
    );
    let mut now = healthy();
    place(Persistence::Unlogged)(&mut now);
    assert_eq!(codes(&configured(), None, &now), [Code::PublicationLacksTable], "without memory");
}

/// As SET LOGGED leaves it.
fn unlogged_once(toast: u32) -> Storage {
    let toast = Some(Oid::from_u32(toast));
    Storage { persistence: Persistence::Logged, toast, toast_origin: ToastOrigin::WithoutColumns }
}

fn for_all_tables(catalog: &mut Catalog) {
    publication(catalog).tables[0].entry = None;
    catalog.relations[0].storage.toast = Some(Oid::from_u32(50));
}

#[test]
fn a_table_set_unlogged_and_logged_again_left_rows_out() {
    let again = |now: &mut Catalog| now.relations[0].storage = unlogged_once(51);
    let unlogged = (Case::UnloggedMeanwhile, "table public.outbox was unlogged for a while");
    expect_gap(for_all_tables, again, unlogged);
    // PostgreSQL refuses SET UNLOGGED of a table that the publication names,
    let named = |catalog: &mut Catalog| {
        catalog.relations[0].storage.toast = Some(Oid::from_u32(50));
    };
    assert_eq!(found(named, again), None);
    // but not of its partitions.
    let leaf = |now: &mut Catalog| now.relations[0].partitions[2].storage = unlogged_once(51);
    let message = "partition public.part_30 of table public.outbox was unlogged";
    expect_gap(partitioned, leaf, (Case::UnloggedMeanwhile, message));
    let same = |now: &mut Catalog| now.relations[0].storage = unlogged_once(50);
    assert_eq!(found(for_all_tables, same), None, "before the first look");
}

#[test]
fn a_table_rewritten_for_another_reason_stops_nothing() {
    let mut before = healthy();
    for_all_tables(&mut before);
    for (toast_origin, is_reported) in
        [(ToastOrigin::ByTool, false), (ToastOrigin::WithColumns, true)]
    {
        let again = |now: &mut Catalog| {
            now.relations[0].storage = Storage { toast_origin, ..unlogged_once(51) };
        };
        assert_eq!(found(for_all_tables, again), None);
        let mut now = before.clone();
        again(&mut now);
        let reported = announced(&before, &now);
        assert_eq!(reported.is_some(), is_reported, "{toast_origin:?}");
        if let Some(reported) = reported {
            assert!(reported.message.contains("if it was unlogged meanwhile"), "{reported}");
        }
    }
}
