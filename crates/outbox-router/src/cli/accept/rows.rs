//! Counts the rows that a gap may have lost, in tables that the role may read and that have a
//! column with the time at which a row was created. The count is an estimate: a row may be created
//! long before it is committed.

use std::{slice, time::Duration};

use relay::{
    Failure, TableName,
    source::{Catalog, Gap, Oid},
};
use tokio_postgres::Client;

use crate::{
    cli::{
        TaskError,
        connect::{Access, with_connection},
    },
    config::Config,
    created_at::CREATED_AT,
    postgres::{Runs, Touched, hidden_rows, quote_identifier, quote_table, refuse_foreign_code},
};

/// The count of one table.
pub(super) struct Counted {
    pub(super) table: TableName,
    /// The count, or why there is none.
    pub(super) rows: Result<Rows, String>,
}

/// Rows by the time at which they were created.
pub(super) struct Rows {
    pub(super) column: String,
    /// Created within the gap's interval; `None` for a gap that has no end before a new slot.
    pub(super) within: Option<i64>,
    /// Created since the interval began: until a new slot is created, rows that are committed after
    /// the interval are missing, too.
    pub(super) until_now: i64,
}

/// `statement_timeout` of each count: a large table without an index may take very long, and a
/// person waits.
const COUNT_TIMEOUT: Duration = Duration::from_secs(10);

/// Counts in every one of these tables.
pub(super) async fn count(
    tables: &[(Oid, TableName)],
    access: Access<'_>,
    gap: &Gap,
) -> Vec<Counted> {
    let work = with_connection(access, "accept", async |client| {
        let limit = format!("set statement_timeout = {}", COUNT_TIMEOUT.as_millis());
        client.batch_execute(&limit).await?;
        let mut counted = Vec::new();
        for (oid, table) in tables {
            let rows = match in_table(client, *oid, table, gap).await {
                Ok(rows) => rows,
                Err(TaskError::Failure(failure)) => Err(failure.message_with_causes()),
                Err(output @ TaskError::Output(_)) => return Err(output),
            };
            counted.push(Counted { table: table.clone(), rows });
        }
        Ok(counted)
    });
    match Box::pin(work).await {
        Ok(counted) => counted,
        Err(trouble) => {
            let why = match trouble {
                TaskError::Failure(failure) => failure.message_with_causes(),
                TaskError::Output(error) => error.to_string(),
            };
            let not = |(_, table): &(Oid, TableName)| Counted {
                table: table.clone(),
                rows: Err(why.clone()),
            };
            tables.iter().map(not).collect()
        }
    }
}

/// The names of the outbox tables.
pub(in crate::cli) fn outbox_tables(config: &Config, catalog: &Catalog) -> Vec<TableName> {
    tables(config, catalog, &[]).into_iter().map(|(_, name)| name).collect()
}

/// The outbox tables, and those that were and have left the publication.
pub(super) fn tables(
    config: &Config,
    catalog: &Catalog,
    withdrawn: &[(TableName, Failure)],
) -> Vec<(Oid, TableName)> {
    let published = catalog.publication.iter().flat_map(|publication| &publication.tables);
    let mut named: Vec<(Oid, TableName)> =
        published.map(|table| (table.oid, table.name.clone())).collect();
    named.extend(catalog.relations.iter().map(|table| (table.oid, table.name.clone())));
    let name_of = |oid: Oid| Some((oid, named.iter().find(|(known, _)| *known == oid)?.1.clone()));
    let left = withdrawn.iter().filter_map(|(table, _)| Some(catalog.named(table)?.oid));
    let oids = catalog.outbox_tables(&config.outboxes()).into_iter().chain(left);
    oids.filter_map(name_of).collect()
}

const COLUMN: &str = "\
    select a.attname::text, a.atttypid = 'timestamptz'::regtype, \
      has_column_privilege(a.attrelid, a.attnum, 'select') \
    from pg_attribute a where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped \
      and a.atttypid in ('timestamptz'::regtype, 'timestamp'::regtype) \
      and a.attname::text = any($2) order by array_position($2, a.attname::text) limit 1";

async fn in_table(
    client: &Client,
    oid: Oid,
    table: &TableName,
    gap: &Gap,
) -> Result<Result<Rows, String>, TaskError> {
    let Some(from) = gap.interval.from.as_ref().and_then(|from| from.at.as_deref()) else {
        return Ok(Err("it is not known at what time it begins".to_owned()));
    };
    // Until there is a new slot, everything is missing.
    let has_end = !gap.failure.code.lasts_until_new_slot();
    let to = gap.interval.to.at.as_deref().filter(|_| has_end);
    if to.is_none() && has_end {
        return Ok(Err("it is not known at what time it ends".to_owned()));
    }
    let names: Vec<&str> = CREATED_AT.to_vec();
    let Some(found) = client.query_opt(COLUMN, &[&oid.as_u32(), &names]).await? else {
        let known = CREATED_AT.join(", ");
        return Ok(Err(format!(
            "it has no column with the time at which a row was written ({known})"
        )));
    };
    let column: String = found.try_get(0)?;
    if !found.try_get::<_, bool>(1)? {
        return Ok(Err(format!("{column} has no time zone")));
    }
    if !found.try_get::<_, bool>(2)? {
        return Ok(Err("this role may not read it; see --admin-url".to_owned()));
    }
    if let Some(hidden) = hidden_rows(client, oid.as_u32()).await? {
        return Ok(Err(format!("{}; {}", hidden.why, hidden.grant)));
    }
    refuse_foreign_code(client, Touched::Tables(slice::from_ref(table)), Runs::Reads).await?;
    let quoted = quote_identifier(&column);
    let count = format!(
        "select count(*) filter (where {quoted} <= $2::text::timestamptz), count(*) \
         from {} where {quoted} >= $1::text::timestamptz",
        quote_table(table)
    );
    let row = client.query_one(&count, &[&from, &to]).await?;
    let within: i64 = row.try_get(0)?;
    let (within, until_now) = (to.map(|_| within), row.try_get(1)?);
    Ok(Ok(Rows { column, within, until_now }))
}
