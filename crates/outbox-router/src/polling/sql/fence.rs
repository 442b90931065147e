//! Keeps a worker whose shards another one has taken, or has had meanwhile, from writing what
//! became of their rows.
//!
//! A lock row by row would not do: a renewal leaves out rows that are locked, and would lose them.
//! So the lock is an advisory one of the transaction, with a number for each worker and table. Who
//! writes marks shares it; who takes shards from a worker that is not heard of must have it alone,
//! and leaves those of a worker that writes at this moment for another time.

use relay::polling::{RequestNumber, ShardSet};
use uuid::Uuid;

/// A worker, at a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fence {
    pub(super) relation: u32,
    pub(super) worker: Uuid,
}

impl Fence {
    /// How many statements stand before those that write: [`Self::lock`], and the one that says
    /// whether [`Self::holds`].
    pub(super) const STATEMENTS: usize = 2;

    /// The statement that takes the lock, to be shared with other marks of this worker.
    pub(super) fn lock(&self) -> String {
        format!("select pg_advisory_xact_lock_shared({})", number(self.relation, &self.holder()))
    }

    /// The condition that this worker has had all of these shards since this request of its: one
    /// that another worker has had in between was taken by a later request. `None`: there are none.
    pub(super) fn holds(&self, shards: ShardSet, since: RequestNumber) -> Option<String> {
        let Self { relation, worker } = self;
        let all: Vec<String> = shards.iter().map(|shard| shard.to_string()).collect();
        if all.is_empty() {
            return None;
        }
        Some(format!(
            "(select count(*) from outbox_router.lease where relation = {relation} \
             and holder = '{worker}' and request <= {} and shard in ({})) = {}",
            since.0,
            all.join(", "),
            shards.len()
        ))
    }

    fn holder(&self) -> String {
        format!("'{}'::uuid", self.worker)
    }
}

/// The condition that nobody writes marks of a shard's holder, and that nobody will before this
/// transaction ends.
pub(super) fn is_still(relation: u32, holder: &str) -> String {
    format!("pg_try_advisory_xact_lock({})", number(relation, holder))
}

/// The number of the lock.
fn number(relation: u32, holder: &str) -> String {
    format!("hashtextextended({relation} || ' ' || {holder}, 0)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taker_and_holder_have_one_lock() {
        let worker = Uuid::nil();
        let lock = Fence { relation: 7, worker }.lock();
        let taken = is_still(7, "holder").replace("holder", &format!("'{worker}'::uuid"));
        let number = |text: &str| text.split_once('(').map(|(_, number)| number.to_owned());
        assert_eq!(number(&lock), number(&taken));
    }

    #[test]
    fn every_shard_has_to_be_held() {
        let fence = Fence { relation: 7, worker: Uuid::nil() };
        let some = fence.holds([3, 9].into_iter().collect(), RequestNumber(5)).unwrap();
        assert!(some.ends_with("and request <= 5 and shard in (3, 9)) = 2"), "{some}");
        assert_eq!(fence.holds(ShardSet::NONE, RequestNumber(5)), None);
    }
}
