//! PostgreSQL's clock, which is not that of the workers, and may jump.

use std::time::Duration;

use relay::Moment;

use super::plan::LEASE;

/// See the module's header.
#[derive(Debug)]
pub struct ServerClock {
    /// By how much it is ahead of the clock of the workers.
    ahead: Duration,
    jumped_at: Option<Moment>,
}

/// A jump.
#[derive(Debug, Clone, Copy)]
pub enum Jump {
    /// It is later at once.
    Forwards(Duration),
    /// It is earlier at once.
    Backwards(Duration),
}

impl Default for ServerClock {
    fn default() -> Self {
        // So far ahead that no number of jumps leads to before its origin.
        Self { ahead: Duration::from_secs(3_600), jumped_at: None }
    }
}

impl ServerClock {
    /// What it shows while the workers' clock shows `at`.
    pub fn at(&self, at: Moment) -> Moment {
        at + self.ahead
    }

    /// Whether it has jumped within a lease.
    pub fn has_jumped(&self, at: Moment) -> bool {
        self.jumped_at.is_some_and(|jumped_at| at < jumped_at + LEASE)
    }

    /// It jumps, unless it has jumped within a lease: two jumps would be one of both together.
    /// Returns whether it has.
    pub fn jump(&mut self, jump: Jump, at: Moment) -> bool {
        if self.has_jumped(at) {
            return false;
        }
        self.jumped_at = Some(at);
        self.ahead = match jump {
            Jump::Forwards(by) => self.ahead + by,
            Jump::Backwards(by) => self.ahead.saturating_sub(by),
        };
        true
    }
}
