//! An outbox that is partitioned by the time of its rows, for `retention.mode = "drop_partitions"`.

use std::{
    io,
    time::{SystemTime, UNIX_EPOCH},
};

use clap::ValueEnum;
use relay::{Case, Failure, OutboxTable, Role, TableName};
use tokio_postgres::Client;

use crate::{
    cli::{TaskError, sql},
    config::{Config, SourceKind},
    postgres::{quote_identifier, quote_table},
    retention::partitions::{
        moment::{self, Range, date_time},
        naming::partition_name,
    },
};

/// How a table that `setup` makes is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableForm {
    /// As one table.
    Plain,
    /// In partitions by the time of its rows.
    Partitioned,
}

/// The statements that make the table.
///
/// # Errors
/// Tables of this preset are not partitioned here.
pub(super) async fn statements(
    client: &Client,
    form: TableForm,
    outbox: &OutboxTable,
    config: &Config,
) -> Result<Vec<String>, TaskError> {
    match form {
        TableForm::Plain => Ok(plain(outbox, config.postgres.source)),
        TableForm::Partitioned => {
            let now = "select (extract(epoch from now()) * 1000000)::int8";
            let now: i64 = client.query_one(now, &[]).await?.try_get(0)?;
            Ok(partitioned(outbox, config, now)?)
        }
    }
}

fn plain(outbox: &OutboxTable, source: SourceKind) -> Vec<String> {
    [Some(sql::create_table(outbox, source)), sql::create_time_index(outbox)]
        .into_iter()
        .flatten()
        .collect()
}

/// Prints the statements, with the partitions of this moment.
pub(super) fn print(
    form: TableForm,
    outbox: &OutboxTable,
    config: &Config,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let statements = match form {
        TableForm::Plain => plain(outbox, config.postgres.source),
        TableForm::Partitioned => {
            writeln!(
                out,
                "-- retention.mode = \"drop_partitions\" makes more partitions, and drops"
            )?;
            writeln!(out, "-- old ones, if its role is a member of the role that owns the table")?;
            partitioned(outbox, config, clock())?
        }
    };
    writeln!(out, "-- the outbox table")?;
    for statement in statements {
        writeln!(out, "{statement};\n")?;
    }
    Ok(())
}

/// Microseconds since 1970, by this machine's clock.
fn clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The table, its index, and its first partitions. A primary key must have the column that
/// partitions are made by, so ids are unique in a partition only.
fn partitioned(outbox: &OutboxTable, config: &Config, now: i64) -> Result<Vec<String>, Failure> {
    let (source, retention) = (config.postgres.source, &config.retention);
    if source == SourceKind::Polling {
        let what = format!(
            "setup makes no partitioned table that is polled, since nothing drops its partitions: \
             make {} without --partitioned",
            outbox.name
        );
        return Err(Failure::of(Case::NoTable, what));
    }
    let id = "uuid not null default gen_random_uuid()";
    let Some(mut columns) = sql::own_columns(outbox, id, source) else {
        let preset = outbox.preset.map(|preset| preset.name).unwrap_or_default();
        let what = format!(
            "setup makes no partitioned table of the preset {preset}: make {} yourself, partitioned \
             by range of the column of its rows' time",
            outbox.name
        );
        return Err(Failure::of(Case::NoTable, what));
    };
    let time = retention.time_column.as_deref();
    let time = quote_identifier(time.unwrap_or_else(|| sql::column_name(outbox, Role::Timestamp)));
    let id = quote_identifier(sql::column_name(outbox, Role::Id));
    columns.push(format!("    {time} timestamptz not null default now()"));
    columns.push(format!("    primary key ({id}, {time})"));
    let table = quote_table(&outbox.name);
    let seconds = i64::try_from(retention.partition_by.as_secs()).unwrap_or(i64::MAX);
    let width = seconds.saturating_mul(moment::SECOND).max(moment::SECOND);
    let partition = |range: Range| {
        let TableName { schema, name } = &outbox.name;
        let name = partition_name(name, range, 0);
        format!(
            "create table {} partition of {table}\n    for values from ('{}+00') to ('{}+00')",
            quote_table(&TableName { schema: schema.clone(), name }),
            date_time(range.from),
            date_time(range.to)
        )
    };
    let first = moment::missing(now, width, retention.partitions_ahead, &[]);
    let table_of =
        format!("create table {table} (\n{}\n) partition by range ({time})", columns.join(",\n"));
    let index = format!("create index on {table} ({time})");
    Ok([table_of, index].into_iter().chain(first.into_iter().map(partition)).collect())
}

#[cfg(test)]
mod tests {
    use relay::DEBEZIUM;

    use super::*;

    #[test]
    fn a_partitioned_table_has_its_time_in_the_key_and_partitions_from_today_on() {
        let mut config = Config::default();
        config.retention.partitions_ahead = 1;
        let mut outbox = OutboxTable::with_defaults(crate::config::default_table());
        let now = 1_767_225_600 * moment::SECOND + 7;
        let statements = partitioned(&outbox, &config, now).unwrap();
        assert!(statements[0].ends_with(
            "    \"created_at\" timestamptz not null default now(),\n    \
             primary key (\"id\", \"created_at\")\n) partition by range (\"created_at\")"
        ));
        assert_eq!(
            statements[2..],
            [
                "create table \"public\".\"outbox_p20260101\" partition of \"public\".\"outbox\"\n    \
                 for values from ('2026-01-01 00:00:00+00') to ('2026-01-02 00:00:00+00')",
                "create table \"public\".\"outbox_p20260102\" partition of \"public\".\"outbox\"\n    \
                 for values from ('2026-01-02 00:00:00+00') to ('2026-01-03 00:00:00+00')"
            ]
        );
        outbox.preset = Some(&DEBEZIUM);
        config.retention.time_column = Some("at".to_owned());
        let statements = partitioned(&outbox, &config, now).unwrap();
        assert!(
            statements[0].ends_with("primary key (\"id\", \"at\")\n) partition by range (\"at\")")
        );
    }
}
