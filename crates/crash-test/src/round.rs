//! One process of the router: it is started and ends, and what it left is checked before the next
//! one is started.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::reader::ConsumedRecord;
use tokio::time::sleep;
use uuid::Uuid;

use crate::failpoints::{FailpointCase, Trigger, VARIABLE};
use crate::plan::{HoldEnd, KillPlan};
use crate::provoke::{provoke, repair, setup, wait_ended};
use crate::state_topic::SLOT;
use crate::system::{DEADLINE, Setup, TestSystem};
use crate::tally::{Ending, Observation, RoundResult, SlotPersistence, Tally};
use crate::{held_table, hold, observer};

const SIGKILL: i32 = 9;
/// How long a router may take to reach a failpoint. While one of two brokers does not respond, the
/// client library may ask that broker several times, for five seconds each.
const FAILPOINT_DEADLINE: Duration = Duration::from_secs(60);

/// Runs one round and checks what is left.
pub(crate) async fn run_round(
    system: &mut TestSystem,
    tally: &mut Tally,
    plan: KillPlan,
) -> anyhow::Result<RoundResult> {
    if is_decided_before(plan) {
        held_table::decide(&system.session).await?;
    }
    match plan {
        KillPlan::Instant(after) => {
            system.start(Setup::Direct)?;
            sleep(after).await;
            let process = system.router.process()?;
            ensure!(
                process.try_wait()?.is_none(),
                "the router ended before it was killed: {}",
                system.router.log()
            );
            system.router.kill9().await?;
            check_after_death(system, tally, Trigger::None, Ending::Killed).await
        }
        KillPlan::Failpoint { failpoint, times, lead } => {
            reach_failpoint(system, failpoint, times, lead).await.with_context(|| {
                format!("failpoint {} was not reached {times} times", failpoint.name)
            })?;
            let ending =
                if failpoint.trigger == Trigger::Drain { Ending::Drained } else { Ending::Killed };
            check_after_death(system, tally, failpoint.trigger, ending).await
        }
        KillPlan::Hold { length, end } => {
            hold::hold(system, tally, length, end).await?;
            let ending = match end {
                HoldEnd::Kill => Ending::Killed,
                HoldEnd::Release => Ending::Drained,
            };
            check_after_death(system, tally, Trigger::None, ending).await
        }
    }
}

/// Whether a person decides about dead letters before the router is started. Then a session begins
/// with events that may leave the table, some of which the server sends again, and the kill hits
/// their release.
fn is_decided_before(plan: KillPlan) -> bool {
    match plan {
        KillPlan::Instant(_) => true,
        KillPlan::Failpoint { failpoint, .. } => failpoint.trigger == Trigger::Poison,
        KillPlan::Hold { .. } => false,
    }
}

/// Whether a round ends with a kill.
pub(crate) fn ends_with_kill(plan: KillPlan) -> bool {
    !matches!(plan, KillPlan::Hold { end: HoldEnd::Release, .. })
}

/// Starts a router that kills itself at a failpoint, and makes it reach the failpoint.
async fn reach_failpoint(
    system: &mut TestSystem,
    failpoint: &FailpointCase,
    times: u32,
    lead: Duration,
) -> anyhow::Result<()> {
    system.router.set_env(VARIABLE, Some(&format!("{}:{times}", failpoint.name)));
    let started = system.start(setup(failpoint.trigger));
    system.router.set_env(VARIABLE, None);
    started?;
    let ended = wait_for_self_kill(system, failpoint, lead).await;
    let log = system.log_since_start();
    let status = ended.with_context(|| format!("the router's log:\n{log}"))?;
    let by_itself = log.contains(&format!("failpoint {} reached", failpoint.name));
    ensure!(
        status.signal() == Some(SIGKILL) && by_itself,
        "the router ended, but not at the failpoint ({status}); its log:\n{log}"
    );
    Ok(())
}

async fn wait_for_self_kill(
    system: &mut TestSystem,
    failpoint: &FailpointCase,
    lead: Duration,
) -> anyhow::Result<ExitStatus> {
    provoke(system, failpoint.trigger, lead).await?;
    wait_ended(system, FAILPOINT_DEADLINE).await
}

/// Checks what a dead router left. Reads the ends of all partitions first, because nothing that
/// comes later was acknowledged to the router.
pub(crate) async fn check_after_death(
    system: &mut TestSystem,
    tally: &mut Tally,
    trigger: Trigger,
    ending: Ending,
) -> anyhow::Result<RoundResult> {
    let (ends, state_ends) = (system.tail.ends()?, system.state.ends()?);
    let letter_ends = system.letters.ends()?;
    // A request to the table may still be carried out, whose answer the router did not get. None is
    // where the server has stopped, and it is read when the server has started again.
    let held = if trigger == Trigger::StopServer {
        None
    } else {
        Some(held_table::read(&system.session).await?)
    };
    repair(system, trigger).await?;
    system.tap.closed(DEADLINE).await?;
    let confirmed = system.postgres.wait_slot_free(SLOT, DEADLINE).await?;
    system.wait_requests_ended().await?;
    let held_later = held_table::read(&system.session).await?;
    let status_flush = system.tap.take_highest_flush();
    // Read after the position, so these are at least all commits that it covers.
    let commits = observer::committed(&system.session).await?;
    let mut observed = (Vec::new(), Vec::new());
    for record in system.tail.read_to(&ends)? {
        let group = if ends.contain(record) { &mut observed.0 } else { &mut observed.1 };
        group.extend(event_of(record));
    }
    let (records, late) = observed;
    let new_letters = system.letters.read_to(&letter_ends)?.iter();
    let letters: Vec<Uuid> =
        new_letters.filter(|record| letter_ends.contain(record)).filter_map(letter_of).collect();
    // Lost on purpose, or because a timeout passed on a busy machine.
    let interruptions = system.sessions_lost();
    let slot_persistence = if trigger == Trigger::StopServer {
        system.slot_persistence()
    } else if trigger == Trigger::CrashServer {
        SlotPersistence::Lost
    } else {
        SlotPersistence::Kept
    };
    let witness = system.state.position_at(&state_ends)?;
    let witness_later = system.state.position()?;
    Ok(tally.check(&Observation {
        confirmed,
        status_flush,
        witness,
        witness_later,
        commits: &commits,
        records: &records,
        late: &late,
        held: held.as_deref().unwrap_or(&held_later),
        held_later: &held_later,
        letters: &letters,
        interruptions,
        slot_persistence,
        ending,
    }))
}

/// The event of a record in the topic of dead letters.
fn letter_of(record: &ConsumedRecord) -> Option<Uuid> {
    record.header("__outbox_router.errors.event_id").and_then(|id| id.parse().ok())
}

/// The event of a record. A record without one is for the checker at the end.
fn event_of(record: &ConsumedRecord) -> Option<Uuid> {
    record.header("id").and_then(|id| id.parse().ok())
}
