//! What a switch has to do, from what there is: the same command goes on after a kill at any step.

use crate::failure::{Case, Failure, Name};

/// How far a table is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchState {
    /// Workers give back what they hold, and the rows of the slot's snapshot are sent.
    Closing,
    /// They were sent: the stream may begin.
    Sent,
    /// The table is streamed.
    Stream,
    /// The rows that the stream has delivered are marked: the slot is to be dropped.
    Marked,
}

impl SwitchState {
    /// As the column has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closing => "closing",
            Self::Sent => "sent",
            Self::Stream => "stream",
            Self::Marked => "marked",
        }
    }

    /// The state of this name.
    pub fn of(text: &str) -> Option<Self> {
        let all = [Self::Closing, Self::Sent, Self::Stream, Self::Marked];
        all.into_iter().find(|state| state.as_str() == text)
    }
}

/// Whether a person says that the tables were streamed from the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamedBefore {
    /// A person does.
    Said,
    /// Nobody does.
    Unsaid,
}

/// What there is before a switch.
#[derive(Debug, Clone, Copy)]
pub struct Found<'f> {
    /// How far the tables are handed over; `None`: they are polled, or a switch was never typed.
    pub state: Option<SwitchState>,
    /// The slot.
    pub slot: SlotFound,
    /// The witness.
    pub witness: Presence,
    /// The slot's name.
    pub name: &'f str,
}

/// The slot of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotFound {
    /// It is there.
    There,
    /// PostgreSQL has invalidated it: it shows nothing, and is never read again.
    Lost,
    /// It is gone, or was not made yet.
    Missing,
}

/// Whether the state topic has a witness of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It has.
    There,
    /// A router that streams writes it at first.
    Missing,
    /// `kafka.state_topic` is empty.
    NotKept,
}

/// What `switch stream` has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToStream {
    /// Everything. A slot that an earlier run has made is made anew: nobody has read from it, and
    /// the rows that were sent are marked.
    Send,
    /// Only to say that they are streamed: the rows were sent.
    Finish,
}

/// What `switch polling` has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToPolling {
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
    pub fn to_stream(self) -> Result<Option<ToStream>, Failure> {
        match (self.state, self.slot, self.witness) {
            (None, SlotFound::Missing, Presence::Missing | Presence::NotKept) => {
                Ok(Some(ToStream::Send))
            }
            (None, SlotFound::There, _) => Err(self.of_other("it exists already")),
            (None, SlotFound::Lost, _) => Err(self.of_other("it exists already, and is lost")),
            (None, SlotFound::Missing, Presence::There) => {
                Err(self.of_other("the state topic has a witness of an earlier stream"))
            }
            // What was altered since the slot was made is not known, and no router has read it.
            (Some(SwitchState::Closing), _, Presence::Missing | Presence::NotKept)
            | (Some(SwitchState::Sent), SlotFound::There, Presence::Missing) => {
                Ok(Some(ToStream::Send))
            }
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
    pub fn to_polling(self, streamed: StreamedBefore) -> Result<Option<ToPolling>, Failure> {
        match (self.state, self.slot, self.witness) {
            // Until the switch is complete no router streams: what its slot had is pending.
            (Some(SwitchState::Closing), ..)
            | (Some(SwitchState::Sent), SlotFound::Lost | SlotFound::Missing, _)
            | (Some(SwitchState::Sent), SlotFound::There, Presence::Missing) => {
                Ok(Some(ToPolling::Cancel))
            }
            // A router may have taken the slot since its rows were marked.
            (
                Some(SwitchState::Sent | SwitchState::Stream | SwitchState::Marked),
                SlotFound::There,
                _,
            ) => Ok(Some(ToPolling::Mark)),
            (Some(SwitchState::Stream), SlotFound::Lost | SlotFound::Missing, _)
            | (None, SlotFound::Lost, _) => Err(self.without_slot()),
            (Some(SwitchState::Marked), SlotFound::Lost | SlotFound::Missing, _) => {
                Ok(Some(ToPolling::CleanUp))
            }
            // Set up for the stream from the beginning, as a person or the witness says.
            (None, SlotFound::There, witness)
                if streamed == StreamedBefore::Said || witness == Presence::There =>
            {
                Ok(Some(ToPolling::Mark))
            }
            // The workers of such tables mark what is delivered; a slot is none of theirs.
            (None, SlotFound::There | SlotFound::Missing, _) => Ok(None),
        }
    }

    /// What is left of a stream of tables that are polled, and what a person should think of.
    pub fn left_of_a_stream(&self) -> Option<String> {
        let Self { name, .. } = self;
        match (self.slot, self.witness) {
            (SlotFound::There, Presence::Missing | Presence::NotKept) => Some(format!(
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
            (SlotFound::Missing, Presence::Missing | Presence::NotKept)
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

    #[test]
    fn a_state_has_one_name() {
        for name in ["closing", "sent", "stream", "marked"] {
            assert_eq!(SwitchState::of(name).map(SwitchState::as_str), Some(name));
        }
        assert_eq!(SwitchState::of("open"), None);
    }

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
        assert_eq!(todo(sent, There, WITNESS), Ok(Some(ToStream::Finish)));
        assert_eq!(todo(sent, There, Presence::NotKept), Ok(Some(ToStream::Finish)));
        assert_eq!(todo(Some(SwitchState::Stream), There, WITNESS), Ok(None));
    }

    /// Nothing shows what was altered between the making of the slot and the next run; a router
    /// that had read from the slot would have written a witness.
    #[test]
    fn a_slot_that_was_killed_before_its_witness_is_made_anew_or_dropped() {
        let sent = found(Some(SwitchState::Sent), There, NO_WITNESS);
        assert_eq!(case(sent.to_stream()), Ok(Some(ToStream::Send)));
        assert_eq!(case(sent.to_polling(StreamedBefore::Unsaid)), Ok(Some(ToPolling::Cancel)));
        for witness in [WITNESS, Presence::NotKept] {
            let streamed = found(Some(SwitchState::Sent), There, witness);
            assert_eq!(
                case(streamed.to_polling(StreamedBefore::Unsaid)),
                Ok(Some(ToPolling::Mark))
            );
        }
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
        for streamed in [StreamedBefore::Said, StreamedBefore::Unsaid] {
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
        assert_eq!(found.to_polling(StreamedBefore::Unsaid), Ok(None));
        assert_eq!(found.to_polling(StreamedBefore::Said), Ok(Some(ToPolling::Mark)));
    }

    /// The configuration says already that they are polled, and no switch has ever been typed.
    #[test]
    fn tables_that_were_streamed_from_the_beginning_are_known_by_their_witness() {
        let found = found(None, There, WITNESS);
        assert_eq!(found.to_polling(StreamedBefore::Unsaid), Ok(Some(ToPolling::Mark)));
        assert_eq!(found.left_of_a_stream(), None);
    }
}
