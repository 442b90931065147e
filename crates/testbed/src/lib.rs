//! Temporary real servers, faults, load, and a checker of every promise that the product makes.
//!
//! This crate uses no code of the product: it checks what the database and Kafka say. A test whose
//! server is missing *fails*.
//!
//! * [`postgres`], [`kafka`], [`router`], [`debezium`]: real processes that can be stopped, killed
//!   and started again.
//! * [`prometheus`]: a real Prometheus that scrapes routers and says which alerts fire.
//! * [`proxy`]: a TCP connection that can be paused, cut, delayed or black-holed, or whose
//!   responses can be held back.
//! * [`tap`]: the positions that a router confirms, read off the wire.
//! * [`load`]: writers that do everything an application does to an outbox table.
//! * [`reader`], [`tail`], [`truth`], [`commit_tracker`], [`checker`]: what is in Kafka, what
//!   should be there, when it was committed, and the comparison.

pub mod checker;
pub mod commit_tracker;
pub mod debezium;
pub mod http;
pub mod kafka;
pub mod load;
pub mod ports;
pub mod postgres;
pub mod process;
pub mod prometheus;
pub mod proxy;
pub mod reader;
pub mod router;
pub mod tail;
pub mod tap;
pub mod truth;
pub mod wait;

mod cache;

mod scripts;
