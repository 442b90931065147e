//! What is wrong with a slot: the same checks in the same order for the monitor and before each
//! stream.

use pgoutput::Lsn;

use super::slot::{SlotFeature, SlotHealth, SlotKind, SlotReading, bytes_between};
use crate::{
    failure::{Case, Code, Failure, Name},
    wording,
};

/// The only output plug-in whose messages the router decodes.
const PLUGIN: &str = "pgoutput";

/// The slot, if a stream from it can be complete.
///
/// # Errors
/// [`Code::SlotMissing`]: it does not exist. [`Code::SlotUnsuitable`]: it was created for something
/// else. [`Code::SlotLost`]: it is lost.
pub fn suitable<'l>(name: &str, reading: &'l SlotReading) -> Result<&'l SlotHealth, Failure> {
    let slot = reading.slot.as_ref().ok_or_else(|| missing(name))?;
    match unsuitable(name, &reading.database, slot).or_else(|| lost(name, slot)) {
        Some(failure) => Err(failure),
        None => Ok(slot),
    }
}

fn missing(name: &str) -> Failure {
    Failure::new(Code::SlotMissing, format!("slot \"{name}\" does not exist"))
}

fn lost(name: &str, slot: &SlotHealth) -> Option<Failure> {
    slot.is_lost().then(|| {
        let why = slot.invalidation_reason.as_deref().unwrap_or("wal_removed");
        Failure::new(Code::SlotLost, format!("slot \"{name}\" is lost ({why})"))
            .naming(Name::Slot, name)
    })
}

fn unsuitable(name: &str, here: &str, slot: &SlotHealth) -> Option<Failure> {
    let wrong = match (slot.kind, slot.plugin.as_deref(), slot.unsupported_feature) {
        (SlotKind::Physical, _, _) => "is a physical slot".to_owned(),
        (SlotKind::Logical, plugin, _) if plugin != Some(PLUGIN) => {
            format!("uses the plug-in {}, not {PLUGIN}", plugin.unwrap_or("(none)"))
        }
        (_, _, Some(SlotFeature::Temporary)) => "is temporary".to_owned(),
        (_, _, Some(SlotFeature::TwoPhase)) => {
            "has two_phase, so it sends a prepared transaction before that is committed, to every \
             program that reads it"
                .to_owned()
        }
        (SlotKind::Logical, _, None) => {
            let other = slot.database.as_deref().filter(|&database| database != here)?;
            format!("belongs to database {other}, not {here}")
        }
    };
    let what = format!("slot \"{name}\" {wrong}");
    let failure = Failure::new(Code::SlotUnsuitable, what)
        .naming(Name::Slot, name)
        .naming(Name::Database, here);
    Some(match slot.unsupported_feature {
        Some(SlotFeature::TwoPhase) if is_fit_but_for_feature(slot, here) => {
            failure.with_case(Case::SlotTwoPhase)
        }
        _ => failure,
    })
}

fn is_fit_but_for_feature(slot: &SlotHealth, here: &str) -> bool {
    slot.plugin.as_deref() == Some(PLUGIN)
        && slot.database.as_deref().is_none_or(|database| database == here)
}

/// Whether an unsuitable slot that was fit when the witness was written is still the same one:
/// `ALTER_REPLICATION_SLOT`, and whoever reads it with that option, give it two_phase and leave its
/// position, and one that is made again stands past all that was acknowledged.
pub fn is_same(unsuitable: &Failure, acknowledged: Lsn, slot: Option<&SlotHealth>) -> bool {
    let position = slot.and_then(|slot| slot.confirmed_flush_lsn);
    unsuitable.case == Some(Case::SlotTwoPhase) && position.is_some_and(|it| it <= acknowledged)
}

/// The failure for an unsuitable slot that was fit when the witness was written: it was dropped,
/// and another was created under its name.
pub fn became_unsuitable(unsuitable: Failure) -> Failure {
    let what =
        format!("{}; it was dropped, and created again as something else", unsuitable.message);
    let mut failure = Failure::of(Case::SlotMadeUnsuitable, what);
    failure.names = unsuitable.names;
    failure
}

/// Why a slot stands past what is acknowledged.
pub const PAST_ACKNOWLEDGED: &str = "it was re-created, or advanced by somebody else, or Kafka has \
                                     lost what it had acknowledged";

/// Checks that a slot which no process holds stands no further than `acknowledged`, the witness's
/// position.
///
/// A slot behind that is normal: a crash of PostgreSQL forgets what was confirmed since the slot
/// was last saved, and the rows are sent again. A slot ahead of it was advanced by somebody else or
/// re-created: a router confirms only what the witness says.
///
/// # Errors
/// [`Code::SlotMoved`]: the slot stands past `acknowledged`.
pub fn check_not_advanced(name: &str, acknowledged: Lsn, slot: &SlotHealth) -> Result<(), Failure> {
    match slot.confirmed_flush_lsn.filter(|&confirmed| confirmed > acknowledged) {
        None => Ok(()),
        Some(confirmed) => Err(Failure::new(
            Code::SlotMoved,
            format!(
                "slot \"{name}\" stands at {confirmed}, {} past {acknowledged}, up to which everything is \
                 acknowledged: {PAST_ACKNOWLEDGED}",
                wording::bytes(bytes_between(acknowledged, confirmed))
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        source::{samples::reading, slot::WalStatus},
        testing::samples::slot,
    };

    fn refusal_code(slot: Option<SlotHealth>) -> Option<Code> {
        suitable("s", &reading(slot)).err().map(|failure| failure.code)
    }

    #[test]
    fn a_slot_as_setup_creates_it_is_fit() {
        assert_eq!(refusal_code(Some(slot())), None);
    }

    #[test]
    fn every_other_slot_is_refused_with_its_code() {
        assert_eq!(refusal_code(None), Some(Code::SlotMissing));
        let lost = SlotHealth { wal_status: WalStatus::Lost, restart_lsn: None, ..slot() };
        assert_eq!(refusal_code(Some(lost)), Some(Code::SlotLost));
        let idle = SlotHealth { invalidation_reason: Some("idle_timeout".to_owned()), ..slot() };
        assert_eq!(refusal_code(Some(idle)), Some(Code::SlotLost));
        for unsuitable in [
            SlotHealth { kind: SlotKind::Physical, plugin: None, database: None, ..slot() },
            SlotHealth { plugin: Some("test_decoding".to_owned()), ..slot() },
            SlotHealth { database: Some("other".to_owned()), ..slot() },
            SlotHealth { unsupported_feature: Some(SlotFeature::Temporary), ..slot() },
            SlotHealth { unsupported_feature: Some(SlotFeature::TwoPhase), ..slot() },
        ] {
            assert_eq!(refusal_code(Some(unsuitable)), Some(Code::SlotUnsuitable));
        }
    }

    #[test]
    fn a_slot_behind_the_known_position_is_normal_and_one_ahead_of_it_was_moved() {
        let code = |known: u64| {
            check_not_advanced("s", Lsn::from_u64(known), &slot()).err().map(|f| f.code)
        };
        assert_eq!(code(41 << 20), None);
        assert_eq!(code(40 << 20), None);
        assert_eq!(code((40 << 20) - 1), Some(Code::SlotMoved));
    }
}
