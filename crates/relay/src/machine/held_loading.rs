//! The table of held events at the beginning of a session: it is read, and it must have every write
//! that the witness relies on ([`crate::held::version`] says why).

use super::{Phase, Relay};
use crate::{
    clock::Moment,
    failure::{Code, Failure},
    held::{HeldAnswer, TableFound, TableMark, TableReading, behind::absent},
    protocol::Action,
    source::Mark,
    witness::Witness,
};

impl Relay {
    /// Reads the table; the session begins with the answer.
    pub(super) fn load_held(&mut self) {
        let Phase::Connecting(attempt) = &self.phase else { return };
        let Some(baseline) = &attempt.baseline else { return };
        let relied_on = attempt.witness.as_ref().map(|known| known.held_table).unwrap_or_default();
        let (number, request) = self.held.load(baseline.confirmed(), relied_on);
        self.actions.push_back(Action::Held(number, request));
    }

    /// The table was read.
    pub(super) fn held_loaded(&mut self, answer: Result<HeldAnswer, Failure>, at: Moment) {
        let Phase::Connecting(attempt) = &self.phase else { return };
        let known = attempt.witness.as_ref();
        let relied_on = known.map(|known| known.held_table).unwrap_or_default();
        let to = known.map_or(Mark { lsn: self.confirmed, at: None }, Witness::mark);
        match answer {
            Ok(HeldAnswer::Absent) => {
                if let Err(failure) = self.check_absent(relied_on) {
                    self.disconnect(failure, at);
                    return;
                }
                self.held.answered(HeldAnswer::Absent, at)
            }
            Ok(answer) => self.held.answered(answer, at),
            Err(failure) if failure.code == Code::SlotInUse => {
                self.leave(failure, at);
                return;
            }
            Err(failure) => {
                self.disconnect(failure, at);
                return;
            }
        };
        let reading =
            TableReading { mark: self.held.mark(), events: self.held.keys.totals().events };
        match reading.gap(relied_on, to) {
            Some(gap) => self.halt(vec![gap], at),
            None => self.begin_session_in_time(at),
        }
    }

    /// Checks that no session needs the table that is not there.
    fn check_absent(&self, relied_on: TableMark) -> Result<(), Failure> {
        TableFound::Absent(TableMark::default()).check_there(relied_on)?;
        if self.held.settings.policy.has_dead_letters() {
            return Err(absent("[on_error] needs it"));
        }
        Ok(())
    }

    /// The table was written. What is confirmed from now on may rely on that, so the witness, which
    /// precedes every confirmation, says so.
    pub(super) fn held_written(&mut self) {
        let mark = self.held.mark();
        self.keeper.update(|witness| witness.held_table = mark);
    }
}
