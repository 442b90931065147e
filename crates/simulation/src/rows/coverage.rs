//! Counts what the runs have reached.

use crate::reached::{Reached, Wanted};

/// Counts of runs, by name.
pub type RowsCoverage = Reached<Rows>;

/// The life of rows.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Rows;

impl Wanted for Rows {
    const NAME: &'static str = "rows";
    const STATES: &'static [&'static str] = &[
        "slot moved beside a router",
        "updated",
        "rewritten",
        "aged by another column",
        "rows",
        "delivered",
        "held",
        "removed",
        "dropped partitions",
        "rows kept as older",
        "partitions kept by a late row",
        "half detached",
        "rows in no stream",
        "attached later",
        "attached with rows",
        "rows of the attaching transaction",
        "joined",
        "left",
        "promoted",
        "promoted with a loss",
        "restored",
        "slot moved",
        "slot made again",
        "publication altered",
        "alteration hidden",
        "alteration shown",
        "inserts withheld",
        "inserts published again",
        "accepted",
        "refused",
    ];
}
