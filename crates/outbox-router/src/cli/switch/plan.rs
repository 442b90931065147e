//! What a switch has to do, from what there is: the same command goes on after a kill at any step.

use relay::{Case, Failure, Name};

use super::args::Streamed;
use crate::polling::sql::switch::SwitchState;

/// What there is before a switch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'f> {
    /// How far the tables are handed over; `None`: they are polled, or a switch was never typed.
    pub(super) state: Option<SwitchState>,
    pub(super) slot: SlotFound,
    pub(super) witness: Presence,
    /// The slot's name.
    pub(super) name: &'f str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotFound {
    There,
    /// PostgreSQL has invalidated it: it shows nothing, and is never read again.
    Lost,
    Missing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    There,
    Missing,
}

impl Presence {
    pub(super) const fn of<T>(found: Option<&T>) -> Self {
        if found.is_some() { Self::There } else { Self::Missing }
    }
}

/// What `switch stream` has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToStream {
    /// Everything. A slot that an earlier run has made is made anew: nobody has read from it, and
    /// the rows that were sent are marked.
    Send,
    /// Only the witness is missing: the rows were sent.
    Finish,
}

/// What `switch polling` has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToPolling {
    /// To mark what the stream has delivered, and the rest.
    Mark,
    /// To drop witness and publication: the rows are marked, and the slot is gone.
    CleanUp,
    /// The same: a switch to the stream is not complete, and rows that it has not sent are pending.
    Cancel,
}

impl Found<'_> {
    /// `None`: nothing, they are streamed.
    ///
    /// # Errors
    /// A slot or a witness does not belong to the switch.
    pub(super) fn to_stream(self) -> Result<Option<ToStream>, Failure> {
        match (self.state, self.slot, self.witness) {
            (None, SlotFound::Missing, Presence::Missing) => Ok(Some(ToStream::Send)),
            (None, SlotFound::There, _) => Err(self.of_other("it exists already")),
            (None, SlotFound::Lost, _) => Err(self.of_other("it exists already, and is lost")),
            (None, SlotFound::Missing, Presence::There) => {
                Err(self.of_other("the state topic has a witness of an earlier stream"))
            }
            (Some(SwitchState::Closing), _, Presence::Missing) => Ok(Some(ToStream::Send)),
            (Some(SwitchState::Closing), _, Presence::There) => Err(self.back(
                "a router has streamed from it before all pending rows were sent; the workers send \
                 these rows again",
            )),
            (Some(SwitchState::Sent), SlotFound::There, _) => Ok(Some(ToStream::Finish)),
            (Some(SwitchState::Sent), SlotFound::Lost | SlotFound::Missing, _) => {
                Err(self.back("it is gone or lost, with rows of which none was sent"))
            }
            (Some(SwitchState::Stream), ..) => Ok(None),
            (Some(SwitchState::Marked), ..) => Err(self.back("a switch back is not complete")),
        }
    }

    /// `None`: nothing, they are polled.
    ///
    /// # Errors
    /// Nothing shows what the stream has delivered.
    pub(super) fn to_polling(self, streamed: Streamed) -> Result<Option<ToPolling>, Failure> {
        match (self.state, self.slot) {
            // Until the switch is complete no router streams: what its slot had is pending.
            (Some(SwitchState::Closing), _)
            | (Some(SwitchState::Sent), SlotFound::Lost | SlotFound::Missing) => {
                Ok(Some(ToPolling::Cancel))
            }
            // A router may have taken the slot since its rows were marked.
            (
                Some(SwitchState::Sent | SwitchState::Stream | SwitchState::Marked),
                SlotFound::There,
            ) => Ok(Some(ToPolling::Mark)),
            (Some(SwitchState::Stream), SlotFound::Lost | SlotFound::Missing)
            | (None, SlotFound::Lost) => Err(self.without_slot()),
            (Some(SwitchState::Marked), SlotFound::Lost | SlotFound::Missing) => {
                Ok(Some(ToPolling::CleanUp))
            }
            // Set up for the stream from the beginning, as a person or the witness says.
            (None, SlotFound::There)
                if streamed == Streamed::Said || self.witness == Presence::There =>
            {
                Ok(Some(ToPolling::Mark))
            }
            // The workers of such tables mark what is delivered; a slot is none of theirs.
            (None, SlotFound::There | SlotFound::Missing) => Ok(None),
        }
    }

    /// What is left of a stream of tables that are polled, and what a person should think of.
    pub(super) fn left_of_a_stream(&self) -> Option<String> {
        let Self { name, .. } = self;
        match (self.slot, self.witness) {
            (SlotFound::There, Presence::Missing) => Some(format!(
                "there is a slot {name}, and no witness of it: workers take no table that its \
                 publication has; if a router has delivered rows from it, type this command with \
                 --streamed, and if none ever has, outbox-router teardown --apply --forget with \
                 postgres.source = \"stream\""
            )),
            (SlotFound::Missing, Presence::There) => Some(format!(
                "there is a witness of a stream, and its slot {name} is gone; rows that the stream \
                 has delivered are pending by their columns, and a worker sends them again unless \
                 they are marked by SQL"
            )),
            (SlotFound::Missing, Presence::Missing)
            | (SlotFound::There, Presence::There)
            | (SlotFound::Lost, _) => None,
        }
    }

    fn of_other(&self, why: &str) -> Failure {
        self.elsewhere(Case::SwitchOfOther, why)
    }

    fn back(&self, why: &str) -> Failure {
        self.elsewhere(Case::SwitchingBack, why)
    }

    fn elsewhere(&self, case: Case, why: &str) -> Failure {
        let Self { name, .. } = self;
        let what = format!("the slot {name} does not begin where polling ends: {why}");
        Failure::of(case, what).naming(Name::Slot, *name)
    }

    fn without_slot(&self) -> Failure {
        let Self { name, .. } = self;
        let is = if self.slot == SlotFound::Lost { "lost" } else { "gone" };
        let what = format!(
            "the slot {name} is {is}: nothing shows which rows of these tables a router has \
             delivered from it"
        );
        Failure::of(Case::SwitchWithoutSlot, what).naming(Name::Slot, *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use SlotFound::{Lost, Missing, There};

    const NO_WITNESS: Presence = Presence::Missing;
    const WITNESS: Presence = Presence::There;

    fn found(state: Option<SwitchState>, slot: SlotFound, witness: Presence) -> Found<'static> {
        Found { state, slot, witness, name: "shop" }
    }

    fn case<T>(result: Result<T, Failure>) -> Result<T, Option<Case>> {
        result.map_err(|failure| failure.case)
    }

    #[test]
    fn a_kill_at_any_step_to_the_stream_is_gone_on_from() {
        let todo = |state, slot, witness| case(found(state, slot, witness).to_stream());
        assert_eq!(todo(None, Missing, NO_WITNESS), Ok(Some(ToStream::Send)));
        let closing = Some(SwitchState::Closing);
        assert_eq!(todo(closing, Missing, NO_WITNESS), Ok(Some(ToStream::Send)));
        assert_eq!(todo(closing, There, NO_WITNESS), Ok(Some(ToStream::Send)));
        let sent = Some(SwitchState::Sent);
        assert_eq!(todo(sent, There, NO_WITNESS), Ok(Some(ToStream::Finish)));
        assert_eq!(todo(sent, There, WITNESS), Ok(Some(ToStream::Finish)));
        assert_eq!(todo(Some(SwitchState::Stream), There, WITNESS), Ok(None));
    }

    #[test]
    fn a_slot_that_begins_elsewhere_is_refused() {
        let todo = |state, slot, witness| case(found(state, slot, witness).to_stream());
        let other = Err(Some(Case::SwitchOfOther));
        assert_eq!(todo(None, There, NO_WITNESS), other);
        assert_eq!(todo(None, Missing, WITNESS), other);
        let back = Err(Some(Case::SwitchingBack));
        assert_eq!(todo(Some(SwitchState::Closing), There, WITNESS), back);
        assert_eq!(todo(Some(SwitchState::Marked), There, WITNESS), back);
        assert_eq!(todo(None, Lost, NO_WITNESS), other);
        for slot in [Lost, Missing] {
            assert_eq!(todo(Some(SwitchState::Sent), slot, NO_WITNESS), back);
        }
    }

    #[test]
    fn a_kill_at_any_step_to_polling_is_gone_on_from() {
        let todo =
            |state, slot, streamed| case(found(state, slot, NO_WITNESS).to_polling(streamed));
        let stream = Some(SwitchState::Stream);
        for streamed in [Streamed::Said, Streamed::Unsaid] {
            assert_eq!(todo(stream, There, streamed), Ok(Some(ToPolling::Mark)));
            let (sent, marked) = (Some(SwitchState::Sent), Some(SwitchState::Marked));
            assert_eq!(todo(marked, There, streamed), Ok(Some(ToPolling::Mark)), "it may be used");
            for slot in [Lost, Missing] {
                let without = Err(Some(Case::SwitchWithoutSlot));
                assert_eq!(todo(stream, slot, streamed), without);
                assert_eq!(todo(sent, slot, streamed), Ok(Some(ToPolling::Cancel)));
                assert_eq!(todo(marked, slot, streamed), Ok(Some(ToPolling::CleanUp)));
            }
            for slot in [There, Lost, Missing] {
                let closing = Some(SwitchState::Closing);
                assert_eq!(todo(closing, slot, streamed), Ok(Some(ToPolling::Cancel)));
            }
            assert_eq!(todo(None, Missing, streamed), Ok(None));
            assert_eq!(todo(None, Lost, streamed), Err(Some(Case::SwitchWithoutSlot)));
        }
    }

    /// Their pending rows are not delivered.
    #[test]
    fn tables_that_are_polled_are_not_marked_because_of_a_slot_that_is_left() {
        let found = found(None, There, NO_WITNESS);
        assert_eq!(found.to_polling(Streamed::Unsaid), Ok(None));
        assert_eq!(found.to_polling(Streamed::Said), Ok(Some(ToPolling::Mark)));
    }

    /// The configuration says already that they are polled, and no switch has ever been typed.
    #[test]
    fn tables_that_were_streamed_from_the_beginning_are_known_by_their_witness() {
        let found = found(None, There, WITNESS);
        assert_eq!(found.to_polling(Streamed::Unsaid), Ok(Some(ToPolling::Mark)));
        assert_eq!(found.left_of_a_stream(), None);
    }
}
