//! Rows of an outbox table that become records outside of the stream: one row for `explain`, many
//! for `replay`.
//!
//! * `table_row`, `sql_type`, `messages`: a table, and its rows as a walsender sends them.
//! * `selection`: which rows, in which order, as SQL.
//! * `rows`, `copy_text`: those rows, read by COPY.
//! * `destination`: where the records go: Kafka, or only counts of them.
//! * `sender`: the loop between the two; `pace`: how fast it may go.
//! * `checkpoints`, `journal`: how far a run got, so that another goes on from there.

pub(crate) mod checkpoints;
mod copy_text;
pub(crate) mod destination;
pub(crate) mod journal;
pub(crate) mod left_out;
pub(crate) mod messages;
mod pace;
pub(crate) mod rows;
pub(crate) mod selection;
pub(crate) mod sender;
pub(crate) mod sql_type;
pub(crate) mod table_row;
