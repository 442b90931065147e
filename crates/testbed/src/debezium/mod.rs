//! The real Debezium, in a worker of Kafka Connect standalone.

mod versions;
mod worker;

pub use versions::{jars, versions};
pub use worker::{ConnectorState, Worker, WorkerOptions};
