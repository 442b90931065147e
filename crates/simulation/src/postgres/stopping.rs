//! A fast stop: the walsender sends everything, waits until all of it is confirmed, and asks for
//! status updates meanwhile.

use relay::{Code, Moment};
use std::time::Duration;

use super::{ServerPhase, SimulatedPostgres, SocketMessage};

/// How long a restart takes.
const RESTART: Duration = Duration::from_secs(1);

impl SimulatedPostgres {
    /// `pg_ctl stop -m fast`, and a start after the server is down.
    pub fn stop(&mut self, at: Moment) {
        if self.phase == ServerPhase::Up {
            self.history.abort_all();
            self.phase = ServerPhase::Stopping { since: at };
        }
    }

    pub(super) fn advance_shutdown(&mut self, at: Moment) {
        match self.phase {
            ServerPhase::Up => {}
            ServerPhase::Stopping { .. } => self.wait_for_walsender(at),
            ServerPhase::Down { until } if until <= at => self.phase = ServerPhase::Up,
            ServerPhase::Down { .. } => {}
        }
    }

    fn wait_for_walsender(&mut self, at: Moment) {
        let confirmed = self.confirmed();
        let Self { connections, history, .. } = self;
        let Some(connection) = connections.iter_mut().find(|connection| connection.has_walsender)
        else {
            self.shut_down(at);
            return;
        };
        let awaits_standby = history.sendable_end() < history.end_of_wal;
        if awaits_standby && history.standby.is_some_and(|standby| standby.is_away) {
            connection.wire.push_back(SocketMessage::ErrorResponse(Code::ServerNotReady));
            connection.end(Code::ServerNotReady);
            self.shut_down(at);
        } else if connection.is_caught_up(history) && confirmed >= history.end_of_wal {
            connection.wire.push_back(SocketMessage::CopyDone);
            connection.end(Code::ServerNotReady);
            self.shut_down(at);
        } else if connection.wire.len() < 100 && connection.is_caught_up(history) {
            connection.request_reply(history);
        }
    }

    fn shut_down(&mut self, at: Moment) {
        // The checkpoint at shutdown saves the slot.
        self.save_slot();
        self.starts += 1;
        self.phase = ServerPhase::Down { until: at + RESTART };
    }
}
