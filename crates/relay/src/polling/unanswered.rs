//! Records of a table that Kafka does not acknowledge. It may have stored them: a leader does that
//! first, and then waits for its followers. So each attempt may store them once more, and attempts
//! become rarer until one is acknowledged.

use std::time::Duration;

use super::shards::ShardSet;
use crate::{
    clock::Moment,
    failure::{Case, Failure},
};

/// The longest wait.
const LONGEST: Duration = Duration::from_secs(60);

/// See the module's header.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    /// How often in a row records were given up without an acknowledgement.
    times: u32,
    /// The shards whose rows were in flight the last time.
    shards: ShardSet,
    /// Before this, none of the table's rows is read.
    again_at: Moment,
    failure: Option<Failure>,
}

impl Unanswered {
    /// Records of these shards were given up that were not acknowledged `within` this time. Returns
    /// the failure.
    ///
    /// The next attempt follows at once the first time: a partition may just have got another
    /// leader.
    pub(super) fn given_up(&mut self, within: Duration, shards: ShardSet, at: Moment) -> Failure {
        self.shards = shards;
        self.times = self.times.saturating_add(1);
        let wait = match self.times {
            0 | 1 => Duration::ZERO,
            times => Duration::from_secs(1 << (times - 2).min(6)).min(LONGEST),
        };
        self.again_at = at + wait;
        let mut what =
            format!("Kafka did not acknowledge records within {} s", within.as_secs_f32());
        if self.times > 1 {
            what = format!(
                "{what}, {} times in a row; each attempt may store them once more, so the next \
                 one follows after {} s",
                self.times,
                wait.as_secs()
            );
        }
        let failure = Failure::of(Case::ReplicasSilent, what);
        self.failure = Some(failure.clone());
        failure
    }

    /// Everything that was produced is acknowledged, or nothing is left to be.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// When the next attempt may begin, of a worker that holds these shards. Where they are others
    /// than the last time, the keys of which nothing is acknowledged may be another worker's by
    /// now, and all others would wait for nothing.
    pub(super) fn again_at(&self, held: ShardSet) -> Moment {
        if held == self.shards { self.again_at } else { Moment::default() }
    }

    /// Why rows wait, from the first time until the end.
    pub(super) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_minute_and_begin_anew_after_an_acknowledgement() {
        let (mut unanswered, at) = (Unanswered::default(), Moment::default());
        let waits = |unanswered: &mut Unanswered, times: usize| -> Vec<u64> {
            let wait = |_| {
                unanswered.given_up(Duration::from_millis(3_500), ShardSet::ALL, at);
                unanswered.again_at(ShardSet::ALL).since(at).as_secs()
            };
            (0..times).map(wait).collect()
        };
        assert_eq!(waits(&mut unanswered, 9), [0, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(
            unanswered.failure().map(|failure| failure.message.as_str()),
            Some(
                "Kafka did not acknowledge records within 3.5 s, 9 times in a row; each attempt \
                 may store them once more, so the next one follows after 60 s"
            )
        );
        assert_eq!(unanswered.again_at(ShardSet::NONE), at, "other keys wait for nothing");
        unanswered.end();
        assert_eq!(unanswered.failure(), None);
        assert_eq!(waits(&mut unanswered, 2), [0, 1]);
    }
}
