//! Reads the publication and the outbox tables from the catalog, by OID, on PostgreSQL 13 to 18.
//! Nothing is checked here: that is done in [`relay::source`].

use relay::{
    Failure, OutboxTable, Outboxes, TableName,
    delivered::AgeColumn,
    row_columns,
    source::{
        Catalog, CatalogRelation, Child, FilterLabels, Inserts, Oid, Partitions, Publication,
        PublishedTable, SchemaEntry, TableKind,
    },
};

use crate::postgres::{NEVER_NULL, TextQuery, TextRow, quote_literal};

mod altering;
mod next;
mod rows;
mod values;

use values::{FILTERS_SINCE, numbers, oid, read_kind, read_name, values};

/// The first version that can publish generated columns; its `pg_publication_tables.attnames` lists
/// those that are published. In earlier versions that list may contain generated columns although
/// they are never published.
const GENERATED_SINCE: i32 = 18_00_00;

/// What to read from the catalog.
#[derive(Debug, Clone, Copy)]
pub struct Sought<'a> {
    /// The publication's name.
    pub publication: &'a str,
    /// The configured tables; empty: all tables that are published.
    pub outboxes: &'a Outboxes,
    /// What an earlier reading showed: its tables are read again by OID, also if they were renamed.
    pub remembered: Option<&'a Catalog>,
}

/// How often the catalog is read at most, when it changes while it is read.
const READS_MAX: u32 = 5;

/// Reads the catalog in one snapshot. Without it, a publication that is dropped between two
/// statements would look like a publication without tables.
///
/// One part does not follow the snapshot: `pg_get_publication_tables`, which the view of published
/// tables calls, sees the catalog as it is at the moment of the call. A table that was put back
/// after the snapshot was taken would then be published without an entry of its own, and nothing
/// would show whether it had been out of the publication. A publication that was dropped after the
/// snapshot was taken would have no tables any more. Such a reading is discarded and repeated,
/// `READS_MAX` times at most.
///
/// # Errors
/// The server refused a statement, the connection broke, or an answer does not have the expected
/// columns.
pub async fn read(
    sql: &mut impl TextQuery,
    version: i32,
    sought: Sought<'_>,
) -> Result<Catalog, Failure> {
    let name = "the snapshot of the catalog";
    let mut reads = 0;
    loop {
        sql.rows(name, "begin isolation level repeatable read read only").await?;
        let reading = read_within(sql, version, sought).await;
        // COMMIT also ends a transaction that has failed.
        let ended = sql.rows(name, "commit").await;
        let CatalogReading { mut catalog, explained } = reading?;
        ended?;
        catalog.next = Some(next::read(sql, &catalog, sought.remembered).await?);
        reads += 1;
        // The last reading is taken as it is: later versions may have ways to publish a table that
        // are not known here.
        let is_whole = explained == Explained::Yes
            && is_still(catalog.publication.as_ref(), sql, sought.publication).await?;
        if is_whole || reads == READS_MAX {
            return Ok(catalog);
        }
    }
}

/// The same reading, and the partitions that the snapshot of this session's transaction shows. A
/// command that reads rows in that snapshot reaches those of present partitions alone, so that rows
/// of a partition that is detached meanwhile, and attached again, may be missed.
///
/// # Errors
/// As [`read`].
pub async fn with_partitions_of_snapshot(
    sql: &mut impl TextQuery,
    version: i32,
    mut catalog: Catalog,
) -> Result<Catalog, Failure> {
    let known = catalog.relations.clone();
    rows::add_partitions(sql, version, &mut catalog.relations).await?;
    for (relation, known) in catalog.relations.iter_mut().zip(&known) {
        let added = relation.partitions.split_off(known.partitions.len());
        relation.partitions.extend(added.into_iter().filter(|it| !known.partitions.contains(it)));
    }
    Ok(catalog)
}

/// Whether the publication is the same now as in a snapshot that has ended.
async fn is_still(
    then: Option<&Publication>,
    sql: &mut impl TextQuery,
    name: &str,
) -> Result<bool, Failure> {
    let now = publication(sql, name).await?;
    let written = |publication: &Publication| (publication.oid, publication.written_by);
    Ok(then.map(written) == now.as_ref().map(written))
}

/// Whether every published table has a known reason to be published: FOR ALL TABLES, an entry of
/// its own or of its schema, or being a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Explained {
    No,
    Yes,
}

/// What one reading within a snapshot shows.
struct CatalogReading {
    catalog: Catalog,
    explained: Explained,
}

/// The tables of a publication, as the view of published tables shows them.
struct Published {
    tables: Vec<PublishedTable>,
    explained: Explained,
}

impl Published {
    fn add(&mut self, mut row: TextRow) -> Result<(), Failure> {
        let (oid, name, kind) = (oid(&mut row)?, read_name(&mut row)?, read_kind(&mut row)?);
        let with_all = row.boolean()?;
        let table = PublishedTable {
            oid,
            name,
            kind,
            entry: row.parsed_nullable()?.map(Oid::from_u32),
            schema_entry: match (row.parsed_nullable()?, row.parsed_nullable()?) {
                (Some(entry), Some(placed_by)) => {
                    Some(SchemaEntry { entry: Oid::from_u32(entry), placed_by })
                }
                _ => None,
            },
            row_filter: row.nullable()?,
            columns: row.json()?,
        };
        if !(with_all || table.has_entry() || kind == TableKind::Leaf) {
            self.explained = Explained::No;
        }
        self.tables.push(table);
        Ok(())
    }
}

/// A reading by a command whose own transaction sees what it has made, and which it may undo.
///
/// # Errors
/// As [`read`].
pub async fn read_in_transaction(
    sql: &mut impl TextQuery,
    version: i32,
    sought: Sought<'_>,
) -> Result<Catalog, Failure> {
    Ok(read_within(sql, version, sought).await?.catalog)
}

async fn read_within(
    sql: &mut impl TextQuery,
    version: i32,
    sought: Sought<'_>,
) -> Result<CatalogReading, Failure> {
    let mut explained = Explained::Yes;
    let mut names: Vec<TableName> =
        sought.outboxes.tables.iter().map(|outbox| outbox.name.clone()).collect();
    let mut oids = Vec::new();
    if let Some(remembered) = sought.remembered {
        oids.extend(remembered.relations.iter().map(|relation| relation.oid));
    }
    let publication = match publication(sql, sought.publication).await? {
        Some(mut publication) => {
            let wanted = Wanted { names: &names, oids: &oids };
            let published = published(sql, version, sought.publication, wanted).await?;
            (publication.tables, explained) = (published.tables, published.explained);
            oids.extend(publication.tables.iter().map(|table| table.oid));
            Some(publication)
        }
        None => None,
    };
    if let Some(remembered) = sought.remembered {
        names.extend(remembered.relations.iter().map(|relation| relation.name.clone()));
    }
    let wanted = Wanted { names: &names, oids: &oids };
    let mut relations = relations(sql, wanted, sought.outboxes).await?;
    add_children(sql, &mut relations).await?;
    rows::add_partitions(sql, version, &mut relations).await?;
    let altering = match &publication {
        Some(publication) => altering::read(sql, version, publication, &relations).await?,
        None => None,
    };
    Ok(CatalogReading {
        catalog: Catalog {
            publication,
            relations,
            next: None,
            altering,
            labels: FilterLabels::default(),
        },
        explained,
    })
}

async fn publication(sql: &mut impl TextQuery, name: &str) -> Result<Option<Publication>, Failure> {
    // Only those columns of the row that ALTER PUBLICATION writes; `to_jsonb` includes every column
    // that this version has.
    let statement = format!(
        "select p.oid, p.xmin::text::oid, p.pubowner, \
           to_jsonb(p) - '{{oid,pubname,pubowner,puballtables}}'::text[], \
           p.pubinsert, p.pubviaroot \
         from pg_publication p where p.pubname = {}",
        quote_literal(name)
    );
    let Some(mut row) = sql.rows("the publication", &statement).await?.pop() else {
        return Ok(None);
    };
    Ok(Some(Publication {
        oid: oid(&mut row)?,
        written_by: row.parsed()?,
        owner: oid(&mut row)?,
        options: row.text()?,
        inserts: if row.boolean()? { Inserts::Published } else { Inserts::Withheld },
        partitions: if row.boolean()? { Partitions::ViaRoot } else { Partitions::ByLeaf },
        tables: Vec::new(),
    }))
}

/// Which tables are read: by name, and by OID those that may have been renamed.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    names: &'a [TableName],
    oids: &'a [Oid],
}

impl Wanted<'_> {
    /// The SQL condition that the table `c` in the schema `n` is one of them.
    fn condition(&self) -> String {
        let mut conditions = vec!["false".to_owned()];
        if !self.oids.is_empty() {
            conditions.push(format!("c.oid in ({})", numbers(self.oids)));
        }
        if !self.names.is_empty() {
            let names = values(self.names);
            conditions.push(format!("(n.nspname::text, c.relname::text) in ({names})"));
        }
        conditions.join(" or ")
    }
}

/// The published tables that are wanted, and published children (`INHERITS`) in any case; all
/// published tables where no name is given.
///
/// The view is read, and not `pg_publication_rel`, because the view is the server's own answer to
/// what a subscriber would get. `pg_publication_rel` and `pg_publication_namespace` only add which
/// entry publishes the table, its own or its schema's. A partition without either is published by
/// an entry of its parent.
async fn published(
    sql: &mut impl TextQuery,
    version: i32,
    publication: &str,
    wanted: Wanted<'_>,
) -> Result<Published, Failure> {
    let (filter, columns) = if version >= GENERATED_SINCE {
        ("t.rowfilter", "coalesce(array_to_json(t.attnames), '[]')".to_owned())
    } else if version >= FILTERS_SINCE {
        ("t.rowfilter", columns_where("a.attgenerated = '' and a.attname = any(t.attnames)"))
    } else {
        ("null", columns_where("a.attgenerated = ''"))
    };
    let wanted = if wanted.names.is_empty() {
        "true".to_owned()
    } else {
        let child =
            "(not c.relispartition and exists (select from pg_inherits where inhrelid = c.oid))";
        format!("({child} or {})", wanted.condition())
    };
    let (schema_entry, schemas) =
        if version >= FILTERS_SINCE { (SCHEMA_ENTRY, SCHEMAS) } else { ("null, null", "") };
    let statement = format!(
        "select c.oid, t.schemaname, t.tablename, c.relkind, c.relispartition, \
           p.puballtables, r.oid, {schema_entry}, {filter}, {columns} \
         from pg_publication_tables t \
         join pg_publication p on p.pubname = t.pubname \
         join pg_namespace n on n.nspname = t.schemaname \
         join pg_class c on c.relnamespace = n.oid and c.relname = t.tablename \
         left join pg_publication_rel r on r.prpubid = p.oid and r.prrelid = c.oid {schemas} \
         where t.pubname = {} and {wanted} order by 2, 3",
        quote_literal(publication)
    );
    let mut published = Published { tables: Vec::new(), explained: Explained::Yes };
    for row in sql.rows("the published tables", &statement).await? {
        published.add(row)?;
    }
    Ok(published)
}

/// The OID of the entry of the table's schema, and the transaction that wrote that the table is in
/// this schema (`xmin` of its row in `pg_depend`). Every schema but those of the system itself has
/// such a row.
const SCHEMA_ENTRY: &str = "s.oid, d.xmin::text";
const SCHEMAS: &str = "\
    left join pg_publication_namespace s on s.pnpubid = p.oid and s.pnnspid = n.oid \
    left join pg_depend d on s.oid is not null and d.classid = 'pg_class'::regclass \
      and d.objid = c.oid and d.objsubid = 0 and d.refclassid = 'pg_namespace'::regclass \
      and d.refobjid = n.oid";

/// SQL for the names of the columns of `c` that meet `condition`, as JSON.
fn columns_where(condition: &str) -> String {
    columns("a.attname::text", condition)
}

/// The same for an expression over those columns, in their order.
fn columns(expression: &str, condition: &str) -> String {
    format!(
        "array_to_json(array(select {expression} from pg_attribute a where a.attrelid = c.oid \
         and a.attnum > 0 and not a.attisdropped and {condition} order by a.attnum))"
    )
}

async fn relations(
    sql: &mut impl TextQuery,
    wanted: Wanted<'_>,
    outboxes: &Outboxes,
) -> Result<Vec<CatalogRelation>, Failure> {
    let kind = format!("json_build_array(a.attnum, a.atttypid::int8, {NEVER_NULL})");
    let statement = format!(
        "select c.oid, n.nspname, c.relname, t.xmin::text, c.relkind, c.relispartition, {}, {}, {}, \
           {} \
         from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         left join pg_type t on t.oid = c.reltype {} \
         where c.relkind in ('r', 'p') and ({})",
        columns(&kind, "true"),
        columns_where("true"),
        columns_where("a.attgenerated <> ''"),
        rows::STORAGE,
        rows::STORED,
        wanted.condition()
    );
    let rows = sql.rows("the outbox tables", &statement).await?;
    rows.into_iter().map(|row| read_relation(row, outboxes)).collect()
}

fn read_relation(mut row: TextRow, outboxes: &Outboxes) -> Result<CatalogRelation, Failure> {
    let (oid, name) = (oid(&mut row)?, read_name(&mut row)?);
    let (named_by, kind) = (row.parsed_nullable()?, read_kind(&mut row)?);
    let (kinds, columns): (Vec<(i16, u32, bool)>, Vec<String>) = (row.json()?, row.json()?);
    Ok(CatalogRelation {
        age: age(outboxes, &name, (&columns, &kinds)),
        oid,
        name,
        named_by,
        formerly: Vec::new(),
        kind,
        columns,
        generated: row.json()?,
        storage: rows::read_storage(&mut row)?,
        children: Vec::new(),
        partitions: Vec::new(),
    })
}

/// The column that gives the rows of a table their age, of these columns; each with its number,
/// its type, and whether it is never NULL.
fn age(
    outboxes: &Outboxes,
    name: &TableName,
    (columns, kinds): (&[String], &[(i16, u32, bool)]),
) -> AgeColumn {
    let any = outboxes.tables.is_empty().then(|| OutboxTable::with_defaults(name.clone()));
    let outbox = outboxes.tables.iter().chain(&any).find(|table| table.name == *name);
    let mapped = outbox.and_then(|outbox| row_columns(outbox, columns).ok());
    let name = match (&outboxes.age_column, mapped) {
        (Some(name), _) => Some(name.as_str()),
        (None, Some(mapped)) => mapped.time,
        (None, None) => return AgeColumn::Unknown,
    };
    let position = name.and_then(|name| columns.iter().position(|column| column == name));
    let kind = position.and_then(|position| kinds.get(position));
    kind.map_or(AgeColumn::None, |(number, type_oid, is_never_null)| AgeColumn::Column {
        number: *number,
        type_oid: *type_oid,
        is_never_null: *is_never_null,
    })
}

/// Adds the children (`INHERITS`) of plain tables at all levels; neither a partitioned table nor a
/// partition can have any. Temporary children are left out: they are not in the WAL, and only their
/// own session sees them.
async fn add_children(
    sql: &mut impl TextQuery,
    relations: &mut [CatalogRelation],
) -> Result<(), Failure> {
    let plain = relations.iter().filter(|relation| relation.kind == TableKind::Plain);
    let plain: Vec<Oid> = plain.map(|relation| relation.oid).collect();
    if plain.is_empty() {
        return Ok(());
    }
    let statement = format!(
        "with recursive child (ancestor, oid) as ( \
           select inhparent, inhrelid from pg_inherits where inhparent in ({}) \
           union \
           select child.ancestor, i.inhrelid \
           from child join pg_inherits i on i.inhparent = child.oid) \
         select child.ancestor, c.oid, n.nspname, c.relname \
         from child join pg_class c on c.oid = child.oid \
         join pg_namespace n on n.oid = c.relnamespace \
         where c.relkind = 'r' and c.relpersistence <> 't' order by 1, 3, 4",
        numbers(&plain)
    );
    for mut row in sql.rows("the children of the outbox tables", &statement).await? {
        let ancestor = oid(&mut row)?;
        let child = Child { oid: oid(&mut row)?, name: read_name(&mut row)? };
        if let Some(relation) = relations.iter_mut().find(|relation| relation.oid == ancestor) {
            relation.children.push(child);
        }
    }
    Ok(())
}
