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
    routing::table::TableName,
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
    use crate::source::samples::name;

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
