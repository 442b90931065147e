//! Keys whose rows cannot be taken now, since another transaction has locked one of them.

use std::time::Duration;

use tokio::time::Instant;

/// For how long such keys are left out before it is looked whether they are still blocked. It costs
/// one reading to find out.
const LEFT_OUT_FOR: Duration = Duration::from_secs(1);

/// A key of which another transaction has locked a row, as an expression of SQL gives it.
#[derive(Debug)]
pub(super) struct BlockedKey(pub(super) Box<str>);

/// The keys of a table that were found blocked a moment ago.
#[derive(Debug, Default)]
pub(super) struct Blocked {
    keys: Vec<BlockedKey>,
    since: Option<Instant>,
}

impl Blocked {
    /// Those that are to be left out now.
    pub(super) fn keys(&mut self) -> &[BlockedKey] {
        if self.since.is_some_and(|since| since.elapsed() >= LEFT_OUT_FOR) {
            *self = Self::default();
        }
        &self.keys
    }

    pub(super) fn extend(&mut self, keys: Vec<BlockedKey>) {
        if !keys.is_empty() {
            self.since.get_or_insert_with(Instant::now);
            self.keys.extend(keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_left_out_for_a_moment() {
        let mut blocked = Blocked::default();
        blocked.extend(Vec::new());
        tokio::time::advance(LEFT_OUT_FOR).await;
        blocked.extend(vec![BlockedKey("ka".into())]);
        assert_eq!(blocked.keys().len(), 1);
        tokio::time::advance(LEFT_OUT_FOR / 2).await;
        blocked.extend(vec![BlockedKey("kb".into())]);
        assert_eq!(blocked.keys().len(), 2);
        tokio::time::advance(LEFT_OUT_FOR / 2).await;
        assert!(blocked.keys().is_empty());
    }
}
