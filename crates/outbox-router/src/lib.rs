//! The product: what the relay decides, done to a real PostgreSQL and a real Kafka.

pub mod admin;
pub mod monitor;
