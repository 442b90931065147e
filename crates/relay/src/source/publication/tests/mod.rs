use pgoutput::Oid;

use super::*;
use crate::{
    failure::{Case, Code, Failure, Name},
    routing::table::{OutboxTable, Outboxes, TableName},
    source::{
        catalog::{Catalog, Child, Inserts, Partitions, Publication, PublishedTable, TableKind},
        gap::Interval,
        samples::{healthy, name, published, reading, relation, texts},
    },
};

fn publication(catalog: &mut Catalog) -> &mut Publication {
    catalog.publication.as_mut().unwrap()
}

fn configured() -> Outboxes {
    Outboxes { tables: vec![OutboxTable::with_defaults(name("outbox"))], ..Outboxes::default() }
}

fn codes(outboxes: &Outboxes, before: Option<&Catalog>, now: &Catalog) -> Vec<Code> {
    let watched = Watched { publication: "p", outboxes };
    compare(watched, before, now).iter().map(|failure| failure.code).collect()
}

/// What a change of the healthy state is found to be, with the table configured and with none.
#[track_caller]
fn check(change: impl Fn(&mut Catalog), expected: &[Code]) {
    let before = healthy();
    let mut now = healthy();
    change(&mut now);
    assert_eq!(codes(&configured(), Some(&before), &now), expected, "configured");
    assert_eq!(codes(&Outboxes::default(), Some(&before), &now), expected, "all");
}

#[test]
fn what_setup_creates_has_no_defect() {
    check(|_| {}, &[]);
    assert_eq!(codes(&configured(), None, &healthy()), []);
}

#[test]
fn a_missing_publication_is_reported_alone() {
    check(|now| now.publication = None, &[Code::PublicationMissing]);
}

#[test]
fn a_recreated_publication_is_another_one() {
    check(|now| publication(now).oid = Oid::from_u32(2), &[Code::PublicationReplaced]);
}

#[test]
fn each_narrowing_has_its_code() {
    check(|now| publication(now).inserts = Inserts::Withheld, &[Code::PublicationLacksInsert]);
    check(|now| publication(now).tables.clear(), &[Code::PublicationLacksTable]);
    check(
        |now| publication(now).tables[0].row_filter = Some("(id > 3)".to_owned()),
        &[Code::PublicationFiltersRows],
    );
    check(
        |now| publication(now).tables[0].columns = texts(&["id", "payload"]),
        &[Code::PublicationLacksColumn],
    );
}

#[test]
fn a_table_put_back_into_the_publication_was_unpublished_for_a_moment() {
    let again = |now: &mut Catalog| publication(now).tables[0].entry = Some(Oid::from_u32(999));
    check(again, &[Code::PublicationLacksTable]);
    // A present defect is reported, and not one that is over.
    let narrowed = |now: &mut Catalog| {
        again(now);
        publication(now).tables[0].row_filter = Some("(id > 3)".to_owned());
    };
    check(narrowed, &[Code::PublicationFiltersRows]);
    // In a re-created publication every entry differs.
    let replaced = |now: &mut Catalog| {
        again(now);
        publication(now).oid = Oid::from_u32(2);
    };
    check(replaced, &[Code::PublicationReplaced]);
}

/// A fresh catalog need not know a defect that is over when a person accepts it.
#[test]
fn a_table_that_left_is_known_as_such_until_it_is_published_again() {
    let names = |before: &Catalog, now: &Catalog, outboxes: &Outboxes| {
        let left = withdrawn(Watched { publication: "p", outboxes }, before, now);
        left.into_iter().map(|(table, failure)| (table.name, failure.code)).collect::<Vec<_>>()
    };
    let all = Outboxes::default();
    let before = healthy();
    assert_eq!(names(&before, &before, &all), []);
    let mut left = healthy();
    publication(&mut left).tables.clear();
    let lacks = |name: &str| [(name.to_owned(), Code::PublicationLacksTable)];
    assert_eq!(names(&before, &left, &all), lacks("outbox"));
    assert_eq!(names(&before, &left, &configured()), [], "it is looked for by its name");
    left.relations[0].name = name("renamed");
    assert_eq!(names(&before, &left, &all), lacks("renamed"));
    left.relations.clear();
    assert_eq!(names(&before, &left, &all), [], "a dropped table takes no rows");
    left.relations.push(relation(99, "outbox"));
    let replaced = [("outbox".to_owned(), Code::TableReplaced)];
    assert_eq!(names(&before, &left, &all), replaced);
    publication(&mut left).tables.push(published(99, "outbox"));
    assert_eq!(names(&before, &left, &all), [], "what is left is in the slot");
}

fn announced(before: &Catalog, now: &Catalog) -> Option<Failure> {
    let interval = Interval { from: Some(reading(None).mark()), to: reading(None).mark() };
    alterations(before, now, "p", &interval).pop()
}

#[test]
fn a_publication_that_was_altered_and_reads_as_before_is_a_gap() {
    let altered = |now: &mut Catalog| publication(now).written_by = 701;
    check(altered, &[Code::PublicationAltered]);
    let mut now = healthy();
    altered(&mut now);
    assert_eq!(announced(&healthy(), &now), None, "told once");
    assert_eq!(codes(&configured(), None, &now), [], "nobody knows how it was");
    // A present defect is reported, and not one that is over.
    let withheld = |now: &mut Catalog| {
        altered(now);
        publication(now).inserts = Inserts::Withheld;
        publication(now).options = "publish = ''".to_owned();
    };
    check(withheld, &[Code::PublicationLacksInsert]);
    // A re-created publication is another defect.
    let replaced = |now: &mut Catalog| {
        altered(now);
        publication(now).oid = Oid::from_u32(2);
    };
    check(replaced, &[Code::PublicationReplaced]);
}

#[test]
fn an_alteration_whose_change_is_visible_is_announced_and_stops_nothing() {
    let explained: [fn(&mut Publication); 3] = [
        |now| now.owner = Oid::from_u32(10),
        |now| now.options = "publish = 'insert, update'".to_owned(),
        |now| now.written_by = 2,
    ];
    for change in explained {
        let mut now = healthy();
        publication(&mut now).written_by = 701;
        change(publication(&mut now));
        assert_eq!(codes(&configured(), Some(&healthy()), &now), []);
        let warning = announced(&healthy(), &now).unwrap();
        assert_eq!(warning.code, Code::PublicationAltered);
        assert!(warning.message.contains("were withheld meanwhile"), "{warning}");
    }
    assert_eq!(announced(&healthy(), &healthy()), None);
}

#[test]
fn a_table_without_an_entry_of_its_own_was_never_put_back() {
    let without = |now: &mut Catalog| publication(now).tables[0].entry = None;
    check(without, &[]);
    let mut before = healthy();
    without(&mut before);
    assert_eq!(codes(&configured(), Some(&before), &healthy()), []);
}

#[test]
fn a_column_that_is_not_mapped_may_be_left_out() {
    check(|now| now.relations[0].columns.push("internal_note".to_owned()), &[]);
}

#[test]
fn a_generated_column_that_the_mapping_needs_must_be_published_too() {
    let mut now = healthy();
    now.relations[0].columns.push("headers".to_owned());
    now.relations[0].generated = texts(&["headers"]);
    let outboxes = configured();
    let watched = Watched { publication: "p", outboxes: &outboxes };
    let failure = compare(watched, None, &now).remove(0);
    assert_eq!(failure.code, Code::PublicationLacksColumn);
    assert!(failure.message.contains("headers of table public.outbox"), "{failure}");
    assert_eq!(failure.case, Some(Case::ColumnGenerated));
    // As PostgreSQL 18 does with `publish_generated_columns = stored`.
    publication(&mut now).tables[0].columns.push("headers".to_owned());
    assert_eq!(compare(watched, None, &now), []);
}

#[test]
fn a_row_filter_is_not_repeated_in_the_message() {
    let mut now = healthy();
    publication(&mut now).tables[0].row_filter = Some("(aggregate_id = 'secret')".to_owned());
    let watched = Watched { publication: "p", outboxes: &configured() };
    let failure = compare(watched, None, &now).remove(0);
    assert!(!format!("{failure:?}").contains("secret"));
}

#[test]
fn a_table_swapped_by_rename_is_another() {
    let swapped = |now: &mut Catalog| {
        now.relations = vec![relation(10, "outbox_old"), relation(11, "outbox")];
        publication(now).tables = vec![published(10, "outbox_old")];
    };
    let before = healthy();
    let mut now = healthy();
    swapped(&mut now);
    assert_eq!(codes(&configured(), Some(&before), &now), [Code::TableReplaced]);
    // The new one may be published too: rows written before it was are still missing.
    publication(&mut now).tables = vec![published(11, "outbox")];
    assert_eq!(codes(&configured(), Some(&before), &now), [Code::TableReplaced]);
}

#[test]
fn a_renamed_table_is_reported_and_does_not_prevent_a_start() {
    let before = healthy();
    let mut now = healthy();
    now.relations = vec![relation(10, "outbox_v2")];
    publication(&mut now).tables = vec![published(10, "outbox_v2")];
    let outboxes = configured();
    let watched = Watched { publication: "p", outboxes: &outboxes };
    let note = compare(watched, Some(&before), &now).remove(0);
    assert!(note.code == Code::TableRenamed && note.is_note(), "{note}");
    assert!(note.message.contains("public.outbox is now called public.outbox_v2"), "{note}");
    assert_eq!(note.names.get(Name::Table), Some("public.outbox_v2"));
    let back = "alter table \"public\".\"outbox_v2\" rename to \"outbox\"";
    assert_eq!(note.names.get(Name::RenameBack), Some(back));
    // Every later reading reports it again. Without a remembered catalog it cannot be known.
    let remembered = now.clone().remember(&outboxes, Some(&before));
    assert_eq!(codes(&outboxes, Some(&remembered), &now), [Code::TableRenamed]);
    assert_eq!(codes(&outboxes, None, &now), [Code::TableMissing]);
    // Nothing names the table: its rows are routed as before.
    assert_eq!(codes(&Outboxes::default(), Some(&before), &now), []);
}

#[test]
fn a_renamed_table_must_be_published_as_before() {
    let before = healthy();
    let mut now = healthy();
    now.relations = vec![relation(10, "outbox_v2")];
    publication(&mut now).tables.clear();
    let expected = [Code::PublicationLacksTable, Code::TableRenamed];
    assert_eq!(codes(&configured(), Some(&before), &now), expected);
    publication(&mut now).tables = vec![PublishedTable {
        row_filter: Some("(true)".to_owned()),
        ..published(10, "outbox_v2")
    }];
    let outboxes = configured();
    let watched = Watched { publication: "p", outboxes: &outboxes };
    let filtered = compare(watched, Some(&before), &now).remove(0);
    assert_eq!(filtered.code, Code::PublicationFiltersRows);
    let statement = filtered.names.get(Name::AddAgain).unwrap();
    assert!(statement.contains("\"outbox_v2\""), "by the name that it has now: {statement}");
}

#[test]
fn a_table_that_takes_the_name_of_a_renamed_one_is_another_however_late() {
    let outboxes = configured();
    let mut now = healthy();
    now.relations = vec![relation(10, "outbox_old")];
    publication(&mut now).tables = vec![published(10, "outbox_old")];
    let remembered = now.clone().remember(&outboxes, Some(&healthy()));
    now.relations.push(relation(11, "outbox"));
    assert_eq!(codes(&outboxes, Some(&remembered), &now), [Code::TableReplaced]);
    // Once that is accepted, the former table is no outbox any more.
    let accepted = now.clone().remember(&outboxes, Some(&remembered));
    publication(&mut now).tables.push(published(11, "outbox"));
    assert_eq!(codes(&outboxes, Some(&accepted), &now), []);
}

/// No table is configured: every published table is an outbox, and so should be a table that takes
/// a published table's name.
#[test]
fn without_configured_tables_another_table_that_took_a_published_name_is_reported() {
    let swapped = |is_added: bool| {
        let mut now = healthy();
        now.relations = vec![relation(10, "outbox_old"), relation(11, "outbox")];
        publication(&mut now).tables[0].name = name("outbox_old");
        if is_added {
            publication(&mut now).tables.push(published(11, "outbox"));
        }
        now
    };
    let all = |before: &Catalog, now: &Catalog| codes(&Outboxes::default(), Some(before), now);
    assert_eq!(all(&healthy(), &swapped(false)), [Code::TableReplaced]);
    assert_eq!(all(&healthy(), &swapped(true)), [Code::TableReplaced], "added when?");
    let mut of_all_tables = swapped(true);
    for table in &mut publication(&mut of_all_tables).tables {
        table.entry = None;
    }
    assert_eq!(all(&healthy(), &of_all_tables), [], "published since it was made");
    let mut back = swapped(true);
    back.relations = vec![relation(10, "outbox"), relation(11, "outbox_old")];
    assert_eq!(all(&swapped(true), &back), [], "both were published before");
}

/// A migration that was rolled back: nothing but the transaction that wrote the name is left of it.
#[test]
fn a_table_that_has_its_name_again_is_announced() {
    let named_again = |name_by| {
        let mut now = healthy();
        now.relations[0].named_by = name_by;
        now
    };
    let now = named_again(Some(701));
    assert_eq!(codes(&configured(), Some(&healthy()), &now), []);
    let warning = announced(&healthy(), &now).unwrap();
    assert_eq!(warning.code, Code::TableRenamed);
    assert!(warning.message.contains("table public.outbox was renamed and renamed back"));
    for quiet in [named_again(Some(700)), named_again(None), named_again(Some(2))] {
        assert_eq!(announced(&healthy(), &quiet), None);
    }
    let mut renamed = now;
    renamed.relations[0].name = name("outbox_v2");
    assert_eq!(announced(&healthy(), &renamed), None, "told as long as it is so");
}

/// Otherwise the next entry could not be compared, and that the table had been out would not be
/// seen.
#[test]
fn a_table_whose_entry_could_not_be_seen_keeps_the_one_that_was() {
    let mut unseen = healthy();
    publication(&mut unseen).tables[0].entry = None;
    let kept = unseen.remember(&configured(), Some(&healthy()));
    let mut back = healthy();
    publication(&mut back).tables[0].entry = Some(Oid::from_u32(999));
    let found = codes(&configured(), Some(&kept), &back);
    assert_eq!(found, [Code::PublicationLacksTable]);
}

#[test]
fn a_table_that_became_a_partition_is_to_be_detached() {
    let mut now = healthy();
    now.relations[0].kind = TableKind::Leaf;
    publication(&mut now).tables =
        vec![PublishedTable { kind: TableKind::Partitioned, ..published(12, "events") }];
    let watched = Watched { publication: "p", outboxes: &configured() };
    let found = compare(watched, Some(&healthy()), &now);
    assert_eq!(found[0].code, Code::PublicationLacksTable);
    assert_eq!(found[0].case, Some(Case::PartitionNow));
}

#[test]
fn a_table_that_moved_to_another_schema_moves_back_before_it_is_renamed() {
    let elsewhere = |called: &str| TableName { schema: "old".to_owned(), name: called.to_owned() };
    for (now, expected) in [
        (elsewhere("outbox"), "alter table \"old\".\"outbox\" set schema \"public\""),
        (
            elsewhere("o"),
            "alter table \"old\".\"o\" set schema \"public\"; \
             alter table \"public\".\"o\" rename to \"outbox\"",
        ),
    ] {
        assert_eq!(renamed::rename_back(&name("outbox"), &now), expected);
    }
}

#[test]
fn a_dropped_table_loses_nothing_until_another_takes_its_name() {
    let before = healthy();
    let mut now = healthy();
    now.relations.clear();
    publication(&mut now).tables = vec![published(20, "other")];
    now.relations.push(relation(20, "other"));
    assert_eq!(codes(&configured(), Some(&before), &now), [Code::TableMissing]);
    assert_eq!(codes(&Outboxes::default(), Some(&before), &now), []);
    now.relations.push(relation(12, "outbox"));
    assert_eq!(codes(&configured(), Some(&before), &now), [Code::TableReplaced]);
    assert_eq!(codes(&Outboxes::default(), Some(&before), &now), [Code::TableReplaced]);
}

#[test]
fn a_partitioned_table_must_be_published_by_its_root() {
    let mut now = healthy();
    now.relations[0].kind = TableKind::Partitioned;
    publication(&mut now).partitions = Partitions::ByLeaf;
    publication(&mut now).tables =
        vec![PublishedTable { kind: TableKind::Leaf, ..published(30, "leaf") }];
    assert_eq!(codes(&configured(), None, &now), [Code::PublicationByLeaf]);
    assert_eq!(codes(&Outboxes::default(), None, &now), [Code::PublicationByLeaf]);
}

#[test]
fn without_a_remembered_catalog_a_table_that_is_not_there_is_missing() {
    let mut now = healthy();
    now.relations.clear();
    publication(&mut now).tables.clear();
    assert_eq!(codes(&configured(), None, &now), [Code::TableMissing]);
    assert_eq!(codes(&Outboxes::default(), None, &now), [Code::PublicationLacksTable]);
    // Nobody knows which table is meant.
    let outboxes = Outboxes::default();
    let watched = Watched { publication: "p", outboxes: &outboxes };
    assert_eq!(compare(watched, None, &now).remove(0).case, Some(Case::NoTables));
}

/// The healthy state with a child of the outbox: OID 20, not published.
fn inherited() -> Catalog {
    let mut now = healthy();
    now.relations[0].children = vec![Child { oid: Oid::from_u32(20), name: name("child") }];
    now
}

#[test]
fn an_inheriting_table_whose_rows_would_not_be_produced_is_refused() {
    let (outboxes, mut now) = (configured(), inherited());
    let watched = Watched { publication: "p", outboxes: &outboxes };
    let failure = compare(watched, None, &now).remove(0);
    assert_eq!(failure.code, Code::TableInherited);
    assert!(failure.message.starts_with("table public.child inherits from public.outbox"));
    assert_eq!(failure.case, Some(Case::ChildUnknown));
    assert_eq!(failure.names.get(Name::Tables), Some("public.child"));
    let statement = failure.names.get(Name::AddTables).unwrap();
    let add = "alter publication \"p\" add table only \"public\".\"child\"";
    assert!(statement.contains(add), "{statement}");
    // Rows that are published under the child's name are still not the outbox's rows.
    publication(&mut now).tables.push(published(20, "child"));
    now.relations.push(relation(20, "child"));
    let failure = compare(watched, None, &now).remove(0);
    assert_eq!(failure.code, Code::TableInherited);
    assert_eq!(failure.case, Some(Case::ChildUnconfigured));
    assert_eq!(failure.names.get(Name::AddTables), None, "it is published");
}

#[test]
fn an_inheriting_table_that_is_an_outbox_itself_is_checked_as_one() {
    let mut both = configured();
    both.tables.push(OutboxTable::with_defaults(name("child")));
    let mut now = inherited();
    now.relations.push(relation(20, "child"));
    assert_eq!(codes(&both, None, &now), [Code::PublicationLacksTable]);
    // If no table is configured, every published table is an outbox.
    assert_eq!(codes(&Outboxes::default(), None, &now), [Code::TableInherited]);
    publication(&mut now).tables.push(published(20, "child"));
    assert_eq!(codes(&both, None, &now), []);
    assert_eq!(codes(&Outboxes::default(), None, &now), []);
    // After a rename the child is still the configured table.
    let mut renamed = now.clone();
    renamed.relations[0].children[0].name = name("child_v2");
    renamed.relations[1].name = name("child_v2");
    assert_eq!(codes(&both, Some(&now), &renamed), [Code::TableRenamed]);
}

mod alterations;
