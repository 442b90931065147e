//! Whether a stream may start: everything that must be true before `START_REPLICATION`, where a wrong answer has a code
//! and a remedy. Nothing that is wrong is ever mended by the router itself.

use super::{
    baseline::{Baseline, Expectations, Server},
    catalog::Catalog,
    gap::{Gap, Interval, Mark},
    publication::{Watched, compare, is_note},
    slot::{SlotHealth, SlotLook},
    tables::TableOids,
    verdict,
};
use crate::failure::{Class, Code, Failure};

/// Why streaming may not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Another process streams from the slot: stand by.
    SlotInUse {
        /// Its walsender.
        pid: i32,
    },
    /// Rows may be missing.
    Gap(Box<Gap>),
    /// Something else is wrong.
    Failed(Failure),
}

impl From<Failure> for Obstacle {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Judges everything, in the order in which a person would have to mend it.
///
/// # Errors
/// The first thing that is wrong. A defect that leaves rows out names the interval at risk.
pub fn judge(
    expected: &Expectations,
    server: Server,
    look: &SlotLook,
    catalog: Catalog,
) -> Result<Baseline, Obstacle> {
    let slot = judge_slot(expected, look)?;
    let remembered = expected.earlier.as_ref().map(|earlier| &earlier.catalog);
    let watched = Watched { publication: &expected.publication, outboxes: &expected.outboxes };
    if let Some(failure) =
        compare(watched, remembered, &catalog).into_iter().find(|failure| !is_note(failure))
    {
        // At the first look, what the slot itself remembers is the last that is safe.
        let from = match &expected.earlier {
            Some(earlier) => Some(earlier.checked.clone()),
            // A child that was there before anybody looked has never been part of what was promised.
            None if failure.code == Code::TableInherited => None,
            None => slot.confirmed_flush_lsn.map(|lsn| Mark { lsn, at: None }),
        };
        return Err(at_risk(failure, from, look.mark()));
    }
    // Last, so that a standby hears of a defect before the holder dies of it.
    if let Some(pid) = slot.active_pid {
        return Err(Obstacle::SlotInUse { pid });
    }
    Ok(Baseline {
        server,
        slot: slot.clone(),
        tables: TableOids::of(&expected.outboxes, &catalog, remembered),
        catalog: catalog.remember(&expected.outboxes, remembered),
        checked: look.mark(),
    })
}

/// The part of [`judge()`] that needs no catalog: what is wrong with the slot can be told while the catalog cannot be
/// read, since somebody has locked a table.
///
/// # Errors
/// The slot is not fit, or stands, held by nobody, elsewhere than where this process left it.
pub fn judge_slot<'l>(
    expected: &Expectations,
    look: &'l SlotLook,
) -> Result<&'l SlotHealth, Obstacle> {
    // The position is the last that is safe; the time is that of the last look, which was no later.
    let ours = || {
        let earlier = expected.earlier.as_ref()?;
        let lsn = expected.confirmed.unwrap_or_else(|| earlier.confirmed());
        Some(Mark { lsn, at: earlier.checked.at.clone() })
    };
    let slot = verdict::fit(&expected.slot, look).map_err(|failure| {
        // A lost slot still knows what was confirmed to it, if only that.
        let remembered = || {
            let slot = look.slot.as_ref().filter(|_| failure.code == Code::SlotLost)?;
            Some(Mark { lsn: slot.confirmed_flush_lsn?, at: None })
        };
        let from = ours().or_else(remembered);
        at_risk(failure, from, look.mark())
    })?;
    if let Some(furthest) = expected.furthest {
        let end = look.current_wal_lsn;
        verdict::same_history(&expected.slot, furthest, end).map_err(|failure| {
            Obstacle::Gap(Box::new(Gap::of_another_history(failure, end, furthest)))
        })?;
    }
    // While another process holds it, it stands where that one has brought it.
    if let Some(left) = expected.confirmed.filter(|_| !slot.is_active()) {
        verdict::unmoved(&expected.slot, left, slot)
            .map_err(|failure| at_risk(failure, ours(), look.mark()))?;
    }
    Ok(slot)
}

/// Names the interval, where rows are at risk and something was well before.
fn at_risk(failure: Failure, from: Option<Mark>, to: Mark) -> Obstacle {
    match (failure.class(), from) {
        (Class::Gap, from @ Some(_)) => {
            Obstacle::Gap(Box::new(Gap::new(failure, Interval { from, to })))
        }
        (Class::Gap | Class::Mendable | Class::Replay | Class::Transport, _) => {
            Obstacle::Failed(failure)
        }
    }
}

#[cfg(test)]
mod tests;
