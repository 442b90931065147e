//! What exchanges a server's past for another: a promoted standby, a backup or a snapshot that was
//! restored, another cluster. In every case the connections are gone, and the server is away for a
//! moment.

use relay::{Code, Moment, source::TimelineHistory, witness::History as Identity};

use super::{Phase, Postgres, Slot, past::Past};
use crate::{history::History, random::Random};

/// What becomes of the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotFate {
    /// It is as it was then, or somewhat behind.
    Kept,
    /// There is none.
    Gone,
}

/// Which timeline the server goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeline {
    /// The same: nothing says that it was taken back.
    Same,
    /// The next.
    Next,
}

impl Postgres {
    /// Remembers the present moment, and where the slot stands on disk.
    pub(super) fn remember(&mut self) {
        if let Some(slot) = self.slot {
            self.past.push(Past { end_of_wal: self.history.end_of_wal, saved: slot.saved });
        }
    }

    /// Some moment of the past: the end of its WAL.
    pub fn some_past(&self, random: &mut Random) -> Option<u64> {
        if self.past.is_empty() {
            return None;
        }
        Some(self.past[random.index(self.past.len())].end_of_wal)
    }

    /// The end of one of the last transactions, or the end of WAL.
    pub fn some_late_position(&self, random: &mut Random) -> u64 {
        let transactions = &self.history.transactions;
        let back = random.index(6);
        match transactions.len().checked_sub(back) {
            Some(place) if back > 0 => transactions[place].commit_lsn,
            Some(_) | None => self.history.end_of_wal,
        }
    }

    /// Everything past a position is forgotten, or nothing where it is the end.
    pub fn go_back(&mut self, to: u64, slot: SlotFate, timeline: Timeline, until: Moment) {
        self.go_away(until);
        self.slot = match (slot, timeline) {
            (SlotFate::Gone, _) => None,
            // A standby's copy stands where the primary's was saved, and no further than its WAL.
            (SlotFate::Kept, Timeline::Next) => self.slot.map(|slot| Slot {
                confirmed: slot.saved.min(to),
                saved: slot.saved.min(to),
                ..slot
            }),
            (SlotFate::Kept, Timeline::Same) => {
                let past = self.past.iter().filter(|past| past.end_of_wal <= to);
                past.map(|past| past.saved).max().map(|saved| Slot::at(saved.min(to)))
            }
        };
        // A state from before a promotion is on the timeline from before it, and so is a standby
        // that has not followed it.
        let latest = self.identity.timeline;
        while let Some((timeline, _)) = self.timelines.pop_if(|(_, left)| *left > to) {
            self.identity.timeline = timeline;
        }
        if timeline == Timeline::Next {
            self.timelines.push((self.identity.timeline, to));
            self.identity.timeline = latest + 1;
        }
        if to < self.history.end_of_wal {
            self.epoch += 1;
            self.history.cut(to);
        }
        self.past.retain(|past| past.end_of_wal <= to);
        self.peak = self.peak.min(to);
    }

    /// Another cluster bears the name: nothing of the old is in it. Somebody has made slot and
    /// publication there.
    pub fn exchange(&mut self, random: &mut Random, until: Moment) {
        self.go_away(until);
        let end = self.start + 8 * random.below(300);
        self.history.cut(0);
        self.history.end_of_wal = end;
        let number = self.identity.system_id.parse::<u64>().expect("a number") + 1;
        self.identity = Identity { system_id: number.to_string(), timeline: 1 };
        self.timelines.clear();
        self.past.clear();
        self.epoch += 1;
        self.start = end;
        self.peak = end;
        self.slot = Some(Slot::at(end));
        self.publication_oid += 100;
        self.entry_oid += 100;
    }

    fn go_away(&mut self, until: Moment) {
        self.end_walsenders(Code::ServerUnreachable);
        self.connections.retain(|connection| !connection.is_abandoned);
        self.history.abort_all();
        self.undecodable = None;
        self.starts += 1;
        self.phase = Phase::Down { until };
    }

    /// The history of the present timeline, as the server tells it.
    pub fn timelines(&self) -> TimelineHistory {
        let line = |(timeline, left): &(u32, u64)| {
            format!("{timeline}\t{}\tno recovery target specified\n", relay::Lsn::from_u64(*left))
        };
        let text: String = self.timelines.iter().map(line).collect();
        TimelineHistory::parse(&text).expect("as PostgreSQL writes it")
    }
}

impl History {
    /// Forgets what ends past a position. Its events stay, as not real: Kafka may have them.
    fn cut(&mut self, position: u64) {
        let kept = self.ended_by(position);
        self.transactions.truncate(kept);
        self.end_of_wal = position;
        for event in &mut self.events {
            event.is_real &= event.transaction < kept;
        }
        self.count_anew();
    }
}
