//! Tables that workers of another configuration poll: by their marks rows are pending of which slot
//! and witness know nothing, be it that `where` leaves them out here.

use relay::{Case, Failure, Name, TableName};

use super::{
    session::{Session, number, optional, text},
    settings::RetentionSettings,
};
use crate::{
    held::schema::Statement,
    polling::sql::{
        is_among,
        setup::{
            PENDING_INDEX, Partitions, forget_statements, has_held, is_of_other,
            teardown_statements,
        },
    },
    postgres::{quote_identifier, quote_literal},
};

/// The stream has the table `p`.
const SWITCHED: &str = "exists (select from outbox_router.switch h \
     where h.relation = p.relation and h.state = 'stream')";

/// Checks that the table, the one that it is a partition of, and its partitions are polled by
/// nobody: no worker has ever asked for its keys, and no `setup` has made an index for one. What a
/// switch has handed to the stream is polled no more, but by workers of other names.
///
/// # Errors
/// It is polled, or was, and no switch says that it is not any more; the role may not read that; or
/// the connection breaks.
pub(super) async fn check_unpolled(
    session: Session<'_>,
    settings: &RetentionSettings,
    (name, oid): (&TableName, u32),
) -> Result<(), Failure> {
    let tables = readable(session).await?;
    let is_there = |table: &str| tables.iter().any(|it| it == table);
    // A `setup` makes all of them at once, and an earlier version did not know them all.
    if !is_there("lease") || !is_there("worker") {
        return Ok(());
    }
    let switched = if is_there("switch") { SWITCHED } else { "false" };
    let polled = polled_sql(&settings.name, oid, switched);
    let Some(row) = session.rows(&polled).await?.into_iter().next() else { return Ok(()) };
    let polled = TableName { schema: text(&row, 0)?.to_owned(), name: text(&row, 1)?.to_owned() };
    let kind = if text(&row, 2)? == "t" { Partitions::Some } else { Partitions::None };
    let who = match (optional(&row, 3)?, number::<u64>(&row, 4)?) {
        (Some(workers), 0) => format!("was polled last by workers of {workers}"),
        (Some(workers), _) => format!("is polled by workers of {workers}"),
        (None, _) => "was polled, or set up for workers".to_owned(),
    };
    let what = format!(
        "table {polled} {who}: what they have not delivered is not known here, so all rows of {name} \
         stay"
    );
    let forgotten =
        forget_statements(&polled).into_iter().chain(teardown_statements(&polled, kind));
    let forgotten: Vec<String> = forgotten.map(|Statement { sql, .. }| sql).collect();
    let failure = Failure::of(Case::RetentionPolled, what);
    Err(failure.naming(Name::Statements, forgotten.join("; ")))
}

/// Which of the workers' tables there are.
///
/// # Errors
/// The role may not read one of them.
async fn readable(session: Session<'_>) -> Result<Vec<String>, Failure> {
    let rows = session
        .rows(
            "select c.relname, \
               has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select') \
             from pg_class c join pg_namespace n on n.oid = c.relnamespace \
             where n.nspname = 'outbox_router' and c.relname in ('lease', 'switch', 'worker') \
             order by 1",
        )
        .await?;
    let mut tables = Vec::new();
    let mut hidden = Vec::new();
    for row in &rows {
        let table = text(row, 0)?;
        let list = if text(row, 1)? == "t" { &mut tables } else { &mut hidden };
        list.push(table.to_owned());
    }
    if hidden.is_empty() {
        return Ok(tables);
    }
    let role = quote_identifier(&session.backend.role);
    let hidden: Vec<String> = hidden.iter().map(|table| format!("outbox_router.{table}")).collect();
    let hidden = hidden.join(", ");
    let what =
        format!("role {role} may not read {hidden}, so whether workers poll tables is not known");
    let grants = format!(
        "grant usage on schema outbox_router to {role}; grant select on {hidden} to {role}"
    );
    Err(Failure::of(Case::RetentionForbidden, what).naming(Name::Statements, grants))
}

/// The first table that is polled: its name, whether it has partitions, the names of its workers,
/// and how many of them are alive.
fn polled_sql(pipeline: &str, oid: u32, switched: &str) -> String {
    format!(
        "select n.nspname, c.relname, c.relkind = 'p', \
           string_agg(distinct w.name, ', '), \
           count(*) filter (where w.seen_until > now()) \
         from (select relation from outbox_router.lease \
           union select relation from outbox_router.worker where {is_worker} \
           union select i.indrelid from pg_index i join pg_class x on x.oid = i.indexrelid \
             where starts_with(x.relname::text, {index})) p (relation) \
         join pg_class c on c.oid = p.relation join pg_namespace n on n.oid = c.relnamespace \
         left join outbox_router.worker w on w.relation = p.relation and {is_worker} \
         where {among} and (not {switched} or {is_other}) \
         group by 1, 2, 3 order by 4 desc nulls last, 1, 2 limit 1",
        index = quote_literal(PENDING_INDEX),
        among = is_among("p.relation", &oid.to_string()),
        is_other = is_of_other("w.name", pipeline),
        is_worker = has_held(),
    )
}
