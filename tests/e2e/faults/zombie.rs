//! A router that was frozen until another had taken over, and wakes up with what it held.

use std::time::Duration;

use e2e::{SOON, Stage, committed, largest_transaction};
use serde_json::Value;
use testbed::checker::LateRuns;
use testbed::load::Load;
use testbed::router::Router;

use super::{DEADLINE, load};

const WINDOW: usize = 500;

#[tokio::test]
async fn a_frozen_router_that_wakes_up_behind_its_successor_stands_by_and_breaks_no_order() {
    let mut stage = Stage::builder().set("limits.window_events", WINDOW).start().await.unwrap();
    stage.late_runs = LateRuns::Allowed;
    let mut successor = Router::start(&stage.config.to_string()).unwrap();
    successor.wait_state("standby", SOON).await.unwrap();
    let running = stage.load(Load { writers: 6, ..load() });
    committed(&running, 300).await.unwrap();

    stage.router.pause().unwrap();
    let acked = |status: &Value| status["totals"]["events_acked"].as_u64().unwrap_or_default();
    let taken_over = |status: &Value| acked(status) > 0;
    successor.wait_status("the successor at work", SOON, taken_over).await.unwrap();
    let holder = stage.slot().await.unwrap().active_pid;
    let before = acked(&successor.status().await.unwrap());
    stage.router.resume().unwrap();
    // Where the slot stands now is its successor's work, and no gap.
    let waiting = stage.router.wait_state("standby", SOON).await.unwrap();
    assert_eq!(waiting["positions"]["holder_pid"].as_i64(), holder.map(i64::from), "{waiting}");

    // The one that has the slot goes on, undisturbed.
    committed(&running, 500).await.unwrap();
    let journal = running.stop().await.unwrap();
    stage.note(journal);
    stage.wait_delivered(DEADLINE).await.unwrap();
    stage.wait_confirmed(SOON).await.unwrap();
    assert_eq!(stage.slot().await.unwrap().active_pid, holder, "the slot changed hands again");
    assert!(acked(&successor.status().await.unwrap()) > before);
    let verdict = stage.verdict().await.unwrap().clean().unwrap();
    println!("{verdict}");
    // What the one had under way is sent by the other once more, and nothing else.
    let limit = WINDOW + largest_transaction(&stage.truth().await.unwrap());
    assert!(verdict.duplicates <= limit, "more than {limit} duplicates");

    // Neither is left in a state from which it could not take over.
    successor.sigterm().unwrap();
    assert_eq!(successor.wait_exit(SOON).await.unwrap().code(), Some(0));
    stage.router.wait_state("streaming", Duration::from_secs(10)).await.unwrap();
}
