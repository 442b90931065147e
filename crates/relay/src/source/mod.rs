//! Slot, publication, tables and server as plain data; what is wrong with them; and which rows are
//! at risk because of it.
//!
//! The walsender checks little and late: a stream on which nothing happens looks the same as one
//! whose publication no longer publishes. So slot and publication are read by SQL, before each
//! stream and while it runs. The shell reads them; everything in this module is a function of what
//! was read, so that every result can be replayed.
//!
//! Read in this order: [`SlotReading`] and [`Catalog`] (the facts), [`slot_checks`] and
//! [`publication`] (what is wrong with them), [`history`] (whether the server is still the same),
//! [`preflight()`] (whether a stream may start), [`TableOids`] (which configured table a row
//! belongs to), [`suspected_gap`] (which rows a defect puts at risk that the monitor found).

mod baseline;
mod catalog;
mod gap;
pub mod history;
mod labels;
mod mapping;
mod monitor_gap;
mod moves;
mod obstacle;
mod preflight;
pub mod publication;
mod quote;
mod reader;
#[cfg(test)]
pub(crate) mod samples;
mod server;
mod slot;
pub mod slot_checks;
mod storage;
mod tables;
mod unconfigured;

pub use baseline::{Baseline, Expectations, PositionCheck};
pub use catalog::{
    Catalog, CatalogRelation, Child, Inserts, NextRows, Partitions, Publication, PublishedTable,
    SchemaEntry, TableKind,
};
pub use gap::{Gap, Interval, Mark};
pub use labels::FilterLabels;
pub use monitor_gap::{LastGood, suspected_gap};
pub use moves::RowMovePrivileges;
pub use obstacle::Obstacle;
pub use pgoutput::Oid;
pub use preflight::{Present, check_cluster, check_slot, gaps_since, preflight};
pub(crate) use quote::quote_word;
pub use quote::{give_up, quote_identifier, quote_table};
pub use reader::{ReaderOf, SlotReader};
pub use server::{History, Server, ServerEncoding, TimelineHistory};
pub use slot::{
    ServerMoment, SlotFeature, SlotHealth, SlotKind, SlotReading, WalStatus, bytes_between,
};
pub use storage::{Partition, Persistence, Storage, ToastOrigin};
pub use tables::TableOids;
