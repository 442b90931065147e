//! Tables that inherit from an outbox (`INHERITS`). A query on the outbox returns their rows, too;
//! but PostgreSQL publishes each of them under its own name or not at all (CREATE PUBLICATION,
//! "Parameters": descendants are added when the publication is made, and not later).

use super::{comparison::Judge, remedy, remedy::ACCEPT};
use crate::{
    failure::{Code, Failure},
    routing::table::TableName,
    source::{
        catalog::{Child, Relation},
        tables::TableOids,
    },
};

impl Judge<'_> {
    /// Children whose rows would not be produced.
    pub(super) fn inherited(&self, relation: &Relation) -> Option<Failure> {
        let ours = TableOids::of(self.watched.outboxes, self.now, self.before);
        let is_outbox = |child: &&Child| {
            if self.watched.outboxes.tables.is_empty() {
                self.publication.table(child.oid).is_some()
            } else {
                ours.table(child.oid).is_some()
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
        let failure = Failure::new(
            Code::TableInherited,
            format!("{inherits} from {parent}: {its} not published as rows of {parent}"),
        );
        Some(failure.hint(self.adopt(&strays)))
    }

    fn adopt(&self, strays: &[&Child]) -> String {
        let mut steps = Vec::new();
        if !self.watched.outboxes.tables.is_empty() {
            let tables: Vec<String> = strays
                .iter()
                .map(|child| format!("[[outbox]] table = \"{}\"", child.name))
                .collect();
            steps.push(format!("add {} to the configuration", tables.join(" and ")));
        }
        let unpublished = strays.iter().filter(|child| self.publication.table(child.oid).is_none());
        let tables: Vec<&TableName> = unpublished.map(|child| &child.name).collect();
        if !tables.is_empty() {
            steps.push(remedy::add(self.watched.publication, &tables));
        }
        // Without an earlier reading no row of the child was promised to be produced.
        if self.before.is_some() {
            steps
                .push("publish the rows that were written to it before that from the table".into());
            steps.push(format!("then {ACCEPT}"));
        }
        let steps = steps.join("; ");
        format!(
            "{steps}; or partition the outbox instead of inheriting from it: partitions are \
             published as rows of their root"
        )
    }
}
