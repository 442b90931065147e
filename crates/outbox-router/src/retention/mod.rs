//! Removes delivered rows from the outbox tables, beside the stream or by the command `cleanup`.
//! [`relay::delivered`] says which rows are delivered, and why: what is here is its SQL.
//!
//! A sweep takes a horizon, waits until the slot has confirmed it, and then deletes the oldest rows
//! of each table in the order of an index on their time, in small statements that wait for no lock
//! for long. A row is deleted only when all of this holds:
//!
//! * its time is longer ago than `retention.keep`, by the server's clock;
//! * its `xmin` precedes the horizon's;
//! * its table was an outbox when it was written (`events`);
//! * no worker polls its table (`polled`);
//! * its event is not open in `outbox_router.held`. The router puts an event there before its
//!   position is confirmed, so whoever reads that table after the horizon is confirmed sees it.
//!
//! Read in this order: `session` (a connection for it), `horizon`, `target` (a table, and what a
//! sweep needs of it), `events`, `rows` (the statements), `sweep` and `slow`; `partitions` drops
//! them whole; `task` is what `run` does beside the stream.

pub(crate) mod abandoned;
mod archive;
mod column;
pub(crate) mod counts;
pub(crate) mod events;
mod figures;
mod held;
pub(crate) mod horizon;
mod kept;
mod obstacle;
pub(crate) mod partitions;
mod polled;
mod references;
mod report;
mod rows;
pub(crate) mod session;
mod settings;
mod slow;
pub(crate) mod step;
pub(crate) mod sweep;
pub(crate) mod target;
mod task;
mod time;

pub(crate) use held::{ReliedOn, check_whole};
pub use report::{RetentionReport, TableFigures, TableReport};
pub use rows::covered_sql;
pub(crate) use rows::{NEXT, is_event_sql, precedes_sql};
pub use settings::RetentionSettings;
pub use task::{Channels, run};
