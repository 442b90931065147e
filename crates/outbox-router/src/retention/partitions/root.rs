//! A partitioned outbox, and whether its partitions can be made and dropped.

use relay::{Case, Failure, Name, TableName, source::TableKind};

use super::moment;
use crate::{
    config::print_duration,
    postgres::{quote_identifier, quote_table},
    retention::{
        session::{Session, optional, text},
        settings::RetentionSettings,
        time::TimeColumn,
    },
};

/// A table that is partitioned by RANGE of its time, and whose partitions the role may drop.
#[derive(Debug, Clone)]
pub(in crate::retention) struct Root {
    pub(super) oid: u32,
    /// The role that owns it, and will own what is made.
    pub(super) owner: String,
    pub(super) tablespace: Option<String>,
    /// How long a time one partition has the rows of, in microseconds.
    pub(super) width: i64,
}

/// Who owns a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) role: String,
    /// Whether the role of the session may act as that one.
    pub(super) is_ours: bool,
}

/// What is known of the table before.
pub(in crate::retention) struct Known<'t> {
    pub(in crate::retention) name: &'t TableName,
    pub(in crate::retention) oid: u32,
    pub(in crate::retention) kind: TableKind,
    pub(in crate::retention) time: &'t TimeColumn,
    /// The number of that column.
    pub(in crate::retention) column: i16,
}

impl Root {
    /// Checks that partitions of the table can be made and dropped.
    ///
    /// # Errors
    /// It is not partitioned by RANGE of its time, or the role does not own it.
    pub(in crate::retention) async fn find(
        session: Session<'_>,
        settings: &RetentionSettings,
        known: Known<'_>,
    ) -> Result<Self, Failure> {
        let Known { name, oid, kind, time, column } = known;
        if kind != TableKind::Partitioned {
            let what = format!("{name} is not partitioned, so it has no partitions to drop");
            return Err(unsuitable(
                what,
                "set retention.mode = \"delete\"; or make a table that is partitioned: \
                 outbox-router setup --create-table --partitioned prints one",
            ));
        }
        let row = session
            .row(&format!(
                "select p.partstrat = 'r' and p.partnatts = 1 and p.partattrs[0] = {column}, \
                   pg_get_partkeydef(c.oid), pg_get_userbyid(c.relowner), s.spcname, \
                   pg_has_role(c.relowner, 'usage'), \
                   has_schema_privilege(c.relowner, c.relnamespace, 'create') \
                 from pg_partitioned_table p join pg_class c on c.oid = p.partrelid \
                 left join pg_tablespace s on s.oid = c.reltablespace where c.oid = {oid}"
            ))
            .await?;
        let owner = Owner { role: text(&row, 2)?.to_owned(), is_ours: text(&row, 4)? == "t" };
        if text(&row, 0)? != "t" {
            let what = format!(
                "{name} is partitioned by {}, and its rows have their age by {}",
                text(&row, 1)?,
                time.name
            );
            let column = quote_identifier(&time.name);
            return Err(unsuitable(
                what,
                format!(
                    "set retention.mode = \"delete\"; only partitions by range ({column}) and \
                     nothing else can be dropped when they are old"
                ),
            ));
        }
        check_owner(session, &format!("table {name}"), &owner)?;
        if text(&row, 5)? != "t" {
            let (schema, owner) = (quote_identifier(&name.schema), quote_identifier(&owner.role));
            let what = format!(
                "role {owner}, which owns {name}, may not make its partitions in schema {schema}"
            );
            let grant = format!("grant usage, create on schema {schema} to {owner}");
            return Err(forbidden(what, grant));
        }
        Ok(Self {
            oid,
            owner: owner.role,
            tablespace: optional(&row, 3)?.map(str::to_owned),
            width: width(settings, name, time)?,
        })
    }
}

/// The length of partitions, which the values of the column must be able to express.
fn width(
    settings: &RetentionSettings,
    name: &TableName,
    time: &TimeColumn,
) -> Result<i64, Failure> {
    let length = settings.section.partition_by;
    let seconds = i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
    let width = seconds.saturating_mul(moment::SECOND).max(moment::SECOND);
    if width % time.unit() == 0 {
        return Ok(width);
    }
    let what = format!(
        "{name}: retention.partition_by is {}, and {} is a date",
        print_duration(length),
        time.name
    );
    Err(unsuitable(what, "set retention.partition_by to a number of whole days"))
}

/// Checks that the role may act as the owner.
pub(super) fn check_owner(session: Session<'_>, what: &str, owner: &Owner) -> Result<(), Failure> {
    if owner.is_ours {
        return Ok(());
    }
    let (owner, role) = (quote_identifier(&owner.role), quote_identifier(&session.backend.role));
    let what = format!("role {role} may not drop partitions: {what} is owned by {owner}");
    Err(forbidden(what, format!("grant {owner} to {role}")))
}

fn forbidden(what: String, grants: String) -> Failure {
    Failure::of(Case::RetentionForbidden, what).naming(Name::Statements, grants)
}

/// Partitions cannot be handled; and what to type.
pub(super) fn unsuitable(what: String, statements: impl Into<String>) -> Failure {
    Failure::of(Case::RetentionPartitions, what).naming(Name::Statements, statements.into())
}

/// A table that an earlier version has detached stays; and what to type.
pub(super) fn left_behind(table: &TableName, root: &TableName) -> Failure {
    let what = format!(
        "{table} was detached by an earlier version to be dropped, and stays: rows that were \
         written to it meanwhile are in no topic"
    );
    let (table, root) = (quote_table(table), quote_table(root));
    let statements = format!(
        "compare {table} with the topics, and insert into {root} what is missing; then drop table \
         {table}, or, to keep it: comment on table {table} is null"
    );
    Failure::of(Case::RetentionDetached, what)
        .naming(Name::Table, table)
        .naming(Name::Statements, statements)
}
