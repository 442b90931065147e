//! What tests of the core are made of: a server and its side of the wire, and a sink in memory.

mod sink;
mod source;
pub mod wire;

pub use sink::{Lane, MemorySink, StoredRecord};
pub use source::Source;
