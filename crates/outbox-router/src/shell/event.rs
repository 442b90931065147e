//! The events that the shell waits for.

use std::io;

use super::{
    job::Done,
    ports::{Kafka, Postgres},
};
use crate::{monitor::MonitorEvent, postgres::Fill};

/// One event; `wait` gives their order.
pub(super) enum ShellEvent<P: Postgres, K: Kafka> {
    /// Delivery reports wait in the producer's queue.
    Acks,
    /// The process was asked to stop.
    Shutdown,
    /// A job ended.
    Job(Box<Done<P, K>>),
    /// The monitor sent an event.
    Monitor(MonitorEvent),
    /// A deadline passed (of the core, of `topic_refresher` or of the next report), or frames were
    /// left by the last pass.
    Due,
    /// No other event is ready, so the pause that is due may begin.
    Coalesce,
    /// The queued status updates were written, or writing failed.
    Written(io::Result<()>),
    /// Bytes were read, or reading failed.
    Wal(io::Result<Fill>),
}
