//! The failpoints of the router, and what makes it reach each of them.
//!
//! The names are those that the router itself lists: a failpoint that is missing here, or one that
//! the router no longer has, ends the run before it begins. Those of `switch` are the end-to-end
//! scenarios' (`tests/e2e/polling/switch/kills.rs`).

use anyhow::{Context, ensure};
use testbed::router::RouterProcess;

/// The environment variable that arms the router.
pub(crate) const VARIABLE: &str = "OUTBOX_ROUTER_FAILPOINT";

/// What has to happen for the router to reach a failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// Nothing but the usual load.
    None,
    /// The outbox table is altered: its first Relation message may have come in what the witness
    /// covers, and only a change makes the server send another.
    AlterTable,
    /// A transaction larger than the window: its rows are acknowledged before its commit is read.
    LargeTransaction,
    /// SIGTERM.
    Shutdown,
    /// SIGTERM, and the drain that follows: no record may come again.
    Drain,
    /// PostgreSQL is stopped fast.
    StopServer,
    /// From now on a topic accepts only tiny batches.
    RefuseBatches,
    /// PostgreSQL crashes and loses the slot's latest position, so it sends again what the witness
    /// covers.
    CrashServer,
    /// Acknowledgements are held while the connection to PostgreSQL breaks: the producer's queue
    /// gets the records of two windows.
    FillQueue,
    /// Rows are written that cannot become a record.
    Poison,
    /// A person decides about the dead letters that have come of such rows.
    Release,
}

/// A failpoint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FailpointCase {
    pub(crate) name: &'static str,
    pub(crate) trigger: Trigger,
    /// The router is killed when it reaches the failpoint for the n-th time; n is from 1 to this.
    pub(crate) times_at_most: u32,
}

const fn once(name: &'static str, trigger: Trigger) -> FailpointCase {
    FailpointCase { name, trigger, times_at_most: 1 }
}

const fn often(name: &'static str, times_at_most: u32) -> FailpointCase {
    FailpointCase { name, trigger: Trigger::None, times_at_most }
}

/// All failpoints, in the order in which a process usually reaches them.
pub(crate) const FAILPOINTS: [FailpointCase; 30] = [
    once("connected", Trigger::None),
    once("slot-checked", Trigger::None),
    once("replication-started", Trigger::None),
    FailpointCase { name: "covered-passed", trigger: Trigger::CrashServer, times_at_most: 2 },
    once("relation-taken", Trigger::AlterTable),
    often("begin-taken", 80),
    often("before-enqueue", 200),
    often("after-enqueue", 200),
    once("queue-full", Trigger::FillQueue),
    FailpointCase { name: "before-hold", trigger: Trigger::Poison, times_at_most: 20 },
    FailpointCase { name: "held", trigger: Trigger::Poison, times_at_most: 10 },
    FailpointCase { name: "released", trigger: Trigger::Release, times_at_most: 3 },
    FailpointCase { name: "release-closed", trigger: Trigger::Release, times_at_most: 3 },
    often("commit-taken", 80),
    often("keepalive-taken", 20),
    often("warning-taken", 4),
    often("before-acks", 50),
    often("after-acks", 50),
    FailpointCase { name: "acked-but-open", trigger: Trigger::LargeTransaction, times_at_most: 3 },
    often("before-advance", 80),
    often("after-advance", 80),
    often("before-witness", 20),
    often("witness-acked", 20),
    often("before-status", 20),
    often("after-status", 20),
    once("delivery-failed", Trigger::RefuseBatches),
    once("stream-ended", Trigger::StopServer),
    once("drain-begun", Trigger::Shutdown),
    once("drain-confirmed", Trigger::Shutdown),
    once("drain-ended", Trigger::Drain),
];

/// Checks that the router has these failpoints and no others.
///
/// # Errors
///
/// Fails when it has other failpoints, or was built without any.
pub(crate) async fn check_names(router: &mut RouterProcess) -> anyhow::Result<()> {
    router.set_env(VARIABLE, Some("list"));
    // A router without failpoints runs the command, so it is a command that ends.
    let output = router.command(&["check"]).await;
    router.set_env(VARIABLE, None);
    let text =
        String::from_utf8(output?.stdout).context("the list of its failpoints is not text")?;
    let theirs: Vec<&str> = text.lines().filter(|name| !name.starts_with("switch-")).collect();
    let ours: Vec<&str> = FAILPOINTS.iter().map(|failpoint| failpoint.name).collect();
    ensure!(
        theirs == ours,
        "the router has the failpoints {theirs:?}, and this tool has {ours:?}: build both again, \
         the router with `cargo build --package outbox-router --features failpoints`"
    );
    Ok(())
}
