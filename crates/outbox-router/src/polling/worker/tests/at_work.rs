//! A worker that runs turn by turn, until something is seen.

use std::time::Duration;

use relay::{
    Code, ExitReason, Failure,
    polling::{PollInput, PollerReport},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use super::super::{Event, Worker, kafka::Done};
use crate::{
    polling::report::WorkerReport,
    shell::{Endpoint, Running},
};

/// Generous: two cores are shared with whatever else runs.
const DEADLINE: Duration = Duration::from_secs(60);

/// From one look to the next.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// See the module's header.
pub(super) struct AtWork {
    worker: Worker<Endpoint>,
    reports: watch::Receiver<WorkerReport>,
    stop: watch::Sender<Running>,
    making: Making,
    /// What was made while nobody was to have it.
    made: Vec<Done>,
}

/// What becomes of a producer that the worker wants to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Making {
    /// It is made.
    Ends,
    /// The worker waits for it for ever.
    TakesForEver,
}

impl AtWork {
    pub(super) fn new(
        worker: Worker<Endpoint>,
        reports: watch::Receiver<WorkerReport>,
        stop: watch::Sender<Running>,
    ) -> Self {
        Self { worker, reports, stop, making: Making::Ends, made: Vec::new() }
    }

    /// Works until `look`, which is given the last report, has found something.
    pub(super) async fn until<T>(
        &mut self,
        what: &str,
        mut look: impl AsyncFnMut(&PollerReport) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let report = self.report();
            if let Some(found) = look(&report).await {
                return found;
            }
            assert!(Instant::now() < deadline, "timed out waiting for {what}: {report:#?}");
            self.work_for(LOOK_EVERY).await;
        }
    }

    /// Works until the report is such a one.
    pub(super) async fn until_reported(
        &mut self,
        what: &str,
        is_so: impl Fn(&PollerReport) -> bool,
    ) -> PollerReport {
        self.until(what, async |report| is_so(report).then(|| report.clone())).await
    }

    pub(super) async fn work_for(&mut self, time: Duration) {
        let mut over = std::pin::pin!(sleep(time));
        loop {
            tokio::select! {
                biased;
                () = &mut over => return,
                ended = self.turn() => assert_eq!(ended, None, "nobody has stopped it"),
            }
        }
    }

    /// Asks the worker to stop.
    pub(super) fn stop(&self) {
        self.stop.send_replace(Running::Stopping);
    }

    /// Works until the worker has ended.
    pub(super) async fn end(mut self) -> ExitReason {
        let ended = async {
            loop {
                if let Some(outcome) = self.turn().await {
                    return outcome;
                }
            }
        };
        timeout(DEADLINE, ended).await.expect("the worker ends")
    }

    /// [`Worker::run`], until it has ended.
    pub(super) async fn run_to_the_end(self) -> ExitReason {
        let Self { worker, stop: _stop, .. } = self;
        timeout(DEADLINE, Box::pin(worker.run())).await.expect("the worker ends")
    }

    /// The producer fails, and making another one does not come to an end.
    pub(super) fn lose_the_producer(&mut self) {
        self.making = Making::TakesForEver;
        let failure = Failure::new(Code::ProducerFatal, "the producer failed");
        self.worker.input(PollInput::DeliveryFailed { transaction: None, failure });
    }

    pub(super) fn report(&self) -> PollerReport {
        self.reports.borrow().poller.clone()
    }

    /// The worker itself.
    pub(super) fn worker(&mut self) -> &mut Worker<Endpoint> {
        &mut self.worker
    }

    /// As in [`Worker::run`]. Cancel-safe, as waiting for an event is.
    async fn turn(&mut self) -> Option<ExitReason> {
        let outcome = self.worker.begin_turn();
        if outcome.is_some() {
            return outcome;
        }
        match (self.worker.next_event().await, self.making) {
            (Event::Kafka(made @ Done::Opened(_)), Making::TakesForEver) => self.made.push(made),
            (event, _) => self.worker.apply(event),
        }
        None
    }
}
