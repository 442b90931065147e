//! Reads the figures within a limit of time of their own.

use relay::Failure;
use serde::Deserialize;
use tokio_postgres::Client;

use super::{
    denied::{RIGHTS, Rights},
    figures::{Holder, Limits, OtherSlots, Spill, Standbys},
    statement::{WalListing, statement},
};
use crate::{
    monitor::pins::WalPin,
    postgres::{one_row, sql_failure},
};

/// Less than the monitor waits for an answer, so that PostgreSQL ends the statement and the
/// connection stays.
const BEGIN: &str = "\
    begin read only; set local statement_timeout = '2s'; set local lock_timeout = '500ms'; \
    set local jit = off";

/// What to read.
#[derive(Debug, Clone, Copy)]
pub(in crate::monitor) struct FiguresQuery<'a> {
    /// The server's version.
    pub(in crate::monitor) version: i32,
    /// The slot's name.
    pub(in crate::monitor) slot: &'a str,
    /// What the role may read, as far as that is known; else it is asked first.
    pub(in crate::monitor) rights: Option<&'a Rights>,
    /// Whether to list `pg_wal`.
    pub(in crate::monitor) listing: WalListing,
}

/// What PostgreSQL answered.
#[derive(Debug, Clone, Deserialize)]
pub(in crate::monitor) struct FiguresAnswer {
    /// What the role may read now.
    pub(in crate::monitor) rights: Rights,
    pub(in crate::monitor) limits: Limits,
    pub(in crate::monitor) spill: Option<Spill>,
    pub(in crate::monitor) pins: Vec<WalPin>,
    pub(in crate::monitor) other_slots: OtherSlots,
    pub(in crate::monitor) catalog_xmin_age: Option<u64>,
    pub(in crate::monitor) standbys: Option<Standbys>,
    pub(in crate::monitor) holder: Option<Holder>,
    pub(in crate::monitor) wal_directory_bytes: Option<u64>,
}

/// Reads the figures. The inner failure leaves the connection as it was.
///
/// # Errors
/// The connection broke.
pub(in crate::monitor) async fn read(
    client: &Client,
    query: FiguresQuery<'_>,
) -> Result<Result<FiguresAnswer, Failure>, Failure> {
    client.batch_execute(BEGIN).await.map_err(sql_failure)?;
    let answer = answer(client, query).await;
    client.batch_execute("rollback").await.map_err(sql_failure)?;
    Ok(answer)
}

async fn answer(mut client: &Client, query: FiguresQuery<'_>) -> Result<FiguresAnswer, Failure> {
    let FiguresQuery { version, slot, rights, listing } = query;
    let asked: Rights;
    let rights = match rights {
        Some(known) => known,
        None => {
            asked = one_row(&mut client, "the role's rights", RIGHTS).await?.json()?;
            &asked
        }
    };
    let statement = statement(version, slot, rights, listing);
    one_row(&mut client, "the figures around the slot", &statement).await?.json()
}
