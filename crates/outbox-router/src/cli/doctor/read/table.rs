//! What the catalog and the statistics say of one outbox table.

use relay::{
    Failure, OutboxTable, Outboxes, Role, TableName, is_role_required, row_columns, source::Oid,
};
use tokio_postgres::Client;

use crate::{
    cli::{
        doctor::facts::{ColumnIndex, Ids, Layout, Owner, Removal, TableFacts},
        explain_row::{dry_run_of, why_none_fits},
    },
    config::{Config, RetentionMode},
    filter_labels::check_filters,
    postgres::{TextQuery, one_row, quote_identifier, quote_literal, quote_table},
    prepare,
    republish::table_row::TableRow,
};

/// A NULL in the column of one of these stops the router.
const NOT_NULL: [Role; 3] = [Role::Id, Role::AggregateType, Role::AggregateId];

/// Columns that are unique by an index: alone, or beside the key of the partitions.
const UNIQUE: &str = "\
    select a.attname::text from pg_index i \
    cross join lateral unnest(i.indkey[0:i.indnkeyatts - 1]) k (num) \
    join pg_attribute a on a.attrelid = c.oid and a.attnum = k.num \
    where i.indrelid = c.oid and i.indisvalid and i.indisunique and i.indpred is null \
      and not exists (select from unnest(i.indkey[0:i.indnkeyatts - 1]) o (num) \
        where o.num <> k.num and o.num <> all (coalesce((select p.partattrs::int2[] \
          from pg_partitioned_table p where p.partrelid = c.oid), '{}')))";

/// Default partitions that have rows, or had some.
const DEFAULTS: &str = "\
    select json_build_object('name', n.nspname || '.' || d.relname, \
      'rows', pg_stat_get_live_tuples(d.oid), 'deleted', pg_stat_get_tuples_deleted(d.oid)) \
    from pg_partitioned_table p join pg_class d on d.oid = p.partdefid \
    join pg_namespace n on n.oid = d.relnamespace \
    where p.partrelid in (select oid from tree) \
      and pg_stat_get_live_tuples(d.oid) + pg_stat_get_tuples_deleted(d.oid) > 0 \
    order by d.oid";

/// Reads them.
///
/// # Errors
/// The table does not exist, or the server does not answer.
pub(super) async fn facts(
    mut client: &Client,
    config: &Config,
    name: &TableName,
) -> Result<TableFacts, Failure> {
    let row = TableRow::describe(client, name).await?;
    let mapped = Mapped::of(&row, config)?;
    let unsuitable = match mapped.unsuitable {
        Some(failure) => Some(failure),
        None => check_filters(&mut client, &of_table(config, name)).await.err(),
    };
    let mut answer = one_row(&mut client, "the table", &statement(row.oid)).await?;
    let owner = if answer.boolean()? { Owner::Router } else { Owner::Other };
    let layout = match (answer.boolean()?, answer.parsed()?) {
        (true, leaves) => Layout::Partitioned(leaves),
        (false, _) => Layout::Plain,
    };
    let bytes = answer.parsed()?;
    let (updated, deleted) = (answer.parsed()?, answer.parsed()?);
    let rules: Vec<String> = answer.json()?;
    let nullable: Vec<String> = answer.json()?;
    let indexed: Vec<String> = answer.json()?;
    let unique: Vec<String> = answer.json()?;
    let subscriptions = answer.json()?;
    let (defaults, inserted) = (answer.json()?, answer.parsed()?);
    let index_of = |column: String| ColumnIndex {
        is_indexed: indexed.contains(&column),
        column: quote_identifier(&column),
    };
    let updated = match marked_by_worker(client, row.oid).await? {
        Marked::Never => updated,
        Marked::ByWorkers => 0,
    };
    let ids = match &mapped.id {
        None => Ids::Unique,
        Some(id) if !unique.contains(id) => Ids::MayRepeat,
        Some(id) => sequence_ids(client, row.oid, id, inserted).await?,
    };
    let needed = mapped.not_null.iter().filter(|column| nullable.contains(column));
    Ok(TableFacts {
        name: name.to_string(),
        quoted: quote_table(name),
        unsuitable,
        owner,
        layout,
        defaults,
        bytes,
        updated,
        deleted,
        rules,
        nullable: needed.map(|column| quote_identifier(column)).collect(),
        ids,
        subscriptions,
        id: mapped.id.map(index_of),
        time: mapped.time.map(index_of),
        removal: match config.retention.mode {
            RetentionMode::Off => Removal::Elsewhere,
            RetentionMode::Delete | RetentionMode::Archive | RetentionMode::DropPartitions => {
                Removal::ByRouter
            }
        },
        template: mapped.template,
    })
}

/// What the catalog and the statistics say of a table.
fn statement(oid: u32) -> String {
    format!(
        "with tree as (select {oid}::oid as oid \
             union select relid from pg_partition_tree({oid}::oid::regclass)) \
         select pg_has_role(c.relowner, 'usage'), c.relkind = 'p', \
           (select count(*) from pg_partition_tree(c.oid) where isleaf and relid <> c.oid), \
           (select coalesce(sum(pg_total_relation_size(oid)), 0)::int8 from tree), \
           (select coalesce(sum(pg_stat_get_tuples_updated(oid)), 0)::int8 from tree), \
           (select coalesce(sum(pg_stat_get_tuples_deleted(oid)), 0)::int8 from tree), \
           (select array_to_json(array(select quote_ident(r.rulename) from pg_rewrite r \
             where r.ev_class = c.oid and r.ev_type = '3' order by 1))), \
           (select array_to_json(array(select a.attname::text from pg_attribute a \
             where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped \
               and not a.attnotnull order by a.attnum))), \
           (select array_to_json(array(select a.attname::text from pg_index i \
             join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0] \
             where i.indrelid = c.oid and i.indisvalid and i.indpred is null))), \
           (select array_to_json(array({UNIQUE}))), \
           (select array_to_json(array(select distinct quote_ident(s.subname) \
             from pg_subscription_rel r join pg_subscription s on s.oid = r.srsubid \
             where r.srrelid in (select oid from tree)))), \
           (select coalesce(json_agg(d.found), '[]') from ({DEFAULTS}) d (found)), \
           (select coalesce(sum(pg_stat_get_tuples_inserted(oid)), 0)::int8 from tree) \
         from pg_class c where c.oid = {oid}"
    )
}

/// Compares the ids that the column's sequence has given with the rows that were inserted. An id
/// is given once, also to a row that is rolled back, until somebody restarts the sequence. One that
/// the role may not read says nothing.
async fn sequence_ids(
    mut client: &Client,
    oid: u32,
    column: &str,
    inserted: i64,
) -> Result<Ids, Failure> {
    let column = quote_literal(column);
    let statement = format!(
        "select quote_literal(q.sequence::text), \
           coalesce((q.last - s.seqstart) / s.seqincrement + 1, 0)::int8 \
         from (select sequence, pg_sequence_last_value(sequence) as last \
             from (select pg_get_serial_sequence({oid}::oid::regclass::text, {column})::regclass) \
               of_column (sequence) \
             where has_sequence_privilege(sequence, 'usage, select')) q \
           join pg_sequence s on s.seqrelid = q.sequence"
    );
    let rows = client.rows("the sequence of the ids", &statement).await?;
    let Some(mut row) = rows.into_iter().next() else { return Ok(Ids::Unique) };
    let (sequence, given): (String, i64) = (row.text()?, row.parsed()?);
    Ok(if given < inserted { Ids::Repeated { sequence, given, inserted } } else { Ids::Unique })
}

/// The configuration of one table.
fn of_table(config: &Config, name: &TableName) -> Outboxes {
    let mut outboxes = config.outboxes();
    outboxes.tables.retain(|outbox| outbox.name == *name);
    outboxes
}

/// Whether workers have marked rows of the table.
enum Marked {
    Never,
    /// It is polled, or was before a switch: their marks are updates, and the statistics do not
    /// tell whose an update was.
    ByWorkers,
}

async fn marked_by_worker(mut client: &Client, oid: u32) -> Result<Marked, Failure> {
    let tables = ["switch", "lease", "worker"];
    let readable = tables.map(|name| {
        format!(
            "coalesce(has_schema_privilege(to_regnamespace('outbox_router'), 'usage') \
             and has_table_privilege(to_regclass('outbox_router.{name}'), 'select'), false)"
        )
    });
    let statement = format!("select {}", readable.join(", "));
    let mut answer = one_row(&mut client, "the tables of workers", &statement).await?;
    for name in tables {
        if !answer.boolean()? {
            continue;
        }
        let statement =
            format!("select exists (select from outbox_router.{name} where relation = {oid})");
        if one_row(&mut client, "the tables of workers", &statement).await?.boolean()? {
            return Ok(Marked::ByWorkers);
        }
    }
    Ok(Marked::Never)
}

/// What the configuration makes of the columns.
#[derive(Default)]
struct Mapped {
    unsuitable: Option<Failure>,
    template: Option<String>,
    id: Option<String>,
    time: Option<String>,
    /// Columns in which a NULL stops the router.
    not_null: Vec<String>,
}

impl Mapped {
    fn of(row: &TableRow, config: &Config) -> Result<Self, Failure> {
        let outboxes = config.outboxes();
        let row_bytes = prepare::size(config.limits.row_bytes);
        let run = dry_run_of(row, &outboxes, row_bytes)?;
        let Some(mapping) = run.mapping(Oid::from_u32(row.oid)) else {
            let unsuitable = Some(why_none_fits(row, &outboxes, row_bytes)?);
            return Ok(Self { unsuitable, ..Self::default() });
        };
        let table = OutboxTable { preset: Some(mapping.preset()), ..mapping.table().clone() };
        let names: Vec<String> = row.columns.iter().map(|column| column.name.clone()).collect();
        let found = row_columns(&table, &names)?;
        let time = config.retention.time_column.as_deref().filter(|name| row.has(name));
        let column = |role: &Role| {
            let name = mapping.column(*role).filter(|name| row.has(name))?;
            is_role_required(&table, *role).then(|| name.to_owned())
        };
        Ok(Self {
            unsuitable: None,
            template: Some(mapping.topic().to_string()),
            id: found.id.map(str::to_owned),
            time: time.or(found.time).map(str::to_owned),
            not_null: NOT_NULL.iter().filter_map(column).collect(),
        })
    }
}
