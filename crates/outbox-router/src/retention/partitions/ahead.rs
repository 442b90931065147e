//! Partitions for rows that are still to come.

use relay::{Failure, TableName};

use super::{
    catalog::{self, Kind, Partition},
    moment::{self, Range},
    naming::partition_name,
    root::{Root, unsuitable},
};
use crate::{
    postgres::{quote_identifier, quote_literal, quote_table},
    retention::{
        session::{Session, number, text},
        settings::RetentionSettings,
        target::Target,
    },
};

/// How many other tables may have the name of a partition.
const NAMES_MAX: u32 = 10;

/// Makes the partitions that are missing, and returns how many.
///
/// # Errors
/// One cannot be made: the session's limit for locks has passed, or the default partition has rows
/// that belong there.
pub(in crate::retention) async fn make(
    session: Session<'_>,
    settings: &RetentionSettings,
    target: &Target,
    root: &Root,
) -> Result<u64, Failure> {
    let existing = catalog::partitions(session, target, root).await?;
    let mut made = 0;
    for range in missing(session, settings, root, &existing).await? {
        let name = free_name(session, target, range).await?;
        let created = session.execute(&statements(target, root, &name, range)).await;
        if let Err(failure) = created {
            return Err(explained(session, target, (&name, range), &existing, failure).await);
        }
        tracing::info!(table = %target.name, partition = %name.name, "made a partition");
        made += 1;
    }
    Ok(made)
}

/// The ranges that no partition has.
pub(super) async fn missing(
    session: Session<'_>,
    settings: &RetentionSettings,
    root: &Root,
    existing: &[Partition],
) -> Result<Vec<Range>, Failure> {
    let now = "select (extract(epoch from now()) * 1000000)::int8";
    let now: i64 = number(&session.row(now).await?, 0)?;
    let taken: Vec<Range> = existing.iter().filter_map(|partition| partition.range).collect();
    Ok(moment::missing(now, root.width, settings.section.partitions_ahead, &taken))
}

/// The name of the new partition, and where something else has it, another.
async fn free_name(
    session: Session<'_>,
    target: &Target,
    range: Range,
) -> Result<TableName, Failure> {
    for number in 0..NAMES_MAX {
        let name = TableName {
            schema: target.name.schema.clone(),
            name: partition_name(&target.name.name, range, number),
        };
        let is_free = session
            .row(&format!("select to_regclass({}) is null", quote_literal(&quote_table(&name))))
            .await?;
        if text(&is_free, 0)? == "t" {
            return Ok(name);
        }
    }
    let table = &target.name;
    let what = format!(
        "{table}: other tables have the names of its next partition, {}",
        partition_name(&table.name, range, 0)
    );
    Err(unsuitable(what, "rename or drop these tables"))
}

/// One transaction. CREATE TABLE … PARTITION OF would lock the root as ACCESS EXCLUSIVE does, so
/// every writer would wait; ATTACH PARTITION takes SHARE UPDATE EXCLUSIVE there, which no writer
/// and no reader conflicts with. ATTACH makes the indexes, and since PostgreSQL 17 identity columns
/// too, and refuses a table that has those already.
fn statements(target: &Target, root: &Root, name: &TableName, range: Range) -> String {
    let (table, partition) = (target.quoted(), quote_table(name));
    let tablespace = match &root.tablespace {
        Some(tablespace) => format!(" tablespace {}", quote_identifier(tablespace)),
        None => String::new(),
    };
    let (from, to) = (target.time.bound(range.from), target.time.bound(range.to));
    let owner = quote_identifier(&root.owner);
    format!(
        "set local role {owner}; create table {partition} \
         (like {table} including all excluding indexes excluding identity){tablespace}; \
         alter table {table} attach partition {partition} for values from ({from}) to ({to})"
    )
}

/// The default partition may have rows of the range, which PostgreSQL does not move.
async fn explained(
    session: Session<'_>,
    target: &Target,
    (name, range): (&TableName, Range),
    existing: &[Partition],
    failure: Failure,
) -> Failure {
    let Some(default) = existing.iter().find(|partition| partition.kind == Kind::Default) else {
        return failure;
    };
    let (column, default) = (target.time.quoted(), default.quoted());
    let [from, to] = [range.from, range.to].map(|end| target.time.bound(end));
    let found = session
        .row(&format!(
            "select exists (select from {default} t where t.{column} >= {from} \
             and t.{column} < {to})"
        ))
        .await;
    if !found.is_ok_and(|row| text(&row, 0).is_ok_and(|text| text == "t")) {
        return failure;
    }
    unsuitable(
        format!(
            "{}: partition {name} cannot be made, because the default partition has rows of its \
             time: {}",
            target.name, failure.message
        ),
        format!(
            "in one transaction: alter table {table} detach partition {default}; create table \
             {partition} partition of {table} for values from ({from}) to ({to}); move these rows \
             there; alter table {table} attach partition {default} default",
            table = target.quoted(),
            partition = quote_table(name)
        ),
    )
}
