//! The fixture of the end-to-end scenarios: real PostgreSQL, real Kafka, the real binary.
//!
//! A scenario says what is special about its [`Fixture`], does something to it, and lets the
//! checker of `testbed` compare what is in Kafka with what was committed. Nothing here uses the
//! product's code: only its configuration, its admin endpoint and its exit codes. A fixture that is
//! dropped in a panic prints the end of the router's log.
//!
//! `OUTBOX_PG_VERSION` chooses the major version of PostgreSQL, `OUTBOX_ROUTER_BIN` the binary.

mod bounds;
mod checks;
mod fixture;
mod kafka;
mod load;
mod rows;

pub use bounds::{Interruptions, largest_transaction, memory_limit};
pub use fixture::{Fixture, FixtureBuilder};
pub use kafka::FixtureKafka;
pub use load::{create_event_function, wait_committed};
pub use rows::{LONG_DEADLINE, wait_settled};
pub use testbed::router::RouterConfig;

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

/// For what should happen at once, on a machine that is busy with other things.
pub const SHORT_DEADLINE: Duration = Duration::from_secs(30);

/// The slot of every fixture.
pub const SLOT: &str = "outbox_router";

/// The publication of every fixture.
pub const PUBLICATION: &str = "outbox_router";

/// The role that the router connects as: it may replicate, and is no superuser.
pub const ROLE: &str = "outbox_router";

/// The text at a JSON pointer, such as `/reason/code` of `/status.json`.
pub fn text<'a>(document: &'a Value, pointer: &str) -> Option<&'a str> {
    document.pointer(pointer)?.as_str()
}

/// The major version of PostgreSQL that scenarios run on.
///
/// # Errors
///
/// Fails when `OUTBOX_PG_VERSION` is no number.
pub fn postgres_version() -> anyhow::Result<u16> {
    match std::env::var("OUTBOX_PG_VERSION") {
        Ok(text) => text.parse().with_context(|| format!("OUTBOX_PG_VERSION is \"{text}\"")),
        Err(_) => Ok(15),
    }
}
