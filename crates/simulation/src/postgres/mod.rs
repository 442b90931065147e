//! A PostgreSQL with one slot: transactions in commit order, a confirmed position that is only in
//! memory until the slot is saved, and a walsender that sends a transaction again if and only if
//! its commit record starts at or after that position.

use std::{collections::VecDeque, time::Duration};

use relay::{Code, Lsn, Moment, SqlReach, source::History};

use crate::{
    history::{CatalogState, CommitHistory},
    plan::{BacklogReading, DeadLetters, VersionGroup},
    random::Random,
};

mod backlog;
mod connection;
mod held;
mod held_table;
mod histories;
mod publication;
pub mod queries;
mod restore_point;
mod rows;
mod socket;
mod stopping;
mod walsender;

use backlog::SimulatedBacklog;
pub use connection::SimulatedConnection;
pub use held_table::SimulatedHeldTable;
pub use histories::{RestoredSlot, RestoredTimeline};
use restore_point::RestorePoint;
pub use rows::describe;
pub use rows::{EVENT_TYPE, RENAMED, large_payload, payload};
pub use socket::SocketMessage;

/// `wal_sender_timeout`: the server closes a connection on which it received nothing for so long.
/// (The router asks for a shorter time than the default.)
const WAL_SENDER_TIMEOUT: Duration = Duration::from_secs(10);

/// The slot.
#[derive(Debug, Clone, Copy)]
pub struct SimulatedSlot {
    /// `confirmed_flush_lsn` in memory.
    pub confirmed: u64,
    /// `confirmed_flush_lsn` on disk: what it is after a crash.
    pub saved: u64,
    /// Whether the slot is invalidated.
    pub is_lost: bool,
}

impl SimulatedSlot {
    /// A slot that was created at this position.
    pub fn at(position: u64) -> Self {
        Self { confirmed: position, saved: position, is_lost: false }
    }
}

/// Whether the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerPhase {
    /// It answers.
    Up,
    /// A fast stop has begun: the server waits for its walsender.
    Stopping {
        /// When the stop began.
        since: Moment,
    },
    /// It does not run.
    Down {
        /// When it is started again.
        until: Moment,
    },
}

/// See the module's documentation.
pub struct SimulatedPostgres {
    /// Which versions of PostgreSQL it behaves like.
    pub version: VersionGroup,
    /// What was committed.
    pub history: CommitHistory,
    /// System identifier and timeline of that history.
    pub identity: History,
    /// Number of the history, increased by each change of it. Two histories of one number are the
    /// same, or one is the beginning of the other.
    pub epoch: u64,
    /// Where each former history was cut, by its epoch.
    cuts: Vec<u64>,
    /// How often the server was started or replaced: no connection survives that.
    pub starts: u64,
    /// The slot, if there is one.
    pub slot: Option<SimulatedSlot>,
    /// The catalog that rows are written under now.
    pub catalog: CatalogState,
    /// OID of the publication: changes when it is re-created.
    pub publication_oid: u32,
    /// OID of the table's entry in the publication: changes when the table is taken out and put
    /// back.
    pub entry_oid: u32,
    /// The transaction that last altered the publication (`xmin`).
    pub altered_by: u32,
    /// Whether it answers.
    pub phase: ServerPhase,
    /// Connections of which the walsender or the router still has an end.
    pub connections: Vec<SimulatedConnection>,
    connections_made: u64,
    /// The position at which the first slot was created.
    start: u64,
    /// The timelines before the present one, each with the position where it ended.
    timelines: Vec<(u32, u64)>,
    restore_points: Vec<RestorePoint>,
    /// The table of held events.
    pub held: SimulatedHeldTable,
    /// Position of the transaction that cannot be decoded.
    pub undecodable: Option<u64>,
    /// The highest position that was ever confirmed.
    pub highest_confirmed: u64,
}

impl SimulatedPostgres {
    /// An empty server with a slot.
    pub fn new(version: VersionGroup, dead_letters: Option<DeadLetters>) -> Self {
        let history = CommitHistory::new(version, dead_letters);
        let start = history.end_of_wal;
        Self {
            version,
            history,
            identity: History { system_id: "7001".to_owned(), timeline: 1 },
            epoch: 0,
            cuts: Vec::new(),
            starts: 0,
            slot: Some(SimulatedSlot::at(start)),
            catalog: CatalogState::NEW,
            publication_oid: 900,
            entry_oid: 16_500,
            altered_by: 900,
            phase: ServerPhase::Up,
            connections: Vec::new(),
            connections_made: 0,
            start,
            timelines: Vec::new(),
            restore_points: vec![RestorePoint { end_of_wal: start, saved: start }],
            held: SimulatedHeldTable::default(),
            undecodable: None,
            highest_confirmed: start,
        }
    }

    /// Writes something, if the server is up.
    pub fn write(&mut self, random: &mut Random) {
        if self.phase == ServerPhase::Up {
            self.history.write(random, self.catalog);
        }
    }

    /// The slot's `confirmed_flush_lsn`.
    pub fn confirmed(&self) -> u64 {
        self.slot.map_or(0, |slot| slot.confirmed)
    }

    /// Saves the slot to disk.
    pub fn save_slot(&mut self) {
        if let Some(slot) = &mut self.slot {
            slot.saved = slot.confirmed;
        }
        self.add_restore_point();
    }

    /// Takes the saved position back, as if the slot had not been saved for long.
    pub fn revert_saved_position(&mut self) {
        let past = self.restore_points.iter().rev().nth(3).map_or(self.start, |past| past.saved);
        if let Some(slot) = &mut self.slot {
            slot.saved = slot.saved.min(past);
        }
    }

    /// The index of the first transaction that is not read by SQL; `None` where nothing is.
    pub fn sql_until(&self) -> Option<usize> {
        let standbys = self.history.standby.map(|standby| relay::NamedStandby {
            slot: "standby".to_owned(),
            received: Some(Lsn::from_u64(standby.received)),
        });
        let reach = SqlReach {
            flushed: Lsn::from_u64(self.history.end_of_wal),
            standbys: standbys.into_iter().collect(),
            // The standby has received whole transactions.
            longest_record: 0,
        };
        let until = reach.until(Lsn::from_u64(self.confirmed())).ok()?;
        Some(self.history.first_from(until.as_u64()))
    }

    /// A router connects and gets a walsender. Of what it `reads` by SQL, the second is the index
    /// of the first transaction that is not. Returns the number of the connection.
    pub fn connect(
        &mut self,
        router: usize,
        reads: Option<(BacklogReading, usize)>,
        at: Moment,
    ) -> u64 {
        self.connections_made += 1;
        let next = self.history.first_from(self.confirmed());
        let id = self.connections_made;
        let mut connection = SimulatedConnection::new(id, router, next, at);
        if let Some((reads, until)) = reads {
            connection.next = until.max(next);
            connection.has_read_by_sql = true;
            connection.backlog = Some(SimulatedBacklog {
                next,
                until: connection.next,
                sent_relation: None,
                wire: VecDeque::new(),
                has_ended: false,
                breaks: reads == BacklogReading::SqlBreaks,
                shares_the_network: id.is_multiple_of(2),
            });
        }
        self.connections.push(connection);
        id
    }

    /// The walsender that holds the slot.
    pub fn holder(&self) -> Option<&SimulatedConnection> {
        self.connections.iter().find(|connection| connection.has_walsender)
    }

    /// The connection with this number.
    pub fn connection(&mut self, id: u64) -> Option<&mut SimulatedConnection> {
        self.connections.iter_mut().find(|connection| connection.id == id)
    }

    /// Every walsender ends; what it had sent may still be read.
    pub fn end_walsenders(&mut self, code: Code) {
        for connection in &mut self.connections {
            if connection.has_walsender {
                connection.end(code);
            }
            if let Some(backlog) = &mut connection.backlog {
                backlog.has_ended = true;
            }
        }
    }

    /// The router has closed its end of the connection.
    pub fn close(&mut self, id: u64) {
        if let Some(connection) = self.connection(id)
            && !connection.is_black_holed
        {
            connection.has_walsender = false;
        }
        self.abandon(id);
    }

    /// The router's end is gone without a FIN: the walsender stays until `wal_sender_timeout`.
    pub fn abandon(&mut self, id: u64) {
        if let Some(connection) = self.connection(id) {
            connection.is_abandoned = true;
        }
        self.connections.retain(|connection| connection.has_walsender || !connection.is_abandoned);
    }

    /// Time passes: walsenders ask silent clients for a reply, and close connections that stay
    /// silent.
    pub fn tick(&mut self, at: Moment) {
        self.history.feed_standby();
        let Self { connections, history, .. } = self;
        for connection in connections.iter_mut().filter(|connection| connection.has_walsender) {
            let silent = at.since(connection.last_update_at);
            if silent >= WAL_SENDER_TIMEOUT {
                connection.end(Code::ServerUnreachable);
                connection.was_timed_out = true;
            } else if silent >= WAL_SENDER_TIMEOUT / 2 && !connection.reply_requested {
                connection.reply_requested = true;
                connection.request_reply(history);
            }
        }
        self.connections.retain(|connection| connection.has_walsender || !connection.is_abandoned);
        self.advance_shutdown(at);
    }

    /// The server is killed with SIGKILL, and started again.
    pub fn crash(&mut self, until: Moment) {
        self.end_walsenders(Code::ServerUnreachable);
        self.connections.retain(|connection| !connection.is_abandoned);
        self.history.abort_all();
        if let Some(slot) = &mut self.slot {
            slot.confirmed = slot.saved;
        }
        self.starts += 1;
        self.phase = ServerPhase::Down { until };
    }

    /// What lies in the socket of a connection, for the router to read.
    pub fn wire(&mut self, id: u64) -> Option<&mut VecDeque<SocketMessage>> {
        self.connection(id).filter(|one| !one.is_cut()).map(SimulatedConnection::shown)
    }

    /// Whether a backlog was read to its end. From then on the walsender's messages are read.
    pub fn has_read_backlog(&mut self, id: u64) -> bool {
        let Some(connection) = self.connection(id) else { return false };
        connection.backlog.take_if(|backlog| backlog.is_read()).is_some()
    }

    /// Whether the walsender was heard, while a backlog is read.
    pub fn was_heard(&mut self, id: u64) -> bool {
        let Some(connection) = self.connection(id) else { return false };
        let is_beside = connection.backlog.is_some() && !connection.is_black_holed;
        is_beside && std::mem::take(&mut connection.was_heard)
    }

    /// The code by which the router sees that its walsender is gone, while a backlog is read.
    pub fn has_lost_walsender(&mut self, id: u64) -> Option<Code> {
        let connection = self.connection(id)?;
        let is_seen = connection.backlog.is_some() && !connection.is_black_holed;
        (is_seen && !connection.has_walsender).then_some(connection.ended_by)
    }
}
