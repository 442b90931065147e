//! Memory at full speed, and with one transaction of a gigabyte, which is larger than any buffer.

use anyhow::Context as _;
use serde_json::json;

use crate::bench::Bench;
use crate::choices::Measurement;
use crate::drain::BacklogSpec;
use crate::figures::float;
use crate::reader::Reader;
use crate::report::Table;
use crate::run::run;
use crate::shape::Shape;
use crate::targets::{Limit, Target};

/// Bytes of a row, with a payload of 1000 bytes.
const ROW_BYTES: u64 = 1029;
const ROWS: u64 = 1_000_000;

/// The limit of resident memory in megabytes: 40 MB and three times the window of 32 MiB.
pub(crate) const BOUND: f64 = 40.0 + 3.0 * 33.554_432;

/// Measures every router.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report, .. } = bench;
    let rows = args.events(ROWS);
    let huge = Shape { rows, bytes: ROW_BYTES };
    let mut loads = vec![("one transaction", huge, rows, BOUND)];
    // Draining also measures memory at full speed.
    if !args.measures(Measurement::Drain) {
        let events = args.events(Shape::BATCHED.usual_events());
        loads.insert(0, ("full speed", Shape::BATCHED.within(events), events, 50.0));
    }
    let mut table = Table::new(&["load", "reader", "payload MB", "peak RSS MB", "k events/s"]);
    for (load, shape, events, limit) in loads {
        let backlog = BacklogSpec { version: args.version(), shape, events };
        let (server, written) = backlog.write(report).await?;
        let payload = float(events) * written.value_bytes / 1e6;
        for (reader, _) in Reader::routers(readers) {
            let name = format!("memory-{shape}-{}", reader.slug());
            let outcome =
                run((reader, args.first_socket()), &server, kafka, written, &name).await?;
            let Some(run) = report.require_no_anomaly(&name, outcome)? else { continue };
            let peak = run.peak.context("no peak was taken")?;
            table.row([
                load.to_owned(),
                reader.name().to_owned(),
                format!("{payload:.0}"),
                format!("{peak:.1}"),
                format!("{:.1}", run.measured.events_per_second / 1e3),
            ]);
            let line = json!({ "load": load, "reader": reader.name(), "events": events,
                               "payload_megabytes": payload });
            report.record("memory", line, run)?;
            let what = format!("{}, {load} of {payload:.0} MB: peak memory, MB", reader.name());
            report.add_target(Target::new(what, Limit::AtMost(limit), peak).aim(25.0));
        }
    }
    report.print(&format!("\nmemory\n{}", table.show()))
}
