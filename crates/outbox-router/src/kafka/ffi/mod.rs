//! The only module with unsafe code: calls into librdkafka that rdkafka's safe interface lacks or
//! makes too slowly.
//!
//! rdkafka's `BaseProducer` was rejected: its `send` looks the topic up by name and builds a header
//! object of its own, and its `poll` neither batches reports nor shows when the queue is empty.
//! Here a record costs one call with a cached topic handle, reports are read directly from the
//! event that carries them, and an eventfd signals that there are events. rdkafka's `Client` still
//! makes and destroys the native client; only [`Producer::serve`] and [`Reader::next`] poll its
//! main queue.
//!
//! Error codes are read from C as integers. The bindings declare them as Rust enums with gaps, and
//! a code of a newer broker that the enum lacks would be undefined behaviour.
#![allow(unsafe_code, reason = "librdkafka is a C library; every call states why it is sound")]

mod admin;
mod client;
mod events;
mod message;
mod metadata;
mod offsets;
mod operations;
mod producer;
mod raw;
mod reader;

pub(super) use admin::{AdminError, NewTopic};
pub(super) use events::{ClientError, Delivery, Events, Report, Severity, TopicAddress};
pub(super) use message::{NativeHeaders, OutgoingRecord};
pub(super) use metadata::answering;
pub use operations::{Operation, Operations};
pub(super) use producer::{Producer, Served, TopicHandle};
pub(super) use reader::{Fetched, FetchedRecord, Reader};
