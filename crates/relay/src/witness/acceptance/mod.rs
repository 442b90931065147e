//! How a pipeline's record begins, and how a person's acceptance changes it.
//!
//! By accepting a gap a person says that what is missing is known, and that the router may continue
//! from the present state. So the record of an acceptance is a complete baseline of the present
//! state. If it kept position or catalog from before the gap, the next start would find the same
//! gap again; if it had neither, a slot that is moved between the acceptance and the next start
//! would not be noticed.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use pgoutput::{Lsn, Oid, PgTimestamp};

use super::{ACCEPTED_MAX, Acceptance, Former, LastTransaction, LostTopic, Notes, Witness};
use crate::{
    delivered::{
        EventsSince, OlderRows,
        compared::{ClosedGap, Unproved},
    },
    failure::{Code, Failure},
    held::TableMark,
    routing::table::Outboxes,
    source::{Baseline, Catalog, Gap, Mark},
};

/// Whether a record was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    No,
    Yes,
}

/// Something in a record that a person has to accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenFinding {
    /// Rows may be missing.
    Gap(Gap),
    /// The pipeline began here without a witness.
    Beginning(Mark),
    /// A topic is gone with its records.
    Topic(LostTopic),
}

impl OpenFinding {
    /// The gap's code, or [`Code::WitnessMissing`] for a beginning, or [`Code::TopicLost`].
    pub fn code(&self) -> Code {
        match self {
            Self::Gap(gap) => gap.failure.code,
            Self::Beginning(_) => Code::WitnessMissing,
            Self::Topic(_) => Code::TopicLost,
        }
    }

    /// Where it begins.
    pub fn lsn(&self) -> Lsn {
        match self {
            Self::Gap(gap) => gap.interval.begins_at(),
            Self::Beginning(mark) => mark.lsn,
            Self::Topic(lost) => lost.noticed.lsn,
        }
    }

    /// How a person names it: `CODE@LSN`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.code(), self.lsn())
    }

    fn accepted(&self, by: &str, at: &str, generation: u64) -> Acceptance {
        Acceptance {
            code: self.code().to_string(),
            lsn: self.lsn(),
            by: by.to_owned(),
            at: at.to_owned(),
            generation,
            recovered: None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.code() == other.code() && self.lsn() == other.lsn()
    }
}

impl Acceptance {
    /// How a person names it: `CODE@LSN`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.code, self.lsn)
    }
}

impl Witness {
    /// The first record of a pipeline: the source as it is now, without partition counts, gaps or a
    /// last transaction.
    #[must_use]
    pub fn begin(baseline: &Baseline, cluster: &str, outboxes: &Outboxes) -> Self {
        let mut begun = Self {
            held: Some(baseline.moment),
            history: Some(baseline.server.history.clone()),
            cluster: cluster.to_owned(),
            horizon: baseline.slot.horizon(),
            checked: Some(baseline.checked.clone()),
            tables: baseline.catalog.outbox_tables(outboxes),
            catalog: baseline.catalog.recorded(),
            ..Self::at(baseline.confirmed())
        };
        begun.know_since(&baseline.catalog);
        begun
    }

    /// What a person has to accept, the gaps first.
    pub fn open_findings(&self) -> Vec<OpenFinding> {
        let gaps = self.gaps.iter().cloned().map(OpenFinding::Gap);
        let topics = self.open_topics().iter().cloned().map(OpenFinding::Topic);
        gaps.chain(self.began_without.clone().map(OpenFinding::Beginning)).chain(topics).collect()
    }

    /// Checks that a stream which starts from this baseline would be complete once `closed` is
    /// accepted. A baseline shows that the publication is right now, but not since when: WAL from
    /// before the publication was created is decoded without it.
    ///
    /// # Errors
    /// [`Code::PublicationReplaced`]: the slot still stands before the publication was re-created.
    pub fn may_accept(&self, closed: &[OpenFinding], baseline: &Baseline) -> Result<(), Failure> {
        let is_remade = |open: &&OpenFinding| {
            matches!(open.code(), Code::PublicationMissing | Code::PublicationReplaced)
        };
        // Positions of another history are not comparable, and its slot is another slot, too.
        if self.history.as_ref() != Some(&baseline.server.history) {
            return Ok(());
        }
        let found_at = closed.iter().filter(is_remade).filter_map(|open| match open {
            OpenFinding::Gap(gap) => Some(gap.interval.to.lsn),
            OpenFinding::Beginning(_) | OpenFinding::Topic(_) => None,
        });
        let (confirmed, Some(found_at)) = (baseline.confirmed(), found_at.max()) else {
            return Ok(());
        };
        if confirmed > found_at {
            return Ok(());
        }
        Err(Failure::new(
            Code::PublicationReplaced,
            format!(
                "the slot stands at {confirmed}, and at {found_at} the publication was not yet as it \
                 is now: WAL is decoded with the publications of its time, so this slot sends \
                 nothing, or not all"
            ),
        ))
    }

    /// The next generation of this record, with the baseline of `fresh`. What a person has accepted
    /// (`closed`) is no longer open in it; everything else that was open stays open.
    #[must_use]
    pub fn accept(&self, closed: &[OpenFinding], fresh: Self, by: &str) -> Self {
        let at = fresh.checked.as_ref().and_then(|checked| checked.at.clone()).unwrap_or_default();
        let system = |record: &Self| record.history.as_ref().map(|it| it.system_id.clone());
        let is_same_system = system(self) == system(&fresh);
        // Tables that were outboxes and are not configured any more stay in the record: the next
        // session reports them. On another server their OIDs are of other tables.
        let is_unconfigured = |oid: &&Oid| is_same_system && !fresh.tables.contains(oid);
        let unconfigured = self.tables.iter().filter(is_unconfigured);
        let tables = fresh.tables.iter().chain(unconfigured).copied().collect();
        let is_of_cluster = |open: &OpenFinding| open.code() == Code::ClusterChanged;
        let is_same_cluster = (fresh.cluster.is_empty() || fresh.cluster == self.cluster)
            && !closed.iter().any(is_of_cluster);
        // What was delivered before stays so; what is accepted was given up, or sent by now. The
        // ids of another server are no ids of this one, and in another Kafka nothing says which
        // rows it has: they are older than the events of this generation, and stay.
        let mut since = Arc::clone(&fresh.since);
        let mut detached = BTreeMap::new();
        if is_same_system && is_same_cluster {
            // Of a table that is no outbox now, what is written until it is one again is in no
            // stream: its rows are events from then on.
            let known = self.since_by(&fresh.catalog);
            let known = known.iter().filter(|(place, _)| fresh.since.contains_key(place));
            Arc::make_mut(&mut since).extend(known);
        }
        if is_same_system {
            let read_at = fresh.held.map(|held| held.wal_end);
            detached = self.detached_in(&fresh.catalog, read_at);
        }
        // Positions of another history say nothing, and a person has accepted what a restored
        // server lacks.
        let has_notes = self.history == fresh.history && !closed.iter().any(is_of_history);
        let mut next = Self {
            since,
            last: self.last.filter(|last| self.continues_in(closed, &fresh, last)),
            generation: self.generation + 1,
            partitions: self.partitions.clone(),
            // In another cluster every topic has another id, and no event of before is there.
            topics: if is_same_cluster { self.topics.clone() } else { BTreeMap::new() },
            lost_topics: if is_same_cluster { self.lost_topics.clone() } else { Vec::new() },
            gaps: self.gaps.clone(),
            accepted: self.accepted.clone(),
            began_without: self.began_without.clone(),
            former: if is_same_system { self.replaced_by(&fresh) } else { BTreeMap::new() },
            detached,
            // Only a session reads the table, so nothing else that is accepted says what it lacks.
            held_table: if closed.iter().any(is_of_held_table) {
                TableMark::default()
            } else {
                self.held_table
            },
            // No acceptance says that the table is not needed any more.
            notes: if has_notes { self.notes } else { self.notes.elsewhere() },
            tables,
            ..fresh
        };
        next.close(closed, by, &at);
        next
    }

    /// This record, which says what was sent of the rows of the gaps that its acceptance closed.
    /// Rows that nothing shows to be delivered are from before the events of their tables, which
    /// are as in `now`.
    #[must_use]
    pub fn with_recovered(mut self, closed: &ClosedGap, now: &Catalog) -> Self {
        let since = Arc::make_mut(&mut self.since);
        for Unproved { table, until } in closed.unproved() {
            let Some(table) = now.named(table) else { continue };
            // What is finer than a millisecond is cut off.
            let until = until.map(|until| (until.millis() + 1).saturating_mul(1_000));
            let read_at = now.next.as_ref().map(|next| next.at);
            let at = until.map(PgTimestamp::from_unix_micros).or(read_at);
            for place in table.places() {
                let Entry::Occupied(mut known) = since.entry(place) else { continue };
                match at {
                    Some(at) => {
                        let older = Some(OlderRows { at, by: table.age });
                        let later = EventsSince { older, ..EventsSince::FIRST_ROW };
                        *known.get_mut() = known.get().and(later);
                    }
                    None => drop(known.remove()),
                }
            }
        }
        let recovered = closed.recovered();
        let generation = self.generation;
        let last = self.accepted.iter_mut().filter(|one| one.generation == generation);
        last.for_each(|acceptance| acceptance.recovered = Some(recovered));
        self
    }

    /// This record with the notes that the database has; `None`: there is no table of rows that
    /// were left out, and what was known stays.
    #[must_use]
    pub fn with_notes(mut self, notes: Option<Notes>) -> Self {
        if let Some(notes) = notes {
            let any_left_out = notes.any_left_out;
            self.notes = Notes { any_left_out, ..self.notes.and(notes) };
        }
        self
    }

    /// A record that says no more than that there are notes, to be combined with this one and with
    /// those of a router that runs now; `None` where this one says so.
    #[must_use]
    pub fn noting(&self, notes: Notes) -> Option<Self> {
        let generation = self.generation;
        (self.notes.and(notes) != self.notes).then(|| Self {
            generation,
            notes,
            ..Self::at(Lsn::ZERO)
        })
    }

    /// Takes over from another record of the same generation which notes there are.
    pub(super) fn learn_notes(&mut self, other: &Self) -> Changed {
        let known = self.notes;
        self.notes = known.and(other.notes);
        if known == self.notes { Changed::No } else { Changed::Yes }
    }

    /// This record after a person has accepted something that stops nothing: that the pipeline
    /// began without a witness, or that a topic is gone. Its generation stays the same, so that it
    /// is combined with the records of a router that is running now.
    #[must_use]
    pub fn accept_notes(&self, closed: &[OpenFinding], by: &str, at: &str) -> Self {
        let mut next = self.clone();
        next.close(closed, by, at);
        next
    }

    /// This record with gaps that were found and are not in it yet. A gap is left out if a recorded
    /// gap covers it, or has the same name and the same message. The name alone does not suffice:
    /// gaps of several tables that begin at the same reading have the same name. So a defect that
    /// is half repaired, and has another message now, is shown twice. The interval of a defect that
    /// leaves rows out is extended to `now`.
    #[must_use]
    pub fn with_found(&self, found: &[Gap], now: &Mark) -> Self {
        let is_known = |gap: &Gap| {
            self.gaps.iter().any(|open| {
                open.covers(gap)
                    || (open.is_same(gap)
                        && open.message_without_interval() == gap.message_without_interval())
            })
        };
        let is_new = |gap: &&Gap| !is_known(gap);
        let mut next = self.clone();
        next.gaps.iter_mut().for_each(|gap| gap.lasted_until(now));
        next.gaps.extend(found.iter().filter(is_new).cloned());
        next
    }

    /// Outboxes of this record whose names other tables have in `fresh`: the slot may have rows of
    /// both.
    fn replaced_by(&self, fresh: &Self) -> BTreeMap<u32, Former> {
        let until = fresh.held.map_or(fresh.position, |held| held.wal_end);
        let is_gone = |oid: &&Oid| !fresh.tables.contains(oid);
        let gone = self.tables.iter().filter(is_gone).filter_map(|oid| {
            let relation = self.catalog.with_oid(*oid)?;
            let table = relation.formerly.first().unwrap_or(&relation.name).clone();
            let successor =
                fresh.catalog.named(&table).filter(|successor| successor.oid != *oid)?.oid;
            Some((oid.as_u32(), Former { table, successor, until }))
        });
        // Tables that were replaced earlier keep their position.
        let before = self.former.iter().filter(|(_, former)| former.until > fresh.position);
        gone.chain(before.map(|(oid, former)| (*oid, former.clone()))).collect()
    }

    /// Whether the last transaction of this record is also the last before the position of `fresh`:
    /// the server and Kafka are the same, and the slot was not replaced meanwhile.
    fn continues_in(&self, closed: &[OpenFinding], fresh: &Self, last: &LastTransaction) -> bool {
        let is_of_table = |open: &OpenFinding| match open {
            OpenFinding::Gap(gap) => gap.leaves_rows_out(),
            OpenFinding::Beginning(_) | OpenFinding::Topic(_) => true,
        };
        (&self.history, &self.cluster) == (&fresh.history, &fresh.cluster)
            && (last.end_lsn..=self.position).contains(&fresh.position)
            // Rows of a table that became an outbox later were no events before that, and the
            // record of `fresh` does not say so.
            && self.added.is_empty()
            && fresh.tables.iter().all(|table| self.tables.contains(table))
            && closed.iter().chain(&self.open_findings()).all(is_of_table)
    }

    fn close(&mut self, closed: &[OpenFinding], by: &str, at: &str) {
        let is_closed = |open: &OpenFinding| closed.iter().any(|closed| closed.is_same(open));
        self.gaps.retain(|gap| !is_closed(&OpenFinding::Gap(gap.clone())));
        self.began_without.take_if(|mark| is_closed(&OpenFinding::Beginning(mark.clone())));
        self.lost_topics.retain(|lost| !is_closed(&OpenFinding::Topic(lost.clone())));
        let accepted: Vec<Acceptance> =
            closed.iter().map(|open| open.accepted(by, at, self.generation)).collect();
        self.note_accepted(&accepted);
    }

    /// Takes over the acceptances of another record of the same generation.
    pub(super) fn take_over_acceptances(&mut self, other: &Self) -> Changed {
        let known = self.accepted.len();
        self.note_accepted(&other.accepted);
        let accepted = &self.accepted;
        self.began_without.take_if(|mark| {
            let name = OpenFinding::Beginning(mark.clone()).name();
            accepted.iter().any(|acceptance| acceptance.name() == name)
        });
        self.drop_accepted_topics();
        if self.accepted.len() == known { Changed::No } else { Changed::Yes }
    }

    /// Removes gaps that a person has accepted in this generation: a router may write a gap down
    /// after a person has already accepted it.
    pub(super) fn drop_accepted_gaps(&mut self) {
        let (generation, accepted) = (self.generation, &self.accepted);
        self.gaps.retain(|gap| {
            let closes =
                |one: &Acceptance| one.generation == generation && one.name() == gap.name();
            !accepted.iter().any(closes)
        });
    }

    fn note_accepted(&mut self, more: &[Acceptance]) {
        for acceptance in more {
            if !self.accepted.contains(acceptance) {
                self.accepted.push(acceptance.clone());
            }
        }
        let surplus = self.accepted.len().saturating_sub(ACCEPTED_MAX);
        self.accepted.drain(..surplus);
    }
}

fn is_of_history(open: &OpenFinding) -> bool {
    open.code() == Code::HistoryChanged
}

fn is_of_held_table(open: &OpenFinding) -> bool {
    open.code() == Code::HeldTableBehind
}

#[cfg(test)]
mod tests;
