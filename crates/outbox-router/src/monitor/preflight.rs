//! Everything that must be true before `START_REPLICATION`, asked by SQL, where a wrong answer has a code and a remedy.
//!
//! The walsender checks little and late: a missing publication is an error at the first row on PostgreSQL 17 and only
//! a warning on 18, a row filter is never mentioned, a slot that was made anew streams happily. So these are asked
//! first. What the answers mean for slot and publication is judged in [`relay::source`].

use relay::{
    Code, Failure,
    source::{
        Baseline, Encoding, Expectations, Gap, Obstacle, Server, judge, judge_slot,
        quote_identifier,
    },
};
use tokio_postgres::{Client, Row};

use super::{
    catalog::{self, Sought},
    slot,
};
use crate::postgres::sql_failure;

/// What the last preflights have left behind: for the next to compare with, and for the monitor.
#[derive(Debug, Clone, Default)]
pub struct Preflights {
    /// Of the last that let a stream start.
    pub baseline: Option<Baseline>,
    /// The gap that the last one found.
    pub gap: Option<Gap>,
}

/// Looks at everything, in the order in which a person would have to mend it.
///
/// # Errors
/// The first thing that is wrong. A defect that leaves rows out names the interval at risk.
pub async fn preflight(client: &Client, expected: &Expectations) -> Result<Baseline, Obstacle> {
    let server = server(client).await?;
    let look = slot::look(client, server.version, &expected.slot).await?;
    // Before the catalog is read, which may have to wait for a lock on a table: a slot that is gone is told at once.
    judge_slot(expected, &look)?;
    let sought = Sought {
        publication: &expected.publication,
        outboxes: &expected.outboxes,
        remembered: expected.earlier.as_ref().map(|earlier| &earlier.catalog),
    };
    let catalog = catalog::look(client, server.version, sought).await?;
    judge(expected, server, &look, catalog)
}

const SERVER: &str = "\
    select current_setting('server_version_num')::int4 as version, \
      current_setting('server_encoding') as encoding, current_setting('wal_level') as wal_level, \
      pg_is_in_recovery() as in_recovery, current_user::text as role, \
      (select r.rolsuper or r.rolreplication from pg_roles r where r.rolname = current_user) \
        or exists (select from pg_roles r where r.rolname = 'rds_replication' \
          and pg_has_role(current_user, r.oid, 'member')) as may_replicate";

async fn server(client: &Client) -> Result<Server, Failure> {
    let row = client.query_one(SERVER, &[]).await.map_err(|e| sql_failure(&e))?;
    read_server(&row).map_err(|e| sql_failure(&e))?
}

fn read_server(row: &Row) -> Result<Result<Server, Failure>, tokio_postgres::Error> {
    if row.try_get("in_recovery")? {
        return Ok(Err(Failure::new(
            Code::ServerNotReady,
            "this postgresql is a standby server, the slot is read on the primary",
        )
        .hint("point postgres.url at the primary")));
    }
    let wal_level: &str = row.try_get("wal_level")?;
    if wal_level != "logical" {
        return Ok(Err(Failure::new(
            Code::WalLevel,
            format!("wal_level is {wal_level}, decoding needs logical"),
        )
        .hint("alter system set wal_level = logical, then restart postgresql")));
    }
    let may_replicate: bool = row.try_get("may_replicate")?;
    let role: &str = row.try_get("role")?;
    if !may_replicate {
        let quoted = quote_identifier(role);
        return Ok(Err(Failure::new(
            Code::RoleLacksReplication,
            format!("role \"{role}\" may not replicate"),
        )
        .hint(format!(
            "alter role {quoted} replication (on amazon rds: grant rds_replication to {quoted})"
        ))));
    }
    let encoding = match row.try_get("encoding")? {
        "SQL_ASCII" => Encoding::SqlAscii,
        known => Encoding::Known(known.to_owned()),
    };
    Ok(Ok(Server { version: row.try_get("version")?, encoding }))
}
