//! What replaces a server's history by another: a promoted standby, a restored backup or snapshot,
//! another database cluster. Each of them ends all connections, and the server is down for a
//! moment.

use relay::{
    Code, Moment,
    source::{History, TimelineHistory},
};

use super::{ServerPhase, SimulatedPostgres, SimulatedSlot, restore_point::RestorePoint};
use crate::{
    history::{CommitHistory, NamedStandby},
    random::Random,
};

/// What happens to the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoredSlot {
    /// It is as it was at that moment, or somewhat behind.
    Kept,
    /// There is no slot.
    Missing,
}

/// Which timeline the server continues with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoredTimeline {
    /// The same timeline: nothing shows that the server was taken back.
    Same,
    /// The next timeline.
    Next,
}

impl SimulatedPostgres {
    /// Records the present end of WAL and the saved slot, as a moment that the server may be taken
    /// back to.
    pub(super) fn add_restore_point(&mut self) {
        if let Some(slot) = self.slot {
            self.restore_points
                .push(RestorePoint { end_of_wal: self.history.end_of_wal, saved: slot.saved });
        }
    }

    /// The end of WAL at some earlier moment.
    pub fn some_restore_point(&self, random: &mut Random) -> Option<u64> {
        if self.restore_points.is_empty() {
            return None;
        }
        Some(self.restore_points[random.index(self.restore_points.len())].end_of_wal)
    }

    /// The end of one of the last transactions, or the end of WAL.
    pub fn some_recent_position(&self, random: &mut Random) -> u64 {
        let transactions = &self.history.transactions;
        let back = random.index(6);
        match transactions.len().checked_sub(back) {
            Some(index) if back > 0 => transactions[index].commit_lsn,
            Some(_) | None => self.history.end_of_wal,
        }
    }

    /// Removes everything past a position; nothing, if the position is the end of WAL.
    pub fn restore(
        &mut self,
        to: u64,
        slot: RestoredSlot,
        timeline: RestoredTimeline,
        until: Moment,
    ) {
        self.take_down(until);
        self.slot = match (slot, timeline) {
            (RestoredSlot::Missing, _) => None,
            // A standby's copy has the position at which the primary's slot was saved, and none
            // past the standby's WAL.
            (RestoredSlot::Kept, RestoredTimeline::Next) => self.slot.map(|slot| SimulatedSlot {
                confirmed: slot.saved.min(to),
                saved: slot.saved.min(to),
                ..slot
            }),
            (RestoredSlot::Kept, RestoredTimeline::Same) => {
                let past = self.restore_points.iter().filter(|past| past.end_of_wal <= to);
                past.map(|past| past.saved).max().map(|saved| SimulatedSlot::at(saved.min(to)))
            }
        };
        // A state from before a promotion is on the earlier timeline, and so is a standby that has
        // not followed the promotion.
        let latest = self.identity.timeline;
        while let Some((timeline, _)) = self.timelines.pop_if(|(_, left)| *left > to) {
            self.identity.timeline = timeline;
        }
        if timeline == RestoredTimeline::Next {
            self.timelines.push((self.identity.timeline, to));
            self.identity.timeline = latest + 1;
        }
        if to < self.history.end_of_wal {
            self.begin_epoch(to);
            self.restore_held_table(to);
        }
        self.restore_points.retain(|past| past.end_of_wal <= to);
        self.highest_confirmed = self.highest_confirmed.min(to);
    }

    /// Another database cluster takes the server's name: it has none of the old data. Somebody has
    /// created slot and publication there.
    pub fn replace_cluster(&mut self, random: &mut Random, until: Moment) {
        self.take_down(until);
        let end = self.start + 8 * random.below(300);
        self.begin_epoch(0);
        self.held.take_back(0);
        self.history.end_of_wal = end;
        if let Some(standby) = &mut self.history.standby {
            *standby = NamedStandby::at(end);
        }
        let number = self.identity.system_id.parse::<u64>().expect("a number") + 1;
        self.identity = History { system_id: number.to_string(), timeline: 1 };
        self.timelines.clear();
        self.restore_points.clear();
        self.start = end;
        self.highest_confirmed = end;
        self.slot = Some(SimulatedSlot::at(end));
        self.publication_oid += 100;
        self.entry_oid += 100;
    }

    fn begin_epoch(&mut self, cut: u64) {
        self.epoch += 1;
        self.cuts.push(cut);
        self.history.cut(cut);
    }

    /// Up to which position the history of an epoch is also the present one's.
    pub fn common_with(&self, epoch: u64) -> u64 {
        let epoch = usize::try_from(epoch).expect("a few");
        self.cuts.iter().skip(epoch).copied().min().unwrap_or(u64::MAX)
    }

    fn take_down(&mut self, until: Moment) {
        self.end_walsenders(Code::ServerUnreachable);
        self.connections.retain(|connection| !connection.is_abandoned);
        self.history.abort_all();
        self.undecodable = None;
        self.starts += 1;
        self.phase = ServerPhase::Down { until };
    }

    /// Where the present timeline forked off the one before it.
    pub fn forked_at(&self) -> u64 {
        self.timelines.last().map_or(0, |(_, left)| *left)
    }

    /// The timeline history of the present timeline, as TIMELINE_HISTORY would return it.
    pub fn timelines(&self) -> TimelineHistory {
        let line = |(timeline, left): &(u32, u64)| {
            format!("{timeline}\t{}\tno recovery target specified\n", relay::Lsn::from_u64(*left))
        };
        let text: String = self.timelines.iter().map(line).collect();
        TimelineHistory::parse(&text).expect("as PostgreSQL writes it")
    }
}

impl CommitHistory {
    /// Removes the transactions that end past a position. Their events stay, as not real: Kafka may
    /// have them.
    fn cut(&mut self, position: u64) {
        let kept = self.ended_by(position);
        self.transactions.truncate(kept);
        self.end_of_wal = position;
        if let Some(standby) = &mut self.standby {
            *standby = NamedStandby::at(position);
        }
        for event in &mut self.events {
            event.is_real &= event.transaction < kept;
        }
        self.recount();
    }
}
