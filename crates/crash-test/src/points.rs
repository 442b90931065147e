//! The failpoints of the router, and what leads it to each of them.
//!
//! The names are those that the router itself lists: a failpoint that is missing here, or one that
//! the router no longer has, ends the run before it begins.

use anyhow::{Context, ensure};
use testbed::router::Router;

/// The environment variable that arms the router.
pub(crate) const VARIABLE: &str = "OUTBOX_ROUTER_FAILPOINT";

/// What has to happen for the router to reach a failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nothing but the usual load.
    OfItself,
    /// The outbox table is altered: its first Relation message may have come in what the witness
    /// covers, and only a change makes the server send another.
    AlterTable,
    /// A transaction larger than the window: its rows are acknowledged before its commit is read.
    LargeTransaction,
    /// SIGTERM.
    Sigterm,
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
}

/// A failpoint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) name: &'static str,
    pub(crate) way: Way,
    /// The router is killed when it reaches the failpoint for the n-th time; n is from 1 to this.
    pub(crate) times_at_most: u32,
}

const fn once(name: &'static str, way: Way) -> Point {
    Point { name, way, times_at_most: 1 }
}

const fn often(name: &'static str, times_at_most: u32) -> Point {
    Point { name, way: Way::OfItself, times_at_most }
}

/// All failpoints, in the order in which a transaction meets them.
pub(crate) const POINTS: [Point; 26] = [
    once("slot-checked", Way::OfItself),
    once("connected", Way::OfItself),
    once("replication-started", Way::OfItself),
    Point { name: "covered-passed", way: Way::CrashServer, times_at_most: 2 },
    once("relation-taken", Way::AlterTable),
    often("begin-taken", 80),
    often("before-enqueue", 200),
    often("after-enqueue", 200),
    once("queue-full", Way::FillQueue),
    often("commit-taken", 80),
    often("keepalive-taken", 20),
    often("warning-taken", 4),
    often("before-acks", 50),
    often("after-acks", 50),
    Point { name: "acked-but-open", way: Way::LargeTransaction, times_at_most: 3 },
    often("before-advance", 80),
    often("after-advance", 80),
    often("before-witness", 20),
    often("witness-acked", 20),
    often("before-status", 20),
    often("after-status", 20),
    once("delivery-failed", Way::RefuseBatches),
    once("stream-ended", Way::StopServer),
    once("drain-begun", Way::Sigterm),
    once("drain-confirmed", Way::Sigterm),
    once("drain-ended", Way::Drain),
];

/// Checks that the router has these failpoints and no others.
///
/// # Errors
///
/// Fails when it has other failpoints, or was built without any.
pub(crate) async fn are_those_of(router: &mut Router) -> anyhow::Result<()> {
    router.set_env(VARIABLE, Some("list"));
    // A router without failpoints runs the command, so it is a command that ends.
    let output = router.command(&["check"]).await;
    router.set_env(VARIABLE, None);
    let text = String::from_utf8(output?.stdout).context("its failpoints are no text")?;
    let theirs: Vec<&str> = text.lines().collect();
    let ours: Vec<&str> = POINTS.iter().map(|point| point.name).collect();
    ensure!(
        theirs == ours,
        "the router says of its failpoints: {theirs:?}; this tool knows {ours:?}; build both anew, \
         the router with `cargo build --package outbox-router --features failpoints`"
    );
    Ok(())
}
