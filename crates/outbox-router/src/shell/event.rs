//! What the shell waits for.

use std::io;

use super::{
    job::Done,
    ports::{Kafka, Postgres},
};
use crate::{monitor::MonitorEvent, postgres::Fill};

/// What can happen next.
pub(super) enum Event<P: Postgres, K: Kafka> {
    /// Delivery reports wait in the producer's queue.
    Acks,
    /// The process is to stop.
    Shutdown,
    /// A job is done.
    Job(Box<Done<P, K>>),
    /// The monitor has something to say.
    Monitor(MonitorEvent),
    /// A deadline of the core's, or of the care for Kafka.
    Due,
    /// WAL may gather in the socket.
    Coalesce,
    /// Queued bytes were written, or could not be.
    Written(io::Result<()>),
    /// Bytes were read, or could not be.
    Wal(io::Result<Fill>),
}
