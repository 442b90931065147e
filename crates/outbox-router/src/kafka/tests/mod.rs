//! The sink against librdkafka's mock cluster: the faults here cannot be had from a real broker on
//! demand.

mod cluster;
mod delivery;
mod failures;
mod retries;
mod small_topics;
mod state;
mod topics;
