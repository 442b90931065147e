//! Why a command could not do its work.

use std::io;

use relay::Failure;

/// What ends a command.
#[derive(Debug)]
pub(super) enum TaskError {
    /// PostgreSQL, Kafka, or something that was found there.
    Failure(Box<Failure>),
    /// The output cannot be written.
    Output(io::Error),
}

impl From<Failure> for TaskError {
    fn from(failure: Failure) -> Self {
        Self::Failure(Box::new(failure))
    }
}

impl From<io::Error> for TaskError {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
