//! A publication whose row in `pg_publication` was written again (`xmin`) between two readings.
//! That row holds the owner, the name, and which changes are published and how; the tables have
//! entries of their own.

use std::collections::BTreeSet;

use pgoutput::Oid;

use super::{comparison::Comparison, renamed, rows, xmin::FROZEN};
use crate::{
    failure::{Case, Code, Failure},
    source::{
        catalog::{Catalog, CatalogRelation, Publication},
        gap::{Interval, Mark},
    },
};

/// Whether the row was written again, and whether the row shows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trace {
    /// It was not written again.
    None,
    /// It was written again, and owner or options differ; or its `xmin` is frozen.
    Explained,
    /// It was written again, and looks as before: something was altered and altered back.
    Unexplained,
}

fn trace(before: &Publication, now: &Publication) -> Trace {
    // A re-created publication is another defect (`replaced`).
    if before.oid != now.oid || before.written_by == now.written_by {
        Trace::None
    } else if now.written_by == FROZEN
        || (before.owner, &before.options) != (now.owner, &now.options)
    {
        Trace::Explained
    } else {
        Trace::Unexplained
    }
}

/// An alteration whose purpose the catalog shows. Rows may have been left out between the readings
/// all the same, without a trace.
enum Alteration<'c> {
    Publication(&'c Publication),
    /// Rows of the table were rewritten: of itself, or of the partitions that are named.
    Rewritten(&'c CatalogRelation, String),
    /// The table was renamed and renamed back.
    Renamed(&'c CatalogRelation),
}

impl<'c> Alteration<'c> {
    fn between(before: &'c Catalog, now: &'c Catalog) -> Vec<Self> {
        let Some((was, is)) = before.publication.as_ref().zip(now.publication.as_ref()) else {
            return Vec::new();
        };
        // The published tables, as both readings have them.
        let tables = || {
            is.tables.iter().filter_map(|table| {
                Some((table, before.with_oid(table.oid)?, now.with_oid(table.oid)?))
            })
        };
        let altered = (trace(was, is) == Trace::Explained).then_some(Self::Publication(is));
        let of_rows = tables().filter_map(|(table, was, is)| {
            Some(Self::Rewritten(is, rows::rewritten_with_columns(was, is, table)?))
        });
        let of_names = tables().filter(|(_, was, is)| renamed::is_renamed_back(was, is));
        let of_names = of_names.map(|(_, _, is)| Self::Renamed(is));
        altered.into_iter().chain(of_rows).chain(of_names).collect()
    }

    fn failure(&self, publication: &str, from: &Mark, to: &Mark) -> Failure {
        match self {
            Self::Publication(_) => Failure::of(
                Case::AlterationKnown,
                format!(
                    "publication \"{publication}\" was altered between two readings; if inserts \
                     were withheld meanwhile, rows committed after {from} and up to {to} are \
                     missing in Kafka"
                ),
            ),
            Self::Rewritten(_, names) => Failure::of(
                Case::Rewritten,
                format!(
                    "{names} was rewritten by alter table between two readings; if it was unlogged \
                     meanwhile, rows committed after {from} and up to {to} are missing in Kafka"
                ),
            ),
            Self::Renamed(table) => Failure::of(
                Case::RenamedBack,
                format!(
                    "table {} was renamed and renamed back between two readings, or given to \
                     another owner; if another table had its name meanwhile, its rows committed \
                     after {from} and up to {to} are missing in Kafka",
                    table.name
                ),
            ),
        }
    }

    /// The tables of which rows may have been left out.
    fn tables(&self) -> Vec<Oid> {
        match self {
            Self::Publication(publication) => {
                publication.tables.iter().map(|table| table.oid).collect()
            }
            Self::Rewritten(table, _) => vec![table.oid],
            // The stream knows it by its OID: only another table's rows can be missing.
            Self::Renamed(_) => Vec::new(),
        }
    }
}

/// Alterations whose purpose the catalog shows: they are reported, and nothing stops.
pub fn alterations(
    before: &Catalog,
    now: &Catalog,
    publication: &str,
    between: &Interval,
) -> Vec<Failure> {
    let Interval { from: Some(from), to } = between else { return Vec::new() };
    let altered = Alteration::between(before, now);
    altered.iter().map(|one| one.failure(publication, from, to)).collect()
}

/// The tables of which such an alteration may have left rows out: nothing shows that a row is
/// delivered that was written before the later reading.
pub(crate) fn altered_tables(before: &Catalog, now: &Catalog) -> BTreeSet<Oid> {
    Alteration::between(before, now).iter().flat_map(Alteration::tables).collect()
}

impl Comparison<'_> {
    /// What was published in between is not known: the catalog shows only that there was an
    /// alteration.
    pub(super) fn altered_and_back(&self) -> Option<Failure> {
        let before = self.before?.publication.as_ref()?;
        (trace(before, self.publication) == Trace::Unexplained).then(|| {
            Failure::new(
                Code::PublicationAltered,
                format!(
                    "publication \"{}\" was altered and looks as before: inserts may have been \
                     withheld meanwhile",
                    self.watched.publication
                ),
            )
        })
    }
}
