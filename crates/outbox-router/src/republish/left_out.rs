//! Rows that a person has left out of what was sent, since they cannot become a record, in
//! `outbox_router.left_out`. They are in no topic, and older than the slot, so retention would take
//! them for delivered ones: it keeps them by [`is_left_out`]. The line of one that was sent since
//! stays: where Kafka is taken back to a copy from before, that record is gone.

use relay::{Case, Failure, Lsn, Name, TableName, witness::Notes};
use tokio_postgres::{Client, Row};

use crate::{
    held,
    postgres::{TextQuery, quote_identifier, quote_literal, quote_table, sql_failure, utc},
};

/// `table_oid` is the table, and of a partitioned one its root. It is a `regclass`: a dump has the
/// table's name, and so an entry is of the same table where the dump is restored.
const TABLE: &str = "\
create table if not exists \"outbox_router\".\"left_out\" (
    \"pipeline\"    text        not null,
    \"table_oid\"   regclass    not null,
    \"event_id\"    text        not null,
    \"slot\"        text        not null,
    \"run\"         bigint      not null,
    \"code\"        text        not null,
    \"error\"       text        not null,
    \"left_out_at\" timestamptz not null default now(),
    \"id_column\"   text,
    \"rows\"        bigint,
    \"sent_at\"     timestamptz,
    primary key (\"pipeline\", \"table_oid\", \"event_id\")
)";

/// The table that an earlier version has made is without the last columns.
const COLUMNS: &str = "\
alter table \"outbox_router\".\"left_out\" \
add column if not exists \"id_column\" text, add column if not exists \"rows\" bigint, \
add column if not exists \"sent_at\" timestamptz";

const HAS_COLUMNS: &str = "\
select count(*) = 3 from pg_attribute \
where attrelid = 'outbox_router.left_out'::regclass \
  and attname in ('id_column', 'rows', 'sent_at') and not attisdropped";

/// The condition that the row of an entry `o` is in no topic: one that was sent since has a time.
/// The table that an earlier version has made is without it, and its entries are all of such rows.
const UNSENT: &str = "to_jsonb(o) ->> 'sent_at' is null";

/// A row that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// The id as the server prints it.
    pub(crate) id: String,
    /// The column that had the id; `None`: an earlier version has not written it.
    pub(crate) column: Option<String>,
    pub(crate) code: String,
    pub(crate) error: String,
}

/// Makes the table, or its columns, where they are missing, in a schema that is there, and lets the
/// router's role read it. Where the witness has that there was one, [`check_there`] comes before.
///
/// # Errors
/// The role may not make it, or the connection breaks.
pub(crate) async fn make(client: &Client, router: Option<&str>) -> Result<(), Failure> {
    let grant = |table: &str| {
        router.map_or_else(String::new, |role| {
            let role = quote_identifier(role);
            format!(
                "; grant usage on schema \"outbox_router\" to {role}; \
                 grant select on \"outbox_router\".{} to {role}",
                quote_identifier(table)
            )
        })
    };
    held::make_note_version(client, &grant("note_version")).await.map_err(sql_failure)?;
    if !exists(client).await? {
        let make = format!("begin; {TABLE}{}; commit", grant("left_out"));
        return client.batch_execute(&make).await.map_err(sql_failure);
    }
    let row = client.query_one(HAS_COLUMNS, &[]).await.map_err(sql_failure)?;
    if row.try_get(0).map_err(sql_failure)? {
        Ok(())
    } else {
        client.batch_execute(COLUMNS).await.map_err(sql_failure)
    }
}

/// Whether any row can have been left out.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn exists(client: &Client) -> Result<bool, Failure> {
    held::exists(client, "left_out").await.map_err(sql_failure)
}

/// Checks that the database has the notes of a pipeline that the witness knows of, `known`: without
/// them rows would count as sent.
///
/// # Errors
/// [`Case::LeftOutGone`]: the table is not there, or some notes are not; or the connection breaks.
pub(crate) async fn check_there(
    client: &Client,
    pipeline: &str,
    known: Notes,
) -> Result<(), Failure> {
    check_table(client, known).await?;
    if known.writes == 0 {
        return Ok(());
    }
    let (what, statement) = match held::note_writes(&mut { client }, pipeline).await? {
        Some(there) if there >= known.writes => return Ok(()),
        Some(there) => {
            let what = format!("has {there} of {} writes", known.writes);
            (what, held::set_note_writes(pipeline, known.writes))
        }
        None => ("may not be read by this role".to_owned(), grant_to_current(client).await?),
    };
    let what = format!(
        "outbox_router.note_version {what}: notes of rows that are in no topic, in \
         outbox_router.left_out or outbox_router.decision, may be gone, and every row may be one"
    );
    Err(Failure::of(Case::LeftOutGone, what).naming(Name::Statements, statement))
}

/// The same of the table alone, where notes that are missing are a gap that is open.
///
/// # Errors
/// [`Case::LeftOutGone`]: the table is not there; or the connection breaks.
pub(crate) async fn check_table(client: &Client, known: Notes) -> Result<(), Failure> {
    if known.any_left_out && !exists(client).await? {
        let what = "the table outbox_router.left_out does not exist, and rows were noted in it that \
                    are in no topic: which they are is not known, so every row may be one";
        let table: Vec<&str> = TABLE.split_whitespace().collect();
        let make = format!("create schema if not exists \"outbox_router\"; {}", table.join(" "));
        return Err(Failure::of(Case::LeftOutGone, what).naming(Name::Statements, make));
    }
    Ok(())
}

async fn grant_to_current(client: &Client) -> Result<String, Failure> {
    let role = client.query_one("select quote_ident(current_user)", &[]).await;
    let role: String = role.and_then(|row| row.try_get(0)).map_err(sql_failure)?;
    Ok(format!(
        "grant usage on schema outbox_router to {role}; \
         grant select on outbox_router.note_version to {role}"
    ))
}

/// The notes of a pipeline; `None`: there is no table of rows that were left out. One that this
/// role may not read may have some.
///
/// # Errors
/// The server is a standby, or the connection breaks.
pub(crate) async fn noted(client: &Client, pipeline: &str) -> Result<Option<Notes>, Failure> {
    if !exists(client).await? {
        return Ok(None);
    }
    let any = if held::are_readable(&mut { client }, "outbox_router.left_out", ["left_out"]).await?
    {
        "select exists (select from outbox_router.left_out where pipeline = $1)"
    } else {
        "select $1::text is not null"
    };
    let row = client.query_one(any, &[&pipeline]).await.map_err(sql_failure)?;
    let any_left_out = row.try_get(0).map_err(sql_failure)?;
    let Notes { by, writes, .. } = held::notes(&mut { client }, pipeline).await?;
    // Without a line no position is needed to have them all.
    let by = if any_left_out { by } else { Lsn::ZERO };
    Ok(Some(Notes { any_left_out, by, writes }))
}

/// Writes down which rows of a table a run has left out; the run is a line of
/// `outbox_router.republication`.
///
/// # Errors
/// The role may not write it, or the connection breaks.
pub(super) async fn note(
    client: &Client,
    (run, table): (i64, u32),
    rows: &[LeftOut],
) -> Result<(), Failure> {
    let of = |field: fn(&LeftOut) -> &String| rows.iter().map(field).collect::<Vec<_>>();
    let (ids, codes) = (of(|row| &row.id), of(|row| &row.code));
    let errors = of(|row| &row.error);
    let columns: Vec<Option<&str>> = rows.iter().map(|row| row.column.as_deref()).collect();
    // A run notes rows of one id perhaps one after the other.
    let count =
        held::count_note("(select pipeline from outbox_router.republication where id = $1)");
    let statement = format!(
        "with counted as ({count}) insert into outbox_router.left_out as o \
         (pipeline, table_oid, event_id, slot, run, code, error, id_column, rows) \
         select p.pipeline, $2::oid, r.id, p.slot, p.id, r.code, r.error, r.id_column, r.rows \
         from (select distinct on (id) *, count(*) over (partition by id) as rows \
           from unnest($3::text[], $4::text[], $5::text[], $6::text[]) \
             r (id, code, error, id_column)) r \
         join outbox_router.republication p on p.id = $1 \
         on conflict (pipeline, table_oid, event_id) do update \
         set slot = excluded.slot, run = excluded.run, code = excluded.code, \
           error = excluded.error, left_out_at = excluded.left_out_at, \
           id_column = excluded.id_column, sent_at = null, rows = excluded.rows + \
             case when o.run = excluded.run then coalesce(o.rows, 1) else 0 end"
    );
    let noted = client.execute(&statement, &[&run, &table, &ids, &codes, &errors, &columns]).await;
    noted.map(drop).map_err(sql_failure)
}

/// An entry of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) oid: u32,
    /// The root of which that table is a partition now, or itself.
    pub(crate) root: u32,
    /// The name of the root. `None`: there is no such table any more.
    pub(crate) table: Option<TableName>,
    pub(crate) row: LeftOut,
    /// How many rows with this id were left out.
    pub(crate) rows: i64,
    pub(crate) at: String,
    /// The line of `outbox_router.republication`.
    pub(crate) run: i64,
}

/// Which entries are meant; each that is `None` selects all.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub(crate) ids: Option<Vec<String>>,
    pub(crate) codes: Option<Vec<&'static str>>,
    /// Left out at this time or later, as PostgreSQL has written it.
    pub(crate) since: Option<String>,
    pub(crate) table: Option<TableName>,
}

/// Entries of a pipeline whose rows are in no topic, those of a table together. Only where the
/// table [`exists`].
///
/// # Errors
/// The role may not read them, or the connection breaks.
pub(crate) async fn entries(
    client: &Client,
    pipeline: &str,
    selected: &Selected,
) -> Result<Vec<Entry>, Failure> {
    let query = format!(
        "select o.table_oid::oid, n.nspname::text, c.relname::text, o.event_id, o.code, o.error, {}, \
           o.run, r.oid, to_jsonb(o) ->> 'id_column', \
           coalesce((to_jsonb(o) ->> 'rows')::int8, 1) \
         from outbox_router.left_out o cross join lateral \
           (select coalesce(pg_partition_root(o.table_oid), o.table_oid)::oid) r (oid) \
           left join pg_class c on c.oid = r.oid \
           left join pg_namespace n on n.oid = c.relnamespace \
         where o.pipeline = $1 and {UNSENT} and ($2::text[] is null or o.event_id = any($2)) \
           and ($3::text[] is null or o.code = any($3)) \
           and ($4::text is null or o.left_out_at >= $4::text::timestamptz) \
           and ($5::text is null or (n.nspname::text, c.relname::text) = ($5, $6)) \
         order by o.table_oid, o.left_out_at, o.event_id",
        utc!("o.left_out_at")
    );
    let Selected { ids, codes, since, table } = selected;
    let (schema, name) = (table.as_ref().map(|it| &it.schema), table.as_ref().map(|it| &it.name));
    let rows = client.query(&query, &[&pipeline, ids, codes, since, &schema, &name]).await;
    rows.map_err(sql_failure)?.iter().map(entry).collect::<Result<_, _>>().map_err(sql_failure)
}

/// Rows of a table that were left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOutRows {
    /// The root of a partition. `None`: there is no such table any more.
    pub(crate) table: Option<TableName>,
    pub(crate) rows: i64,
}

/// How many rows of a pipeline's tables were left out. None where nothing ever was, or this role
/// may not read it.
///
/// # Errors
/// The connection breaks.
pub(crate) async fn count_of_tables(
    sql: &mut impl TextQuery,
    pipeline: &str,
) -> Result<Vec<LeftOutRows>, Failure> {
    let what = "outbox_router.left_out";
    if !held::are_readable(sql, what, ["left_out"]).await? {
        return Ok(Vec::new());
    }
    // The table that an earlier version has made is without the number of rows.
    let statement = format!(
        "select n.nspname, c.relname, sum(coalesce((to_jsonb(o) ->> 'rows')::int8, 1))::int8 \
         from outbox_router.left_out o left join pg_class c \
           on c.oid = coalesce(pg_partition_root(o.table_oid), o.table_oid)::oid \
         left join pg_namespace n on n.oid = c.relnamespace \
         where o.pipeline = {} and {UNSENT} group by 1, 2 order by 1, 2",
        quote_literal(pipeline)
    );
    let mut counts = Vec::new();
    for mut row in sql.rows(what, &statement).await? {
        let table = row.nullable()?.zip(row.nullable()?);
        let table = table.map(|(schema, name)| TableName { schema, name });
        counts.push(LeftOutRows { table, rows: row.parsed()? });
    }
    Ok(counts)
}

fn entry(row: &Row) -> Result<Entry, tokio_postgres::Error> {
    let (schema, name): (Option<String>, Option<String>) = (row.try_get(1)?, row.try_get(2)?);
    let table = schema.zip(name).map(|(schema, name)| TableName { schema, name });
    let (id, column) = (row.try_get(3)?, row.try_get(9)?);
    let row_of = LeftOut { id, column, code: row.try_get(4)?, error: row.try_get(5)? };
    let (oid, at, run) = (row.try_get(0)?, row.try_get(6)?, row.try_get(7)?);
    let (root, rows) = (row.try_get(8)?, row.try_get(10)?);
    Ok(Entry { oid, root, table, row: row_of, rows, at, run })
}

/// How an entry is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Its row was sent.
    Sent,
    /// A person has given its row up.
    GivenUp,
}

/// Settles entries: retention may remove their rows then.
///
/// # Errors
/// The role may not write them, or the connection breaks.
pub(crate) async fn settle(
    client: &Client,
    pipeline: &str,
    (table, ids): (u32, &[String]),
    settled: Settled,
) -> Result<(), Failure> {
    let settle = match settled {
        Settled::Sent => "update outbox_router.left_out set sent_at = now()",
        Settled::GivenUp => "delete from outbox_router.left_out",
    };
    let statement =
        format!("{settle} where pipeline = $1 and table_oid = $2::oid and event_id = any($3)");
    client.execute(&statement, &[&pipeline, &table, &ids]).await.map(drop).map_err(sql_failure)
}

/// The values of a row `t` as texts, each as `concat` writes it: as the stream does. A cast would
/// cut the blanks of `char(n)`, and write `true` where the stream has `t`. An id that was written
/// down is compared with all of them, since another column than now may have been `columns.id`
/// then. What is larger than an entry of an index is no id, and is not even read. One collation for
/// all, and the one of the entries' index: columns may have several.
pub(crate) fn texts<'n>(columns: impl IntoIterator<Item = &'n str>) -> Vec<String> {
    let text = |name| {
        let column = format!("t.{}", quote_identifier(name));
        format!(
            "concat(case when pg_column_size({column}) <= 2704 then {column} end) \
             collate \"default\""
        )
    };
    columns.into_iter().map(text).collect()
}

/// A table in which rows that were left out are looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Searched<'a> {
    pub(crate) oid: u32,
    pub(crate) name: &'a TableName,
    /// The column that has the id now.
    pub(crate) id: Option<&'a str>,
}

/// The ids of a pipeline's rows of a table that were left out, each with the column that had it;
/// null: an earlier version has not written it. Only where the table [`exists`].
pub(crate) fn ids(pipeline: &str, table: u32) -> String {
    let is_of = is_of(pipeline, table);
    format!(
        "select distinct o.event_id, to_jsonb(o) ->> 'id_column' \
         from outbox_router.left_out o where {is_of}"
    )
}

/// Counts those of these ids that no row of a table has, and shows the first twenty as literals.
/// Such a row was deleted, or its id was changed: then it may be any row. The column that had an id
/// decides alone, since others may have the same text, as small numbers do; where it is gone, or
/// not known, any column may be it. By the column of the id alone first, which need not print what
/// PostgreSQL perhaps cannot print; the second statement, by the [`texts`] of all columns, decides
/// where the first one finds any.
pub(crate) fn count_unfound<'n>(
    ids: &str,
    table: Searched<'n>,
    columns: impl IntoIterator<Item = &'n str>,
) -> [String; 2] {
    let all: Vec<&str> = table.id.map_or_else(Vec::new, |_| columns.into_iter().collect());
    let names = |columns: &[&str]| {
        let names: Vec<String> = columns.iter().map(|name| quote_literal(name)).collect();
        format!("array[{}]::text[]", names.join(", "))
    };
    let count = |columns: &[&str]| {
        format!(
            "with e as materialized (select event_id, case when had = any ({}) then had end as had \
               from ({ids}) i (event_id, had)), \
             found as materialized (select v.id, v.name from {} t \
               cross join lateral unnest(array[{}]::text[], {}) v (id, name) \
               where v.id in (select event_id from e)) \
             select count(*), coalesce(string_agg(quote_literal(event_id), ', ' order by event_id) \
               filter (where number <= 20), '') \
             from (select event_id, row_number() over (order by event_id) as number from e \
               where not exists (select from found f \
                 where f.id = e.event_id and f.name = coalesce(e.had, f.name))) u",
            names(&all),
            quote_table(table.name),
            texts(columns.iter().copied()).join(", "),
            names(columns),
        )
    };
    [count(table.id.as_slice()), count(&all)]
}

/// The condition that an entry `o` is of a row in no topic, and is one of a pipeline, and of a
/// table, of one of its partitions, or of a table that is gone: that may be any, since one that was
/// restored from a dump has another OID.
pub(crate) fn is_of(pipeline: &str, table: u32) -> String {
    format!("o.pipeline = {} and {}", quote_literal(pipeline), is_of_table(pipeline, table))
}

/// The same for an entry of whichever pipeline, but for tables of others that are gone.
pub(crate) fn is_of_table(pipeline: &str, table: u32) -> String {
    format!("{UNSENT} and {}", is_of_relation(pipeline, table))
}

/// The ids of a pipeline's rows of a table that were left out, and sent since. Only where the table
/// [`exists`].
pub(crate) fn sent_ids(pipeline: &str, table: u32) -> String {
    let of_relation = is_of_relation(pipeline, table);
    format!(
        "select o.event_id from outbox_router.left_out o \
         where o.pipeline = {} and not ({UNSENT}) and {of_relation}",
        quote_literal(pipeline)
    )
}

fn is_of_relation(pipeline: &str, table: u32) -> String {
    let pipeline = quote_literal(pipeline);
    // pg_partition_tree would lock each partition.
    format!(
        "o.table_oid = any (array(\
           with recursive p as (select {table}::oid as oid \
             union select i.inhrelid from pg_inherits i join p on i.inhparent = p.oid) \
           select oid from p union all select g.table_oid::oid from outbox_router.left_out g \
           where g.pipeline = {pipeline} \
             and not exists (select from pg_class c where c.oid = g.table_oid)))"
    )
}

/// The condition that a row was left out, and so is in no topic, by its [`texts`], where this holds
/// of an entry `o`. Only where the table [`exists`].
pub(crate) fn is_left_out(is_of: &str, texts: &[String]) -> String {
    format!(
        "exists (select from outbox_router.left_out o where {is_of} \
           and o.event_id = any (array[{}]::text[]))",
        texts.join(", ")
    )
}
