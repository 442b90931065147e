//! Rows of a published table that were not decoded as its rows: those written to a partition while
//! it was detached, and those written while the table was unlogged, which are in no WAL.

use pgoutput::Oid;

use super::{comparison::Comparison, xmin::is_written_again};
use crate::{
    failure::{Case, Failure, Name},
    routing::table::TableName,
    source::{
        catalog::{CatalogRelation, PublishedTable},
        quote::quote_table,
        storage::{Partition, Persistence, Storage, ToastOrigin},
    },
};

/// How many partitions a message names: people read it, and a table may have hundreds.
const NAMED_MAX: usize = 5;

impl Comparison<'_> {
    /// A partition whose rows are not in the WAL now: unlogged, or a foreign table.
    pub(super) fn not_in_the_wal(&self, relation: &CatalogRelation) -> Option<Failure> {
        let not_logged =
            |partition: &&Partition| partition.storage.persistence != Persistence::Logged;
        let partition = relation.partitions.iter().find(not_logged)?;
        let (name, table) = (named(partition), &relation.name);
        let (case, is) = match partition.storage.persistence {
            Persistence::Foreign => (Case::PartitionForeign, "a foreign table"),
            Persistence::Unlogged | Persistence::Logged => (Case::PartitionUnlogged, "unlogged"),
        };
        let quoted = partition.name.as_ref().map_or_else(|| name.clone(), quote_table);
        let what = format!(
            "partition {name} of table {table} is {is}: its rows are not in the WAL, and so not in \
             publication \"{}\"",
            self.watched.publication
        );
        Some(
            Failure::of(case, what)
                .naming(Name::Partition, name)
                .naming(Name::Table, quote_table(table))
                .naming(Name::QuotedTable, quoted),
        )
    }

    /// Partitions that were detached and attached again. A partition that was only created,
    /// attached, detached or dropped is no defect: rows of a table that is no part of the outbox
    /// are no events.
    pub(super) fn attached_again(&self, now: &CatalogRelation) -> Option<Failure> {
        let before = self.before?.with_oid(now.oid)?;
        let again = both(before, now)
            .filter(|(before, now)| is_written_again(before.attached_by, now.attached_by))
            .map(|(_, now)| now);
        let names = list(again)?;
        Some(Failure::of(
            Case::AttachedAgain,
            format!(
                "{names} of table {} was detached and attached again: rows written to it meanwhile \
                 were not published as rows of {}",
                now.name, now.name
            ),
        ))
    }

    /// Tables whose rows were rewritten by a statement that can only have been SET LOGGED: the
    /// table was unlogged before.
    pub(super) fn unlogged_meanwhile(
        &self,
        published: &PublishedTable,
        now: &CatalogRelation,
    ) -> Option<Failure> {
        let before = self.before?.with_oid(now.oid)?;
        let names = rewritten(before, now, published, ToastOrigin::WithoutColumns)?;
        Some(Failure::of(
            Case::UnloggedMeanwhile,
            format!("{names} was unlogged for a while: what was written then is in no WAL"),
        ))
    }
}

/// A table whose rows were rewritten while columns changed, which explains the rewrite. It may have
/// been unlogged before it all the same; the catalog does not show that.
pub(super) fn rewritten_with_columns(
    before: &CatalogRelation,
    now: &CatalogRelation,
    published: &PublishedTable,
) -> Option<String> {
    rewritten(before, now, published, ToastOrigin::WithColumns)
}

/// The table, or those of its partitions, whose TOAST table differs from the earlier reading and
/// was made as `toast_origin` says. A table that the publication names cannot have been unlogged;
/// its partitions can.
fn rewritten(
    before: &CatalogRelation,
    now: &CatalogRelation,
    published: &PublishedTable,
    toast_origin: ToastOrigin,
) -> Option<String> {
    let is_made = |before: Storage, now: Storage| {
        let is_another = before.toast.is_some() && now.toast.is_some() && before.toast != now.toast;
        is_another && now.toast_origin == toast_origin
    };
    if published.entry.is_none() && is_made(before.storage, now.storage) {
        return Some(format!("table {}", now.name));
    }
    let partitions = both(before, now).filter(|(before, now)| is_made(before.storage, now.storage));
    let names = list(partitions.map(|(_, now)| now))?;
    Some(format!("{names} of table {}", now.name))
}

/// The partitions that are in both readings, as (before, now).
fn both<'a>(
    before: &'a CatalogRelation,
    now: &'a CatalogRelation,
) -> impl Iterator<Item = (&'a Partition, &'a Partition)> {
    // Both are in the order of their OIDs, the newest first, and there may be hundreds.
    now.partitions.iter().filter_map(|now| {
        let of = |oid: Oid| std::cmp::Reverse(oid);
        let found = before.partitions.binary_search_by_key(&of(now.oid), |one| of(one.oid));
        Some((before.partitions.get(found.ok()?)?, now))
    })
}

fn named(partition: &Partition) -> String {
    partition.name.as_ref().map_or_else(|| format!("oid {}", partition.oid), TableName::to_string)
}

/// `partition a, b`; `None` if there is no partition.
fn list<'a>(partitions: impl Iterator<Item = &'a Partition>) -> Option<String> {
    let names: Vec<String> = partitions.map(named).collect();
    let more = match names.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let first: Vec<String> = names.into_iter().take(NAMED_MAX).collect();
    (!first.is_empty()).then(|| format!("partition {}{more}", first.join(", ")))
}
