//! How commands hand the rows of tables to a stream, and back: the steps of a run, by what there
//! is, so that the same command goes on after a kill at any step.

pub mod backfill;
pub mod switch;

use serde_json::Value;

/// The values of the columns by which rows are put in order, as texts; `None` is NULL.
pub type Position = Vec<Option<String>>;

/// A run of an earlier process, as `outbox_router.republication` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastRun {
    /// Its number.
    pub id: i64,
    /// Who has typed it.
    pub by: String,
    /// When it began.
    pub begun_at: String,
    /// Which rows go where, in one form for the same rows.
    pub selection: String,
    /// How many rows are settled.
    pub settled: i64,
    /// How far it got: a [`Position`], or one with what a command writes beside it. `None`: nothing
    /// was settled.
    pub place: Option<Value>,
    /// Whether it has settled all of its rows.
    pub completeness: Completeness,
}

impl PastRun {
    /// The place in the order up to which everything is settled.
    pub fn position(&self) -> Option<Position> {
        serde_json::from_value(self.place.clone()?).ok()
    }
}

/// Whether a run has settled all of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// It has.
    Complete,
    /// It has not, and goes on no more.
    GivenUp,
    /// It has not.
    Partial,
}
