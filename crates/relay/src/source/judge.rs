//! Whether a stream may start: everything that must be true before `START_REPLICATION`, where a wrong answer has a code
//! and a remedy. Nothing that is wrong is ever mended by the router itself.

use super::{
    baseline::{Baseline, Expectations, Kept, Server},
    catalog::Catalog,
    gap::{Gap, Interval, Mark},
    publication::{Watched, alterations, compare, is_note},
    slot::{SlotHealth, SlotLook},
    tables::TableOids,
    verdict,
};
use crate::{
    failure::{Class, Code, Failure},
    witness::Witness,
};

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

/// Judges everything that [`super::history::continues`] has not, in the order in which a person would have to mend it.
///
/// # Errors
/// The first thing that is wrong. A defect that leaves rows out names the interval at risk.
pub fn judge(
    expected: Expectations<'_>,
    server: Server,
    look: &SlotLook,
    catalog: Catalog,
) -> Result<Baseline, Obstacle> {
    let slot = judge_slot(expected, look)?;
    // A gap that is accepted before anything was judged leaves a catalog without a publication: there is nothing to compare.
    let remembered = expected
        .witness
        .map(|witness| &witness.catalog)
        .filter(|catalog| catalog.publication.is_some());
    let watched = Watched { publication: expected.publication, outboxes: expected.outboxes };
    let defects = compare(watched, remembered, &catalog);
    if let Some(failure) = defects.into_iter().find(|failure| !is_note(failure)) {
        // Without a witness, what the slot itself remembers is the last that is safe.
        let from = match expected.witness.and_then(|witness| witness.checked.clone()) {
            Some(checked) => Some(checked),
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
    let seen = expected.witness.and_then(|witness| witness.checked.clone());
    let between = Interval { from: seen, to: look.mark() };
    Ok(Baseline {
        server,
        alterations: remembered.map_or_else(Vec::new, |before| {
            alterations(before, &catalog, expected.publication, &between)
        }),
        slot: slot.clone(),
        tables: TableOids::of(expected.outboxes, &catalog, remembered),
        catalog: catalog.remember(expected.outboxes, remembered),
        checked: look.mark(),
    })
}

/// Whether the records that the witness speaks of are in this Kafka cluster.
///
/// # Errors
/// They are in another.
pub fn judge_cluster(witness: &Witness, cluster: &str) -> Result<(), Obstacle> {
    // A command that could not ask, or a gap before the first connection, names none.
    if witness.cluster.is_empty() || cluster.is_empty() || witness.cluster == cluster {
        return Ok(());
    }
    let failure = Failure::new(
        Code::ClusterChanged,
        format!(
            "this is kafka cluster {cluster}, and the acknowledged events are in cluster {}",
            witness.cluster
        ),
    )
    .hint(
        "point kafka.bootstrap_servers at that cluster, or see that the events were copied here, \
         then outbox-router accept",
    );
    let to = Mark { lsn: witness.position, at: witness.checked_at() };
    Err(Obstacle::Gap(Box::new(Gap::new(failure, Interval { from: None, to }))))
}

/// The part of [`judge()`] that needs no catalog: what is wrong with the slot can be told while the catalog cannot be
/// read, since somebody has locked a table.
///
/// # Errors
/// The slot is not fit, or stands, held by nobody, past what is acknowledged.
pub fn judge_slot<'l>(
    expected: Expectations<'_>,
    look: &'l SlotLook,
) -> Result<&'l SlotHealth, Obstacle> {
    // The position is the last that is safe; the time is that of the last look, which was no later.
    let ours = || {
        let witness = expected.witness?;
        Some(Mark { lsn: witness.position, at: witness.checked_at() })
    };
    let slot = verdict::fit(expected.slot, look).map_err(|failure| {
        // A lost slot still knows what was confirmed to it, if only that.
        let remembered = || {
            let slot = look.slot.as_ref().filter(|_| failure.code == Code::SlotLost)?;
            Some(Mark { lsn: slot.confirmed_flush_lsn?, at: None })
        };
        let from = ours().or_else(remembered);
        at_risk(failure, from, look.mark())
    })?;
    // While another process holds it, it stands where that one has brought it.
    if let Some(witness) = expected.witness.filter(|_| !slot.is_active())
        && expected.kept == Kept::InKafka
    {
        verdict::unmoved(expected.slot, witness.position, slot)
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
