//! The one module with unsafe code: the calls into librdkafka that rdkafka's safe surface lacks or
//! does too slowly.
//!
//! Why not `BaseProducer`: its `send` looks the topic up by name and builds a header object of its
//! own, its `poll` neither batches reports nor says when the queue is empty. Here a record costs
//! one call with a cached topic handle, reports are read straight from the event that carries them,
//! and an eventfd says when there are any. rdkafka's `Client` still makes and destroys the native
//! client; nothing but [`Producer::serve`] ever polls its main queue.
//!
//! Error codes cross the border as integers: the bindings declare them as Rust enums with gaps, and
//! a code that a newer broker invents would be undefined behaviour.
#![allow(unsafe_code, reason = "librdkafka is a C library; every call states why it is sound")]

mod admin;
mod client;
mod events;
mod message;
mod metadata;
mod producer;
mod raw;
mod reader;

pub(super) use admin::{AdminError, NewTopic};
pub(super) use events::{ClientError, Delivery, Events, Report, Severity, TopicAddress};
pub(super) use message::{Message, NativeHeaders};
pub use metadata::TopicUuid;
pub(super) use metadata::answering;
pub(super) use producer::{Producer, Served, TopicHandle};
pub(super) use reader::{Fetched, FetchedRecord, Reader};
