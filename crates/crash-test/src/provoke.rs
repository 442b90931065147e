//! What leads the router to the failpoints that the usual load does not reach, with real servers
//! only.

use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::load::big_transaction;
use testbed::postgres::Stop;
use testbed::proxy::Mode;
use testbed::wait::eventually;
use tokio::time::sleep;

use crate::points::Way;
use crate::stage::{Flow, NARROW_BYTES, SOON, Setup, Stage};

/// Rows of a transaction that exceeds the window several times.
const LARGE_ROWS: i64 = 1500;
/// How many such transactions are written at most.
const LARGE_TRANSACTIONS: u32 = 20;
/// How often the server crashes at most. Two crashes would do, but a slot may have been saved just
/// before one.
const CRASHES: u32 = 5;
/// Rows and bytes that fill the queue of a narrow router several times over.
const WIDE_ROWS: i64 = 180;
const WIDE_BYTES: i32 = 8000;
/// The bytes from which a window counts as full here: what is left does not hold two records of a
/// wide row.
const FULL_BYTES: u64 = NARROW_BYTES - 20_000;
/// `max.message.bytes` that every batch exceeds.
const TINY_BATCH: &str = "64";

/// How the router has to be started for it.
pub(crate) fn setup(way: Way) -> Setup {
    if way == Way::FillQueue { Setup::Narrow } else { Setup::Direct }
}

/// Leads the router there. It was just started, and works for `lead` before that.
pub(crate) async fn provoke(stage: &mut Stage, way: Way, lead: Duration) -> anyhow::Result<()> {
    match way {
        Way::OfItself => {}
        Way::AlterTable => {
            if stage.wait_flowing_or_ended().await? == Flow::Flowing {
                // The smallest change that makes the server send a Relation message again.
                let table = &stage.schema.table;
                let alter = format!("ALTER TABLE {table} ALTER COLUMN note SET STATISTICS 10");
                stage.session.batch_execute(&alter).await?;
            }
        }
        Way::LargeTransaction => {
            // It is chance how often all sent records of such a transaction are acknowledged before
            // its commit is read: where the failpoint had to be reached three times, one
            // transaction was too few in one round of a hundred.
            for _ in 0..LARGE_TRANSACTIONS {
                big_transaction(&stage.session, &stage.schema, LARGE_ROWS, 50).await?;
                if stage.router.process()?.try_wait()?.is_some() {
                    break;
                }
            }
        }
        Way::Sigterm | Way::Drain => {
            at_work(stage, lead).await?;
            stage.router.sigterm()?;
        }
        Way::StopServer => {
            at_work(stage, lead).await?;
            stage.postgres.stop(Stop::Fast, SOON).await?;
        }
        Way::RefuseBatches => {
            at_work(stage, lead).await?;
            for topic in &stage.topics {
                stage.kafka.set_topic(topic, &[("max.message.bytes", TINY_BATCH)]).await?;
            }
        }
        Way::CrashServer => {
            // The first session passes something covered if the life before left the slot behind
            // the witness; every later session does.
            for _ in 0..CRASHES {
                if stage.wait_flowing_or_ended().await? == Flow::Ended {
                    break;
                }
                // A slot that was saved while the server started is behind the witness only now.
                stage.wait_witness_moved_or_ended().await?;
                sleep(lead).await;
                stage.postgres.stop(Stop::Immediate, SOON).await?;
                start_postgres(stage).await?;
            }
        }
        Way::FillQueue => {
            at_work(stage, lead).await?;
            fill_queue(stage).await?;
        }
    }
    Ok(())
}

async fn at_work(stage: &mut Stage, lead: Duration) -> anyhow::Result<()> {
    stage.wait_flowing().await?;
    sleep(lead).await;
    Ok(())
}

/// Mends what was broken, as far as the next round needs it.
pub(crate) async fn mend(stage: &mut Stage, way: Way) -> anyhow::Result<()> {
    if way == Way::StopServer {
        start_postgres(stage).await?;
    } else if way == Way::RefuseBatches {
        for topic in &stage.topics {
            stage.kafka.set_topic(topic, &[]).await?;
        }
    } else if way == Way::FillQueue {
        // Drops what was held back: the router that waited for it is dead.
        stage.proxy.cut();
        stage.proxy.set(Mode::Forward).await?;
    }
    Ok(())
}

async fn start_postgres(stage: &mut Stage) -> anyhow::Result<()> {
    stage.postgres.start_again().await?;
    stage.session = stage.postgres.connect().await?;
    Ok(())
}

/// A session fills its window and ends with all of it in the producer's queue, and the next session
/// fills another window.
async fn fill_queue(stage: &mut Stage) -> anyhow::Result<()> {
    // A window of small rows would be full by their number, and leave room in the queue. So the
    // writers wait until the wide rows are committed.
    stage.session.batch_execute("BEGIN; LOCK TABLE testbed.aggregate IN EXCLUSIVE MODE").await?;
    stage.wait_confirmed(SOON).await?;
    stage.proxy.set(Mode::HoldAnswers).await?;
    big_transaction(&stage.session, &stage.schema, WIDE_ROWS, WIDE_BYTES).await?;
    eventually(SOON, "a full window", async || {
        let bytes = stage.status_number("/window/bytes").await?;
        Ok(bytes.is_some_and(|bytes| bytes >= FULL_BYTES).then_some(()))
    })
    .await?;
    let (walsender, _) = stage.slot().await?;
    let walsender = walsender.context("nobody holds the slot")?;
    let ended = stage.session.query_one("SELECT pg_terminate_backend($1)", &[&walsender]).await?;
    ensure!(ended.get::<_, bool>(0), "walsender {walsender} was not there any more");
    Ok(())
}
