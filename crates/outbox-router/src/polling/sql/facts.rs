//! What the catalog says of a table, as plain data: read by one statement, as one JSON text.

use relay::{Code, Failure, TableName};
use serde::Deserialize;
use tokio_postgres::{Client, types::Type};

use super::{
    connection::run,
    failure::{malformed, missing, of_table, standby},
    literals::literal,
    note::{self, Note, NotedMarks, read_comment},
    setup::PENDING_INDEX,
    transaction::{Access, BEGINS, COMMIT, Ways, begin},
};
use crate::created_at::NUMBERS;
use crate::filter_labels::IS_CLOSED;
use crate::postgres::NEVER_NULL;
use crate::republish::{
    sql_type::SqlType,
    table_row::{Column, NamedType, TableRow},
};

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Facts {
    pub(super) oid: u32,
    /// What [`shape_of`] says of the table.
    pub(super) shape: i64,
    /// `server_version_num`.
    pub(super) version: i32,
    pub(super) role: String,
    pub(super) encoding: String,
    /// `standby`, `partitioned`, `inherited` (other tables inherit from it), `row_security`,
    /// `rewritten` (a rule or a trigger may change what an
    /// UPDATE or a DELETE writes); `usage` and `delete` are privileges.
    flags: Vec<String>,
    /// Which of the table and its partitions are unlogged, as SQL names them.
    #[serde(default)]
    pub(super) unlogged: Vec<String>,
    pub(super) columns: Vec<ColumnFacts>,
    /// Unique indexes, the primary key first.
    pub(super) keys: Vec<KeyFacts>,
    types: Vec<TypeFacts>,
    /// Those whose names begin with `outbox_router_`.
    #[serde(default)]
    pub(super) indexes: Vec<IndexFacts>,
    #[serde(skip)]
    pub(super) note: Note,
}

/// An index that `setup` has made.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct IndexFacts {
    pub(super) name: String,
    pub(super) valid: bool,
    pub(super) comment: Option<String>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct ColumnFacts {
    pub(super) name: String,
    /// `pg_attribute.attnum`, which stays when it gets another name.
    pub(super) number: i16,
    pub(super) oid: u32,
    pub(super) modifier: i32,
    /// The type, or that of a domain.
    pub(super) base: u32,
    /// The type as a cast names it.
    pub(super) sql_type: String,
    pub(super) default: Option<String>,
    /// The words of an enum; none at all of an array, a row, or a range of users' types.
    #[serde(default)]
    pub(super) labels: Option<Vec<String>>,
    /// The conditions on this column alone.
    #[serde(default)]
    pub(super) checks: Option<Vec<String>>,
    /// `not_null`, `generated`, `virtual` (generated, and not stored), `identity`; `cached`: of its
    /// sequence each session takes several numbers at a time; `leads`: an index of all rows begins
    /// with it; `select` and `update` are privileges.
    pub(super) flags: Vec<String>,
}

/// A unique index, with those of its columns that are never NULL.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct KeyFacts {
    pub(super) width: usize,
    #[serde(default)]
    pub(super) columns: Option<Vec<KeyColumn>>,
}

/// A column of a unique index, and its equality: behind an index of an extension's type is an
/// operator that `search_path` does not lead to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct KeyColumn {
    pub(super) name: String,
    pub(super) schema: String,
    pub(super) operator: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct TypeFacts {
    oid: u32,
    schema: String,
    name: String,
}

impl Facts {
    /// Reads the catalog, and what is noted of the table.
    ///
    /// # Errors
    /// The table does not exist (P028), the server is a standby (P006), the notes cannot be read
    /// (P042), the connection breaks.
    pub(super) async fn read(client: &Client, table: &TableName) -> Result<Self, Failure> {
        let facts = Self::read_anywhere(client, table).await?;
        if facts.is("standby") {
            return Err(standby());
        }
        let note = note::read(client, table, (facts.oid, &facts.role)).await?;
        let facts = Self { note, ..facts };
        if facts.note == Note::Gone && facts.decided_before().is_none() {
            return Err(note::gone());
        }
        Ok(facts)
    }

    /// Reads the catalog, of a standby, too, for what marks no rows.
    ///
    /// # Errors
    /// The table does not exist (P028), or the connection breaks.
    pub(super) async fn read_anywhere(client: &Client, table: &TableName) -> Result<Self, Failure> {
        let begin = begin(Access::ReadOnly, Ways::Any);
        let statement = format!("{begin}{}{COMMIT}", statement(table));
        let answers = run(client, &statement).await.map_err(|error| of_table(error, table))?;
        let row = answers.get(BEGINS).and_then(|answer| answer.rows.first());
        let Some(row) = row else { return Err(missing(table)) };
        let text = row.try_get(0).ok().flatten().unwrap_or_default();
        serde_json::from_str(text).map_err(|error| malformed("describes no table").caused_by(error))
    }

    /// What decided when the table was set up, or first polled, if that is known.
    pub(super) fn decided_before(&self) -> Option<NotedMarks> {
        match &self.note {
            Note::Found(noted) | Note::OfFormer(noted) => Some(noted.clone()),
            Note::Unasked | Note::Gone | Note::Missing => {
                let indexes = self.indexes.iter().filter(|it| it.name.starts_with(PENDING_INDEX));
                let mut comments = indexes.filter_map(|index| index.comment.as_deref());
                comments.find_map(|comment| read_comment(comment).1)
            }
        }
    }

    pub(super) fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    pub(super) fn column(&self, name: &str) -> Option<&ColumnFacts> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The columns that an INSERT writes, which every stream shows.
    pub(super) fn written(&self) -> impl Iterator<Item = &ColumnFacts> {
        self.columns.iter().filter(|column| !column.is("generated"))
    }

    /// The same, with its virtual columns taken for others, as a SELECT shows them; `None` where it
    /// has no such column.
    pub(super) fn with_virtual(&self) -> Option<Self> {
        let mut whole = self.clone();
        let flags = whole.columns.iter_mut().map(|column| &mut column.flags);
        let left_out: usize =
            flags.map(|flags| flags.extract_if(.., |flag| flag == "virtual").count()).sum();
        (left_out > 0).then_some(whole)
    }

    /// The table as a stream shows it: without virtual columns.
    pub(super) fn row(&self, table: &TableName) -> TableRow {
        let columns = self.columns.iter().filter(|column| !column.is("virtual"));
        TableRow {
            oid: self.oid,
            table: table.clone(),
            columns: columns
                .map(|column| Column {
                    name: column.name.clone(),
                    sql_type: SqlType { oid: column.oid, modifier: column.modifier },
                    value: None,
                })
                .collect(),
            types: self
                .types
                .iter()
                .map(|named| NamedType {
                    oid: named.oid,
                    schema: named.schema.clone(),
                    name: named.name.clone(),
                })
                .collect(),
        }
    }
}

impl ColumnFacts {
    pub(super) fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|known| known == flag)
    }

    /// Whether its type, or that of its domain, is one of these.
    pub(super) fn is_of(&self, types: &[Type]) -> bool {
        types.iter().any(|of| of.oid() == self.base)
    }

    /// Whether its type, or that of its domain, is the server's own (`FirstNormalObjectId`).
    pub(super) const fn is_of_server(&self) -> bool {
        self.base < 16_384
    }

    /// Whether its values come from a sequence, and follow each other as rows were written: not
    /// those of one with `CACHE`, of which each session takes several at a time.
    pub(super) fn is_sequence(&self) -> bool {
        let default = self.default.as_deref().unwrap_or_default();
        self.is_of(&NUMBERS)
            && !self.is("cached")
            && (self.is("identity") || default.starts_with("nextval("))
    }
}

/// Which server versions have what the statements use.
pub(super) fn check_version(facts: &Facts) -> Result<(), Failure> {
    if facts.version >= 130_000 {
        return Ok(());
    }
    let what = format!("this PostgreSQL has the version {}, polling needs 13", facts.version);
    Err(Failure::new(Code::ServerError, what))
}

/// In `pg_trigger.tgtype`: a DELETE (8), an UPDATE (16).
const MARKS: i16 = 8 + 16;

fn statement(table: &TableName) -> String {
    let (schema, name) = (literal(&table.schema), literal(&table.name));
    format!(
        "with recursive t as ( \
           select c.oid, c.relkind, n.oid as schema from pg_class c \
           join pg_namespace n on n.oid = c.relnamespace \
           where n.nspname = {schema} and c.relname = {name} and c.relkind in ('r', 'p')), \
         attribute as ( \
           select a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attgenerated, \
             a.attidentity, {NEVER_NULL} as never_null \
           from pg_attribute a join t on a.attrelid = t.oid \
           where a.attnum > 0 and not a.attisdropped), \
         base (named, oid) as ( \
           select distinct a.atttypid, a.atttypid from attribute a \
           union all \
           select base.named, y.typbasetype from base join pg_type y on y.oid = base.oid \
           where y.typtype = 'd'), \
         resolved as ( \
           select base.named, y.oid, y.typtype, y.typname, y.typnamespace, {IS_CLOSED} as is_closed \
           from base join pg_type y on y.oid = base.oid where y.typtype <> 'd') \
         select json_build_object('oid', t.oid::int8, 'shape', {}, \
           'version', current_setting('server_version_num')::int4, \
           'role', current_user::text, 'encoding', current_setting('server_encoding'), \
           'flags', array_remove(array[ \
             case when pg_is_in_recovery() then 'standby' end, \
             case when t.relkind = 'p' then 'partitioned' end, \
             case when t.relkind = 'r' and exists ( \
               select from pg_inherits i join pg_class k on k.oid = i.inhrelid \
               where i.inhparent = t.oid \
                 and k.relnamespace::regnamespace::text <> '_timescaledb_internal') \
               then 'inherited' end, \
             case when exists (select from pg_trigger g where not g.tgisinternal \
                 and g.tgenabled <> 'D' and g.tgtype & {MARKS} <> 0 \
                 and (g.tgrelid = t.oid or g.tgrelid in ( \
                   select relid from pg_partition_tree(t.oid)))) \
               or exists (select from pg_rewrite e where e.ev_class = t.oid \
                 and e.ev_enabled <> 'D' and e.ev_type in ('2', '4')) then 'rewritten' end, \
             case when row_security_active(t.oid) then 'row_security' end, \
             case when has_schema_privilege(t.schema, 'usage') then 'usage' end, \
             case when has_table_privilege(t.oid, 'delete') then 'delete' end], null), \
           'unlogged', coalesce((select json_agg(format('%I.%I', m.nspname, k.relname) \
               order by k.oid) \
             from pg_class k join pg_namespace m on m.oid = k.relnamespace \
             where k.relpersistence = 'u' and k.relkind = 'r' and (k.oid = t.oid \
               or k.oid in (select relid from pg_partition_tree(t.oid)))), '[]'), \
           'indexes', coalesce((select json_agg(json_build_object('name', x.relname::text, \
               'valid', i.indisvalid, 'comment', obj_description(x.oid, 'pg_class'))) \
             from pg_index i join pg_class x on x.oid = i.indexrelid \
             where i.indrelid = t.oid and starts_with(x.relname::text, 'outbox_router_')), '[]'), \
           'columns', coalesce(({COLUMNS}), '[]'), \
           'keys', coalesce(({KEYS}), '[]'), \
           'types', coalesce((select json_agg(json_build_object('oid', y.named::int8, \
               'schema', n.nspname::text, 'name', y.typname::text)) \
             from resolved y join pg_namespace n on n.oid = y.typnamespace \
             where y.named >= 10000), '[]'))::text \
         from t",
        shape_of("t.oid")
    )
}

/// A number that changes with the columns of a table, and with the unique indexes by whose columns
/// a row may be found again, as SQL; `oid`: the table's, as SQL.
pub(super) fn shape_of(oid: &str) -> String {
    format!(
        "(select hashtextextended(concat_ws('|', \
           (select string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, \
               a.attnotnull, a.attgenerated), ',' order by a.attnum) \
             from pg_attribute a \
             where a.attrelid = {oid} and a.attnum > 0 and not a.attisdropped), \
           (select string_agg(concat_ws(' ', i.indnkeyatts, i.indkey, i.indclass), ',' \
               order by i.indisprimary, i.indkey::text, i.indclass::text) \
             from pg_index i where i.indrelid = {oid} and i.indisunique and i.indisvalid \
               and i.indpred is null and i.indexprs is null)), 0))"
    )
}

const COLUMNS: &str = "\
    select json_agg(json_build_object('name', a.attname::text, 'number', a.attnum, \
        'oid', a.atttypid::int8, \
        'modifier', a.atttypmod, 'base', y.oid::int8, 'sql_type', format_type(a.atttypid, -1), \
        'default', pg_get_expr(d.adbin, d.adrelid), \
        'labels', case when y.is_closed then array_to_json(array( \
          select e.enumlabel::text from pg_enum e where e.enumtypid = y.oid \
          order by e.enumsortorder)) end, \
        'checks', (select json_agg(pg_get_constraintdef(k.oid)) from pg_constraint k \
          where k.contype = 'c' and (k.conrelid = t.oid and k.conkey = array[a.attnum] \
            or k.contypid <> 0 and k.contypid = a.atttypid)), \
        'flags', array_remove(array[ \
          case when a.never_null then 'not_null' end, \
          case when a.attgenerated <> '' then 'generated' end, \
          case when a.attgenerated = 'v' then 'virtual' end, \
          case when a.attidentity <> '' then 'identity' end, \
          case when exists (select from pg_sequence s join pg_depend u on s.seqcache > 1 \
              and (u.classid = 'pg_class'::regclass \
                and u.objid = s.seqrelid and u.refobjid = a.attrelid and u.refobjsubid = a.attnum \
              or u.classid = 'pg_attrdef'::regclass and u.objid = d.oid \
                and u.refclassid = 'pg_class'::regclass and u.refobjid = s.seqrelid)) \
            then 'cached' end, \
          case when exists (select from pg_index i join pg_class x on x.oid = i.indexrelid \
            join pg_am m on m.oid = x.relam where i.indrelid = t.oid and i.indisvalid \
            and i.indpred is null and m.amname = 'btree' and i.indkey[0] = a.attnum) \
            then 'leads' end, \
          case when has_column_privilege(t.oid, a.attnum, 'select') then 'select' end, \
          case when has_column_privilege(t.oid, a.attnum, 'update') then 'update' end], null)) \
      order by a.attnum) \
    from attribute a join resolved y on y.named = a.atttypid \
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum";

const KEYS: &str = "\
    select json_agg(json_build_object('width', i.indnkeyatts, 'columns', ( \
        select json_agg(json_build_object('name', a.attname::text, 'schema', n.nspname::text, \
          'operator', o.oprname::text) order by u.place) \
        from unnest(i.indkey::int2[], i.indclass::oid[]) with ordinality as u (attnum, class, place) \
        join attribute a on a.attrelid = i.indrelid and a.attnum = u.attnum \
          and a.never_null and a.attgenerated = '' \
          and not exists ( \
            select from resolved y where y.named = a.atttypid and y.typtype = 'c') \
        join pg_opclass c on c.oid = u.class \
        join pg_am w on w.oid = c.opcmethod and w.amname = 'btree' \
        join pg_amop m on m.amopfamily = c.opcfamily and m.amopstrategy = 3 \
          and m.amoplefttype = c.opcintype and m.amoprighttype = c.opcintype \
        join pg_operator o on o.oid = m.amopopr \
        join pg_namespace n on n.oid = o.oprnamespace \
        where u.place <= i.indnkeyatts)) \
      order by i.indisprimary desc, i.indnkeyatts, i.indexrelid) \
    from pg_index i where i.indrelid = t.oid and i.indisunique and i.indisvalid \
      and i.indpred is null and i.indexprs is null";

#[cfg(test)]
pub(super) mod samples {
    use super::*;

    impl Facts {
        /// Makes it a partitioned table.
        pub(in super::super) fn partition(&mut self) {
            self.flags.push("partitioned".to_owned());
        }
    }

    /// A column that the role may read and update.
    pub(in super::super) fn column(name: &str, of: &Type, flags: &[&str]) -> ColumnFacts {
        let flags = flags.iter().chain(&["select", "update"]).map(|&flag| flag.to_owned());
        ColumnFacts {
            name: name.to_owned(),
            number: 7,
            oid: of.oid(),
            modifier: -1,
            base: of.oid(),
            sql_type: of.name().to_owned(),
            default: None,
            labels: None,
            checks: None,
            flags: flags.collect(),
        }
    }

    /// A table whose primary key is its first column.
    pub(in super::super) fn table(columns: Vec<ColumnFacts>) -> Facts {
        let key = columns.first().map(|column| KeyColumn {
            name: column.name.clone(),
            schema: "pg_catalog".to_owned(),
            operator: "=".to_owned(),
        });
        Facts {
            oid: 77,
            shape: 5,
            version: 150_000,
            role: "router".to_owned(),
            encoding: "UTF8".to_owned(),
            flags: vec!["usage".to_owned(), "delete".to_owned()],
            unlogged: Vec::new(),
            columns,
            keys: vec![KeyFacts { width: 1, columns: Some(key.into_iter().collect()) }],
            types: Vec::new(),
            indexes: Vec::new(),
            note: Note::Unasked,
        }
    }
}
