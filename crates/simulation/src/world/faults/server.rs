//! Faults of PostgreSQL and of the network to it.

use std::time::Duration;

use relay::{Code, Moment};

use super::NOW;
use crate::{
    history::RowKind,
    postgres::ServerPhase,
    world::{World, injection::Injection, repair::Repair},
};

impl World {
    fn is_up(&self) -> bool {
        self.server.phase == ServerPhase::Up
    }

    pub(super) fn soon(&mut self) -> Moment {
        self.at + Duration::from_millis(self.random.below(2_500))
    }

    pub(super) fn cut_the_connection(&mut self) -> Injection {
        let is_streaming = self.server.holder().is_some();
        if is_streaming {
            self.checker.interrupted();
        }
        self.server.end_walsenders(Code::ServerUnreachable);
        Injection::from(is_streaming)
    }

    pub(super) fn swallow_the_connection(&mut self) -> Injection {
        let connections = self.server.connections.iter_mut();
        let served = connections.filter(|connection| connection.is_served).take(1);
        let swallowed = served.map(|connection| connection.is_swallowed = true).count();
        if swallowed == 1 {
            self.checker.interrupted();
        }
        Injection::from(swallowed == 1)
    }

    pub(super) fn crash_the_server(&mut self) -> Injection {
        if !self.is_up() {
            return Injection::NotApplicable;
        }
        self.checker.interrupted();
        let until = self.soon();
        self.server.crash(until);
        Injection::Done
    }

    pub(super) fn stop_the_server(&mut self) -> Injection {
        if !self.is_up() {
            return Injection::NotApplicable;
        }
        self.checker.interrupted();
        self.server.stop(self.at);
        Injection::Done
    }

    pub(super) fn write_what_cannot_be_decoded(&mut self) -> Injection {
        if !self.is_up() {
            return Injection::NotApplicable;
        }
        self.checker.interrupted();
        let _written = self.write_transaction(2, RowKind::Valid);
        let last = self.server.history.transactions.last();
        self.server.undecodable = last.map(|transaction| transaction.commit_lsn);
        self.mend_after(NOW, Repair::Decoding);
        Injection::Done
    }

    /// No router reaches the server: it closes their connections after `wal_sender_timeout`.
    pub(super) fn cut_everybody_off(&mut self) {
        self.checker.interrupted();
        for connection in &mut self.server.connections {
            connection.is_swallowed |= connection.is_served;
        }
        self.is_cut_off = true;
        self.causes.insert(Code::ServerSilent);
        self.mend_after(NOW, Repair::Network);
    }
}
