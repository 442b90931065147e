//! Keys whose rows cannot be taken now, since another transaction has locked one of them, and the
//! search for rows behind them.
//!
//! A transaction may lock very many rows, and each reading only finds as many as it looks at. So
//! those that are known are left out, and each reading that finds others alone is followed by one
//! that looks at twice as many rows. No key that was found is looked at again before the search is
//! over: else a search that takes longer than [`LEFT_OUT_FOR`] would never get further.

use std::time::Duration;

use relay::polling::More;
use tokio::time::Instant;

/// For how long such keys are left out before it is looked whether they are still blocked. It costs
/// one reading to find out.
const LEFT_OUT_FOR: Duration = Duration::from_secs(1);

/// More rows are not looked at by one reading, unless as many are asked for: the server keeps them
/// in memory.
const LOOKED_AT_MAX: usize = 16 * 1024;

/// More keys are not left out: they stand in the statement.
const LEFT_OUT_MAX: usize = 100_000;

/// A key of which another transaction has locked a row, as an expression of SQL gives it.
#[derive(Debug)]
pub(super) struct BlockedKey {
    pub(super) key: Box<str>,
    since: Instant,
}

impl BlockedKey {
    /// It was found now.
    pub(super) fn new(key: &str) -> Self {
        Self { key: Box::from(key), since: Instant::now() }
    }
}

/// The keys of a table that were found blocked a moment ago.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    keys: Vec<BlockedKey>,
    /// How many readings have found rows of blocked keys alone since the search began.
    in_vain: u32,
}

impl Blocked {
    /// Those that are to be left out now.
    pub(super) fn keys(&self) -> &[BlockedKey] {
        &self.keys
    }

    /// Forgets those that were left out for long enough, unless the search goes on.
    pub(super) fn forget(&mut self) {
        if self.in_vain == 0 {
            self.keys.retain(|key| key.since.elapsed() < LEFT_OUT_FOR);
        }
    }

    /// How many rows the next reading looks at, where so many are asked for.
    pub(super) fn looked_at(&self, limit: usize) -> usize {
        let doubled = 1_usize.checked_shl(self.in_vain).unwrap_or(usize::MAX);
        limit.saturating_mul(doubled).min(LOOKED_AT_MAX.max(limit))
    }

    /// A reading without the rows of [`Self::keys`] has found so many rows, and these keys. Returns
    /// whether more rows may be found, as the core is told.
    pub(super) fn found(&mut self, rows: usize, more: More, keys: Vec<BlockedKey>) -> More {
        let is_first = self.keys.is_empty();
        let is_none = is_first && keys.is_empty();
        let is_vain = rows == 0 && !keys.is_empty();
        // What one reading finds, the next one finds as easily, and whether it is free by now.
        if !is_first || more != More::No {
            self.keys.extend(keys);
        }
        let more = match more {
            More::Maybe if is_vain && self.keys.len() >= LEFT_OUT_MAX => More::Locked,
            More::No if is_none => More::No,
            More::No | More::Locked => More::Locked,
            More::Maybe => More::Maybe,
        };
        self.in_vain = if is_vain && more == More::Maybe { self.in_vain + 1 } else { 0 };
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&str]) -> Vec<BlockedKey> {
        keys.iter().map(|key| BlockedKey::new(key)).collect()
    }

    fn left_out(blocked: &mut Blocked) -> Vec<&str> {
        blocked.forget();
        blocked.keys().iter().map(|key| &*key.key).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn each_key_is_left_out_for_a_moment() {
        let mut blocked = Blocked::default();
        assert_eq!(blocked.found(1, More::Maybe, keys(&["ka"])), More::Maybe);
        tokio::time::advance(LEFT_OUT_FOR / 2).await;
        assert_eq!(blocked.found(1, More::Maybe, keys(&["kb"])), More::Maybe);
        assert_eq!(left_out(&mut blocked), ["ka", "kb"]);
        tokio::time::advance(LEFT_OUT_FOR / 2).await;
        assert_eq!(left_out(&mut blocked), ["kb"]);
        assert_eq!(blocked.found(0, More::No, keys(&[])), More::Locked, "one was left out");
        tokio::time::advance(LEFT_OUT_FOR / 2).await;
        assert!(left_out(&mut blocked).is_empty());
        assert_eq!(blocked.found(0, More::No, keys(&[])), More::No);
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_goes_on_in_longer_strides_and_forgets_nothing() {
        let mut blocked = Blocked::default();
        for (key, looked_at) in [("ka", 10), ("kb", 20), ("kc", 40)] {
            assert_eq!(blocked.looked_at(10), looked_at);
            assert_eq!(blocked.found(0, More::Maybe, keys(&[key])), More::Maybe);
            tokio::time::advance(LEFT_OUT_FOR * 2).await;
            blocked.forget();
        }
        assert_eq!(blocked.keys().len(), 3);
        assert_eq!(blocked.found(5, More::Maybe, keys(&[])), More::Maybe);
        assert_eq!((blocked.looked_at(10), left_out(&mut blocked).len()), (10, 0));
        blocked.in_vain = 70;
        assert_eq!(blocked.looked_at(10), LOOKED_AT_MAX);
        assert_eq!(blocked.looked_at(LOOKED_AT_MAX + 1), LOOKED_AT_MAX + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_reading_finds_is_looked_at_again_by_the_next() {
        let mut blocked = Blocked::default();
        assert_eq!(blocked.found(3, More::No, keys(&["ka"])), More::Locked);
        assert!(left_out(&mut blocked).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_behind_too_many_keys_ends() {
        let mut blocked = Blocked::default();
        let many = (0..LEFT_OUT_MAX).map(|_| BlockedKey::new("k")).collect();
        assert_eq!(blocked.found(0, More::Maybe, many), More::Locked);
        tokio::time::advance(LEFT_OUT_FOR).await;
        assert!(left_out(&mut blocked).is_empty());
    }
}
