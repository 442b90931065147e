//! The publication of a pipeline that ends. It is dropped only where nothing else can use it: other
//! pipelines of the database may have the same one, of their own tables or of the same. A slot that
//! streams from a publication which is gone, or which lacks a table, has lost rows.
//!
//! PostgreSQL does not note which publication a slot is read with. So any other slot of pgoutput
//! counts, unless its walsender names other publications now. While there is one, the publication
//! stays as it is; it costs nothing.

use std::io;

use relay::TableName;
use tokio_postgres::Client;

use crate::{
    cli::{TaskError, sql},
    config::Config,
    polling::sql::named_oids,
    postgres::quote_identifier,
};

/// How many tables are named.
const NAMED_MAX: usize = 5;

/// The publication, and who leaves it.
struct Leaving<'c> {
    name: &'c str,
    slot: &'c str,
    /// The outboxes; where there are none, each published table is one.
    tables: Vec<TableName>,
}

/// Drops the publication, or takes the own tables out of it, or leaves it; and says which.
pub(in crate::cli) async fn leave_publication(
    client: &Client,
    config: &Config,
    out: &mut (dyn io::Write + Send),
) -> Result<(), TaskError> {
    let leaving = Leaving::of(config);
    let (name, dropping) = (leaving.name, leaving.dropping());
    let Some(row) = client.query_opt(&leaving.query(), &[]).await? else {
        writeln!(out, "publication {name}: does not exist")?;
        return Ok(());
    };
    let statement: Option<String> = row.try_get(0)?;
    let list =
        |column| row.try_get::<_, Option<Vec<String>>>(column).map(Option::unwrap_or_default);
    let (readers, others, own) = (list(1)?, list(2)?, list(3)?);
    if let Some(statement) = &statement {
        client.batch_execute(statement).await?;
    }
    if statement.as_ref() == Some(&dropping) {
        writeln!(out, "publication {name}: dropped")?;
        return Ok(());
    }
    match (statement, readers.as_slice()) {
        (Some(_), _) => writeln!(out, "publication {name}: left, without {}", some(&own))?,
        (None, []) => writeln!(out, "publication {name}: left as it is")?,
        (None, readers) => {
            let readers = some(readers);
            writeln!(out, "publication {name}: left as it is, since slot {readers} may use it")?;
        }
    }
    if !others.is_empty() {
        let others = some(&others);
        writeln!(out, "  it also publishes {others}, which is no outbox of this configuration")?;
        if !readers.is_empty() && !own.is_empty() {
            let taking_out = leaving.taking_out(&own.join(", only "));
            writeln!(out, "  to take out {}, if nothing reads it: {taking_out}", some(&own))?;
        }
    }
    writeln!(out, "  to drop it, if no other pipeline uses it: {dropping}")?;
    Ok(())
}

/// Prints the SQL that does the same.
pub(super) fn print_publication(
    config: &Config,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    let leaving = Leaving::of(config);
    writeln!(
        out,
        "-- the publication: left as it is where another slot of the database may use it, left \
         without the\n-- own tables where it has others, else dropped"
    )?;
    let body = format!(
        "declare statement text; begin\n  for statement in select f.statement from (\n{}\n  ) f \
         where f.statement is not null loop execute statement; end loop;\nend",
        leaving.query()
    );
    writeln!(out, "do {};", sql::literal(&body))?;
    writeln!(out, "-- where no other pipeline uses it: {};", leaving.dropping())
}

fn some(names: &[String]) -> String {
    let (first, more) = names.split_at(names.len().min(NAMED_MAX));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    format!("{}{more}", first.join(", "))
}

impl<'c> Leaving<'c> {
    fn of(config: &'c Config) -> Self {
        let tables = config.outboxes().tables.into_iter().map(|outbox| outbox.name).collect();
        let (name, slot) = (config.postgres.publication.as_str(), config.postgres.slot.as_str());
        Self { name, slot, tables }
    }

    fn dropping(&self) -> String {
        sql::drop_publication(self.name)
    }

    /// `tables` are quoted. `only`: the children of a table (INHERITS) are tables of their own.
    fn taking_out(&self, tables: &str) -> String {
        format!("alter publication {} drop table only {tables}", quote_identifier(self.name))
    }

    /// The statement that is to be run, if there is one; the slots that may be read with the
    /// publication; its tables that are no outboxes; and the outboxes that it names itself, quoted.
    /// Without a row there is no publication. Tables of FOR ALL TABLES and of whole schemas cannot
    /// be taken out.
    fn query(&self) -> String {
        let own = |oid: &str| {
            if self.tables.is_empty() {
                return "true".to_owned();
            }
            let named = named_oids(self.tables.iter());
            format!(
                "({oid} in ({named}) or exists (select from pg_partition_ancestors({oid}) a \
                 where a.relid in ({named})))"
            )
        };
        let (dropping, taking_out) = (self.dropping(), self.taking_out(""));
        format!(
            "select case when u.readers is not null then null \
               when u.others is null and not p.puballtables then {dropping} \
               when u.others is not null and u.own is not null \
                 then {taking_out} || array_to_string(u.own, ', only ') end as statement, \
               u.readers, u.others, u.own \
             from pg_publication p, lateral (select \
               (select array_agg(s.slot_name::text order by s.slot_name) \
                from pg_replication_slots s left join pg_stat_activity a on a.pid = s.active_pid \
                where s.plugin = 'pgoutput' and s.database = current_database() \
                  and s.slot_name <> {slot} and not {elsewhere}) as readers, \
               (select array_agg(t.name order by t.name) from (select c.oid, \
                  n.nspname || '.' || c.relname as name from pg_publication_tables v \
                  join pg_namespace n on n.nspname = v.schemaname \
                  join pg_class c on c.relnamespace = n.oid and c.relname = v.tablename \
                  where v.pubname = p.pubname) t where not {published}) as others, \
               (select array_agg(format('%I.%I', n.nspname, c.relname) order by 1) \
                from pg_publication_rel r join pg_class c on c.oid = r.prrelid \
                join pg_namespace n on n.oid = c.relnamespace \
                where r.prpubid = p.oid and {entry}) as own) u \
             where p.pubname = {name}",
            dropping = sql::literal(&dropping),
            taking_out = sql::literal(&taking_out),
            slot = sql::literal(self.slot),
            elsewhere = self.streams_elsewhere(),
            published = own("t.oid"),
            entry = own("c.oid"),
            name = sql::literal(self.name),
        )
    }

    /// The walsender `a` has been told its publications, and this is none of them: its command is
    /// there as a whole, and has the name nowhere, however it is quoted.
    fn streams_elsewhere(&self) -> String {
        let bare = |text: &str| format!("lower(translate({text}, '\"''', ''))");
        format!(
            "coalesce(a.query ilike 'start_replication %)' and octet_length(a.query) \
             < pg_size_bytes(current_setting('track_activity_query_size')) - 1 \
             and strpos({}, {}) = 0, false)",
            bare("a.query"),
            bare(&sql::literal(self.name))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_tables_some_are_named() {
        let names: Vec<String> = (1..=7).map(|number| format!("t{number}")).collect();
        assert_eq!(some(&names), "t1, t2, t3, t4, t5 and 2 more");
        assert_eq!(some(&names[..2]), "t1, t2");
    }
}
