//! Whether row-level security hides rows of a table from the role of a session. No answer about the
//! rows, and no removal, may rest on what such a role sees.

use tokio_postgres::{Client, Error};

use super::quote_identifier;

/// Rows that a role does not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenRows {
    /// Why, with the role and the table.
    pub why: String,
    /// The statement that lets it see every row.
    pub grant: String,
}

const QUERY: &str = "select row_security_active(c.oid), current_user::text, \
    n.nspname || '.' || c.relname \
    from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = $1";

/// The rows that are hidden from the present role; `None` where it sees every one.
///
/// # Errors
/// The connection breaks.
pub async fn hidden_rows(client: &Client, table: u32) -> Result<Option<HiddenRows>, Error> {
    let Some(row) = client.query_opt(QUERY, &[&table]).await? else { return Ok(None) };
    if !row.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let (role, table): (String, String) = (row.try_get(1)?, row.try_get(2)?);
    let role = quote_identifier(&role);
    Ok(Some(HiddenRows {
        why: format!("role {role} may not see every row of {table}, because of row-level security"),
        grant: format!("alter role {role} bypassrls"),
    }))
}
