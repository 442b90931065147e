//! Code of other roles: what a statement on a table would run with the rights of this session.
//!
//! The owner of a table decides what runs when its rows are written, and in part when they are
//! read: triggers, rules, casts, and functions in indexes, constraints and defaults. All of it runs
//! as the role of the session. `set role` is no way out: such code takes it back with
//! `reset role`, since only the role that logged in counts. So a session that is more than the
//! owner is refused where the owner has such code, and connects as the owner instead. Policies run
//! nowhere: with `row_security = off` PostgreSQL refuses the statement that they would filter.

use relay::{Code, Failure, Name, TableName};
use tokio_postgres::Client;

use super::{TextQuery, quote_literal, quote_table, sql_failure};

/// What the statements do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// They read rows.
    Reads,
    /// They update or delete rows, too.
    Changes,
    /// They insert rows, too.
    Inserts,
}

/// The tables of the statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touched<'a> {
    /// Those with these names, their partitions and what inherits from them.
    Tables(&'a [TableName]),
    /// The router's own.
    RouterSchema,
}

/// Whether there are roles that this session's role is more than, and that may put something else
/// in the place of what was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strangers {
    /// There are not.
    None,
    /// There are: each statement is to [refuse views](refuse_views).
    Some,
}

/// [Looks](look_for_foreign_code), and lets the session refuse views for as long as it lasts.
/// Behind a pooler a setting would outlive the session and reach an application's, so a worker's
/// transactions do it one by one.
///
/// # Errors
/// As [`look_for_foreign_code`].
pub async fn refuse_foreign_code(
    client: &Client,
    touched: Touched<'_>,
    runs: Runs,
) -> Result<(), Failure> {
    match look_for_foreign_code(client, touched, runs).await? {
        Strangers::None => Ok(()),
        Strangers::Some => {
            let refuse = format!("select {}", refuse_views(Lasting::Session));
            client.batch_execute(&refuse).await.map_err(sql_failure)
        }
    }
}

/// Refuses statements that would run code of a role which this session's role is more than: it is a
/// superuser, has another attribute, is a member of more roles, or works on tables of several
/// owners. Roles that may become the session's role anyway are trusted, and so are superusers.
///
/// # Errors
/// The first such code; or the connection breaks.
pub async fn look_for_foreign_code(
    mut client: &Client,
    touched: Touched<'_>,
    runs: Runs,
) -> Result<Strangers, Failure> {
    let mut found = Vec::new();
    let mut strangers = Strangers::None;
    for mut row in client.rows("code of other roles", &statement(touched, runs)).await? {
        strangers = Strangers::Some;
        let (table, what, role) = (row.text()?, row.nullable()?, row.text()?);
        found.extend(what.map(|what| (table, what, role)));
    }
    let Some((table, what, role)) = found.first() else { return Ok(strangers) };
    let more = match found.len() - 1 {
        0 => "",
        _ => ", and it is not the only one",
    };
    let what = format!(
        "{table}: {what} is code of role {role}, and would run with the rights of this session{more}"
    );
    Err(Failure::new(Code::ForeignCode, what).naming(Name::Role, role))
}

/// Statements that lock a table in the transaction that changes its rows, before
/// [`refuse_foreign_code`]: until it ends, nobody gives the table a trigger, a rule, a foreign key
/// or a partition that was not looked at. Vacuum goes on beside it.
///
/// # Errors
/// The connection breaks.
pub async fn locks_against_code(mut client: &Client, table: &TableName) -> Result<String, Failure> {
    let quoted = quote_table(table);
    let partitioned = format!(
        "select from pg_class where oid = {}::regclass and relkind = 'p'",
        quote_literal(&quoted)
    );
    let mut locks = format!("lock table {quoted} in row exclusive mode");
    if !client.rows("the table", &partitioned).await?.is_empty() {
        locks = format!("lock table only {quoted} in share update exclusive mode; {locks}");
    }
    Ok(locks)
}

/// For how long a setting lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// Until the transaction ends.
    Transaction,
    /// Until the session does.
    Session,
}

impl Lasting {
    /// As `set_config` takes it.
    pub fn is_local(self) -> bool {
        self == Self::Transaction
    }
}

/// An expression: a table that becomes a view after it was looked at is refused by servers that
/// know the setting.
pub fn refuse_views(lasting: Lasting) -> String {
    format!(
        "case when pg_catalog.current_setting('restrict_nonsystem_relation_kind', true) is not null \
         then pg_catalog.set_config('restrict_nonsystem_relation_kind', 'view, foreign-table', {}) \
         end",
        lasting.is_local()
    )
}

/// In `pg_trigger.tgtype`: an INSERT (4), a DELETE (8), an UPDATE (16).
const fn events(runs: Runs) -> i16 {
    match runs {
        Runs::Reads => 0,
        Runs::Changes => 8 + 16,
        Runs::Inserts => 4 + 8 + 16,
    }
}

fn statement(touched: Touched<'_>, runs: Runs) -> String {
    let which = match touched {
        Touched::RouterSchema => "n.nspname = 'outbox_router'".to_owned(),
        Touched::Tables([]) => "false".to_owned(),
        Touched::Tables(tables) => {
            let names = tables.iter().map(|TableName { schema, name }| {
                format!("({}, {})", quote_literal(schema), quote_literal(name))
            });
            let names: Vec<String> = names.collect();
            format!("(n.nspname, c.relname) in ({})", names.join(", "))
        }
    };
    STATEMENT
        .replace("{EVENTS}", &events(runs).to_string())
        .replace("{WRITES}", if runs == Runs::Reads { "false" } else { "true" })
        .replace("{INSERTS}", if runs == Runs::Inserts { "true" } else { "false" })
        .replace("{HARMLESS}", HARMLESS)
        .replace("{WHICH}", &which)
}

/// The condition that a function `f` that PostgreSQL has, and that is not immutable, runs no text
/// as SQL, reads no table that its arguments name, changes nothing, and calls no code of a type but
/// its casts. New functions that take a text are none of these: `query_to_xml` and `table_to_xml`
/// are stable, and run whatever a role has made.
pub const HARMLESS: &str = "\
    f.pronamespace = 'pg_catalog'::regnamespace and (f.proname in \
      ('gen_random_uuid', 'uuidv4', 'uuidv7', 'nextval', 'clock_timestamp', 'random') \
    or f.provolatile = 's' and (f.proname in \
      ('to_char', 'to_date', 'to_timestamp', 'date_trunc', 'date_part', 'extract', 'timezone', \
        'concat', 'concat_ws', 'format', 'textanycat', 'anytextcat', 'array_to_string', \
        'to_tsvector', 'current_setting', 'to_json', 'to_jsonb', 'row_to_json', 'array_to_json', \
        'json_build_object', 'json_build_array', 'jsonb_build_object', 'jsonb_build_array') \
      or not exists (select from unnest(f.proargtypes) given (type) where given.type <> all \
        ('{date,time,timetz,timestamp,timestamptz,interval,int2,int4,int8,float4,float8,numeric,\
        bool,uuid}'::regtype[]::oid[]))))";

/// `me`: the roles of this session. `stranger`: roles that it is more than, where a role that only
/// lets watch or log in does not count. `suspect`: tables that such a role owns, or may put
/// triggers on. `typed`: types of columns and of what expressions make, and those that these
/// consist of. `called`: functions in expressions and of ranges, which the planner runs, too, where
/// they are immutable; of those that are not, all but [`HARMLESS`] ones count. The last rows say of
/// which tables to beware.
const STATEMENT: &str = "\
    with recursive \
    me as ( \
      select r.oid, r.rolsuper or r.rolreplication or r.rolcreaterole or r.rolcreatedb \
        or r.rolbypassrls as wide \
      from pg_roles r where r.rolname in (session_user, current_user)), \
    mine (me, oid) as ( \
      select me.oid, x.oid from me join pg_roles x on x.oid <> me.oid where not me.wide \
        and x.rolname not in ('pg_monitor', 'pg_read_all_settings', 'pg_read_all_stats', \
          'pg_stat_scan_tables', 'pg_use_reserved_connections', 'rds_iam', \
          'cloudsqliamuser', 'cloudsqliamserviceaccount') \
        and pg_has_role(me.oid, x.oid, 'member')), \
    relation (oid) as ( \
      select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace \
      where {WHICH} and c.relkind in ('r', 'p', 'v', 'f') \
      union \
      select i.inhrelid from relation join pg_inherits i on i.inhparent = relation.oid), \
    the as ( \
      select c.oid, c.relkind, c.relowner, c.relacl, \
        format('%I.%I', n.nspname, c.relname) as name \
      from relation join pg_class c on c.oid = relation.oid \
      join pg_namespace n on n.oid = c.relnamespace), \
    owners as (select count(distinct relowner) > 1 as several from the), \
    stranger as ( \
      select p.oid, p.rolname from pg_roles p where not p.rolsuper and exists ( \
        select from me where me.oid <> p.oid and not pg_has_role(p.oid, me.oid, 'member') \
          and (me.wide or (select several from owners) or exists ( \
            select from mine where mine.me = me.oid and mine.oid <> p.oid \
              and not pg_has_role(p.oid, mine.oid, 'member'))))), \
    suspect as ( \
      select the.oid, coalesce((select s.rolname from stranger s where s.oid = the.relowner), \
        (select case g.grantee when 0 then 'PUBLIC' else s.rolname end \
          from aclexplode(the.relacl) g left join stranger s on s.oid = g.grantee \
          where g.privilege_type = 'TRIGGER' and (g.grantee = 0 or s.oid is not null) limit \
          1)) as role \
      from the), \
    typed (oid, type) as ( \
      select the.oid, a.atttypid from the join pg_attribute a on a.attrelid = the.oid \
      where a.attnum > 0 and not a.attisdropped and a.atttypid >= 16384 \
      union \
      select own.oid, t.oid from own \
      cross join lateral regexp_matches(own.tree, ':[a-z_]+ ([0-9]+)', 'g') m (n) \
      join pg_type t on t.oid::text = m.n[1] where t.oid >= 16384 \
      union \
      select typed.oid, part.type from typed cross join lateral ( \
        select d.refobjid from pg_depend d where d.classid = 'pg_type'::regclass \
          and d.objid = typed.type and d.refclassid = 'pg_type'::regclass \
        union all \
        select a.atttypid from pg_type t join pg_attribute a on a.attrelid = t.typrelid \
        where t.oid = typed.type and a.attnum > 0 and not a.attisdropped \
        union all \
        select t.oid from pg_constraint k \
        cross join lateral regexp_matches(k.conbin::text, ':[a-z_]+ ([0-9]+)', 'g') m (n) \
        join pg_type t on t.oid::text = m.n[1] where k.contypid = typed.type) part (type) \
      where part.type >= 16384), \
    own (oid, what, tree, class, object) as ( \
      select i.indrelid, format('index %I', x.relname), concat(i.indexprs, i.indpred), \
      'pg_class'::regclass, x.oid \
      from the join pg_index i on i.indrelid = the.oid join pg_class x on x.oid = i.indexrelid \
      where i.indexprs is not null or i.indpred is not null \
      union all \
      select s.stxrelid, format('statistics %I', s.stxname), to_jsonb(s) ->> 'stxexprs', \
      'pg_statistic_ext'::regclass, s.oid \
      from the join pg_statistic_ext s on s.stxrelid = the.oid where to_jsonb(s) ->> \
      'stxexprs' is not null \
      union all \
      select the.oid, format('constraint %I', k.conname), concat(k.conbin), \
      'pg_constraint'::regclass, k.oid \
      from the join pg_constraint k on k.contype = 'c' and k.conrelid = the.oid \
      union all \
      select the.oid, 'the partition key', concat(p.partexprs), 'pg_class'::regclass, the.oid \
      from the join pg_partitioned_table p on p.partrelid = the.oid where p.partexprs is not \
      null \
      union all \
      select the.oid, format('the default of column %I', a.attname), concat(d.adbin), \
      'pg_attrdef'::regclass, d.oid \
      from the join pg_attribute a on a.attrelid = the.oid join pg_attrdef d on d.adrelid = \
      the.oid \
        and d.adnum = a.attnum where a.attgenerated <> '' or {INSERTS}), \
    expression (oid, what, tree, class, object) as ( \
      select * from own \
      union all \
      select typed.oid, format('constraint %I', k.conname), concat(k.conbin), \
      'pg_constraint'::regclass, k.oid \
      from typed join pg_constraint k on k.contype = 'c' and k.contypid = typed.type), \
    called (oid, what, function) as ( \
      select e.oid, e.what, m.n[1]::oid from expression e \
      cross join lateral regexp_matches(e.tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid) \
      ([0-9]+)', 'g') m (n) \
      union \
      select e.oid, e.what, o.oprcode::oid from expression e \
      cross join lateral regexp_matches(e.tree, ':opno ([0-9]+)', 'g') m (n) \
      join pg_operator o on o.oid = m.n[1]::oid \
      union \
      select e.oid, e.what, d.refobjid from expression e join pg_depend d \
        on d.classid = e.class and d.objid = e.object and d.refclassid = 'pg_proc'::regclass \
      union \
      select e.oid, e.what, o.oprcode::oid from expression e join pg_depend d \
        on d.classid = e.class and d.objid = e.object and d.refclassid = \
        'pg_operator'::regclass \
        join pg_operator o on o.oid = d.refobjid \
      union \
      select typed.oid, format('range %s', t.oid::regtype), d.refobjid from typed \
      join pg_type t on t.oid = typed.type and t.typtype = 'r' join pg_depend d \
        on d.classid = 'pg_type'::regclass and d.objid = t.oid \
        and d.refclassid = 'pg_proc'::regclass) \
    select the.name, found.what, found.role from ( \
      select the.oid, case the.relkind when 'v' then 'it is a view' else 'it is a foreign \
      table' end, \
        coalesce(suspect.role, '') \
      from the join suspect using (oid) where the.relkind in ('v', 'f') and suspect.role is \
      not null \
      union all \
      select the.oid, format('trigger %I', g.tgname), coalesce(suspect.role, s.rolname) \
      from the join suspect using (oid) join pg_trigger g on g.tgrelid = the.oid \
      join pg_proc f on f.oid = g.tgfoid left join stranger s on s.oid = f.proowner \
      where not g.tgisinternal and g.tgenabled <> 'D' and g.tgtype & {EVENTS} <> 0 \
        and coalesce(suspect.role, s.rolname) is not null \
      union all \
      select the.oid, format('rule %I', e.rulename), suspect.role \
      from the join suspect using (oid) join pg_rewrite e on e.ev_class = the.oid \
      where {WRITES} and the.relkind <> 'v' and e.ev_enabled <> 'D' and suspect.role is not \
      null \
      union all \
      select the.oid, format('policy %I', p.polname), suspect.role \
      from the join suspect using (oid) join pg_policy p on p.polrelid = the.oid \
      where suspect.role is not null and row_security_active(the.oid) \
        and current_setting('row_security')::bool \
      union all \
      select the.oid, format('a foreign key of %s', k.conrelid::regclass), s.rolname \
      from the join pg_constraint k on k.confrelid = the.oid and k.contype = 'f' \
        and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')) \
      join pg_class c on c.oid = k.conrelid join stranger s on s.oid = c.relowner \
      where {WRITES} \
      union all \
      select typed.oid, format('a cast of type %s', t.oid::regtype), s.rolname \
      from typed join pg_type t on t.oid = typed.type \
      join pg_cast k on t.oid in (k.castsource, k.casttarget) join pg_proc f on f.oid = \
      k.castfunc \
      join stranger s on s.oid = f.proowner \
      union all \
      select called.oid, called.what || format(' calls %s', called.function::regprocedure), \
      coalesce(s.rolname, suspect.role) \
      from called join suspect using (oid) join pg_proc f on f.oid = called.function \
      left join stranger s on s.oid = f.proowner \
      where s.oid is not null or suspect.role is not null and {WRITES} \
        and f.provolatile <> 'i' and not ({HARMLESS}) \
      ) found (oid, what, role) join the using (oid) \
    union all \
    select the.name, null, suspect.role from the join suspect using (oid) where suspect.role \
      is not null \
    order by 2 nulls last, 1 limit 8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        let name = TableName { schema: "a".into(), name: "b') or (true".into() };
        let sql = statement(Touched::Tables(&[name]), Runs::Reads);
        assert!(sql.contains("in (('a', 'b'') or (true'))"), "{sql}");
        assert!(!sql.contains("{W") && !sql.contains("{H"), "{sql}");
    }
}
