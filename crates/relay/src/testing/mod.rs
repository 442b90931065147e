//! What tests of the core use in place of PostgreSQL and Kafka: a server's answers, the messages of
//! a walsender, and a sink in memory.

pub mod samples;
mod sink;
mod source;
pub mod wire;

pub use sink::{Lane, MemorySink, ProducedRecord};
pub use source::Source;
