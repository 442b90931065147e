//! Rows of a partitioned outbox that move to another partition. PostgreSQL moves a row by a DELETE
//! in one partition and an INSERT in the other, and decodes it as these two: the row is produced
//! again, after newer rows of its key, also from a publication of inserts alone.
//!
//! `pg_stat_user_tables` counts the two as an ordinary delete and insert
//! (`ExecCrossPartitionUpdate` in nodeModifyTable.c; seen on 15 and 18), so it cannot be seen
//! whether rows have moved. Which roles may move them can be seen.

use super::quote::{quote_identifier, quote_table};
use crate::{
    failure::{Code, Failure, Name},
    routing::{
        FilterKind,
        table::{Outboxes, TableName},
    },
};

/// Which roles other than the owner may move rows of a partitioned table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowMovePrivileges {
    /// The partitioned table.
    pub table: TableName,
    /// Columns of the partition key, of any level, that one of `roles` may update.
    pub columns: Vec<String>,
    /// Names of roles; `None` is everybody (PUBLIC).
    pub roles: Vec<Option<String>>,
}

impl RowMovePrivileges {
    /// Whether `where` has one word alone of the one column by which rows may move: a row that
    /// moves to another partition has another word, and is no event there.
    pub fn are_filtered(&self, outboxes: &Outboxes) -> bool {
        let outbox = outboxes.tables.iter().find(|outbox| outbox.name == self.table);
        outbox.and_then(|outbox| outbox.filter.as_ref()).is_some_and(|filter| {
            let is_one = matches!(filter.kind, FilterKind::In) && filter.values.len() == 1;
            is_one && self.columns.iter().all(|column| *column == filter.column)
        })
    }

    /// The finding, which is reported and stops nothing.
    pub fn finding(&self) -> Failure {
        let Self { table, columns, roles } = self;
        let columns = columns.join(", ");
        let role = |role: &Option<String>| match role {
            Some(name) => quote_identifier(name),
            None => "public".to_owned(),
        };
        let roles: Vec<String> = roles.iter().map(role).collect();
        let roles = roles.join(", ");
        Failure::new(
            Code::RowsMove,
            format!(
                "rows of the partitioned table {table} can move to another partition, because \
                 {roles} may update {columns}: PostgreSQL publishes a row that moves as a new \
                 insert, so its event goes out again"
            ),
        )
        .naming(Name::QuotedTable, quote_table(table))
        .naming(Name::Role, &roles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        routing::table::{OutboxTable, RowFilter},
        source::samples::name,
    };

    #[test]
    fn rows_that_where_leaves_out_may_move() {
        let filtered = |kind, values: &[&str], columns: &[&str]| {
            let moves = RowMovePrivileges {
                table: name("outbox"),
                columns: columns.iter().map(|&column| column.to_owned()).collect(),
                roles: vec![None],
            };
            let values = values.iter().map(|&value| value.to_owned()).collect();
            let filter = Some(RowFilter { column: "status".to_owned(), values, kind });
            let outbox = OutboxTable { filter, ..OutboxTable::with_defaults(name("outbox")) };
            moves.are_filtered(&Outboxes { tables: vec![outbox], ..Outboxes::default() })
        };
        assert!(filtered(FilterKind::In, &["new"], &["status"]));
        assert!(!filtered(FilterKind::In, &["new", "again"], &["status"]));
        assert!(!filtered(FilterKind::NotIn, &["done"], &["status"]));
        assert!(!filtered(FilterKind::In, &["new"], &["created_at", "status"]));
    }

    #[test]
    fn the_roles_that_may_move_rows_are_named_and_the_router_continues() {
        let finding = RowMovePrivileges {
            table: name("outbox"),
            columns: vec!["processed".to_owned()],
            roles: vec![None, Some("app".to_owned())],
        }
        .finding();
        assert!(finding.code == Code::RowsMove && finding.is_note());
        assert!(finding.message.contains("public, \"app\" may update processed"), "{finding}");
        assert_eq!(finding.names.get(Name::QuotedTable), Some("\"public\".\"outbox\""));
        assert_eq!(finding.names.get(Name::Role), Some("public, \"app\""));
    }
}
