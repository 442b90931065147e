//! The sink against librdkafka's mock cluster, for faults that a real broker cannot produce on
//! demand.

mod cluster;
mod delivery;
mod failures;
mod retries;
mod small_topics;
mod state;
mod topics;
