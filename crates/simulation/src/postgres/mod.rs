//! A PostgreSQL with one slot: transactions in commit order, a confirmed position that lives in
//! memory until the slot is saved, a walsender that sends a transaction again if and only if its
//! commit record starts at or after it.

use std::{collections::VecDeque, time::Duration};

use relay::{Code, Moment, witness::History as Identity};

use crate::{
    history::{Catalog, History},
    plan::Generation,
    random::Random,
};

mod connection;
pub mod facts;
mod histories;
mod past;
mod rows;
mod stopping;
mod walsender;

pub use connection::{Connection, Wire};
pub use histories::{SlotFate, Timeline};
use past::Past;
pub use rows::describe;
pub use rows::{EVENT_TYPE, RENAMED, payload};

/// The server closes a connection that says nothing for so long (the router asks for less than the
/// default).
const WAL_SENDER_TIMEOUT: Duration = Duration::from_secs(10);

/// The slot.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    /// `confirmed_flush_lsn`: in memory.
    pub confirmed: u64,
    /// As it would be after a crash.
    pub saved: u64,
    /// Invalidated.
    pub is_lost: bool,
}

impl Slot {
    /// A new one.
    pub fn at(position: u64) -> Self {
        Self { confirmed: position, saved: position, is_lost: false }
    }
}

/// Whether the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It does.
    Up,
    /// A fast stop has begun: it waits for its walsender.
    Stopping {
        /// Since when.
        since: Moment,
    },
    /// It is not there.
    Down {
        /// Until when.
        until: Moment,
    },
}

/// See the module's documentation.
pub struct Postgres {
    /// Which one.
    pub generation: Generation,
    /// What was committed.
    pub history: History,
    /// The name of that history.
    pub identity: Identity,
    /// Histories so far: those of one number are the same, or begin alike.
    pub epoch: u64,
    /// How often it was started, or put in another's place: no connection outlives that.
    pub starts: u64,
    /// The slot, if there is one.
    pub slot: Option<Slot>,
    /// How rows are written now.
    pub catalog: Catalog,
    /// Of the publication: another after it was made anew.
    pub publication_oid: u32,
    /// Of the table's entry in it: another after it was taken out and put back.
    pub entry_oid: u32,
    /// The transaction that last altered the publication.
    pub altered_by: u32,
    /// Whether it answers.
    pub phase: Phase,
    /// Every connection that somebody still has an end of, the walsender's or the router's.
    pub connections: Vec<Connection>,
    connections_made: u64,
    /// Where the first slot was made.
    start: u64,
    /// The timelines before the present one, and where each was left.
    timelines: Vec<(u32, u64)>,
    past: Vec<Past>,
    /// The transaction that cannot be sent.
    pub undecodable: Option<u64>,
    /// The highest position that was ever confirmed.
    pub peak: u64,
}

impl Postgres {
    /// An empty server with a slot.
    pub fn new(generation: Generation) -> Self {
        let history = History::new(generation);
        let start = history.end_of_wal;
        Self {
            generation,
            history,
            identity: Identity { system_id: "7001".to_owned(), timeline: 1 },
            epoch: 0,
            starts: 0,
            slot: Some(Slot::at(start)),
            catalog: Catalog::NEW,
            publication_oid: 900,
            entry_oid: 16_500,
            altered_by: 900,
            phase: Phase::Up,
            connections: Vec::new(),
            connections_made: 0,
            start,
            timelines: Vec::new(),
            past: vec![Past { end_of_wal: start, saved: start }],
            undecodable: None,
            peak: start,
        }
    }

    /// Somebody writes, if the server is up.
    pub fn write(&mut self, random: &mut Random) {
        if self.phase == Phase::Up {
            self.history.write(random, self.catalog);
        }
    }

    /// Where the slot stands.
    pub fn confirmed(&self) -> u64 {
        self.slot.map_or(0, |slot| slot.confirmed)
    }

    /// The slot goes to disk.
    pub fn save_slot(&mut self) {
        if let Some(slot) = &mut self.slot {
            slot.saved = slot.confirmed;
        }
        self.remember();
    }

    /// The slot was not saved for long.
    pub fn forget_saved(&mut self) {
        let past = self.past.iter().rev().nth(3).map_or(self.start, |past| past.saved);
        if let Some(slot) = &mut self.slot {
            slot.saved = slot.saved.min(past);
        }
    }

    /// A router gets a walsender.
    pub fn connect(&mut self, router: usize, at: Moment) -> u64 {
        self.connections_made += 1;
        let next = self.history.first_from(self.confirmed());
        let id = self.connections_made;
        self.connections.push(Connection::new(id, router, next, at));
        id
    }

    /// The walsender that holds the slot.
    pub fn holder(&self) -> Option<&Connection> {
        self.connections.iter().find(|connection| connection.is_served)
    }

    /// A connection that somebody still has an end of.
    pub fn connection(&mut self, id: u64) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.id == id)
    }

    /// The walsender is gone; what it had sent may still be read.
    pub fn end_walsenders(&mut self, code: Code) {
        for connection in &mut self.connections {
            if connection.is_served {
                connection.end(code);
            }
        }
    }

    /// The router has closed its end: nothing is left of the connection.
    pub fn close(&mut self, id: u64) {
        if let Some(connection) = self.connection(id)
            && !connection.is_swallowed
        {
            connection.is_served = false;
        }
        self.abandon(id);
    }

    /// The router's end is gone without a word: the server keeps the walsender until its patience
    /// ends.
    pub fn abandon(&mut self, id: u64) {
        if let Some(connection) = self.connection(id) {
            connection.is_abandoned = true;
        }
        self.connections.retain(|connection| connection.is_served || !connection.is_abandoned);
    }

    /// Time passes: connections that say nothing are closed, silent ones are asked.
    pub fn tick(&mut self, at: Moment) {
        let Self { connections, history, .. } = self;
        for connection in connections.iter_mut().filter(|connection| connection.is_served) {
            let silent = at.since(connection.heard_at);
            if silent >= WAL_SENDER_TIMEOUT {
                connection.end(Code::ServerUnreachable);
                connection.was_timed_out = true;
            } else if silent >= WAL_SENDER_TIMEOUT / 2 && !connection.is_asked {
                connection.is_asked = true;
                connection.ask(history);
            }
        }
        self.connections.retain(|connection| connection.is_served || !connection.is_abandoned);
        self.go_on_stopping(at);
    }

    /// `kill -9`, and a restart.
    pub fn crash(&mut self, until: Moment) {
        self.end_walsenders(Code::ServerUnreachable);
        self.connections.retain(|connection| !connection.is_abandoned);
        self.history.abort_all();
        if let Some(slot) = &mut self.slot {
            slot.confirmed = slot.saved;
        }
        self.starts += 1;
        self.phase = Phase::Down { until };
    }

    /// The wire of a connection, from the router's end.
    pub fn wire(&mut self, id: u64) -> Option<&mut VecDeque<Wire>> {
        self.connection(id).filter(|one| !one.is_swallowed).map(|connection| &mut connection.wire)
    }
}
