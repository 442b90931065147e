//! The publication and the outbox tables as the catalog shows them, by OID, on PostgreSQL 13 to 18. Reading only; what
//! is wrong with them is judged in [`relay::source`].

use relay::{
    Failure, Outboxes, TableName,
    source::{
        Catalog, Child, Inserts, Kind, Oid, Partitions, Publication, PublishedTable, Relation,
    },
};
use tokio_postgres::{Client, Row};

use crate::postgres::sql_failure;

/// Row filters and column lists appeared here.
const FILTERS_SINCE: i32 = 15_00_00;
/// Generated columns can be published from here on, and the view tells which are. Before, it may list them all the same.
const GENERATED_SINCE: i32 = 18_00_00;

/// What to look for.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'a> {
    /// The publication's name.
    pub publication: &'a str,
    /// The configured tables; empty: all that are published.
    pub outboxes: &'a Outboxes,
    /// What was there before, to be found again by OID.
    pub remembered: Option<&'a Catalog>,
}

/// Looks.
///
/// # Errors
/// The server did not answer, or not with what its version should have.
pub async fn look(client: &Client, version: i32, sought: Sought<'_>) -> Result<Catalog, Failure> {
    let publication = client
        .query_opt(PUBLICATION, &[&sought.publication])
        .await
        .map_err(|e| sql_failure(&e))?
        .as_ref()
        .map(read_publication)
        .transpose()
        .map_err(|e| sql_failure(&e))?;
    let mut names: Vec<TableName> =
        sought.outboxes.tables.iter().map(|outbox| outbox.name.clone()).collect();
    let mut oids = Vec::new();
    if let Some(remembered) = sought.remembered {
        oids.extend(remembered.relations.iter().map(|relation| relation.oid));
    }
    let publication = match publication {
        Some(mut publication) => {
            let wanted = Wanted { names: &names, oids: &oids };
            publication.tables = published(client, version, sought.publication, wanted).await?;
            oids.extend(publication.tables.iter().map(|table| table.oid));
            Some(publication)
        }
        None => None,
    };
    if let Some(remembered) = sought.remembered {
        names.extend(remembered.relations.iter().map(|relation| relation.name.clone()));
    }
    let mut relations = relations(client, &oids, &names).await?;
    add_children(client, &mut relations).await?;
    Ok(Catalog { publication, relations })
}

/// Of the row only what ALTER PUBLICATION writes: `to_jsonb` has whatever columns this version has.
const PUBLICATION: &str = "\
    select p.oid, p.xmin::text::oid as written_by, p.pubowner, p.pubinsert, p.pubviaroot, \
      (to_jsonb(p) - '{oid,pubname,pubowner,puballtables}'::text[])::text as options \
    from pg_publication p where p.pubname = $1";

fn read_publication(row: &Row) -> Result<Publication, tokio_postgres::Error> {
    let inserts = if row.try_get("pubinsert")? { Inserts::Published } else { Inserts::Withheld };
    let partitions =
        if row.try_get("pubviaroot")? { Partitions::ViaRoot } else { Partitions::ByLeaf };
    Ok(Publication {
        oid: read_oid(row)?,
        written_by: row.try_get("written_by")?,
        owner: Oid::from_u32(row.try_get("pubowner")?),
        options: row.try_get("options")?,
        inserts,
        partitions,
        tables: Vec::new(),
    })
}

/// Tables by name, and by OID those that may have been renamed; children (`INHERITS`) always. Without a name: all.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    names: &'a [TableName],
    oids: &'a [Oid],
}

/// The view, not `pg_publication_rel`: it is the server's own answer to what a subscriber would get. From the latter comes
/// only which entry it is.
async fn published(
    client: &Client,
    version: i32,
    publication: &str,
    wanted: Wanted<'_>,
) -> Result<Vec<PublishedTable>, Failure> {
    let (filter, columns) = if version >= GENERATED_SINCE {
        ("t.rowfilter", "t.attnames::text[]".to_owned())
    } else if version >= FILTERS_SINCE {
        ("t.rowfilter", columns_where("a.attgenerated = '' and a.attname = any(t.attnames)"))
    } else {
        ("null::text", columns_where("a.attgenerated = ''"))
    };
    let query = format!(
        "select c.oid, t.schemaname::text as schema, t.tablename::text as name, \
           c.relkind::text as relkind, c.relispartition, r.oid as entry, {filter} as rowfilter, \
           {columns} as columns \
         from pg_publication_tables t \
         join pg_publication p on p.pubname = t.pubname \
         join pg_namespace n on n.nspname = t.schemaname \
         join pg_class c on c.relnamespace = n.oid and c.relname = t.tablename \
         left join pg_publication_rel r on r.prpubid = p.oid and r.prrelid = c.oid \
         where t.pubname = $1 and (cardinality($2::text[]) = 0 or c.oid = any($4::oid[]) \
           or (not c.relispartition and exists (select from pg_inherits where inhrelid = c.oid)) \
           or (t.schemaname::text, t.tablename::text) in (select * from unnest($2, $3::text[]))) \
         order by 2, 3"
    );
    let (schemas, tables) = split(wanted.names);
    let rows = client
        .query(&query, &[&publication, &schemas, &tables, &numbers(wanted.oids)])
        .await
        .map_err(|e| sql_failure(&e))?;
    rows.iter().map(read_published).collect::<Result<_, _>>().map_err(|e| sql_failure(&e))
}

fn read_published(row: &Row) -> Result<PublishedTable, tokio_postgres::Error> {
    Ok(PublishedTable {
        oid: read_oid(row)?,
        name: read_name(row)?,
        kind: read_kind(row)?,
        entry: row.try_get::<_, Option<u32>>("entry")?.map(Oid::from_u32),
        row_filter: row.try_get("rowfilter")?,
        columns: row.try_get("columns")?,
    })
}

/// The names of the columns of `c` for which this is true, as SQL.
fn columns_where(condition: &str) -> String {
    format!(
        "array(select a.attname::text from pg_attribute a where a.attrelid = c.oid \
         and a.attnum > 0 and not a.attisdropped and {condition} order by a.attnum)"
    )
}

async fn relations(
    client: &Client,
    oids: &[Oid],
    names: &[TableName],
) -> Result<Vec<Relation>, Failure> {
    let (schemas, tables) = split(names);
    let query = format!(
        "select c.oid, n.nspname::text as schema, c.relname::text as name, \
           c.relkind::text as relkind, c.relispartition, {} as columns, {} as generated \
         from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         where c.relkind in ('r', 'p') and (c.oid = any($1) or (n.nspname::text, c.relname::text) \
           in (select * from unnest($2::text[], $3::text[])))",
        columns_where("true"),
        columns_where("a.attgenerated <> ''")
    );
    let rows = client
        .query(&query, &[&numbers(oids), &schemas, &tables])
        .await
        .map_err(|e| sql_failure(&e))?;
    rows.iter().map(read_relation).collect::<Result<_, _>>().map_err(|e| sql_failure(&e))
}

fn read_relation(row: &Row) -> Result<Relation, tokio_postgres::Error> {
    Ok(Relation {
        oid: read_oid(row)?,
        name: read_name(row)?,
        formerly: Vec::new(),
        kind: read_kind(row)?,
        columns: row.try_get("columns")?,
        generated: row.try_get("generated")?,
        children: Vec::new(),
    })
}

/// Neither a partitioned table nor a partition can have them. A temporary child is not in the WAL, and is seen by its own
/// session alone.
const CHILDREN: &str = "\
    with recursive child (ancestor, oid) as ( \
      select inhparent, inhrelid from pg_inherits where inhparent = any($1) \
      union \
      select child.ancestor, i.inhrelid from child join pg_inherits i on i.inhparent = child.oid) \
    select child.ancestor, c.oid, n.nspname::text as schema, c.relname::text as name \
    from child join pg_class c on c.oid = child.oid join pg_namespace n on n.oid = c.relnamespace \
    where c.relkind = 'r' and c.relpersistence <> 't' order by 1, 3, 4";

async fn add_children(client: &Client, relations: &mut [Relation]) -> Result<(), Failure> {
    let plain = relations.iter().filter(|relation| relation.kind == Kind::Plain);
    let plain: Vec<u32> = plain.map(|relation| relation.oid.as_u32()).collect();
    if plain.is_empty() {
        return Ok(());
    }
    let rows = client.query(CHILDREN, &[&plain]).await.map_err(|e| sql_failure(&e))?;
    for row in &rows {
        let (ancestor, child) = read_child(row).map_err(|e| sql_failure(&e))?;
        if let Some(relation) = relations.iter_mut().find(|relation| relation.oid == ancestor) {
            relation.children.push(child);
        }
    }
    Ok(())
}

fn read_child(row: &Row) -> Result<(Oid, Child), tokio_postgres::Error> {
    let ancestor = Oid::from_u32(row.try_get("ancestor")?);
    Ok((ancestor, Child { oid: read_oid(row)?, name: read_name(row)? }))
}

fn read_oid(row: &Row) -> Result<Oid, tokio_postgres::Error> {
    row.try_get("oid").map(Oid::from_u32)
}

fn read_name(row: &Row) -> Result<TableName, tokio_postgres::Error> {
    Ok(TableName { schema: row.try_get("schema")?, name: row.try_get("name")? })
}

fn read_kind(row: &Row) -> Result<Kind, tokio_postgres::Error> {
    Ok(match (row.try_get("relkind")?, row.try_get("relispartition")?) {
        ("p", _) => Kind::Partitioned,
        (_, true) => Kind::Leaf,
        (_, false) => Kind::Plain,
    })
}

fn numbers(oids: &[Oid]) -> Vec<u32> {
    oids.iter().map(|oid| oid.as_u32()).collect()
}

fn split(names: &[TableName]) -> (Vec<&str>, Vec<&str>) {
    names.iter().map(|name| (name.schema.as_str(), name.name.as_str())).unzip()
}
