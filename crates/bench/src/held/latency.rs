//! The latency of all other keys while one is held: one row in a hundred thousand cannot be
//! delivered.

use serde_json::json;

use super::{HeldBench, Pairs, Variant, compare, table::server_with_table};
use crate::latency::{LatencyRow, TIME, measure_pipeline, table};
use crate::pipeline::BenchPipeline;
use crate::report::alternate_order;
use crate::shape::Distribution;
use crate::targets::{Limit, Target};
use crate::writers::{Timetable, WARM_UP};
use crate::yardstick::Needs;

const RATE: u64 = 5000;
/// The row that cannot be delivered: in the first half of the 100,000 that are measured, so that
/// its key is held through the second.
const POISONED: u64 = RATE * (WARM_UP.as_secs() + TIME.as_secs() / 4);

pub(super) async fn measure(bench: &mut HeldBench<'_>) -> anyhow::Result<()> {
    let HeldBench { args, reader, binary, kafka, report } = bench;
    let name = |variant| match variant {
        Variant::Calm => format!("{}, nothing held", reader.name()),
        Variant::Held => format!("{}, one row in 100,000", reader.name()),
    };
    let new = |variant| (variant, LatencyRow { reader, name: name(variant), runs: Vec::new() });
    let mut rows = Variant::ALL.map(new);
    let (mut p50, mut p99) = (Pairs::default(), Pairs::default());
    // The first turn is not counted: a broker that was just started is slow for half a minute.
    for turn in 0..=args.runs {
        for (variant, row) in alternate_order(turn, &mut rows) {
            let what = format!("held-latency-{}-{turn}-{}", variant.name(), reader.slug());
            let server = server_with_table(args.version(), Distribution::default(), binary).await?;
            let pipeline = BenchPipeline::on(server, args, kafka, ("latency", &what)).await?;
            let mut timetable = Timetable::lasting(RATE, WARM_UP + TIME);
            timetable.poisoned = (*variant == Variant::Held).then_some(POISONED);
            let outcome = measure_pipeline(&pipeline, reader, &timetable, kafka).await?;
            let figures = report.require_no_anomaly(&what, outcome)?;
            if turn == 0 {
                continue;
            }
            p50.push(*variant, figures.map(|run| run.p50));
            p99.push(*variant, figures.map(|run| run.p99));
            let Some(figures) = figures else { continue };
            let line = json!({ "reader": reader.name(), "variant": variant.name(), "rate": RATE,
                               "run": turn });
            report.record("held-latency", line, figures)?;
            row.runs.push(figures);
        }
    }
    report.print(&format!("\nheld: latency of the other keys, {RATE} transactions a second"))?;
    report.print(&table(&rows.map(|(_, row)| row)).show())?;
    let figures = [("p50 ms", &p50), ("p99 ms", &p99)];
    report.print(&compare(["nothing held", "one row in 100,000"], &figures).show())?;
    if let Some(ratio) = p99.ratio() {
        let what = format!(
            "{}, one row in 100,000 held, {RATE}/s: p99 / p99 of a calm run",
            reader.name()
        );
        let target = Target::new(what, Limit::AtMost(2.0), ratio);
        report.add_target(target.needs(Needs::QuietMachine));
    }
    Ok(())
}
