//! The survey: how many rows of the polled tables are pending, for how long, and who works at them.
//!
//! A task beside the worker, over a connection of its own, so that counting delays no row. It
//! decides nothing: `/metrics`, `/status.json` and the page show what it has read, and a table that
//! cannot be counted is polled all the same. `outbox-router status` reads the same, also while no
//! router runs.

mod report;
mod surveyor;

use std::{convert::Infallible, time::SystemTime};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

pub use super::sql::{Holder, RowCount, TableSurvey};
use crate::monitor::{Connect, Polled};
pub use report::{SurveyReport, SurveyedTable};
pub(crate) use report::{of_which_not_due, stranded, sum};
pub(crate) use surveyor::{SurveySettings, Surveyor};

/// Reads again and again, for ever.
pub(crate) async fn run<C: Connect>(
    settings: SurveySettings,
    connect: C,
    surveys: watch::Sender<SurveyReport>,
) -> Infallible {
    let interval = settings.interval;
    let mut surveyor = Surveyor::new(settings, connect);
    loop {
        let read = surveyor.read().await;
        surveys.send_modify(|report| {
            report.ticked_at = Some(Instant::now());
            match read {
                Ok(tables) => {
                    report.tables = tables;
                    report.read = Some(Polled { at: Instant::now(), wall: SystemTime::now() });
                    report.failure = None;
                }
                // What was read last stays: its age is shown beside it.
                Err(failure) => report.failure = Some(failure),
            }
        });
        sleep(interval).await;
    }
}
