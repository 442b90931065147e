//! Runs a scenario once, or as often as `OUTBOX_ROUNDS` says, and counts the rounds that passed.

use std::sync::{Mutex, PoisonError};

use e2e::FixtureKafka;
use tokio::task::LocalSet;

/// Scenarios that are over, with the rounds in which all was as it should be, and all rounds.
static TALLY: Mutex<Vec<(&str, usize, usize)>> = Mutex::new(Vec::new());

/// Runs a scenario, each time with a pipeline of its own. A round that fails does not prevent the
/// next.
pub(super) async fn rounds(what: &'static str, round: impl AsyncFn() + Clone + 'static) {
    let wanted: usize = std::env::var("OUTBOX_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    // Otherwise it would be stopped between two rounds.
    let kafka = FixtureKafka::shared().await.unwrap();
    let tasks = LocalSet::new();
    let mut well = 0;
    for _ in 0..wanted {
        let round = round.clone();
        let played = tasks.run_until(tasks.spawn_local(async move { round().await })).await;
        well += usize::from(played.is_ok());
    }
    drop(kafka);
    print_totals((what, well, wanted));
    assert_eq!(well, wanted, "{what}: rounds that passed");
}

/// All that is over so far, so that the last line has everything.
#[expect(clippy::print_stderr, reason = "the figures of a test, which captures them unless asked")]
fn print_totals(scenario: (&'static str, usize, usize)) {
    let mut tally = TALLY.lock().unwrap_or_else(PoisonError::into_inner);
    tally.push(scenario);
    let totals: Vec<String> =
        tally.iter().map(|(what, well, wanted)| format!("{what} {well}/{wanted}")).collect();
    eprintln!("away: {}", totals.join(" · "));
}
