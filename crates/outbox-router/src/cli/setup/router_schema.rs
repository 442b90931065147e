//! The schema of the router's own tables, which the first role that types `setup` owns.

use relay::{Case, Failure};
use tokio_postgres::Client;

use super::role;
use crate::cli::TaskError;

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
    let Some(row) = client.query_opt(query, &[]).await? else { return Ok(()) };
    let (owner, role): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    let what = format!(
        "role {role} may make nothing in the schema outbox_router, which belongs to role {owner}"
    );
    Err(Failure::of(Case::CommandDenied, what).into())
}
