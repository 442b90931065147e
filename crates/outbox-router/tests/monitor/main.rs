//! The monitor and preflight on a real PostgreSQL: what they see, what they tell, and what they
//! keep to themselves.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test names the one event it waits for")]

mod alterations;
mod concurrent_changes;
mod decided;
mod filter_words;
mod fixture;
mod gaps;
mod log;
mod numbers;
mod postgres;
mod preflight;
mod remedy;
mod server_identity;
mod stopping;
mod watch;
