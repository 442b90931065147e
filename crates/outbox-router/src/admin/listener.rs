//! The connections to the admin endpoint: accepted as long as there is room, and ended by those
//! rules by which [`Room`] makes room. Whatever clients do, memory, file descriptors and the time
//! that a proper client waits have a limit.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use axum::{Router, serve::Listener};
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};

use super::{
    connection,
    room::{CONNECTIONS_MAX, Room},
};

/// After the end, answers that are being sent have this time.
const ANSWERS_END_WITHIN: Duration = Duration::from_secs(2);

/// How often the log says that connections were ended to make room.
const REPORT_EVERY: Duration = Duration::from_secs(60);

/// Serves until `shutdown` resolves, and at most [`ANSWERS_END_WITHIN`] longer. Dropping it ends
/// every connection.
pub(crate) async fn serve(
    mut listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let mut tasks = JoinSet::new();
    let mut room = Room::default();
    let mut crowding = Crowding::default();
    let changed = room.changed();
    loop {
        let (ended, next) = room.make(Instant::now());
        crowding.count(ended);
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = tasks.join_next() => {
                while tasks.try_join_next().is_some() {}
                room.sweep();
            }
            () = changed.notified() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            // The listener of axum waits a second where the system has no file descriptor left.
            (stream, _) = Listener::accept(&mut listener), if tasks.len() < CONNECTIONS_MAX => {
                let place = room.place();
                let served = connection::serve(stream, Arc::clone(&place), router.clone());
                room.enter(place, tasks.spawn(served), Instant::now());
            }
        }
    }
    drop(listener);
    room.close();
    let answered = async { while tasks.join_next().await.is_some() {} };
    let _in_time = timeout(ANSWERS_END_WITHIN, answered).await;
}

/// Connections that were ended to make room. A scraper that is broken shows nowhere else.
#[derive(Default)]
struct Crowding {
    ended: usize,
    reported: Option<Instant>,
}

impl Crowding {
    fn count(&mut self, ended: usize) {
        self.ended += ended;
        let now = Instant::now();
        let is_due = self.reported.is_none_or(|at| now.duration_since(at) >= REPORT_EVERY);
        if self.ended > 0 && is_due {
            tracing::warn!(
                connections = self.ended,
                "the admin endpoint is crowded: ended connections that sent no request, or did not read the answer",
            );
            *self = Self { ended: 0, reported: Some(now) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_log_says_once_a_minute_how_many_connections_gave_way() {
        let mut crowding = Crowding::default();
        let lines = crate::telemetry::tests::lines_of(|| {
            crowding.count(0);
            crowding.count(2);
            crowding.count(5);
            crowding.reported = Instant::now().checked_sub(REPORT_EVERY);
            crowding.count(1);
            crowding.count(0);
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!((&lines[0]["level"], &lines[0]["connections"]), (&"WARN".into(), &2.into()));
        assert_eq!(lines[1]["connections"], 6);
    }
}
