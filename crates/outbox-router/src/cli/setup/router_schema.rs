//! The schema of the router's own tables, which the first role that types `setup` owns.

use relay::{Case, Failure, Name};
use tokio_postgres::Client;

use super::role;
use crate::{cli::TaskError, postgres::quote_identifier};

/// Refuses to make tables there, and to grant them to a role that does not exist.
///
/// # Errors
/// The schema belongs to somebody else, or the role does not exist.
pub(super) async fn refuse_unready(client: &Client, role: Option<&str>) -> Result<(), TaskError> {
    check(client).await?;
    match role {
        Some(role) => role::check_exists(client, role).await,
        None => Ok(()),
    }
}

/// Refuses a role that cannot make tables there, and names the owner.
///
/// # Errors
/// The schema exists, and belongs to somebody else.
pub(super) async fn check(client: &Client) -> Result<(), TaskError> {
    let query = "select pg_get_userbyid(nspowner)::text, current_user::text from pg_namespace \
                 where nspname = 'outbox_router' \
                   and not (has_schema_privilege(oid, 'usage') and has_schema_privilege(oid, 'create'))";
    let Some(row) = client.query_opt(query, &[]).await? else {
        return refuse_stranger(client).await;
    };
    let (owner, role): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    let what = format!(
        "role {role} may make nothing in the schema outbox_router, which belongs to role {owner}"
    );
    Err(Failure::of(Case::CommandDenied, what).into())
}

/// Refuses a schema, or tables in it, that a role has made beforehand which is not to be trusted
/// with events and decisions: neither a superuser, nor this session's role or one that may become
/// it, nor the owner of the database.
///
/// # Errors
/// There is such a one.
async fn refuse_stranger(client: &Client) -> Result<(), TaskError> {
    let query = "\
        with made (kind, name, owner) as ( \
          select 'schema', quote_ident(nspname), nspowner from pg_namespace \
          where nspname = 'outbox_router' \
          union all \
          select case c.relkind when 'v' then 'view' else 'table' end, \
            format('%I.%I', n.nspname, c.relname), c.relowner \
          from pg_class c join pg_namespace n on n.oid = c.relnamespace \
          where n.nspname = 'outbox_router' and c.relkind in ('r', 'p', 'v', 'f')) \
        select m.kind, m.name, r.rolname::text, current_user::text \
        from made m join pg_roles r on r.oid = m.owner \
        where not r.rolsuper and not pg_has_role(r.oid, current_user, 'member') \
          and r.oid <> (select datdba from pg_database where datname = current_database()) \
        order by m.kind <> 'schema', m.name";
    let rows = client.query(query, &[]).await?;
    let mut statements = Vec::new();
    let mut first = None;
    for row in &rows {
        let (kind, name, owner): (&str, String, String) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let me: String = row.try_get(3)?;
        statements.push(format!("alter {kind} {name} owner to {}", quote_identifier(&me)));
        first.get_or_insert_with(|| format!("{kind} {name} belongs to role {owner}"));
    }
    let Some(first) = first else { return Ok(()) };
    let what = format!(
        "{first}, which is no superuser, not the owner of the database, and may not become this role"
    );
    let failure = Failure::of(Case::RouterSchemaForeign, what);
    Err(failure.naming(Name::Statements, statements.join("; ")).into())
}
