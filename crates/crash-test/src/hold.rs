//! Rounds in which the broker takes every record and its responses are held back. Whatever else
//! happens, the slot must not pass the first event that was committed after that.

use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::proxy::Mode;
use testbed::wait::eventually;
use tokio::time::{Instant, sleep};
use tokio_postgres::types::PgLsn;

use crate::observer;
use crate::plan::HoldEnd;
use crate::stage::{SOON, Setup, Stage};
use crate::tally::Tally;

const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Bytes of responses that the proxy may still be writing when the hold begins: one read of the
/// proxy.
const HANDED_OVER: u64 = 16 * 1024;

/// One round, until the router is dead. Nothing is wrong unless `tally` has a violation.
pub(crate) async fn hold(
    stage: &mut Stage,
    tally: &mut Tally,
    length: Duration,
    end: HoldEnd,
) -> anyhow::Result<()> {
    stage.start(Setup::Proxied)?;
    stage.wait_flowing().await?;
    // With few records in flight, new records are sent, and only their acknowledgements are
    // missing.
    stage.wait_confirmed(SOON).await?;
    stage.proxy.set(Mode::HoldAnswers).await?;
    let from = stage.session.query_one("SELECT pg_current_wal_insert_lsn()", &[]).await?.get(0);
    let answers = stage.proxy.answer_bytes();
    let confirmed = watch(stage, tally, length).await?;
    let witness = stage.state.position()?;
    let passed = stage.proxy.answer_bytes().saturating_sub(answers);
    tally.commit(&observer::committed(&stage.session).await?);
    let held =
        tally.first_end_after(from).context("nothing was committed while answers were held")?;
    ensure!(passed <= HANDED_OVER, "{passed} bytes of answers passed while they were held");
    tally.look_while_held(from, confirmed, witness);
    match end {
        HoldEnd::Kill => {
            stage.router.kill9().await?;
            stage.proxy.cut();
            stage.proxy.set(Mode::Forward).await
        }
        HoldEnd::Release => {
            stage.proxy.set(Mode::Forward).await?;
            eventually(SOON, format!("{held}, which was held, to be confirmed"), async || {
                Ok((stage.slot().await?.1 >= held).then_some(()))
            })
            .await?;
            stage.router.sigterm()?;
            let status = stage.router.wait_exit(SOON).await?;
            ensure!(status.success(), "after a release the router did not drain: {status}");
            Ok(())
        }
    }
}

/// Writes WAL of all kinds for `length`, and compares the furthest position, of the slot or
/// in a status update on its way there, with the witness. Returns the furthest position.
async fn watch(stage: &mut Stage, tally: &mut Tally, length: Duration) -> anyhow::Result<PgLsn> {
    let started = Instant::now();
    let mut furthest = stage.slot().await?.1;
    while started.elapsed() < length {
        // Neither is in the publication: the server reports them only by keepalives and empty
        // transactions.
        stage
            .session
            .batch_execute(
                "INSERT INTO testbed.other VALUES (1); \
                 SELECT pg_logical_emit_message(false, 'crash-test', repeat('x', 1000))",
            )
            .await?;
        furthest = furthest.max(stage.slot().await?.1).max(stage.tap.told());
        // The witness is read after the position: it can only have moved on.
        if !tally.slot_within(furthest, stage.state.position()?) {
            break;
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(furthest)
}
