//! What each relation of the stream is to us: an outbox, none of our business, or an outbox that cannot be read.
//!
//! The server describes a relation before its first row in a session, after every change of its shape, and again after
//! a TRUNCATE or an ANALYZE; so describing it twice must cost little and forget nothing. There is one entry per table of
//! the publication, as there is in the walsender.

use std::collections::BTreeMap;

use pgoutput::{Oid, Relation};

use crate::{
    bug::{self, Bug},
    columns::Columns,
    failure::{Code, Failure},
    route::Router,
    table::{OutboxTable, Outboxes, TableName},
};

pub(super) enum Binding {
    Ours(Box<Router>),
    Foreign,
    /// Its next row is held with this failure.
    Broken(Failure),
}

#[derive(Default)]
pub(super) struct Relations {
    /// Mostly one: a tree finds that by one compare, and each of many by a few.
    by_oid: BTreeMap<Oid, Binding>,
}

impl Relations {
    /// Takes note of a description.
    pub(super) fn describe(&mut self, outboxes: &Outboxes, relation: &Relation<'_>) {
        if let Some(Binding::Ours(router)) = self.by_oid.get_mut(&relation.id)
            && router.table().name.is(relation.namespace, relation.name)
            && let Ok(columns) = Columns::resolve(router.table(), relation)
        {
            if bug::is(Bug::IgnoreNewShape) {
                return;
            }
            router.set_columns(columns);
            return;
        }
        self.by_oid.insert(relation.id, bind(outboxes, relation));
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

fn bind(outboxes: &Outboxes, relation: &Relation<'_>) -> Binding {
    let table = if outboxes.tables.is_empty() {
        OutboxTable::with_defaults(TableName {
            schema: String::from_utf8_lossy(relation.namespace).into_owned(),
            name: String::from_utf8_lossy(relation.name).into_owned(),
        })
    } else {
        let ours = |table: &&OutboxTable| table.name.is(relation.namespace, relation.name);
        match outboxes.tables.iter().find(ours) {
            Some(table) => table.clone(),
            None => return Binding::Foreign,
        }
    };
    match Columns::resolve(&table, relation) {
        Ok(columns) => Binding::Ours(Box::new(Router::new(table, columns))),
        Err(failure) => Binding::Broken(failure),
    }
}
