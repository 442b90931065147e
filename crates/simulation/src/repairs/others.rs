//! The commands `accept` and `replay`.

use relay::source::SlotHealth;

use super::{
    database::{Fit, HeldState, Row, Switched},
    facts::Facts,
    pipeline::Record,
    site::Site,
    step::{Done, Step},
};
use crate::random::Random;

/// How many topics there are, with those to which no table's rows go.
const TOPICS: u64 = 6;

/// `accept`: reads, asks, and writes.
#[derive(Debug, Default)]
pub struct Accept {
    shown: Option<Facts>,
}

impl Accept {
    /// The next step.
    pub fn step(&mut self, site: &mut Site) -> Step {
        let Some(facts) = site.facts(None) else { return Step::Ends("accept: no witness") };
        if site.database.switched != Switched::Streamed {
            return Step::Ends("accept: switched");
        }
        let open = facts.witness.open_findings();
        let is_held = facts.reading.slot.slot.as_ref().is_some_and(SlotHealth::is_active);
        if open.is_empty() || is_held {
            return Step::Ends("accept: nothing to accept");
        }
        let Some(shown) = self.shown.take() else {
            self.shown = Some(facts);
            return Step::Goes;
        };
        if shown.witness.open_findings() != open {
            return Step::Ends("accept: other gaps");
        }
        let Some(next) = facts.closed(&site.setup, &open, "ann") else {
            return Step::Ends("accept: no stream could start");
        };
        site.pipeline.witness = Some(next);
        site.pipeline.is_restored = false;
        Step::Done(Done::Accepted)
    }
}

/// `replay`: some rows become records again.
#[derive(Debug)]
pub struct Replay {
    number: u32,
    rows: Option<Vec<Row>>,
    /// `--to-topic`.
    to: Option<u8>,
    has_marker: bool,
}

impl Replay {
    /// A run that begins.
    pub fn new(number: u32, random: &mut Random) -> Self {
        let other = u8::try_from(random.below(TOPICS)).expect("few topics");
        let to = random.one_in(2).then_some(other);
        Self { number, rows: None, to, has_marker: !random.one_in(5) }
    }

    /// The next step.
    pub fn step(&mut self, site: &mut Site, random: &mut Random) -> Step {
        let Some(rows) = &mut self.rows else {
            if site.database.lock.is_some() || site.database.hides {
                return Step::Ends("replay: refused");
            }
            site.database.lock = Some(self.number);
            self.rows = Some(selected(site, random));
            return Step::Goes;
        };
        let Some(row) = rows.pop() else { return Step::Ends("replay: complete") };
        let topic = self.to.unwrap_or(row.topic);
        site.pipeline.is_mixed |= topic != row.topic && !self.has_marker;
        let Row { id, row, .. } = row;
        site.pipeline.records.push(Record { topic, id, row, is_copy: self.has_marker });
        Step::Did(if self.to.is_some() { "replayed elsewhere" } else { "replayed" })
    }
}

/// Rows of a table that can become records, but for those that are held.
fn selected(site: &Site, random: &mut Random) -> Vec<Row> {
    let table = random.index(site.setup.shapes.len());
    let held = &site.database.held;
    let is_held = |row: &Row| {
        held.iter().any(|held| held.state != HeldState::Delivered && held.row.row == row.row)
    };
    let rows: Vec<Row> = site.database.rows_of(table).copied().collect();
    let latest = rows.into_iter().rev().take(8).filter(|row| row.fit == Fit::Fine);
    latest.filter(|row| !is_held(row) && random.one_in(2)).collect()
}
