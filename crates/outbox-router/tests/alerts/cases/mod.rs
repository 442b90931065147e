//! The cases of every alert: at least one in which it fires, and one in which it does not.

mod calm;
mod delivery;
mod held;
mod one_pipeline;
mod polling;
mod restart;
mod retention;
mod routers;
mod scrape;
mod slot;
mod wal;

pub(crate) use calm::{CALM_HOUR, CALM_HOUR_OF_POLLING};
pub(crate) use one_pipeline::OF_ONE;

use crate::case::Case;

/// The cases of the rules for every pipeline.
pub(crate) fn cases() -> impl Iterator<Item = &'static Case> {
    [
        routers::CASES,
        delivery::CASES,
        slot::CASES,
        wal::CASES,
        polling::CASES,
        held::CASES,
        retention::CASES,
        restart::CASES,
        scrape::CASES,
    ]
    .into_iter()
    .flatten()
}
