//! Faults of PostgreSQL and of the network to it.

use std::time::Duration;

use relay::{Code, Moment};

use super::AT_ONCE;
use crate::{
    history::RowKind,
    postgres::ServerPhase,
    world::{World, injection::Injection, repair::Repair},
};

impl World {
    fn is_up(&self) -> bool {
        self.server.phase == ServerPhase::Up
    }

    pub(super) fn some_time_soon(&mut self) -> Moment {
        self.at + Duration::from_millis(self.random.below(2_500))
    }

    pub(super) fn cut_the_connection(&mut self) -> Injection {
        let is_streaming = self.server.holder().is_some();
        if is_streaming {
            self.checker.note_interruption();
        }
        self.server.end_walsenders(Code::ServerUnreachable);
        Injection::from(is_streaming)
    }

    pub(super) fn black_hole_the_connection(&mut self) -> Injection {
        let connections = self.server.connections.iter_mut();
        let served = connections.filter(|connection| connection.has_walsender).take(1);
        let swallowed = served.map(|connection| connection.is_black_holed = true).count();
        if swallowed == 1 {
            self.checker.note_interruption();
        }
        Injection::from(swallowed == 1)
    }

    pub(super) fn crash_the_server(&mut self) -> Injection {
        if !self.is_up() {
            return Injection::NotApplicable;
        }
        self.checker.note_interruption();
        let until = self.some_time_soon();
        self.server.crash(until);
        Injection::Done
    }

    pub(super) fn stop_the_server(&mut self) -> Injection {
        if !self.is_up() {
            return Injection::NotApplicable;
        }
        self.checker.note_interruption();
        self.server.stop(self.at);
        Injection::Done
    }

    pub(super) fn write_undecodable_transaction(&mut self) -> Injection {
        if !self.is_up() {
            return Injection::NotApplicable;
        }
        self.checker.note_interruption();
        let _written = self.write_transaction(2, RowKind::Valid);
        let last = self.server.history.transactions.last();
        self.server.undecodable = last.map(|transaction| transaction.commit_lsn);
        self.schedule_repair(AT_ONCE, Repair::Decoding);
        Injection::Done
    }

    /// No router reaches the server: it closes their connections after `wal_sender_timeout`.
    pub(super) fn cut_off_all_routers(&mut self) {
        self.checker.note_interruption();
        for connection in &mut self.server.connections {
            connection.is_black_holed |= connection.has_walsender;
        }
        self.is_cut_off = true;
        self.causes.insert(Code::ServerSilent);
        self.schedule_repair(AT_ONCE, Repair::Network);
    }
}
