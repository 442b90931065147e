//! What tests of the core are made of: the server's side of the wire, and a sink in memory.

mod sink;
pub mod wire;

pub use sink::{Lane, MemorySink, StoredRecord};
