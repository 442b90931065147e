//! The worker, with a real PostgreSQL and librdkafka's mock cluster, or a Kafka that is away.
//!
//! [`fixture`] is the server with its table, and the parts of a worker; [`at_work`] runs the worker
//! turn by turn until something is seen. `OUTBOX_PG_VERSION` says which PostgreSQL; 15 comes with
//! the system that the tests of this crate need.

mod at_work;
mod deadlines;
mod failed_rows;
mod fixture;
mod lost_claims;
mod no_producer;
mod reports;
