//! The OIDs of tables.

use std::collections::HashMap;

use relay::{Failure, TableName};
use tokio_postgres::Client;

use super::{
    connection::run,
    failure::malformed,
    literals::table_names,
    transaction::{Access, BEGINS, COMMIT, Ways, begin},
};
use crate::postgres::sql_failure;

/// The OIDs of those tables that exist.
pub(super) async fn oids(
    client: &Client,
    tables: &[TableName],
) -> Result<HashMap<TableName, u32>, Failure> {
    if tables.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = format!(
        "{}select n.nspname::text, c.relname::text, c.oid from pg_class c \
         join pg_namespace n on n.oid = c.relnamespace \
         where c.relkind in ('r', 'p') and (n.nspname::text, c.relname::text) in ({}){COMMIT}",
        begin(Access::ReadOnly, Ways::Any),
        table_names(tables)
    );
    let answers = run(client, &sql).await.map_err(sql_failure)?;
    let mut oids = HashMap::new();
    for row in answers.get(BEGINS).into_iter().flat_map(|answer| &answer.rows) {
        let text = |place| row.try_get(place).ok().flatten().unwrap_or_default().to_owned();
        let oid: u32 = text(2).parse().map_err(|_| malformed("has no OID of a table"))?;
        oids.insert(TableName { schema: text(0), name: text(1) }, oid);
    }
    Ok(oids)
}
