//! Ends the wait for the next reading when a gap that the monitor has found is decided about: else
//! the probes would name it until then, although events flow again.

use std::sync::Arc;

use relay::source::Baseline;
use tokio::sync::watch;

use super::found::FoundAt;
use crate::monitor::report::RelayReport;

/// Waits until the streaming task has begun a session since a gap was found: it has checked
/// everything before. Waits for ever where no gap was found, or where that task is no more.
pub(super) async fn gap_decided(
    found: Option<FoundAt>,
    known: Option<&Arc<Baseline>>,
    mut relay: watch::Receiver<RelayReport>,
) {
    let is_new = |report: &RelayReport| match (&report.snapshot.baseline, known) {
        (Some(latest), Some(known)) => !Arc::ptr_eq(latest, known),
        (Some(_), None) => true,
        (None, _) => false,
    };
    if found.is_some() && relay.wait_for(is_new).await.is_ok() {
        return;
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use relay::{
        Snapshot, State,
        source::TableOids,
        testing::{Source, samples::snapshot},
    };
    use tokio::time::{Instant, timeout};

    use super::*;

    const FOUND: Option<FoundAt> = Some(FoundAt { generation: 1, walsender: None });

    fn baseline() -> Arc<Baseline> {
        let source = Source::of("outbox", 16_400, &[]);
        let reading = source.slot_reading();
        Arc::new(Baseline {
            server: source.server(),
            checked: reading.mark(),
            moment: reading.moment(),
            slot: reading.slot.unwrap(),
            catalog: source.catalog(),
            alterations: Vec::new(),
            tables: TableOids::default(),
        })
    }

    fn report(baseline: Option<Arc<Baseline>>) -> RelayReport {
        let snapshot = Snapshot { baseline, ..snapshot(State::Streaming) };
        RelayReport::initial(snapshot, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_reading_waits_for_no_time_where_a_session_has_begun_since_a_gap() {
        let known = baseline();
        let (sender, relay) = watch::channel(report(Some(Arc::clone(&known))));
        let ends = async |found| {
            let decided = gap_decided(found, Some(&known), relay.clone());
            timeout(Duration::from_secs(60), decided).await.is_ok()
        };
        assert!(!ends(FOUND).await, "the session that has found it");
        sender.send_replace(report(Some(baseline())));
        assert!(ends(FOUND).await);
        assert!(!ends(None).await, "nothing is to be forgotten");
        sender.send_replace(report(None));
        drop(sender);
        assert!(!ends(FOUND).await, "the streaming task is no more");
    }
}
