//! The way to Kafka: a [`relay::RecordSink`] over librdkafka that never leaves a gap and then goes
//! on.
//!
//! rdkafka gives configuration and client life cycle; records, delivery reports and admin requests
//! go straight to librdkafka through `ffi`, the one module with unsafe code. [`KafkaSink`] belongs
//! to the streaming task and never blocks; [`open`], [`KafkaSink::close`] and everything of
//! [`TopicDirectory`] and [`StateTopic`] block and belong on blocking threads.

mod bound;
mod errors;
mod ffi;
mod health;
mod lifecycle;
mod log;
mod overrides;
mod settings;
mod sink;
mod state;
mod timestamps;
mod topics;

pub use bound::Identity;
pub use ffi::TopicUuid;
pub use health::Health;
pub use lifecycle::{open, try_open};
pub use overrides::SettingRefused;
pub use settings::{CreateTopics, KafkaSettings};
pub use sink::{DeliveryTrouble, KafkaSink};
pub use state::{
    Anchor, StateEnd, StateRead, StateRecord, StateTopic, put_state, read_state,
    state_topic_command,
};
pub use topics::{Found, Seen, TopicDirectory, TopicLookup};

#[cfg(test)]
mod tests;
