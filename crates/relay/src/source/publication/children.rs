//! Tables that inherit from an outbox (`INHERITS`). A query on the outbox returns their rows, too;
//! but PostgreSQL publishes each of them under its own name or not at all (CREATE PUBLICATION,
//! "Parameters": descendants are added when the publication is made, and not later).

use super::{comparison::Comparison, statements};
use crate::{
    failure::{Case, Code, Failure, Name},
    routing::table::TableName,
    source::{
        catalog::{CatalogRelation, Child},
        tables::TableOids,
    },
};

impl Comparison<'_> {
    /// Children whose rows would not be produced.
    pub(super) fn inherited(&self, relation: &CatalogRelation) -> Option<Failure> {
        let outbox_oids = TableOids::of(self.watched.outboxes, self.now, self.before);
        let is_outbox = |child: &&Child| {
            if self.watched.outboxes.tables.is_empty() {
                self.publication.table(child.oid).is_some()
            } else {
                outbox_oids.table(child.oid).is_some()
                    || self.watched.outboxes.tables.iter().any(|table| table.name == child.name)
            }
        };
        let strays: Vec<&Child> =
            relation.children.iter().filter(|child| !is_outbox(child)).collect();
        if strays.is_empty() {
            return None;
        }
        let parent = &relation.name;
        let list = |each: &dyn Fn(&Child) -> String| {
            strays.iter().map(|child| each(child)).collect::<Vec<_>>().join(", ")
        };
        let names = list(&|child| child.name.to_string());
        let (inherits, its) = match strays.len() {
            1 => (format!("table {names} inherits"), "its rows are"),
            _ => (format!("tables {names} inherit"), "their rows are"),
        };
        let what = format!("{inherits} from {parent}: {its} not published as rows of {parent}");
        let unpublished: Vec<&TableName> = strays
            .iter()
            .filter(|child| self.publication.table(child.oid).is_none())
            .map(|child| &child.name)
            .collect();
        let is_published = unpublished.is_empty();
        // Without a configured table every published one is an outbox.
        let failure = match (self.watched.outboxes.tables.is_empty(), is_published) {
            (true, _) => Failure::new(Code::TableInherited, what),
            (false, true) => Failure::of(Case::ChildUnconfigured, what),
            (false, false) => Failure::of(Case::ChildUnknown, what),
        };
        let failure = failure.naming(Name::Tables, names);
        if is_published {
            return Some(failure);
        }
        let add = statements::add(self.watched.publication, &unpublished);
        Some(failure.naming(Name::AddTables, add))
    }
}
