//! Whether a defect that the monitor found means a gap: whether there was something to lose, and
//! which interval is at risk.

use pgoutput::Lsn;

use super::{
    baseline::Baseline,
    gap::{Gap, Interval, Mark},
};
use crate::{
    failure::{Class, Code, Failure},
    state::State,
    telemetry::Snapshot,
};

/// The last time at which the monitor found no defect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastGood {
    /// The server's clock and the end of WAL at that time.
    pub checked: Mark,
    /// The slot's `confirmed_flush_lsn` at that time.
    pub confirmed: Option<Lsn>,
}

impl From<&Baseline> for LastGood {
    fn from(baseline: &Baseline) -> Self {
        Self { checked: baseline.checked.clone(), confirmed: baseline.slot.confirmed_flush_lsn }
    }
}

/// The gap that a defect means. None if the defect's class is not gap, or if the router is still
/// being set up: then nothing was promised yet.
pub fn suspected_gap(
    failure: Failure,
    last_good: Option<LastGood>,
    relay: &Snapshot,
    now: &Mark,
) -> Option<Gap> {
    let is_new = last_good.is_none() && !is_connected(relay.condition.state);
    if failure.class() != Class::Gap || is_new {
        return None;
    }
    let from = last_good.map(|good| {
        let is_slot = matches!(failure.code, Code::SlotMissing | Code::SlotLost);
        if is_slot || failure.code.is_of_whole_publication() {
            // The slot holds the rows, and it can no longer be used: everything past the last
            // position that is certainly in Kafka is at risk.
            let lsn = safe_position(relay, good.confirmed).unwrap_or(good.checked.lsn);
            let is_before = good.checked.lsn <= lsn;
            let acknowledged_at = relay.witness.acknowledged_at.clone();
            Mark { lsn, at: good.checked.at.filter(|_| is_before).or(acknowledged_at) }
        } else {
            // The slot still has what was written before that reading: only what was written since
            // is at risk.
            good.checked
        }
    });
    Some(Gap::new(failure, Interval { from, to: now.clone() }))
}

/// Whether this router has a stream open.
fn is_connected(state: State) -> bool {
    match state {
        State::Streaming | State::Blocked | State::Draining => true,
        State::Starting | State::Standby | State::Failed => false,
    }
}

/// The greatest position up to which everything is in Kafka, according to the core, the witness and
/// the slot.
fn safe_position(relay: &Snapshot, slot: Option<Lsn>) -> Option<Lsn> {
    let confirmed = Some(relay.confirmed).filter(|lsn| lsn.as_u64() > 0);
    confirmed.max(slot).max(relay.witness.position)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{source::samples::reading, testing::samples::snapshot};

    const MIB: u64 = 1 << 20;

    fn mib(number: u64) -> Lsn {
        Lsn::from_u64(number * MIB)
    }

    /// At 90 MiB, when the slot had 40 MiB on record.
    fn last_good() -> LastGood {
        let checked = Mark { lsn: mib(90), at: Some("earlier".to_owned()) };
        LastGood { checked, confirmed: Some(mib(40)) }
    }

    fn suspected(code: Code, last_good: Option<LastGood>, relay: &Snapshot) -> Option<Gap> {
        suspected_gap(Failure::new(code, "x"), last_good, relay, &reading(None).mark())
    }

    fn from(gap: Option<Gap>) -> Lsn {
        gap.unwrap().interval.from.unwrap().lsn
    }

    #[test]
    fn a_router_that_is_being_set_up_has_no_gap() {
        let code = Code::SlotMissing;
        assert_eq!(suspected(code, None, &snapshot(State::Starting)), None);
        assert_eq!(suspected(code, None, &snapshot(State::Failed)), None);
        let gap = suspected(code, None, &snapshot(State::Streaming)).unwrap();
        assert_eq!(gap.interval, Interval { from: None, to: reading(None).mark() });
    }

    #[test]
    fn a_defect_that_a_person_can_repair_is_no_gap() {
        let streaming = snapshot(State::Streaming);
        assert_eq!(suspected(Code::TableMissing, Some(last_good()), &streaming), None);
    }

    #[test]
    fn without_its_slot_everything_past_the_last_confirmed_position_is_at_risk() {
        let mut relay = Snapshot { confirmed: mib(50), ..snapshot(State::Streaming) };
        for code in [Code::SlotMissing, Code::SlotLost, Code::PublicationReplaced] {
            assert_eq!(from(suspected(code, Some(last_good()), &relay)), mib(50));
        }
        // A standby has confirmed nothing: what the slot had on record is all that is certain.
        relay.confirmed = mib(0);
        assert_eq!(from(suspected(Code::SlotLost, Some(last_good()), &relay)), mib(40));
    }

    /// In a backlog the last acknowledged position is older than the last reading.
    #[test]
    fn the_time_is_one_up_to_which_everything_is_acknowledged() {
        let mut relay = snapshot(State::Streaming);
        relay.witness.acknowledged_at = Some("before".to_owned());
        let at = |relay: &Snapshot| {
            let gap = suspected(Code::SlotLost, Some(last_good()), relay).unwrap();
            gap.interval.from.unwrap().at.unwrap()
        };
        assert_eq!(at(&relay), "before");
        relay.confirmed = mib(95);
        assert_eq!(at(&relay), "earlier");
    }

    #[test]
    fn what_another_router_has_confirmed_since_is_not_at_risk() {
        let further = LastGood { confirmed: Some(mib(60)), ..last_good() };
        let ours = snapshot(State::Streaming);
        assert_eq!(from(suspected(Code::SlotLost, Some(further), &ours)), mib(60));
    }

    #[test]
    fn with_its_slot_only_what_was_written_since_the_last_check_is_at_risk() {
        let gap =
            suspected(Code::PublicationLacksTable, Some(last_good()), &snapshot(State::Streaming));
        assert_eq!(from(gap), mib(90));
    }
}
