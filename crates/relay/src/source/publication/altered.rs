//! A publication whose row in `pg_publication` was written again (`xmin`) between two readings.
//! That row holds the owner, the name, and which changes are published and how; the tables have
//! entries of their own.

use super::{comparison::Comparison, renamed, rows, xmin::FROZEN};
use crate::{
    failure::{Case, Code, Failure},
    source::{
        catalog::{Catalog, Publication},
        gap::Interval,
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

/// Alterations whose purpose the catalog shows. Rows may have been left out between the readings
/// all the same, without a trace; so the alterations are reported, and nothing stops.
pub fn alterations(
    before: &Catalog,
    now: &Catalog,
    name: &str,
    between: &Interval,
) -> Vec<Failure> {
    let Some((was, is)) = before.publication.as_ref().zip(now.publication.as_ref()) else {
        return Vec::new();
    };
    // The published tables, as both readings have them.
    let tables = || {
        is.tables.iter().filter_map(|table| {
            Some((table, before.with_oid(table.oid)?, now.with_oid(table.oid)?))
        })
    };
    let of_rows = tables().filter_map(|(table, was, is)| rows::explained(was, is, table, between));
    let of_names = tables().filter_map(|(_, was, is)| renamed::renamed_back(was, is, between));
    of_publication(was, is, name, between).into_iter().chain(of_rows).chain(of_names).collect()
}

fn of_publication(
    before: &Publication,
    now: &Publication,
    name: &str,
    between: &Interval,
) -> Option<Failure> {
    let Interval { from, to } = between;
    let from = from.as_ref()?;
    (trace(before, now) == Trace::Explained).then(|| {
        Failure::of(
            Case::AlterationKnown,
            format!(
                "publication \"{name}\" was altered between two readings; if inserts were withheld \
                 meanwhile, rows committed after {from} and up to {to} are missing in Kafka"
            ),
        )
    })
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
