//! The state of the pipeline in one answer: a verdict of one word and one sentence, who has to act,
//! since when, how long until PostgreSQL takes the slot away, and what to type.
//!
//! `/status.json`, `/metrics`, `outbox-router status` and the log take the verdict from here, so no
//! two of them can disagree. It is a function of facts: [`facts`] collects them from the reports of
//! streaming task and monitor, [`verdict`] judges them. What cannot be seen at one moment (when a
//! position last moved, since when the verdict holds, which verdicts came before) is remembered by
//! the [`observer`], which looks twice a second.

pub mod facts;
pub mod observer;
pub mod progress;
pub mod reserve;
pub mod timeline;
pub mod to_do;
pub mod trend;
pub mod verdict;

pub use facts::{Facts, Limits};
pub use observer::Observed;
pub use timeline::{Change, Timeline};
pub use to_do::ToDo;
pub use trend::{Point, Trend};
pub use verdict::{Verdict, Word};
