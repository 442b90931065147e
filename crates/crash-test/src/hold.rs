//! Rounds in which the broker takes every record and its responses are held back. Whatever else
//! happens, the slot must not pass the first event that was committed after that, and nothing that
//! is released must leave the table.

use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::load::poisoned_transaction;
use testbed::proxy::ProxyMode;
use testbed::wait::eventually;
use tokio::time::{Instant, sleep};
use tokio_postgres::types::PgLsn;

use crate::plan::HoldEnd;
use crate::state_topic::SLOT;
use crate::system::{DEADLINE, Setup, TestSystem};
use crate::tally::Tally;
use crate::{held_table, observer};

const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Bytes of responses that the proxy may still be writing when the hold begins: one read of the
/// proxy.
const HANDED_OVER: u64 = 16 * 1024;
/// Keys of which something is released meanwhile.
const RELEASED_KEYS: i64 = 3;

/// One round, until the router is dead. Violations are recorded in `tally`.
pub(crate) async fn hold(
    system: &mut TestSystem,
    tally: &mut Tally,
    length: Duration,
    end: HoldEnd,
) -> anyhow::Result<()> {
    system.start(Setup::Proxied)?;
    system.wait_flowing().await?;
    poisoned_transaction(&system.session, &system.schema, RELEASED_KEYS).await?;
    // With few records in flight, new records are sent, and only their acknowledgements are
    // missing. The poisoned rows are in the table then.
    system.postgres.wait_confirmed(SLOT, DEADLINE).await?;
    system.proxy.set(ProxyMode::HoldAnswers).await?;
    let from = system.session.query_one("SELECT pg_current_wal_insert_lsn()", &[]).await?.get(0);
    let answers = system.proxy.answer_bytes();
    let before = held_table::read(&system.session).await?;
    held_table::give_up(&system.session).await?;
    let furthest = watch(system, tally, length).await?;
    let witness = system.state.position()?;
    let passed = system.proxy.answer_bytes().saturating_sub(answers);
    tally.commit(&observer::committed(&system.session).await?);
    let held =
        tally.first_end_after(from).context("no event was committed while responses were held")?;
    ensure!(passed <= HANDED_OVER, "{passed} bytes of responses passed while they were held");
    let table = held_table::read(&system.session).await?;
    tally.check_while_held(from, furthest, witness, &table);
    tally.check_release_while_held(&before, &table);
    match end {
        HoldEnd::Kill => {
            system.router.kill9().await?;
            system.proxy.cut();
            system.proxy.set(ProxyMode::Forward).await
        }
        HoldEnd::Release => {
            system.proxy.set(ProxyMode::Forward).await?;
            eventually(DEADLINE, format!("{held} to be confirmed after the release"), async || {
                Ok((system.postgres.confirmed(SLOT).await? >= held).then_some(()))
            })
            .await?;
            system.router.sigterm()?;
            let status = system.router.wait_exit(DEADLINE).await?;
            ensure!(status.success(), "the router did not drain after the release: {status}");
            Ok(())
        }
    }
}

/// Writes WAL of all kinds for `length`, and compares the furthest position, of the slot or
/// in a status update on its way there, with the witness. Returns the furthest position.
async fn watch(
    system: &mut TestSystem,
    tally: &mut Tally,
    length: Duration,
) -> anyhow::Result<PgLsn> {
    let started = Instant::now();
    let mut furthest = system.postgres.confirmed(SLOT).await?;
    while started.elapsed() < length {
        // Neither is in the publication: the server reports them only by keepalives and empty
        // transactions.
        system
            .session
            .batch_execute(
                "INSERT INTO testbed.other VALUES (1); \
                 SELECT pg_logical_emit_message(false, 'crash-test', repeat('x', 1000))",
            )
            .await?;
        let confirmed = system.postgres.confirmed(SLOT).await?;
        furthest = furthest.max(confirmed).max(system.tap.highest_flush());
        // The witness is read after the position: it can only have moved on.
        if !tally.slot_within(furthest, system.state.position()?) {
            break;
        }
        sleep(CHECK_INTERVAL).await;
    }
    Ok(furthest)
}
