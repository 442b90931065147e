//! The time zones that the writers of a table may have, as far as the server is set so. What a
//! session sets itself is not known to others.

use tokio_postgres::Client;

use crate::{
    cli::doctor::facts::{Part, WriterZone},
    postgres::TextQuery,
};

/// First the zone of all roles, then those of roles that may insert and have one of their own.
///
/// # Errors
/// The server does not answer.
pub(super) async fn of_writers(mut client: &Client, table: u32) -> Part<Vec<WriterZone>> {
    let rows = client.rows("the time zones of writers", &statement(table)).await?;
    let mut zones = Vec::new();
    for mut row in rows {
        zones.push(WriterZone { role: row.nullable()?, zone: row.text()? });
    }
    Ok(zones)
}

/// What is set for a database counts more than what is set for all. What this session begins with
/// is that of all roles, unless its own role has another.
fn statement(table: u32) -> String {
    format!(
        "with own as ( \
           select distinct on (d.setrole) d.setrole, \
             pg_catalog.substr(s.setting, pg_catalog.strpos(s.setting, '=') + 1) as zone \
           from pg_catalog.pg_db_role_setting d \
           cross join pg_catalog.unnest(d.setconfig) s (setting) \
           where pg_catalog.lower(pg_catalog.split_part(s.setting, '=', 1)) = 'timezone' \
             and (d.setdatabase = 0 or d.setdatabase = (select oid from pg_catalog.pg_database \
               where datname = pg_catalog.current_database())) \
           order by d.setrole, d.setdatabase = 0) \
         select role, zone from ( \
           select null::text as role, coalesce((select zone from own where setrole = 0), \
             (select reset_val from pg_catalog.pg_settings where name = 'TimeZone' \
               and source not in ('user', 'database user'))) as zone \
           union all \
           select r.rolname::text, own.zone from own \
           join pg_catalog.pg_roles r on r.oid = own.setrole \
           where r.rolcanlogin \
             and pg_catalog.has_any_column_privilege(r.oid, {table}::pg_catalog.oid, 'insert') \
         ) zones where zone is not null order by role nulls first"
    )
}
