//! The pipeline around a server: a router that delivers in the order of commits, the witness, the
//! topic, and what persons decide. The core's own session is simulated in [`crate::world`]; here it
//! is as simple as its invariants let it be.

use std::collections::BTreeSet;

use relay::{
    Failure, Lsn, OutboxTable, Outboxes,
    delivered::FullXid,
    source::{
        Catalog, History, Inserts,
        publication::{Watched, compare},
    },
    witness::{LastTransaction, Witness},
};

use super::database::{Commit, Database, name_of, oid_of, time};

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is in a topic.
    Delivered,
    /// It cannot be, and is held.
    Held,
}

/// A router that streams.
#[derive(Debug, Clone)]
pub struct Process {
    /// The tables of its configuration.
    pub tables: BTreeSet<usize>,
    /// The server that it streams from.
    pub history: History,
    /// Everything before it is acknowledged.
    pub position: u64,
    /// The end of WAL when the publication was last as it must be.
    pub verified: u64,
    /// Its session has ended, and it does not know that yet.
    pub is_cut: bool,
}

/// The pipeline.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// The tables of the configuration, for the next router.
    pub tables: BTreeSet<usize>,
    /// The router, while one streams.
    pub process: Option<Process>,
    /// The record in the state topic.
    pub witness: Witness,
    /// Something is open that a person has to accept.
    pub is_open: bool,
    /// Ids of rows that are in a topic.
    pub topic: BTreeSet<u64>,
    /// Ids of rows whose events are open in the table of held events.
    pub held: BTreeSet<u64>,
    /// Ids of rows that a person gave up.
    pub given_up: BTreeSet<u64>,
}

impl Pipeline {
    /// As `setup` leaves it.
    pub fn set_up(database: &Database) -> Self {
        let mut pipeline = Self {
            tables: BTreeSet::from([super::database::PARTITIONED]),
            process: None,
            witness: Witness::at(database.slot_at().unwrap_or(Lsn::ZERO)),
            is_open: false,
            topic: BTreeSet::new(),
            held: BTreeSet::new(),
            given_up: BTreeSet::new(),
        };
        pipeline.read_source(database, database.catalog());
        pipeline
    }

    /// What a session or the monitor takes over from the catalog.
    fn read_source(&mut self, database: &Database, catalog: Catalog) {
        let tables = self.tables.iter().map(|table| oid_of(*table)).collect();
        self.witness.set_tables(tables, &catalog);
        self.witness.catalog = Catalog { next: None, altering: None, ..catalog };
        self.witness.history = Some(database.history.clone());
    }

    /// Whether nothing shows that the publication leaves rows of the tables out, or has since it
    /// was as `before`.
    pub fn is_published(&self, before: &Catalog, now: &Catalog) -> bool {
        let tables = self.tables.iter().map(|table| OutboxTable::with_defaults(name_of(*table)));
        let outboxes = Outboxes { tables: tables.collect(), ..Outboxes::default() };
        let watched = Watched { publication: "p", outboxes: &outboxes };
        compare(watched, Some(before), now).iter().all(Failure::is_note)
    }

    /// Starts a router, unless something is open or it finds a gap.
    pub fn start(&mut self, database: &Database) {
        if self.process.is_some() || self.is_open {
            return;
        }
        let position = self.witness.position.as_u64();
        let Some(slot) = database.slot else { return self.is_open = true };
        let is_same = self.witness.history.as_ref() == Some(&database.history);
        let sends_again = |last: &LastTransaction| {
            last.commit_lsn.as_u64() < slot
                || database.log.iter().any(|one| last_transaction(one) == *last)
        };
        // Between the witness's last transaction and its position there were no events.
        let after = self.witness.last.map_or(0, |last| last.end_lsn.as_u64()).max(slot);
        let is_other = |one: &Commit| {
            (after..position).contains(&one.at)
                && one.sent.iter().any(|row| self.tables.contains(&row.table))
        };
        let has_others = self.witness.last.is_some() && database.log.iter().any(is_other);
        let catalog = database.catalog();
        let is_whole = is_same
            && !has_others
            && slot <= position
            && position <= database.wal
            && self.witness.last.as_ref().is_none_or(sends_again)
            && self.is_published(&self.witness.catalog, &catalog);
        if !is_whole {
            return self.is_open = true;
        }
        self.read_source(database, catalog);
        // Without a last transaction nothing tells what comes again, so all of it is sent.
        let position = self.witness.last.map_or(slot, |_| position);
        self.witness.position = Lsn::from_u64(position);
        self.process = Some(Process {
            tables: self.tables.clone(),
            history: database.history.clone(),
            position,
            verified: 0,
            is_cut: false,
        });
    }

    /// Delivers the next transaction; what cannot be delivered is held.
    pub fn deliver(&mut self, database: &Database, fate: Fate) -> u64 {
        let Some(process) = self.process.as_mut().filter(|process| !process.is_cut) else {
            return 0;
        };
        let Some(commit) = database.log.iter().find(|commit| commit.at >= process.position) else {
            process.position = database.wal;
            return 0;
        };
        let events = commit.sent.iter().filter(|row| process.tables.contains(&row.table));
        let events: Vec<u64> = events.map(|row| row.id).collect();
        let place = match fate {
            Fate::Delivered => &mut self.topic,
            Fate::Held => &mut self.held,
        };
        place.extend(&events);
        process.position = commit.end;
        if !events.is_empty() {
            self.witness.last = Some(last_transaction(commit));
        }
        u64::try_from(events.len()).expect("few events")
    }

    /// The witness is written, and then the position confirmed.
    pub fn confirm(&mut self, database: &mut Database) {
        let Some(process) = self.process.as_ref().filter(|process| !process.is_cut) else {
            return;
        };
        self.witness.position = Lsn::from_u64(process.position);
        if database.slot.is_some() {
            database.slot = Some(process.position);
        }
    }

    /// The monitor reads the end of WAL, then the publication.
    pub fn monitor(&mut self, database: &Database) {
        let Some(process) = &self.process else { return };
        if process.is_cut {
            self.process = None;
            return;
        }
        let catalog = database.catalog();
        if !self.is_published(&self.witness.catalog, &catalog) {
            self.process = None;
            self.is_open = true;
            return;
        }
        let is_settled = catalog.is_settled();
        self.read_source(database, catalog);
        if let Some(process) = self.process.as_mut().filter(|_| is_settled) {
            process.verified = database.wal;
        }
    }

    /// A person accepts what is open: all that exists and is in no topic is given up. The slot is
    /// made where it is missing, which waits for the transactions that run.
    pub fn accept(&mut self, database: &mut Database) -> bool {
        if !self.is_open || !database.running.is_empty() || database.altering.is_some() {
            return false;
        }
        let slot = database.slot.unwrap_or(database.wal);
        database.publication.inserts = Inserts::Published;
        for table in &self.tables {
            // Added again, where it was taken out.
            let entry = database.wal + 1;
            database.published.entry(*table).or_insert(entry);
        }
        database.slot = Some(slot);
        let lost = database.rows.iter().map(|row| row.id);
        self.given_up.extend(lost.filter(|id| !self.topic.contains(id) && !self.held.contains(id)));
        self.is_open = false;
        self.witness.position = Lsn::from_u64(slot);
        self.witness.last = None;
        self.read_source(database, database.catalog());
        true
    }
}

fn last_transaction(commit: &Commit) -> LastTransaction {
    LastTransaction {
        commit_lsn: Lsn::from_u64(commit.at),
        end_lsn: Lsn::from_u64(commit.end),
        xid: FullXid::from_u64(commit.xid).of_row(),
        committed_at: time(commit.clock),
    }
}
