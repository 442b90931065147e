//! Whether a stream may start: everything that must be true before `START_REPLICATION`. What is not
//! true is reported with a code and a remedy; the router repairs nothing itself.

use pgoutput::Lsn;

use super::{
    baseline::{Baseline, Expectations, PositionCheck},
    catalog::Catalog,
    gap::{Gap, Interval, Mark},
    history::{check_not_taken_back, continued},
    obstacle::Obstacle,
    publication::{Watched, alterations, compare},
    server::{Server, TimelineHistory},
    slot::{SlotHealth, SlotReading},
    slot_checks,
    tables::TableOids,
    unconfigured::unconfigured,
};
use crate::{
    failure::{Case, Class, Code, Failure},
    held::TableReading,
    witness::Witness,
};

/// Checks the slot and the catalog; [`super::history::continued`] has checked the server's history.
///
/// # Errors
/// [`Obstacle::Gaps`]: all defects that leave rows out, with the interval at risk. An acceptance
/// makes the present state the measure of what follows, so it must not come before all of them are
/// known. [`Obstacle::Failed`]: no gap, but another defect: the first in the order in which a
/// person would have to repair them. [`Obstacle::SlotInUse`]: no defect, but another process holds
/// the slot.
pub fn preflight(
    expected: Expectations<'_>,
    server: Server,
    reading: &SlotReading,
    catalog: Catalog,
) -> Result<Baseline, Obstacle> {
    let (checked_slot, mut gaps) = match check_slot(expected, reading) {
        Ok(slot) => (Some(slot), Vec::new()),
        Err(Obstacle::Gaps(gaps)) => (None, gaps),
        Err(obstacle) => return Err(obstacle),
    };
    // A gap that is accepted before the first preflight leaves a catalog without a publication:
    // there is nothing to compare with.
    let remembered = expected
        .witness
        .map(|witness| &witness.catalog)
        .filter(|catalog| catalog.publication.is_some());
    let watched = Watched { publication: expected.publication, outboxes: expected.outboxes };
    let mut failed = None;
    for failure in compare(watched, remembered, &catalog) {
        if failure.is_note() {
            continue;
        }
        let from = last_safe(expected, &failure, reading);
        match at_risk(failure, from, reading.mark()) {
            Ok(gap) => gaps.push(gap),
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    let slot = match (checked_slot, failed) {
        (Some(slot), None) if gaps.is_empty() => slot,
        (_, Some(failure)) if gaps.is_empty() => return Err(Obstacle::Failed(failure)),
        (Some(_) | None, _) => return Err(Obstacle::Gaps(gaps)),
    };
    // Checked last, so that a standby reports a defect although another process holds the slot.
    if let Some(pid) = slot.active_pid {
        return Err(Obstacle::SlotInUse { pid });
    }
    let checked = expected.witness.and_then(|witness| witness.checked.clone());
    let between = Interval { from: checked.clone(), to: reading.mark() };
    let tables = TableOids::of(expected.outboxes, &catalog, remembered);
    let slot_at = slot.confirmed_flush_lsn.unwrap_or(Lsn::ZERO);
    let tables = match expected.witness {
        Some(Witness { former, .. }) => tables.with_former(expected.outboxes, former, slot_at),
        None => tables,
    };
    let unconfigured =
        expected.witness.map(|witness| unconfigured(witness, expected.outboxes, &catalog, &tables));
    let altered =
        remembered.map(|before| alterations(before, &catalog, expected.publication, &between));
    // Without a witness, nothing before the slot's position is promised.
    let checked = match (catalog.is_settled(), checked) {
        (true, _) => reading.mark(),
        (false, Some(checked)) => checked,
        (false, None) => Mark { lsn: slot_at, at: None },
    };
    Ok(Baseline {
        server,
        alterations: altered.into_iter().chain(unconfigured).flatten().collect(),
        slot: slot.clone(),
        tables,
        catalog: catalog.remember(expected.outboxes, remembered),
        checked,
        moment: reading.moment(),
    })
}

/// The last moment at which a defect of the catalog was certainly not there; `None` if no such
/// moment is known.
fn last_safe(expected: Expectations<'_>, failure: &Failure, reading: &SlotReading) -> Option<Mark> {
    let checked = expected.witness.and_then(|witness| Some((witness, witness.checked.as_ref()?)));
    match checked {
        // WAL from before a publication was created is decoded without it. So a slot that stands
        // before that can no longer be used, and what it still has is at risk, too.
        Some((witness, _)) if failure.code.is_of_whole_publication() => Some(witness.mark()),
        // The slot still has what was written before the last preflight.
        Some((_, checked)) if checked.lsn <= reading.current_wal_lsn => Some(checked.clone()),
        // WAL is shorter than it was at the last preflight: that position is of another history.
        Some((witness, _)) => Some(witness.mark()),
        // A child that was there before the first session was never promised to be produced.
        None if failure.code == Code::TableInherited => None,
        // Without a witness the slot's own position is the last that is safe.
        None => {
            let lsn = reading.slot.as_ref()?.confirmed_flush_lsn?;
            Some(Mark { lsn, at: None })
        }
    }
}

/// The server and Kafka as they are now.
#[derive(Debug, Clone)]
pub struct Present<'a> {
    /// Kafka's cluster id; empty where nothing was read.
    pub cluster: &'a str,
    /// The server.
    pub server: Server,
    /// Its timelines.
    pub timelines: &'a TimelineHistory,
    /// The slot.
    pub reading: &'a SlotReading,
    /// Publication and tables.
    pub catalog: Catalog,
    /// The table of held events; `None` where there is none, or it cannot be read.
    pub held: Option<TableReading>,
}

/// Every gap that a router would find if it continued from this witness now. Other failures are
/// left out.
pub fn gaps_since(witness: &Witness, expected: Expectations<'_>, present: Present<'_>) -> Vec<Gap> {
    let Present { cluster, server, timelines, reading, catalog, held } = present;
    let mut gaps = check_cluster(witness, cluster).map_or_else(gaps_of, |()| Vec::new());
    // This gap was found by what the server sent; where the two histories diverged is not known.
    if witness.gaps.iter().any(|gap| gap.failure.code == Code::HistoryChanged) {
        gaps.extend(unsent(expected.slot, None, reading));
    }
    let (witness, position_check) = match continued(witness.clone(), &server, timelines) {
        Ok(witness) => match check_not_taken_back(&witness, reading) {
            Ok(()) => (witness, expected.position_check),
            Err(obstacle) => {
                gaps.extend(gaps_of(obstacle));
                (witness, PositionCheck::NotCompared)
            }
        },
        Err(obstacle) => {
            let diverged = gaps_of(obstacle);
            let from = diverged.first().and_then(|gap| gap.interval.from.clone());
            let unsent = unsent(expected.slot, from.filter(|from| from.lsn > Lsn::ZERO), reading);
            gaps.extend(diverged.into_iter().chain(unsent));
            // The slot's position cannot be compared with positions of the other history.
            (witness.clone(), PositionCheck::NotCompared)
        }
    };
    gaps.extend(held.and_then(|table| table.gap(witness.held_table, witness.mark())));
    let expected = Expectations { witness: Some(&witness), position_check, ..expected };
    let checked_slot = preflight(expected, server, reading, catalog);
    gaps.extend(checked_slot.map_or_else(gaps_of, |_| Vec::new()));
    gaps
}

fn gaps_of(obstacle: Obstacle) -> Vec<Gap> {
    match obstacle {
        Obstacle::Gaps(gaps) => gaps,
        Obstacle::OtherServer(gap) => vec![*gap],
        Obstacle::SlotInUse { .. } | Obstacle::Failed(_) => Vec::new(),
    }
}

/// The gap for what was committed in another history before the slot's position. The gap of the
/// changed history names what Kafka has in excess; this gap names what Kafka lacks.
fn unsent(slot: &str, from: Option<Mark>, reading: &SlotReading) -> Option<Gap> {
    let lsn = reading.slot.as_ref()?.confirmed_flush_lsn?;
    if from.as_ref().is_some_and(|from| from.lsn >= lsn) {
        return None;
    }
    let what = format!(
        "slot \"{slot}\" stands at {lsn}, and what this server has committed before that is not sent"
    );
    let failure = Failure::of(Case::SlotPastUnsent, what);
    Some(Gap::new(failure, Interval { from, to: Mark { lsn, at: None } }))
}

/// Checks that this Kafka cluster is the one that the witness names.
///
/// # Errors
/// [`Obstacle::Gaps`] with [`Code::ClusterChanged`]: both cluster ids are known, and they differ.
pub fn check_cluster(witness: &Witness, cluster: &str) -> Result<(), Obstacle> {
    // The id is empty where a command could not ask for it, and in a gap from before the first
    // connection.
    if witness.cluster.is_empty() || cluster.is_empty() || witness.cluster == cluster {
        return Ok(());
    }
    let failure = Failure::new(
        Code::ClusterChanged,
        format!(
            "this is Kafka cluster {cluster}, and the acknowledged events are in cluster {}",
            witness.cluster
        ),
    );
    // This gap is written to the state topic of this cluster, which routers on the right cluster do
    // not read.
    Err(Obstacle::Gaps(vec![Gap::new(failure, Interval { from: None, to: witness.mark() })]))
}

/// The part of [`preflight()`] that needs no catalog: a defect of the slot can be reported while a
/// locked table keeps the catalog from being read.
///
/// # Errors
/// The slot is missing, lost or unsuitable; or no process holds it and it stands past the witness.
/// It is [`Obstacle::Gaps`] where rows are at risk, and else [`Obstacle::Failed`].
pub fn check_slot<'l>(
    expected: Expectations<'_>,
    reading: &'l SlotReading,
) -> Result<&'l SlotHealth, Obstacle> {
    let recorded = || expected.witness.map(Witness::mark);
    let slot = slot_checks::suitable(expected.slot, reading).map_err(|failure| {
        // A lost slot still has its `confirmed_flush_lsn`.
        let of_lost_slot = || {
            let slot = reading.slot.as_ref().filter(|_| failure.code == Code::SlotLost)?;
            Some(Mark { lsn: slot.confirmed_flush_lsn?, at: None })
        };
        let from = recorded().or_else(of_lost_slot);
        let is_same = |witness: &Witness| {
            expected.position_check == PositionCheck::Compared
                && slot_checks::is_same(&failure, witness.position, reading.slot.as_ref())
        };
        let was_suitable = failure.code == Code::SlotUnsuitable
            && expected.witness.is_some_and(|witness| !is_same(witness));
        let failure = if was_suitable {
            slot_checks::became_unsuitable(failure)
        } else if failure.code == Code::SlotMissing && from.is_none() {
            failure.with_case(Case::SlotNotMade)
        } else {
            failure
        };
        obstacle(at_risk(failure, from, reading.mark()))
    })?;
    // While another process holds the slot, that process may have moved it past this witness.
    if let Some(witness) = expected.witness.filter(|_| !slot.is_active())
        && expected.position_check == PositionCheck::Compared
    {
        slot_checks::check_not_advanced(expected.slot, witness.position, slot)
            .map_err(|failure| obstacle(at_risk(failure, recorded(), reading.mark())))?;
    }
    Ok(slot)
}

/// A gap, if rows are at risk and a safe position is known; the failure itself otherwise.
fn at_risk(failure: Failure, from: Option<Mark>, to: Mark) -> Result<Gap, Failure> {
    match (failure.class(), from) {
        (Class::Gap, from @ Some(_)) => Ok(Gap::new(failure, Interval { from, to })),
        (Class::Gap | Class::Mendable | Class::Replay | Class::Transport | Class::Note, _) => {
            Err(failure)
        }
    }
}

fn obstacle(checked_slot: Result<Gap, Failure>) -> Obstacle {
    checked_slot.map_or_else(Obstacle::Failed, |gap| Obstacle::Gaps(vec![gap]))
}

#[cfg(test)]
mod tests;
