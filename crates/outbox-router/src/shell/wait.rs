//! The one place where the streaming task waits.

use std::{future::poll_fn, task::Poll};

use tokio::time::{Instant, sleep_until};

use super::{
    REPORT_INTERVAL, Running, Shell,
    coalesce::Coalesce,
    event::ShellEvent,
    job::Done,
    ports::{Kafka, Postgres, Sink},
};
use crate::postgres::{Fill, Output, ReplicationStream};

impl<P: Postgres, K: Kafka> Shell<P, K> {
    /// Waits for the next event. Cancel-safe, although it is never cancelled.
    ///
    /// The order of the branches is their priority: what makes room comes before what fills it, so
    /// a flood of rows can starve neither acknowledgements nor timers.
    pub(super) async fn next_event(&mut self) -> ShellEvent<P, K> {
        let wants_wal = self.relay.wants_wal();
        let pauses_until = self.stream.as_ref().and_then(|s| self.coalesce.waits_until(s));
        if wants_wal
            && pauses_until.is_none()
            && let Some(fill) = self.gather()
        {
            return ShellEvent::Wal(Ok(fill));
        }
        let has_frames = wants_wal && self.has_frame();
        let coalesces = wants_wal && !has_frames && self.coalesce.is_due();
        if coalesces {
            // The thread is about to sleep, so the runtime's other tasks run first.
            tokio::task::yield_now().await;
        }
        let wake_at = pauses_until.into_iter().fold(self.wake_at(), Instant::min);
        let runs = self.running == Running::On;
        let Self { sink, stream, jobs, monitor, shutdown, .. } = self;
        let reads = if wants_wal && !has_frames && !coalesces && pauses_until.is_none() {
            ReadInterest::On
        } else {
            ReadInterest::Off
        };
        tokio::select! {
            biased;
            // 1. Acknowledgements: they make room and move the confirmable position.
            () = acks_arrived(sink) => ShellEvent::Acks,
            // 2. The request to stop.
            _ = shutdown.wait_for(|running| *running == Running::Stopping), if runs => ShellEvent::Shutdown,
            // 3. Events of the monitor: a suspected gap, a source without defects, a stopping
            //    server.
            Some(event) = monitor.recv() => ShellEvent::Monitor(event),
            // 4. Jobs.
            Some(done) = jobs.join_next(), if !jobs.is_empty() => ShellEvent::Job(Box::new(Done::from_join(done))),
            // 5. Deadlines: status updates, back-off, reports.
            () = sleep_until(wake_at) => ShellEvent::Due,
            // 6. Queued status updates, which are written while nothing is read, too; then WAL,
            //    only if there is room for it. Back-pressure is not reading the socket.
            event = exchanged(stream, reads) => event,
            // 7. Frames that the last pass left in the buffer when its time was up.
            () = std::future::ready(()), if has_frames => ShellEvent::Due,
            // 8. A pause for WAL to gather: some was just read, and no other event is ready.
            () = std::future::ready(()), if coalesces => ShellEvent::Coalesce,
        }
    }

    pub(super) fn wake_at(&self) -> Instant {
        let core = self.relay.deadline().map(|moment| self.clock.instant(moment));
        let report = self.reported_at + REPORT_INTERVAL;
        [core, self.refresher.wake_at()].into_iter().flatten().fold(report, Instant::min)
    }

    /// During a pause: sleeps and reads once. `None` means to wait for the next event.
    fn gather(&mut self) -> Option<Fill> {
        match &mut self.stream {
            Some(stream) => self.coalesce.pause_and_read(stream),
            None => {
                self.coalesce = Coalesce::AtOnce;
                None
            }
        }
    }

    fn has_frame(&mut self) -> bool {
        // An error counts as a frame: the pass handles it.
        self.stream.as_mut().is_some_and(|stream| !matches!(stream.peek(), Ok(None)))
    }
}

/// Whether to read from the socket.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadInterest {
    On,
    Off,
}

async fn exchanged<P: Postgres, K: Kafka>(
    stream: &mut Option<ReplicationStream>,
    reads: ReadInterest,
) -> ShellEvent<P, K> {
    let Some(stream) = stream else { return std::future::pending().await };
    poll_fn(|cx| {
        if stream.output() == Output::Waiting
            && let Poll::Ready(result) = stream.poll_flush_out(cx)
        {
            return Poll::Ready(ShellEvent::Written(result));
        }
        match reads {
            ReadInterest::On => stream.poll_fill(cx).map(ShellEvent::Wal),
            ReadInterest::Off => stream.poll_beside(cx).map(ShellEvent::Wal),
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
