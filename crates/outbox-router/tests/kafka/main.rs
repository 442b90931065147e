//! The way to Kafka against a real one: what librdkafka's mock cluster has not. A Kafka that cannot
//! be had fails these tests.
#![allow(clippy::unwrap_used, reason = "what a test cannot go on without")]

mod broker;
mod incremental_reading;
mod state;
mod statistics;
mod topics;
