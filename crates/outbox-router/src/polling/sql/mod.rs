//! The polling source's SQL: what a table looks like, its pending rows, their marks, who works at
//! which keys, and what `setup` makes.
//!
//! Everything works through a pooler in transaction mode, but for [`Listener`]: each request is one
//! string of statements that begins and ends its transaction (`transaction`), with values as
//! literals (`literals`).
//!
//! In reading order: `settings` (what is configured), `facts` (what the catalog says) and `note`
//! (what was noted before), `marks` and `words` (by which columns a row is pending), `conditions`
//! (the same as SQL), `key`, `order`, `filter`, `table` (all of it together), `noted` (whether the
//! marks are as noted), `fetch` and `rows` (reading), `settle` and `fence` (marking), [`Database`]
//! (the connection), `lease`, `listen`, `survey`, `former`, `holders`,
//! [`setup`], `indexes`, [`switch`]; for people: `stuck` and `decisions` (rows that are not
//! delivered, and what is decided about them), `row_marks` (one row), `named` (rows by the ids that
//! are typed); `removal` and `measure` (rows that nobody needs any more), `cascades` (keys by
//! which other rows go with them), `upkeep` and `columns`
//! (what `doctor` asks for); `kept_from_stream` and `kept_from_workers` (what a stream asks for
//! before it starts, and what a worker asks for).

mod blocked;
mod cascades;
mod columns;
mod conditions;
mod connection;
mod database;
mod decisions;
mod facts;
mod failure;
mod fence;
mod fetch;
mod filter;
mod former;
mod holders;
mod indexes;
mod kept_from_stream;
mod kept_from_workers;
mod key;
mod lease;
mod listen;
mod literals;
mod marks;
mod measure;
mod named;
mod note;
mod noted;
mod oids;
mod order;
mod removal;
mod row_marks;
mod rows;
mod settings;
mod settle;
pub mod setup;
mod shown;
mod size;
mod stuck;
mod survey;
pub mod switch;
mod table;
mod transaction;
mod upkeep;
mod words;

pub(crate) use cascades::refuse_cascades;
pub use columns::{ColumnAdvice, Numbering, columns};
pub use database::Database;
pub use decisions::{Dropped, drop_rows, requeue};
pub(crate) use former::former;
pub(crate) use holders::handed;
pub use holders::{Holder, Shares};
pub use indexes::{IndexTrouble, IndexWork};
pub(crate) use kept_from_stream::{
    is_among, kept_from_slot, kept_from_stream, named_oids, polled_last, switches_under_way,
};
pub(crate) use kept_from_workers::kept_from_workers;
pub use lease::LeaseTable;
pub(crate) use lease::make_shards;
pub use listen::Listener;
pub use named::{NamedRows, RowNames};
pub use noted::NoteWork;
pub use order::WritingOrder;
pub use removal::{Removal, RemovalRules, Scan};
pub use row_marks::{RowMarks, RowState, row_marks};
pub use settings::{
    Direction, MarkConfig, MarkHow, Nulls, OrderColumn, RowScope, SqlSettings, StreamNames,
    TableConfig,
};
pub use stuck::{Stuck, StuckFilter, StuckRow, columns_of, stuck};
pub use survey::{RowCount, TableSurvey, survey};
pub use table::PolledTable;
pub(crate) use table::not_described;
pub use transaction::{begin_snapshot, switch_session};
pub use upkeep::{LeaseTables, UpkeepFacts, leases, upkeep};
pub(crate) use words::same_word;
