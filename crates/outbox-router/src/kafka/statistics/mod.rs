//! What librdkafka tells of each broker: its statistics, on request (`kafka.statistics`).
//!
//! They cost: librdkafka measures every request, and writes a JSON document of every broker, topic
//! and partition. So without the key nothing is measured, written or read, and no other client than
//! the router's own producer ever has them.
//!
//! A document comes as an event of the producer's queue, like a delivery report, and the streaming
//! task reads it there (`document.rs`): once an interval, and no further than to the brokers. What
//! it says is published by a `watch`, from which `/metrics` is made. While no document comes, as
//! when librdkafka's main thread hangs, the figures stay, and [`BrokerStatistics::received`] says
//! how old they are. A new producer begins without figures: librdkafka counts anew in it.

mod document;
mod feed;
mod figures;
#[cfg(test)]
mod tests;

pub use feed::{BROKERS_SHOWN, BrokerStatistics, StatisticsFeed};
pub use figures::{BrokerConnection, BrokerFigures, RoundTrip, Waiting};
