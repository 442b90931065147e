//! Sweeps beside the worker, and what is shown of them.

use std::{convert::Infallible, time::SystemTime};

use relay::{Failure, TableName, polling::TableIndex};
use tokio::{sync::watch, time::sleep};

use super::sweeper::{SweepSettings, Sweeper};
use crate::{
    codes::hint,
    monitor::Connect,
    retention::{RetentionReport, TableReport},
};

/// The report of a process that starts at this moment; without tables where retention is off.
pub(crate) fn first_report(settings: Option<&SweepSettings>) -> RetentionReport {
    let tables = settings.into_iter().flat_map(|settings| &settings.tables);
    let names = tables.map(|table| table.outbox.name.clone());
    RetentionReport::at_start(names, SystemTime::now())
}

/// Sweeps again and again, for ever. The reports begin with [`first_report`].
pub(crate) async fn run<C: Connect>(
    settings: SweepSettings,
    connect: C,
    reports: watch::Sender<RetentionReport>,
) -> Infallible {
    let mut sweeper = Sweeper::new(settings, connect);
    let tables = sweeper.tables();
    // What was said of each table: a failure that stays is logged once.
    let mut said: Vec<Option<String>> = vec![None; tables.len()];
    loop {
        let mut first_failure = None;
        for ((table, name), said) in tables.iter().zip(&mut said) {
            let swept = sweep(&mut sweeper, *table, name, &reports).await;
            if let Err(failure) = &swept {
                log(name, failure, said);
            } else {
                *said = None;
            }
            first_failure = first_failure.or(swept.err());
        }
        reports.send_modify(|report| {
            match &first_failure {
                None => report.last_success = SystemTime::now(),
                Some(_) => report.errors += 1,
            }
            report.failure = first_failure;
        });
        sleep(sweeper.interval()).await;
    }
}

async fn sweep<C: Connect>(
    sweeper: &mut Sweeper<C>,
    table: TableIndex,
    name: &TableName,
    reports: &watch::Sender<RetentionReport>,
) -> Result<(), Failure> {
    let mut left = 0;
    let swept = sweeper
        .sweep(table, |more| {
            left += more;
            reports.send_modify(|report| {
                if let Some(table) = of_table(report, table) {
                    table.removed += more;
                }
            });
        })
        .await;
    if left > 0 {
        tracing::info!(table = %name, published = left, "rows were removed");
    }
    match sweeper.measure(table).await {
        Ok(figures) => reports.send_modify(|report| {
            if let Some(table) = of_table(report, table) {
                table.figures = figures;
            }
        }),
        // The sweep meets and reports it, too.
        Err(failure) => tracing::debug!(table = %name, "not measured: {failure:#}"),
    }
    swept
}

fn of_table(report: &mut RetentionReport, table: TableIndex) -> Option<&mut TableReport> {
    report.tables.get_mut(table.0)
}

fn log(name: &TableName, failure: &Failure, said: &mut Option<String>) {
    let text = failure.message_with_causes();
    if said.as_ref() != Some(&text) {
        tracing::warn!(
            code = %failure.code, hint = hint(failure), table = %name,
            "rows are not removed: {text}"
        );
        *said = Some(text);
    }
}
