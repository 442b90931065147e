//! One life of the router: it is started and ends, and what it left is checked before anything else
//! may happen.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::reader::Seen;
use testbed::wait::eventually;
use tokio::time::sleep;
use uuid::Uuid;

use crate::plan::{HoldEnd, KillPlan};
use crate::points::{Point, VARIABLE, Way};
use crate::provoke::{mend, provoke, setup};
use crate::stage::{SOON, Setup, Stage};
use crate::tally::{Ending, Finding, Memory, Observation, Tally};
use crate::{hold, observer};

const SIGKILL: i32 = 9;
/// How long a router may take to reach a failpoint. While one of two brokers does not respond, the
/// client library may ask that broker several times, for five seconds each.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs one round and checks what is left.
pub(crate) async fn play(
    stage: &mut Stage,
    tally: &mut Tally,
    plan: KillPlan,
) -> anyhow::Result<Finding> {
    match plan {
        KillPlan::Instant(after) => {
            stage.start(Setup::Direct)?;
            sleep(after).await;
            let process = stage.router.process()?;
            ensure!(
                process.try_wait()?.is_none(),
                "the router ended before it was killed: {}",
                stage.router.log()
            );
            stage.router.kill9().await?;
            look(stage, tally, Way::OfItself, Ending::Killed).await
        }
        KillPlan::Point { point, times, lead } => {
            reach(stage, point, times, lead).await.with_context(|| {
                format!("failpoint {}, {times} times, was never reached", point.name)
            })?;
            let ending = if point.way == Way::Drain { Ending::Drained } else { Ending::Killed };
            look(stage, tally, point.way, ending).await
        }
        KillPlan::Hold { length, end } => {
            hold::hold(stage, tally, length, end).await?;
            let ending = match end {
                HoldEnd::Kill => Ending::Killed,
                HoldEnd::Release => Ending::Drained,
            };
            look(stage, tally, Way::OfItself, ending).await
        }
    }
}

/// Whether a round ends with a kill.
pub(crate) fn kills(plan: KillPlan) -> bool {
    !matches!(plan, KillPlan::Hold { end: HoldEnd::Release, .. })
}

/// Starts a router that kills itself at a failpoint, and leads it there.
async fn reach(stage: &mut Stage, point: &Point, times: u32, lead: Duration) -> anyhow::Result<()> {
    stage.router.set_env(VARIABLE, Some(&format!("{}:{times}", point.name)));
    let started = stage.start(setup(point.way));
    stage.router.set_env(VARIABLE, None);
    started?;
    let ended = ended_itself(stage, point, lead).await;
    let said = stage.said();
    let status = ended.with_context(|| format!("the router says:\n{said}"))?;
    let by_itself = said.contains(&format!("failpoint {} reached", point.name));
    ensure!(
        status.signal() == Some(SIGKILL) && by_itself,
        "the router ended otherwise ({status}), and says:\n{said}"
    );
    Ok(())
}

async fn ended_itself(
    stage: &mut Stage,
    point: &Point,
    lead: Duration,
) -> anyhow::Result<ExitStatus> {
    provoke(stage, point.way, lead).await?;
    eventually(PATIENCE, "the end of the router", || {
        let status = stage.router.process().and_then(|process| process.try_wait());
        async move { status }
    })
    .await
}

/// Checks what a dead router left. Reads the ends of all partitions first, because nothing that
/// comes later was acknowledged to the router.
pub(crate) async fn look(
    stage: &mut Stage,
    tally: &mut Tally,
    way: Way,
    ending: Ending,
) -> anyhow::Result<Finding> {
    let (ends, state_ends) = (stage.tail.ends()?, stage.state.ends()?);
    mend(stage, way).await?;
    stage.tap.closed(SOON).await?;
    let (confirmed, told) = (stage.confirmed_when_free().await?, stage.tap.take_told());
    // Read after the position, so these are at least all commits that it covers.
    let commits = observer::committed(&stage.session).await?;
    let mut observed = (Vec::new(), Vec::new());
    for record in stage.tail.read_to(&ends)? {
        let group = if ends.hold(record) { &mut observed.0 } else { &mut observed.1 };
        group.extend(event_of(record));
    }
    let (records, late) = observed;
    // Lost on purpose, or because a timeout passed on a busy machine.
    let interruptions = stage.sessions_lost();
    let memory = if way == Way::StopServer {
        stage.memory()
    } else if way == Way::CrashServer {
        Memory::Lost
    } else {
        Memory::Kept
    };
    let witness = stage.state.position_at(&state_ends)?;
    let witness_later = stage.state.position()?;
    Ok(tally.look(&Observation {
        confirmed,
        told,
        witness,
        witness_later,
        commits: &commits,
        records: &records,
        late: &late,
        interruptions,
        memory,
        ending,
    }))
}

/// The event of a record. A record without one is for the checker at the end.
fn event_of(record: &Seen) -> Option<Uuid> {
    record.header("id").and_then(|id| id.parse().ok())
}
