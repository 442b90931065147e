//! Memory at full speed, and with one transaction of a gigabyte, which is more than any buffer.

use anyhow::Context as _;
use serde_json::json;
use testbed::kafka::Kafka;

use crate::args::{Args, Mode};
use crate::drain::Backlog;
use crate::figures::{float, megabytes};
use crate::reader::Reader;
use crate::report::{Limit, Mark, Report, Table};
use crate::run::run;
use crate::shape::Shape;

/// With a payload of 1000 bytes.
const ROW_BYTES: u64 = 1029;
const ROWS: u64 = 1_000_000;

/// What memory must never exceed, in megabytes: 40 MB and three times the window of 32 MiB.
pub(crate) const BOUND: f64 = 40.0 + 3.0 * 33.554_432;

/// Measures every router.
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    let rows = args.events(ROWS);
    let huge = Shape { rows, bytes: ROW_BYTES };
    let mut loads = vec![("one transaction", huge, rows, Limit::AtMost(BOUND))];
    // Draining shows the memory of full speed too.
    if !args.measures(Mode::Drain) {
        let events = args.events(Shape::BATCHED.usual_events());
        let shape = Shape::BATCHED.within(events);
        loads.insert(0, ("full speed", shape, events, Limit::AtMost(50.0)));
    }
    let mut table = Table::new(&["load", "reader", "payload MB", "peak RSS MB", "k events/s"]);
    for (what, shape, events, limit) in loads {
        let backlog = Backlog { version: args.version(), shape, events };
        let (stage, task) = backlog.make(report).await?;
        let payload = float(events) * task.value_bytes / 1e6;
        for reader in Reader::routers(readers) {
            let name = format!("memory-{shape}-{}", reader.slug());
            let way = (reader, args.first_socket());
            let run = match run(way, &stage, kafka, task, &name).await? {
                Ok(run) => run,
                Err(fault) => {
                    report.fault(format!("{name}: {fault}"))?;
                    continue;
                }
            };
            let peak = megabytes(run.peak_bytes.context("no peak was taken")?);
            let rate = run.measured.events_per_second;
            table.row([
                what.to_owned(),
                reader.name().to_owned(),
                format!("{payload:.0}"),
                format!("{peak:.1}"),
                format!("{:.1}", rate / 1e3),
            ]);
            report.record(&json!({
                "kind": Mode::Memory.name(), "load": what, "reader": reader.name(),
                "events": events, "payload_megabytes": payload, "peak_rss_megabytes": peak,
                "events_per_second": rate,
            }))?;
            let what = format!("{}, {what} of {payload:.0} MB: peak memory, MB", reader.name());
            report.mark(Mark { what, limit, aim: Some(25.0), measured: peak.into() });
        }
    }
    report.say(&format!("\nmemory\n{}", table.show()))
}
