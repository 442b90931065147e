//! The one wait.

use std::{future::poll_fn, task::Poll};

use tokio::time::{Instant, sleep_until};

use super::{
    REPORT_INTERVAL, Running, Shell,
    coalesce::Coalesce,
    event::Event,
    job::Done,
    ports::{Kafka, Postgres, Sink},
};
use crate::postgres::{Fill, Output, ReplicationStream};

impl<P: Postgres, K: Kafka> Shell<P, K> {
    /// Waits for the next thing to do. Cancel-safe, although nobody cancels it.
    ///
    /// The order is the priority: what empties comes before what fills, so a flood of rows can
    /// starve neither the acknowledgements nor the timers.
    pub(super) async fn next_event(&mut self) -> Event<P, K> {
        let wants_wal = self.relay.wants_wal();
        if wants_wal && let Some(fill) = self.gather() {
            return Event::Wal(Ok(fill));
        }
        let has_frames = wants_wal && self.has_frame();
        let coalesces = wants_wal && !has_frames && self.coalesce.is_due();
        if coalesces {
            // This thread is going to sleep: first everybody else's turn.
            tokio::task::yield_now().await;
        }
        let wake_at = self.wake_at();
        let runs = self.running == Running::On;
        let Self { sink, stream, jobs, monitor, shutdown, .. } = self;
        let reads = if wants_wal && !has_frames && !coalesces { Reads::Yes } else { Reads::No };
        tokio::select! {
            biased;
            // 1. Acknowledgements: they make room, and they are what we are here for.
            () = acks_arrived(sink) => Event::Acks,
            // 2. The wish to stop.
            _ = shutdown.wait_for(|running| *running == Running::Stopping), if runs => Event::Shutdown,
            // 3. What the monitor saw: stop confirming, or let go of the server.
            Some(event) = monitor.recv() => Event::Monitor(event),
            // 4. Jobs.
            Some(done) = jobs.join_next(), if !jobs.is_empty() => Event::Job(Box::new(Done::from_join(done))),
            // 5. Deadlines: feedback to the server, back-off, pauses.
            () = sleep_until(wake_at) => Event::Due,
            // 6. Status updates on their way out, written while reading stands still, too; then
            //    WAL, and only if there is room for it: back-pressure is not reading the socket.
            event = exchanged(stream, reads) => event,
            // 7. Or what was read before and left by a pass that had run long enough.
            () = std::future::ready(()), if has_frames => Event::Due,
            // 8. Nothing but WAL is to be waited for, and some was just read: more may gather.
            () = std::future::ready(()), if coalesces => Event::Coalesce,
        }
    }

    pub(super) fn wake_at(&self) -> Instant {
        let core = self.relay.deadline().map(|moment| self.clock.instant(moment));
        let report = self.reported_at + REPORT_INTERVAL;
        [core, self.refresher.wake_at()].into_iter().flatten().fold(report, Instant::min)
    }

    /// Sleeps and reads once, while reads are coalesced. `None`: wait for the next event.
    fn gather(&mut self) -> Option<Fill> {
        match &mut self.stream {
            Some(stream) => self.coalesce.rest_and_read(stream),
            None => {
                self.coalesce = Coalesce::AtOnce;
                None
            }
        }
    }

    fn has_frame(&mut self) -> bool {
        // An error counts: the pass will meet it.
        self.stream.as_mut().is_some_and(|stream| !matches!(stream.peek(), Ok(None)))
    }
}

/// Whether there is room for more WAL.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Yes,
    No,
}

async fn exchanged<P: Postgres, K: Kafka>(
    stream: &mut Option<ReplicationStream>,
    reads: Reads,
) -> Event<P, K> {
    let Some(stream) = stream else { return std::future::pending().await };
    poll_fn(|cx| {
        if stream.output() == Output::Waiting
            && let Poll::Ready(result) = stream.poll_flush_out(cx)
        {
            return Poll::Ready(Event::Written(result));
        }
        match reads {
            Reads::Yes => stream.poll_fill(cx).map(Event::Wal),
            Reads::No => Poll::Pending,
        }
    })
    .await
}

async fn acks_arrived(sink: &mut Option<impl Sink>) {
    match sink {
        Some(sink) => sink.wait_acks().await,
        None => std::future::pending().await,
    }
}
