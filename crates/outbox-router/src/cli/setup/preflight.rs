//! Checks whether the server can have a logical slot at all, before anything is created on it.

use relay::{Case, Code, Failure};
use tokio_postgres::Client;

use super::TaskError;

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
    if wal_level != "logical" {
        let message = format!("wal_level is {wal_level}, not logical");
        return Err(Failure::new(Code::WalLevel, message).into());
    }
    Ok(version)
}
