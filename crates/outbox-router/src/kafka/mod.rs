//! The connection to Kafka: a [`relay::RecordSink`] over librdkafka that produces nothing after a
//! record that failed.
//!
//! rdkafka provides configuration and the client's life cycle. Records, delivery reports and admin
//! requests go directly to librdkafka through `ffi`, the only module with unsafe code.
//! [`KafkaSink`] belongs to the streaming task and never blocks. [`open`], [`KafkaSink::close`] and
//! all functions of [`TopicClient`], [`StateTopic`] and [`TopicReader`] block, and belong on
//! blocking threads; commands that do nothing else meanwhile call them directly.

mod bound;
mod distance;
mod errors;
mod ffi;
mod health;
mod inspection;
mod lifecycle;
mod log;
mod lookup;
mod overrides;
mod settings;
mod sink;
mod state;
mod statistics;
mod stored;
mod timestamps;
mod topic_reader;
mod topics;

pub use bound::{Identity, TopicLimits};
pub use ffi::{Operation, Operations};
pub use health::Health;
pub use inspection::{Inspection, PartitionLayout, StateTopicInspected, TopicInspected};
pub use lifecycle::{open, try_open};
pub use lookup::{TopicLookedUp, look_up_topics, topic_command};
pub use overrides::SettingRefused;
pub use settings::{KafkaSettings, TopicCreation};
pub use sink::{DeliveryFailure, KafkaSink};
pub use state::{
    Anchor, StateExtent, StateLog, StateTopic, command_state_topic, put_state, state_topic_command,
};
pub use statistics::{
    BROKERS_SHOWN, BrokerConnection, BrokerFigures, BrokerStatistics, RoundTrip, StatisticsFeed,
    Waiting,
};
pub use stored::StoredOffsets;
pub use timestamps::Keeps;
pub use topic_reader::{Extent, PartitionId, Polled, ReadFrom, StoredRecord, TopicReader};
pub use topics::{Retention, TopicClient, TopicDescription, TopicLookup, TopicReading};

#[cfg(test)]
mod tests;
