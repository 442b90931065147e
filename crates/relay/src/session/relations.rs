//! What each relation of the stream is to us: an outbox, none of our business, or an outbox that
//! cannot be read.
//!
//! The server describes a relation before its first row in a session, after every change of its
//! shape, and again after a TRUNCATE or an ANALYZE; so describing it twice must cost little and
//! forget nothing. There is one entry per table of the publication, as there is in the walsender.
//! Only here is asked whose a table is: a row costs one look by OID.

use std::collections::BTreeMap;

use pgoutput::{Oid, Relation};

use crate::{
    failure::{Code, Failure},
    routing::{
        columns::Columns,
        route::Router,
        table::{OutboxTable, Outboxes, TableName},
    },
    source::TableOids,
};

pub(super) enum Binding {
    Ours(Box<Router>),
    Foreign,
    /// An outbox whose next row is held with this failure.
    Broken(Box<OutboxTable>, Failure),
}

pub(super) struct Relations {
    tables: TableOids,
    /// Mostly one: a tree finds that by one compare, and each of many by a few.
    by_oid: BTreeMap<Oid, Binding>,
}

impl Relations {
    pub(super) fn new(tables: TableOids) -> Self {
        Self { tables, by_oid: BTreeMap::new() }
    }

    /// Takes note of a description.
    pub(super) fn describe(&mut self, outboxes: &Outboxes, relation: &Relation<'_>) {
        let table = match self.table(outboxes, relation) {
            Some(table) => table,
            None => {
                self.by_oid.insert(relation.id, Binding::Foreign);
                return;
            }
        };
        let columns = Columns::resolve(&table, relation);
        let binding = match (columns, self.by_oid.get_mut(&relation.id)) {
            (Ok(columns), Some(Binding::Ours(router))) if router.table().name == table.name => {
                router.set_columns(columns);
                return;
            }
            (Ok(columns), _) => Binding::Ours(Box::new(Router::new(table, columns))),
            (Err(failure), _) => Binding::Broken(Box::new(table), failure),
        };
        self.by_oid.insert(relation.id, binding);
    }

    /// The outbox that a relation is, if it is one. A message bears the name that the table had at
    /// this place in the WAL. That name comes first, so that a row is routed alike whenever it is
    /// read; but the table may have been called something else then, or have got its name back
    /// within the same transaction, and then it is known by its OID. What was an outbox in this
    /// session stays one.
    fn table(&self, outboxes: &Outboxes, relation: &Relation<'_>) -> Option<OutboxTable> {
        if outboxes.tables.is_empty() {
            return Some(OutboxTable::with_defaults(TableName {
                schema: String::from_utf8_lossy(relation.namespace).into_owned(),
                name: String::from_utf8_lossy(relation.name).into_owned(),
            }));
        }
        let mut tables = outboxes.tables.iter();
        let by_name = tables.find(|table| table.name.is(relation.namespace, relation.name));
        let by_oid = || {
            let name = self.tables.table(relation.id)?;
            outboxes.tables.iter().find(|table| table.name == *name)
        };
        let by_memory = || match self.by_oid.get(&relation.id)? {
            Binding::Ours(router) => Some(router.table()),
            Binding::Broken(table, _) => Some(&**table),
            Binding::Foreign => None,
        };
        by_name.or_else(by_oid).or_else(by_memory).cloned()
    }

    /// What a row's relation is to us.
    ///
    /// # Errors
    /// It was never described.
    #[inline]
    pub(super) fn of_row(&mut self, relation: Oid) -> Result<&mut Binding, Failure> {
        self.by_oid.get_mut(&relation).ok_or_else(|| {
            Failure::new(
                Code::Protocol,
                format!("a row of relation {relation}, which was never described"),
            )
        })
    }
}
