//! How a session reads the backlog that it begins with: as a stream, or by SQL, which costs the
//! server less ([`BacklogFrom`]). Where reading by SQL has failed, the stream is certain to go on.
//!
//! Status updates go to the walsender, on another connection than the one that is read by SQL. If
//! the network drops that one alone, more is read and delivered for seconds while no update
//! arrives; after a crash in that time, the slot would send more than the window again. The witness
//! says what was delivered. So without a state topic nothing is read by SQL.

use std::time::Duration;

use pgoutput::Lsn;

use crate::{
    backlog::{BacklogFrom, BacklogSettings},
    clock::Moment,
    protocol::WitnessSettings,
    source::{SlotReading, bytes_between},
};

/// For how long nothing is read by SQL after that has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(600);

/// See the module's header.
#[derive(Debug)]
pub(super) struct BacklogChoice {
    settings: BacklogSettings,
    not_before: Option<Moment>,
}

impl BacklogChoice {
    pub(super) fn new(settings: BacklogSettings, witness: Option<&WitnessSettings>) -> Self {
        let from = witness.map_or(BacklogFrom::Stream, |_| settings.from);
        Self { settings: BacklogSettings { from, ..settings }, not_before: None }
    }

    /// Reading by SQL has failed.
    pub(super) fn failed(&mut self, at: Moment) {
        self.not_before = Some(at + AFTER_FAILURE);
    }

    /// How the backlog of a slot that was read so is read.
    pub(super) fn choose(&self, reading: Option<&SlotReading>, at: Moment) -> BacklogFrom {
        let slot = reading.and_then(|reading| reading.slot.as_ref());
        let behind = slot.map_or(0, |slot| {
            let confirmed = slot.confirmed_flush_lsn.unwrap_or(Lsn::ZERO);
            bytes_between(confirmed, slot.current_wal_lsn)
        });
        let may_be_tried = self.not_before.is_none_or(|not_before| not_before <= at);
        let is_long = behind >= self.settings.long_bytes;
        if is_long && may_be_tried { self.settings.from } else { BacklogFrom::Stream }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Source, samples};

    #[test]
    fn a_long_backlog_is_read_by_sql_unless_that_has_just_failed() {
        let settings = BacklogSettings::of(BacklogFrom::Sql);
        let witness = samples::witness_settings();
        let of = |settings, witness| BacklogChoice::new(settings, witness);
        let (start, mut choice) = (Moment::default(), of(settings, Some(&witness)));
        let mut reading = Source::of("outbox", 1, &[]).slot_reading();
        reading.slot = Some(samples::slot());
        assert_eq!(choice.choose(Some(&reading), start), BacklogFrom::Sql);
        choice.failed(start);
        assert_eq!(choice.choose(Some(&reading), start), BacklogFrom::Stream);
        let later = start + AFTER_FAILURE;
        assert_eq!(choice.choose(Some(&reading), later), BacklogFrom::Sql);
        let never = of(BacklogSettings::of(BacklogFrom::Stream), Some(&witness));
        assert_eq!(never.choose(Some(&reading), start), BacklogFrom::Stream);
        let without_state_topic = of(settings, None);
        assert_eq!(without_state_topic.choose(Some(&reading), start), BacklogFrom::Stream);
        assert_eq!(choice.choose(None, later), BacklogFrom::Stream);
        let end = reading.slot.as_ref().unwrap().current_wal_lsn;
        let near = Lsn::from_u64(end.as_u64() - settings.long_bytes + 1);
        reading.slot.as_mut().unwrap().confirmed_flush_lsn = Some(near);
        assert_eq!(choice.choose(Some(&reading), later), BacklogFrom::Stream);
    }
}
