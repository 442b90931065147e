//! What the steps of commands lead to.

use super::database::Row;

/// What a step has led to.
#[derive(Debug)]
pub enum Step {
    /// The command goes on.
    Goes,
    /// It goes on, and has done something worth counting.
    Did(&'static str),
    /// It has ended, and why.
    Ends(&'static str),
    /// It has done what it is for.
    Done(Done),
}

/// What a command has done.
#[derive(Debug)]
pub enum Done {
    /// Gaps are closed: nothing is missing that the tables have, but for rows that somebody gave
    /// up.
    Closed {
        /// Those.
        given_up: Vec<u64>,
        /// By which rows.
        how: &'static str,
    },
    /// Gaps are accepted: what is missing is given up.
    Accepted,
    /// Rows are marked that the stream has delivered; as they were read.
    Marked(Vec<Row>),
    /// The tables are polled.
    Polled,
    /// Every row of the tables is sent, or comes from the slot, but for those that somebody gave
    /// up.
    Handed {
        /// Those.
        given_up: Vec<u64>,
        /// By which command.
        how: &'static str,
    },
    /// A back-fill has sent a row again that nothing lets it send again.
    Repeated(Row),
}
