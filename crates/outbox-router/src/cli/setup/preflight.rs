//! Checks whether the server can have a logical slot at all, before anything is created on it.

use relay::{Case, Code, Failure, source::Oid};
use tokio_postgres::Client;

use super::TaskError;
use crate::{
    cli::{
        explain_row::{dry_run_of, why_none_fits},
        sql,
    },
    config::Config,
    filter_labels::check_filters,
    monitor::server::decodes,
    prepare,
    republish::table_row::TableRow,
};

/// The first version with everything that the statements use.
const OLDEST: i32 = 13_00_00;

/// The server's version (`server_version_num`), if the server fits.
pub(super) async fn server(client: &Client) -> Result<i32, TaskError> {
    let query = "select current_setting('server_version_num')::int4, current_setting('wal_level'), \
                 pg_is_in_recovery()";
    let row = client.query_one(query, &[]).await?;
    let version: i32 = row.try_get(0)?;
    let wal_level: String = row.try_get(1)?;
    if version < OLDEST {
        let message = format!("PostgreSQL {} is too old", version / 10_000);
        return Err(Failure::of(Case::VersionTooOld, message).into());
    }
    if row.try_get(2)? {
        return Err(Failure::of(Case::Standby, "this server is a standby in recovery").into());
    }
    if !decodes(&wal_level, version) {
        let message = format!("wal_level is {wal_level}, not logical");
        return Err(Failure::new(Code::WalLevel, message).into());
    }
    Ok(version)
}

/// Refuses words of `where` that a column of a table that exists cannot have: with them the router
/// would stop at the first row, or leave rows out. Returns why no row of other tables could be
/// routed as they are now.
pub(super) async fn mappings(
    mut client: &Client,
    config: &Config,
) -> Result<Vec<Failure>, TaskError> {
    let outboxes = config.outboxes();
    check_filters(&mut client, &outboxes).await?;
    let row_bytes = prepare::size(config.limits.row_bytes);
    let mut unfit = Vec::new();
    for outbox in sql::outboxes(config) {
        let row = match TableRow::describe(client, &outbox.name).await {
            Ok(row) => row,
            Err(failure) if failure.code == Code::TableMissing => continue,
            Err(failure) => return Err(failure.into()),
        };
        let run = dry_run_of(&row, &outboxes, row_bytes)?;
        if run.mapping(Oid::from_u32(row.oid)).is_none() {
            let why = why_none_fits(&row, &outboxes, row_bytes)?;
            if why.case == Some(Case::FilterWord) {
                return Err(why.into());
            }
            unfit.push(why);
        }
    }
    Ok(unfit)
}
