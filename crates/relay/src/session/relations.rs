//! What each relation of the stream is: an outbox, another table, or an outbox that cannot be read.
//!
//! The server sends a Relation message before a table's first row in a session, after every change
//! of its shape, and again after a TRUNCATE or an ANALYZE. So a repeated message must cost little
//! and lose nothing. There is one entry per published table, as there is in the walsender. Whether
//! a table is an outbox is decided once per Relation message; a row costs one look-up by OID.

use std::collections::BTreeMap;

use pgoutput::{Lsn, Oid, Relation, Type};

use crate::{
    failure::{Case, Code, Failure, Name},
    held::messages,
    routing::{
        columns::Columns,
        mapping::TypeNames,
        route::TableRouter,
        table::{OutboxTable, Outboxes, Role, TableName},
    },
    source::{FilterLabels, TableOids},
};

pub(super) enum Binding {
    Outbox(Box<TableRouter>),
    NotOutbox,
    /// An outbox at whose next row the session waits, with this failure.
    Broken(Box<OutboxTable>, Failure),
}

/// What becomes of rows that lack a column which rows of the same table before them had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostColumns {
    /// They wait: a column was renamed or dropped, or the publication left it out for a while.
    Refused,
    /// They are as they were written, in whichever order they come.
    Taken,
}

pub(super) struct Relations {
    tables: TableOids,
    lost_columns: LostColumns,
    labels: FilterLabels,
    /// Where the transaction commits whose messages come.
    commit: Lsn,
    /// Usually one entry, which a `BTreeMap` finds with one comparison.
    by_oid: BTreeMap<Oid, Binding>,
    /// What the Type messages since the last Relation message say.
    types: TypeNames,
    /// Those messages themselves.
    type_messages: Vec<u8>,
    /// The messages that describe each outbox, for events that are held.
    descriptions: BTreeMap<Oid, Box<[u8]>>,
}

impl Relations {
    pub(super) fn new(tables: TableOids, lost_columns: LostColumns, labels: FilterLabels) -> Self {
        Self {
            tables,
            lost_columns,
            labels,
            commit: Lsn::ZERO,
            by_oid: BTreeMap::new(),
            types: TypeNames::default(),
            type_messages: Vec::new(),
            descriptions: BTreeMap::new(),
        }
    }

    /// Notes that the messages of a transaction come, which commits there.
    pub(super) fn begin(&mut self, commit: Lsn) {
        self.commit = commit;
    }

    /// Notes a Type message, which precedes the Relation message that refers to it.
    pub(super) fn name_type(&mut self, named: &Type<'_>, message: &[u8]) {
        self.types.note(named);
        messages::push(&mut self.type_messages, message);
    }

    /// Notes a Relation message.
    pub(super) fn describe(
        &mut self,
        outboxes: &Outboxes,
        relation: &Relation<'_>,
        message: &[u8],
    ) {
        let types = std::mem::take(&mut self.types);
        let mut description = std::mem::take(&mut self.type_messages);
        let table = match self.table(outboxes, relation) {
            Some(table) => table,
            None => {
                self.by_oid.insert(relation.id, Binding::NotOutbox);
                return;
            }
        };
        messages::push(&mut description, message);
        self.descriptions.insert(relation.id, description.into());
        let filter = table.filter.as_ref();
        let labels = filter.and_then(|filter| {
            let mut columns = relation.columns();
            let column = columns.find(|column| column.name == filter.column.as_bytes())?;
            let of_table = (relation.id, filter.column.as_str());
            self.labels.in_transaction(of_table, column.type_oid.as_u32(), self.commit)
        });
        let columns = Columns::resolve(&table, relation, &types, labels);
        let router = match (columns, self.by_oid.get_mut(&relation.id)) {
            (Ok(columns), Some(Binding::Outbox(router))) if router.table().name == table.name => {
                let lost = router.columns().lost_in(&columns);
                match lost.filter(|_| self.lost_columns == LostColumns::Refused) {
                    Some(role) => Err(column_gone(router, role)),
                    None => match router.set_columns(columns) {
                        Ok(()) => return,
                        Err(failure) => Err(failure),
                    },
                }
            }
            (Ok(columns), _) => {
                TableRouter::new(table.clone(), columns, outboxes.state_topic.clone())
            }
            (Err(failure), _) => Err(failure),
        };
        let binding = match router {
            Ok(router) => Binding::Outbox(Box::new(router)),
            Err(failure) => Binding::Broken(Box::new(table), failure),
        };
        self.by_oid.insert(relation.id, binding);
    }

    /// The outbox that a relation is, if it is one. The message has the name that the table had
    /// at this LSN. That name is compared first, so that a row is routed alike
    /// whenever it is read. If the table had another name then, or was renamed back within the same
    /// transaction, its OID identifies it, as it does a partition that is published under its own
    /// name. What was an outbox in this session stays an outbox.
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
            let tables = &self.tables;
            let name = tables.table(relation.id).or_else(|| tables.partitioned(relation.id))?;
            outboxes.tables.iter().find(|table| table.name == *name)
        };
        let by_memory = || match self.by_oid.get(&relation.id)? {
            Binding::Outbox(router) => Some(router.table()),
            Binding::Broken(table, _) => Some(&**table),
            Binding::NotOutbox => None,
        };
        by_name.or_else(by_oid).or_else(by_memory).cloned()
    }

    /// The messages that describe an outbox.
    pub(super) fn description(&self, relation: Oid) -> &[u8] {
        self.descriptions.get(&relation).map_or(&[], |description| description)
    }

    /// The router of an outbox whose columns fit.
    pub(super) fn router(&self, relation: Oid) -> Option<&TableRouter> {
        match self.by_oid.get(&relation)? {
            Binding::Outbox(router) => Some(router),
            Binding::NotOutbox | Binding::Broken(..) => None,
        }
    }

    /// What a row's relation is; `None` if no Relation message described it.
    #[inline]
    pub(super) fn of_row(&mut self, relation: Oid) -> Option<&mut Binding> {
        self.by_oid.get_mut(&relation)
    }
}

/// The failure for a row without a Relation message before it (P007).
#[cold]
pub(super) fn not_described(relation: Oid) -> Failure {
    let what = format!("a row of relation {relation}, which was never described");
    Failure::new(Code::Protocol, what)
}

/// Why no row of a table is delivered that has lost a column: records would go without what those
/// before them had, be it that it was renamed, or that the publication left it out for a while.
fn column_gone(router: &TableRouter, role: Role) -> Failure {
    let (table, column) = (&router.table().name, router.columns().name(role));
    let what = format!(
        "{table}: its rows have no column {column} any more, which those before had ({})",
        role.as_str()
    );
    Failure::of(Case::ColumnGone, what).naming(Name::Table, table)
}
