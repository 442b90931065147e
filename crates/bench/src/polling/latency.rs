//! How soon a row that is written is in Kafka, while a NOTIFY wakes the router.

use anyhow::Context;
use serde_json::json;
use testbed::kafka::KafkaCluster;
use tokio::task::spawn_blocking;

use super::table::PolledTable;
use super::wait_polling;
use crate::args::Args;
use crate::figures::float;
use crate::latency::TIME;
use crate::latency_figures::LatencyFigures;
use crate::listen::consume;
use crate::reader::{Reader, stop};
use crate::report::{Report, Table};
use crate::shape::Distribution;
use crate::targets::{Limit, Target};
use crate::topic::RunTopics;
use crate::writers::{Timetable, WARM_UP, WriteResult, write};
use crate::yardstick::Needs;

const RATE: u64 = 1_000;

pub(super) async fn measure(
    args: &Args,
    reader: &Reader,
    kafka: &KafkaCluster,
    report: &mut Report,
) -> anyhow::Result<()> {
    let mut runs = Vec::new();
    for turn in 1..=args.latency_runs() {
        let table = PolledTable::empty(args).await?;
        let name = format!("polling-latency-{turn}");
        let topics = RunTopics::create(&kafka.bootstrap(), &name, Distribution::default()).await?;
        let mut router = table.router(reader, &topics)?;
        table.set_up(&router, &["--notify"]).await?;
        router.start_again()?;
        wait_polling(&mut router).await?;
        let timetable = Timetable::lasting(RATE, WARM_UP + TIME);
        let consuming = consume(&topics, &timetable, None).await?;
        let (url, rows, written) = (table.url(), table.name(), timetable.clone());
        let writing = spawn_blocking(move || write(&url, &rows, &written));
        let (written, seen) = tokio::try_join!(writing, consuming)?;
        let seen = seen.with_context(|| format!("log:\n{}", router.log()))?;
        stop(&mut router).await?;
        let WriteResult { took, lateness, .. } = written?;
        let late = float(lateness.value_at_quantile(0.99)) / 1e6;
        let outcome = LatencyFigures::of(&topics, &timetable, seen, (took, Some(late))).await?;
        let what = format!("polling latency {turn}");
        let Some(figures) = report.require_no_anomaly(&what, outcome)? else { continue };
        let line = json!({ "reader": reader.name(), "rate": RATE, "run": turn });
        report.record("polling-latency", line, figures)?;
        runs.push(figures);
    }
    let spread =
        |figure: fn(&LatencyFigures) -> f64| crate::figures::Spread::of(runs.iter().map(figure));
    let (Some(p50), Some(p99)) = (spread(|run| run.p50), spread(|run| run.p99)) else {
        return Ok(());
    };
    let mut shown = Table::new(&["reader", "p50 ms", "p99 ms"]);
    shown.row([reader.name().to_owned(), p50.show_fine(), p99.show_fine()]);
    report.print(&format!(
        "\npolling with NOTIFY, commit to consumer, {RATE} transactions a second\n{}",
        shown.show()
    ))?;
    let what =
        format!("{}, polling with NOTIFY, {RATE}/s: commit to consumer p50, ms", reader.name());
    let target = Target::new(what, Limit::AtMost(10.0), p50);
    report.add_target(target.needs(Needs::QuietMachine));
    Ok(())
}
