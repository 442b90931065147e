//! Why a column's value cannot be written.

use crate::routing::timestamp::NoTime;

/// Why a value cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unwritable {
    #[error("{0}")]
    Time(#[from] NoTime),
    #[error("its text has another form than its type")]
    Form,
    #[error("Debezium does not write such a number: it is not finite")]
    NotFinite,
    #[error("Debezium does not write such an array: it has several dimensions")]
    Dimensions,
}
