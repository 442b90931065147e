//! The checks of a publication, in their order.

use pgoutput::Oid;

use super::{renamed, statements};
use crate::{
    failure::{Case, Code, Failure, Name},
    routing::table::{OutboxTable, Outboxes, TableName},
    source::{
        catalog::{
            Catalog, CatalogRelation, Inserts, Partitions, Publication, PublishedTable, TableKind,
        },
        mapping::mapped,
        quote::{give_up, quote_identifier},
    },
};

/// What the publication is checked for.
#[derive(Debug, Clone, Copy)]
pub struct Watched<'a> {
    /// The publication's name.
    pub publication: &'a str,
    /// The configured tables. Empty: every published table is an outbox.
    pub outboxes: &'a Outboxes,
}

/// Everything that keeps rows of the outbox tables from being published as they were written, the
/// most severe first; after that, what is only reported ([`Failure::is_note`]).
pub fn compare(watched: Watched<'_>, before: Option<&Catalog>, now: &Catalog) -> Vec<Failure> {
    let Some(publication) = &now.publication else {
        return vec![missing(watched.publication)];
    };
    let comparison = Comparison { watched, before, now, publication };
    let mut failures = Vec::new();
    failures.extend(comparison.replaced());
    failures.extend(comparison.inserts());
    failures.extend(comparison.altered_and_back());
    if watched.outboxes.tables.is_empty() {
        comparison.all_published(&mut failures);
    } else {
        for outbox in &watched.outboxes.tables {
            comparison.configured(outbox, &mut failures);
        }
    }
    failures.sort_by_key(Failure::is_note);
    failures
}

/// Refuses a publication that leaves rows out.
///
/// # Errors
/// The most severe finding of [`compare`] that is more than a note.
pub fn check(watched: Watched<'_>, before: Option<&Catalog>, now: &Catalog) -> Result<(), Failure> {
    let found = compare(watched, before, now).into_iter().find(|finding| !finding.is_note());
    found.map_or(Ok(()), Err)
}

/// Tables that were published, and take rows that are not, where the publication says which tables
/// are outboxes: a comparison without an earlier catalog does not know them.
pub fn withdrawn(
    watched: Watched<'_>,
    before: &Catalog,
    now: &Catalog,
) -> Vec<(TableName, Failure)> {
    let (Some(was), Some(publication)) = (&before.publication, &now.publication) else {
        return Vec::new();
    };
    if !watched.outboxes.tables.is_empty() {
        return Vec::new();
    }
    let comparison = Comparison { watched, before: Some(before), now, publication };
    let unpublished = comparison.withdrawn(was).into_iter().filter(|(table, _)| {
        now.named(table).is_some_and(|table| publication.table(table.oid).is_none())
    });
    unpublished.collect()
}

fn missing(name: &str) -> Failure {
    Failure::new(Code::PublicationMissing, format!("publication \"{name}\" does not exist"))
}

pub(super) struct Comparison<'a> {
    pub(super) watched: Watched<'a>,
    pub(super) before: Option<&'a Catalog>,
    pub(super) now: &'a Catalog,
    pub(super) publication: &'a Publication,
}

impl Comparison<'_> {
    fn replaced(&self) -> Option<Failure> {
        let before = self.before?.publication.as_ref()?;
        (before.oid != self.publication.oid).then(|| {
            Failure::new(
                Code::PublicationReplaced,
                format!(
                    "publication \"{}\" was dropped and created again (oid {} is now {})",
                    self.watched.publication, before.oid, self.publication.oid
                ),
            )
        })
    }

    fn inserts(&self) -> Option<Failure> {
        (self.publication.inserts == Inserts::Withheld).then(|| {
            Failure::new(
                Code::PublicationLacksInsert,
                format!("publication \"{}\" does not publish inserts", self.watched.publication),
            )
            .naming(Name::Publication, quote_identifier(self.watched.publication))
        })
    }

    /// No table is configured: whatever is published counts, and whatever was published must stay.
    fn all_published(&self, failures: &mut Vec<Failure>) {
        let before = self.before.and_then(|catalog| catalog.publication.as_ref());
        let gone = before.map_or_else(Vec::new, |before| self.withdrawn(before));
        if self.publication.tables.is_empty() && gone.is_empty() {
            failures.push(Failure::of(
                Case::NoTables,
                format!("publication \"{}\" has no tables", self.watched.publication),
            ));
        }
        failures.extend(gone.into_iter().map(|(_, failure)| failure));
        for table in &self.publication.tables {
            if table.kind == TableKind::Leaf && self.publication.partitions == Partitions::ByLeaf {
                failures.push(self.by_leaf(&table.name));
                continue;
            }
            let outbox = OutboxTable::with_defaults(table.name.clone());
            if let Some(relation) = self.now.with_oid(table.oid) {
                failures.extend(self.changed(&outbox, table, relation));
                failures.extend(self.inherited(relation));
            }
        }
    }

    /// Tables that were published and are not any more, or whose name another table has, by their
    /// names now. A dropped table is no defect: its rows are in the WAL, and it takes no new ones.
    /// It becomes one when another table takes its name.
    fn withdrawn(&self, before: &Publication) -> Vec<(TableName, Failure)> {
        let missing = before.tables.iter().filter_map(|table| {
            let is_published = self.publication.table(table.oid).is_some();
            if let Some(now) = self.now.with_oid(table.oid).filter(|_| !is_published) {
                return Some((now.name.clone(), self.left(&now.name)));
            }
            let successor =
                self.now.named(&table.name).filter(|successor| successor.oid != table.oid)?;
            // A table that is published without an entry of its own has been published since it was
            // created.
            let is_at_risk = match self.publication.table(successor.oid) {
                Some(now) => now.entry.is_some() && before.table(successor.oid).is_none(),
                None => true,
            };
            let exchanged = || self.exchanged(&table.name, table.oid, successor.oid);
            is_at_risk.then(|| (table.name.clone(), exchanged()))
        });
        missing.collect()
    }

    fn configured(&self, outbox: &OutboxTable, failures: &mut Vec<Failure>) {
        let before = self.before.and_then(|catalog| catalog.named_now_or_before(&outbox.name));
        let relation = match (before, self.now.named(&outbox.name)) {
            (Some(before), Some(now)) if before.oid != now.oid => {
                failures.push(self.exchanged(&outbox.name, before.oid, now.oid));
                return;
            }
            (_, Some(now)) => Some(now),
            (Some(before), None) => {
                let renamed = self.now.with_oid(before.oid);
                failures.extend(renamed.map(|now| renamed::renamed_to(outbox, now)));
                renamed
            }
            (None, None) => None,
        };
        let Some(relation) = relation else {
            failures.push(no_table(outbox));
            return;
        };
        if relation.kind == TableKind::Partitioned
            && self.publication.partitions == Partitions::ByLeaf
        {
            failures.push(self.by_leaf(&relation.name));
            return;
        }
        failures.extend(match self.publication.table(relation.oid) {
            Some(published) => self.changed(outbox, published, relation),
            None => Some(self.lacks(&relation.name)),
        });
        failures.extend(self.inherited(relation));
    }

    /// What is wrong with a published table now; if nothing is, what was wrong between the two
    /// readings.
    fn changed(
        &self,
        outbox: &OutboxTable,
        published: &PublishedTable,
        relation: &CatalogRelation,
    ) -> Option<Failure> {
        self.narrowed(outbox, published, relation)
            .or_else(|| self.not_in_the_wal(relation))
            .or_else(|| self.put_back(published))
            .or_else(|| self.attached_again(relation))
            .or_else(|| self.unlogged_meanwhile(published, relation))
    }

    fn narrowed(
        &self,
        outbox: &OutboxTable,
        published: &PublishedTable,
        relation: &CatalogRelation,
    ) -> Option<Failure> {
        let (name, publication) = (&relation.name, self.watched.publication);
        if published.row_filter.is_some() {
            // The filter itself stays out of the message: it may hold a key.
            return Some(
                Failure::new(
                    Code::PublicationFiltersRows,
                    format!("publication \"{publication}\" filters the rows of table {name}"),
                )
                .naming(Name::AddAgain, statements::add_again(publication, name)),
            );
        }
        let mut left_out = mapped(outbox, &relation.columns);
        left_out.retain(|column| !published.columns.iter().any(|published| published == column));
        let is_generated = |column: &&str| relation.generated.iter().any(|one| one == column);
        (!left_out.is_empty()).then(|| {
            let what = format!(
                "publication \"{publication}\" leaves out {} of table {name}, which the mapping \
                 needs",
                left_out.join(", ")
            );
            if left_out.iter().any(is_generated) {
                return Failure::of(Case::ColumnGenerated, what)
                    .naming(Name::Publication, quote_identifier(publication));
            }
            Failure::new(Code::PublicationLacksColumn, what)
                .naming(Name::AddAgain, statements::add_again(publication, name))
        })
    }

    fn lacks(&self, table: &TableName) -> Failure {
        let publication = self.watched.publication;
        // PostgreSQL does not add a partition that is published with its parent.
        let is_leaf = self.now.named(table).is_some_and(|now| now.kind == TableKind::Leaf);
        let what = format!("table {table} is not in publication \"{publication}\"");
        let failure = if is_leaf && self.publication.partitions == Partitions::ViaRoot {
            let why = "it is a partition now, published under another table's name";
            Failure::of(Case::PartitionNow, format!("{what} by itself: {why}"))
        } else {
            Failure::new(Code::PublicationLacksTable, what)
        };
        failure.naming(Name::AddTables, statements::add(publication, &[table]))
    }

    /// Without a configured table, one that leaves the publication may be meant to.
    fn left(&self, table: &TableName) -> Failure {
        let failure = self.lacks(table);
        let case = failure.case.unwrap_or(Case::TableLeft);
        failure.with_case(case).naming(Name::GiveUp, give_up([table]))
    }

    fn by_leaf(&self, table: &TableName) -> Failure {
        let publication = self.watched.publication;
        Failure::new(
            Code::PublicationByLeaf,
            format!(
                "publication \"{publication}\" publishes partitions under their own names \
                 (table {table})"
            ),
        )
        .naming(Name::Publication, quote_identifier(publication))
    }

    /// The slot has the former table's rows under this name and the new table's rows under its OID:
    /// none of them is skipped.
    fn exchanged(&self, table: &TableName, before: Oid, now: Oid) -> Failure {
        let what = format!(
            "table {table} was replaced by another of that name (oid {before} is now {now})"
        );
        match self.publication.table(now) {
            Some(_) => Failure::of(Case::ReplacementPublished, what),
            None => Failure::new(Code::TableReplaced, what)
                .naming(Name::AddTables, statements::add(self.watched.publication, &[table])),
        }
    }
}

fn no_table(outbox: &OutboxTable) -> Failure {
    Failure::new(Code::TableMissing, format!("table {} does not exist", outbox.name))
}
