//! How fast a backlog is drained, and at what cost: all readers take turns over one backlog.

use serde_json::json;

use crate::bench::Bench;
use crate::choices::value_name;
use crate::drain_targets;
use crate::machine_info::OTHER_CORES_MAX;
use crate::reader::Reader;
use crate::reader_runs::{Comparison, ReaderRuns};
use crate::report::{Column, Report, Table, alternate_order};
use crate::run::{Run, run};
use crate::server::{BenchServer, WrittenBacklog};
use crate::shape::{Distribution, Shape};
use crate::way::Way;

/// A backlog on a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BacklogSpec {
    pub(crate) version: u16,
    pub(crate) shape: Shape,
    pub(crate) events: u64,
}

impl BacklogSpec {
    fn name(self) -> String {
        format!("PostgreSQL {}, {}", self.version, self.shape.describe())
    }

    /// Writes the backlog on a separate server.
    pub(crate) async fn write(
        self,
        report: &Report,
    ) -> anyhow::Result<(BenchServer, WrittenBacklog)> {
        let server = BenchServer::start(self.version, Distribution::default()).await?;
        report.print(&format!("writing a backlog of {} events, {}", self.events, self.name()))?;
        let written = server.write_backlog(self.shape, self.events).await?;
        Ok((server, written))
    }
}

/// Drains every backlog that was asked for.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    for version in bench.args.versions() {
        let takes_part =
            |reader: &&Reader| !reader.is_peer() || bench.args.includes_peers_on(version);
        let readers: Vec<Reader> = bench.readers.iter().filter(takes_part).cloned().collect();
        for shape in bench.args.shapes() {
            let events = bench.args.events(shape.usual_events());
            let backlog = BacklogSpec { version, shape: shape.within(events), events };
            let ways = Way::all(&bench.args.sockets_to(version), &bench.args.congestion);
            let mut all_runs = ReaderRuns::all(&readers, &ways);
            take_turns(bench, backlog, &mut all_runs).await?;
            let report = &mut bench.report;
            report.print(&format!("\ndrain, {}, {events} events", backlog.name()))?;
            report.print(&table(&all_runs).show())?;
            warn_of_other_load(&all_runs, report)?;
            compare(backlog, &all_runs, report)?;
            drain_targets::add(&backlog.name(), backlog.shape, &all_runs, report);
        }
    }
    Ok(())
}

async fn take_turns(
    Bench { args, kafka, report, congestion, .. }: &mut Bench,
    backlog: BacklogSpec,
    all_runs: &mut [ReaderRuns],
) -> anyhow::Result<()> {
    let (server, written) = backlog.write(report).await?;
    for turn in 0..=args.runs {
        for reader_runs in alternate_order(turn, all_runs) {
            let ReaderRuns { reader, way, .. } = &*reader_runs;
            let way_name = way.name().replace(' ', "-");
            let name = format!("drain-{}-{turn}-{}-{way_name}", backlog.shape, reader.slug());
            let in_force = congestion
                .as_ref()
                .map(|setting| setting.put_in_force(way.congestion.as_deref()))
                .transpose()?;
            let outcome = run((reader, way.socket), &server, kafka, written, &name).await?;
            drop(in_force);
            let outcome = report.require_no_anomaly(&name, outcome)?;
            if let Some(run) = &outcome {
                print_run(backlog, (turn, reader_runs), run, report)?;
            }
            if turn > 0 {
                reader_runs.runs.push(outcome);
            }
        }
    }
    Ok(())
}

fn print_run(
    backlog: BacklogSpec,
    (turn, reader_runs): (u32, &ReaderRuns),
    run: &Run,
    report: &mut Report,
) -> anyhow::Result<()> {
    let measured = &run.measured;
    let note = if turn == 0 { " (warm-up, not counted)" } else { "" };
    report.print(&format!(
        "  run {turn} {}: {:.1}k/s, other processes kept {:.2} cores busy{note}",
        reader_runs.name,
        measured.events_per_second / 1e3,
        measured.others_cores
    ))?;
    if let Some(conditions) = &run.conditions {
        report.print(&format!("      {}", conditions.show()))?;
    }
    let line = json!({
        "pg": backlog.version, "shape": backlog.shape.to_string(),
        "rows_per_transaction": backlog.shape.rows, "row_bytes": backlog.shape.bytes,
        "events": backlog.events, "socket": value_name(reader_runs.way.socket),
        "way": reader_runs.way.name(), "reader": reader_runs.reader.name(), "run": turn, "warm_up": turn == 0,
    });
    report.record("drain", line, run)
}

fn table(all_runs: &[ReaderRuns]) -> Table {
    fn median(reader_runs: &ReaderRuns, figure: impl Fn(&Run) -> f64) -> Option<String> {
        Some(format!("{:.1}", reader_runs.spread(figure)?.median))
    }
    let ratio = |reader_runs: &&ReaderRuns| {
        let ratio =
            reader_runs.ratio_to_baseline(all_runs).filter(|_| reader_runs.reader.delivers())?;
        Some(ratio.show_fine())
    };
    let columns: [Column<'_, &ReaderRuns>; 14] = [
        ("reader", &|reader_runs| Some(reader_runs.name.clone())),
        ("k events/s: min median max", &|reader_runs| Some(reader_runs.rate()?.show(1e-3))),
        ("spread %", &|reader_runs| Some(format!("{:.0}", reader_runs.rate()?.width() * 100.0))),
        ("payload MB/s", &|reader_runs| median(reader_runs, |run| run.payload)),
        ("x pg_recvlogical: min median max", &ratio),
        ("CPU us/event: reader", &|reader_runs| median(reader_runs, |run| run.measured.cpu.reader)),
        ("decoding", &|reader_runs| median(reader_runs, |run| run.measured.cpu.decoding)),
        ("broker", &|reader_runs| {
            median(reader_runs, |run| run.measured.cpu.broker)
                .filter(|_| reader_runs.reader.delivers())
        }),
        ("peak RSS MB", &|reader_runs| Some(format!("{:.1}", reader_runs.peak_megabytes()?.max))),
        ("first ms", &|reader_runs| median(reader_runs, |run| run.measured.first_ms)),
        ("other cores busy", &|reader_runs| median(reader_runs, |run| run.measured.others_cores)),
        ("B/segment: min median max", &|reader_runs| Some(reader_runs.segment_bytes()?.show(1.0))),
        ("backlog read", &|reader_runs| reader_runs.seen(|run| Some(run.read?.name()))),
        ("limit", &|reader_runs| reader_runs.seen(|run| Some(run.held_by.name()))),
    ];
    Table::of(&columns, all_runs)
}

fn warn_of_other_load(all_runs: &[ReaderRuns], report: &Report) -> anyhow::Result<()> {
    let runs = || all_runs.iter().flat_map(|reader_runs| reader_runs.runs.iter().flatten());
    let disturbed = runs().filter(|run| run.measured.others_cores > OTHER_CORES_MAX).count();
    if disturbed == 0 {
        return Ok(());
    }
    report.print(&format!(
        "WARNING: in {disturbed} of {} runs other processes kept more than {OTHER_CORES_MAX} cores busy: ratios \
         are noisy and figures low\n",
        runs().count()
    ))
}

fn compare(
    backlog: BacklogSpec,
    all_runs: &[ReaderRuns],
    report: &mut Report,
) -> anyhow::Result<()> {
    let comparisons = Comparison::all(all_runs);
    if comparisons.is_empty() {
        return Ok(());
    }
    for comparison in &comparisons {
        let line = json!({ "pg": backlog.version, "shape": backlog.shape.to_string() });
        report.record("comparison", line, comparison)?;
    }
    report.print(&Comparison::table(&comparisons).show())
}
