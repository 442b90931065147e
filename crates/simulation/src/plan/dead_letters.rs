//! What becomes of events that cannot be delivered.

use relay::{Code, ErrorPolicy, HeldLimits, HoldKeys, OnError};

use crate::random::Random;

/// The settings of dead letters, the same for every router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetters {
    /// How much may be held.
    pub limits: HeldLimits,
    /// Which classes of failures make dead letters.
    pub policy: ErrorPolicy,
    /// Whether the later events of a dead letter's key are held behind it.
    pub hold_keys: HoldKeys,
    /// Whether dead letters are written to a topic, too.
    pub topic: LettersTopic,
}

/// Whether dead letters are written to a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LettersTopic {
    /// To the topic of [`crate::kafka::LETTERS`].
    Used,
    /// To none.
    Unused,
}

impl DeadLetters {
    /// The settings of a seed. In one plan of three there are dead letters, and in a third of these
    /// little may be held. Of each class, one in four halts.
    pub(super) fn of_seed(seed: u64) -> Option<Self> {
        let random = &mut Random::new(seed ^ 0x0dea_d1e7_7e45);
        if !random.one_in(3) {
            return None;
        }
        let usual = HeldLimits::default();
        let limits = if random.one_in(3) {
            HeldLimits { keys: 2 + random.below(4), events: 3 + random.below(18), ..usual }
        } else {
            usual
        };
        let mut class = || if random.one_in(4) { OnError::Halt } else { OnError::DeadLetter };
        let policy = ErrorPolicy {
            bad_row: class(),
            unroutable: class(),
            too_large: class(),
            rejected: class(),
        };
        let hold_keys = if random.one_in(3) { HoldKeys::No } else { HoldKeys::Yes };
        let topic = if random.one_in(2) { LettersTopic::Used } else { LettersTopic::Unused };
        Some(Self { limits, policy, hold_keys, topic })
    }

    /// Whether an event that fails with this code becomes a dead letter. Implemented a second time,
    /// so that a mistake in the product's table of classes is seen.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other code is one event's alone here")]
    pub fn takes(self, code: Code) -> bool {
        let class = match code {
            Code::KeyIsNull | Code::IdIsNull => self.policy.bad_row,
            Code::TopicIllegal => self.policy.unroutable,
            Code::RowTooLarge | Code::RecordTooLarge => self.policy.too_large,
            Code::RecordRefused => self.policy.rejected,
            _ => OnError::Halt,
        };
        class == OnError::DeadLetter
    }

    /// Whether such an event binds no later event of its key.
    pub fn frees(self, code: Code) -> bool {
        self.hold_keys == HoldKeys::No && self.takes(code)
    }
}
