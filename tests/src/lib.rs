//! The stage that end-to-end scenarios play on: real PostgreSQL, real Kafka, the real binary.
//!
//! A scenario says what is special about its [`Fixture`], lets something happen, and has the checker
//! of `testbed` judge what is in Kafka. Nothing here knows the product's code: only the
//! configuration contract, the admin endpoint and the exit codes. A stage that goes down in a panic
//! prints the end of the router's log, because that is where the story is.
//!
//! `OUTBOX_PG_VERSION` chooses the major version of PostgreSQL, `OUTBOX_ROUTER_BIN` the binary.

mod bounds;
mod checks;
mod fixture;
mod kafka;
mod load;

pub use bounds::{Interruptions, largest_transaction, memory_limit};
pub use fixture::{Fixture, FixtureBuilder};
pub use kafka::FixtureKafka;
pub use load::{create_event_function, wait_committed};
pub use testbed::router::RouterConfig;

use std::time::Duration;

use anyhow::Context;
use serde_json::Value;

/// For what should happen at once, on a machine that is busy with other things.
pub const SHORT_DEADLINE: Duration = Duration::from_secs(30);

/// The slot of every stage.
pub const SLOT: &str = "outbox_router";

/// The publication of every stage.
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
