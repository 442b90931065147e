//! What tests of the core use in place of PostgreSQL and Kafka: a server's answers, the messages of
//! a walsender, and a sink in memory.

mod held_table;
pub mod samples;
mod sink;
mod source;
mod versions;
pub mod wire;

pub use held_table::{HeldRow, HeldState, HeldTable};
pub use sink::{Lane, MemorySink, ProducedRecord};
pub use source::Source;
pub use versions::sent;
