//! What makes the router reach the failpoints that the usual load does not reach, with real servers
//! only.

use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::load::{big_transaction, poisoned_transaction};
use testbed::postgres::ShutdownMode;
use testbed::proxy::ProxyMode;
use testbed::wait::eventually;
use tokio::time::sleep;

use crate::failpoints::Trigger;
use crate::held_table;
use crate::state_topic::SLOT;
use crate::system::{DEADLINE, Flow, NARROW_BYTES, Setup, TestSystem};

/// Rows of a transaction that exceeds the window several times.
const LARGE_ROWS: i64 = 1500;
/// How many such transactions are written at most.
const LARGE_TRANSACTIONS: u32 = 20;
/// How often the server crashes at most. Two crashes would do, but a slot may have been saved just
/// before one.
const CRASHES: u32 = 5;
/// How often the server is stopped at most: once would do, but see [`release_all`].
const STOPS: u32 = 3;
/// How long a router may take to end after the server has ended its stream.
const AFTER_STOP: Duration = Duration::from_secs(5);
/// Rows and bytes that fill the queue of a narrow router several times over.
const WIDE_ROWS: i64 = 180;
const WIDE_BYTES: i32 = 8000;
/// The bytes from which a window counts as full here: what is left does not hold two records of a
/// wide row.
const FULL_BYTES: u64 = NARROW_BYTES - 20_000;
/// Keys that are poisoned at once: the others have to fill every topic.
const POISONED_KEYS: i64 = 3;
/// How often a person decides at most. Each time, something of the keys leaves the table.
const DECISIONS: u32 = 20;
/// `max.message.bytes` that every batch exceeds.
const TINY_BATCH: &str = "64";

/// How the router has to be started for it.
pub(crate) fn setup(trigger: Trigger) -> Setup {
    if trigger == Trigger::FillQueue { Setup::Narrow } else { Setup::Direct }
}

/// Does what makes the router reach a failpoint. The router was just started, and works for `lead`
/// before that.
pub(crate) async fn provoke(
    system: &mut TestSystem,
    trigger: Trigger,
    lead: Duration,
) -> anyhow::Result<()> {
    match trigger {
        Trigger::None => {}
        Trigger::AlterTable => {
            if system.wait_flowing_or_ended().await? == Flow::Flowing {
                // The smallest change that makes the server send a Relation message again.
                let table = &system.schema.table;
                let alter = format!("ALTER TABLE {table} ALTER COLUMN note SET STATISTICS 10");
                system.session.batch_execute(&alter).await?;
            }
        }
        Trigger::LargeTransaction => {
            // It is chance how often all sent records of such a transaction are acknowledged before
            // its commit is read: where the failpoint had to be reached three times, one
            // transaction was too few in one round of a hundred.
            for _ in 0..LARGE_TRANSACTIONS {
                big_transaction(&system.session, &system.schema, LARGE_ROWS, 50).await?;
                if system.router.process()?.try_wait()?.is_some() {
                    break;
                }
            }
        }
        Trigger::Shutdown | Trigger::Drain => {
            wait_at_work(system, lead).await?;
            system.router.sigterm()?;
        }
        Trigger::StopServer => {
            for _ in 0..STOPS {
                wait_at_work(system, lead).await?;
                release_all(system).await?;
                system.postgres.stop(ShutdownMode::Fast, DEADLINE).await?;
                if wait_ended(system, AFTER_STOP).await.is_ok() {
                    break;
                }
                start_postgres(system).await?;
            }
        }
        Trigger::RefuseBatches => {
            wait_at_work(system, lead).await?;
            for topic in &system.topics {
                system.kafka.set_topic(topic, &[("max.message.bytes", TINY_BATCH)]).await?;
            }
        }
        Trigger::CrashServer => {
            // The first session passes something covered if the process before left the slot behind
            // the witness; every later session does.
            for _ in 0..CRASHES {
                if system.wait_flowing_or_ended().await? == Flow::Ended {
                    break;
                }
                // A slot that was saved while the server started is behind the witness only now.
                system.wait_witness_moved_or_ended().await?;
                sleep(lead).await;
                system.postgres.stop(ShutdownMode::Immediate, DEADLINE).await?;
                start_postgres(system).await?;
            }
        }
        Trigger::FillQueue => {
            wait_at_work(system, lead).await?;
            fill_queue(system).await?;
        }
        Trigger::Poison => {
            sleep(lead).await;
            poisoned_transaction(&system.session, &system.schema, POISONED_KEYS).await?;
        }
        Trigger::Release => {
            for _ in 0..DECISIONS {
                poisoned_transaction(&system.session, &system.schema, POISONED_KEYS).await?;
                if decide(system).await? == Flow::Ended {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Waits for dead letters, decides about them, and waits until the router has done what was
/// decided, or has ended.
async fn decide(system: &mut TestSystem) -> anyhow::Result<Flow> {
    let TestSystem { router, session, .. } = system;
    let mut has_ended = || anyhow::Ok(router.process()?.try_wait()?.is_some());
    let decided = eventually(DEADLINE, "a dead letter", || {
        let has_ended = has_ended();
        async {
            if has_ended? {
                return Ok(Some(Flow::Ended));
            }
            Ok((held_table::decide(session).await? > 0).then_some(Flow::Flowing))
        }
    })
    .await?;
    if decided == Flow::Ended {
        return Ok(Flow::Ended);
    }
    eventually(DEADLINE, "the end of the router, or of what was decided", || {
        let has_ended = has_ended();
        async {
            if has_ended? {
                return Ok(Some(Flow::Ended));
            }
            Ok(held_table::is_carried_out(session).await?.then_some(Flow::Flowing))
        }
    })
    .await
}

/// Waits until no key is held. A server that stops first ends the connection to the table, so what
/// waits to be written there is not confirmed, and the router disconnects before the server ends
/// the stream. An event that has come since the router's last report may still wait.
async fn release_all(system: &mut TestSystem) -> anyhow::Result<()> {
    system.postgres.wait_confirmed(SLOT, DEADLINE).await?;
    held_table::wait_empty(&system.session, DEADLINE).await?;
    eventually(DEADLINE, "a report that nothing is held", async || {
        let events = system.status_number("/held/events").await?;
        Ok((events == Some(0)).then_some(()))
    })
    .await
}

/// Waits until the router has ended.
pub(crate) async fn wait_ended(
    system: &mut TestSystem,
    deadline: Duration,
) -> anyhow::Result<ExitStatus> {
    eventually(deadline, "the end of the router", || {
        let status = system.router.process().and_then(|process| process.try_wait());
        async move { status }
    })
    .await
}

async fn wait_at_work(system: &mut TestSystem, lead: Duration) -> anyhow::Result<()> {
    system.wait_flowing().await?;
    sleep(lead).await;
    Ok(())
}

/// Mends what was broken, as far as the next round needs it.
pub(crate) async fn repair(system: &mut TestSystem, trigger: Trigger) -> anyhow::Result<()> {
    if trigger == Trigger::StopServer {
        start_postgres(system).await?;
    } else if trigger == Trigger::RefuseBatches {
        for topic in &system.topics {
            system.kafka.set_topic(topic, &[]).await?;
        }
    } else if trigger == Trigger::FillQueue {
        // Drops what was held back: the router that waited for it is dead.
        system.proxy.cut();
        system.proxy.set(ProxyMode::Forward).await?;
    }
    Ok(())
}

async fn start_postgres(system: &mut TestSystem) -> anyhow::Result<()> {
    system.postgres.start_again().await?;
    system.session = system.postgres.connect().await?;
    Ok(())
}

/// A session fills its window and ends with all of it in the producer's queue, and the next session
/// fills another window.
async fn fill_queue(system: &mut TestSystem) -> anyhow::Result<()> {
    // A window of small rows would be full by their number, and leave room in the queue. So the
    // writers wait until the wide rows are committed.
    system.session.batch_execute("BEGIN; LOCK TABLE testbed.aggregate IN EXCLUSIVE MODE").await?;
    system.postgres.wait_confirmed(SLOT, DEADLINE).await?;
    system.proxy.set(ProxyMode::HoldAnswers).await?;
    big_transaction(&system.session, &system.schema, WIDE_ROWS, WIDE_BYTES).await?;
    eventually(DEADLINE, "a full window", async || {
        let bytes = system.status_number("/window/bytes").await?;
        Ok(bytes.is_some_and(|bytes| bytes >= FULL_BYTES).then_some(()))
    })
    .await?;
    let slot = system.postgres.slot(SLOT).await?;
    let walsender = slot.and_then(|slot| slot.active_pid).context("no walsender holds the slot")?;
    let ended = system.session.query_one("SELECT pg_terminate_backend($1)", &[&walsender]).await?;
    ensure!(ended.get::<_, bool>(0), "walsender {walsender} had ended already");
    Ok(())
}
