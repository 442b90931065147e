//! Everything that must be true before `START_REPLICATION`, asked by SQL, where a wrong answer has a code and a remedy.
//!
//! The walsender checks little and late: a missing publication is an error at the first row on PostgreSQL 17 and only
//! a warning on 18, a row filter is never mentioned, a slot that was made anew streams happily. So these are asked
//! first, and never mended by the router itself.

use relay::{Code, Failure};
use tokio_postgres::{Client, Row};

use super::{
    baseline::{Baseline, Encoding, Expectations, Server},
    catalog::{self, Sought},
    gap::{Gap, Interval, Mark},
    publication::{Watched, compare},
    slot::{self, SlotHealth, SlotLook},
    verdict,
};
use crate::postgres::{quote_identifier, sql_failure};

/// Why streaming may not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Another process streams from the slot: stand by.
    SlotInUse {
        /// Its walsender.
        pid: i32,
    },
    /// Something is wrong.
    Failed(Failure),
}

impl From<Failure> for Obstacle {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Looks at everything, in the order in which a person would have to mend it.
///
/// # Errors
/// The first thing that is wrong. A defect that leaves rows out names the interval at risk.
pub async fn preflight(client: &Client, expected: &Expectations) -> Result<Baseline, Obstacle> {
    let server = server(client).await?;
    let look = slot::look(client, server.version, &expected.slot).await?;
    let checked = Mark { lsn: look.current_wal_lsn, at: Some(look.at.clone()) };
    let slot = fit_slot(expected, &look, &checked)?;
    let remembered = expected.earlier.as_ref().map(|earlier| &earlier.catalog);
    let sought =
        Sought { publication: &expected.publication, outboxes: &expected.outboxes, remembered };
    let catalog = catalog::look(client, server.version, sought).await?;
    let watched = Watched { publication: &expected.publication, outboxes: &expected.outboxes };
    if let Some(failure) = compare(watched, remembered, &catalog).into_iter().next() {
        // At the first look, what the slot itself remembers is the last that is safe.
        let from = match &expected.earlier {
            Some(earlier) => Some(earlier.checked.clone()),
            None => slot.confirmed_flush_lsn.map(|lsn| Mark { lsn, at: None }),
        };
        return Err(with_interval(failure, from, checked).into());
    }
    // Last, so that a standby hears of a defect before the holder dies of it.
    if let Some(pid) = slot.active_pid {
        return Err(Obstacle::SlotInUse { pid });
    }
    Ok(Baseline { server, slot, catalog: catalog.remember(remembered), checked })
}

fn fit_slot(
    expected: &Expectations,
    look: &SlotLook,
    checked: &Mark,
) -> Result<SlotHealth, Failure> {
    let fit = verdict::fit(&expected.slot, look).and_then(|slot| {
        expected.confirmed.map_or(Ok(()), |ours| verdict::unmoved(&expected.slot, ours, slot))?;
        Ok(slot.clone())
    });
    fit.map_err(|failure| {
        // The position is the last that is safe; the time is that of the last look, which was no later.
        let ours = expected.earlier.as_ref().map(|earlier| Mark {
            lsn: expected.confirmed.unwrap_or_else(|| earlier.confirmed()),
            at: earlier.checked.at.clone(),
        });
        // A lost slot still knows what was confirmed to it, if only that.
        let remembered = || {
            let slot = look.slot.as_ref().filter(|_| failure.code == Code::SlotLost)?;
            Some(Mark { lsn: slot.confirmed_flush_lsn?, at: None })
        };
        let from = ours.or_else(remembered);
        with_interval(failure, from, checked.clone())
    })
}

/// Names the interval, where rows are at risk and something was well before.
fn with_interval(failure: Failure, from: Option<Mark>, to: Mark) -> Failure {
    match (failure.class(), from) {
        (relay::Class::Gap, from @ Some(_)) => Gap::new(failure, Interval { from, to }).failure,
        (
            relay::Class::Gap
            | relay::Class::Mendable
            | relay::Class::Replay
            | relay::Class::Transport,
            _,
        ) => failure,
    }
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
