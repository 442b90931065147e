//! What retention costs the writers: the time that their statements take at a fixed rate, with and
//! without it, in turns; and whether the table stays as small as it was after some sweeps.
//!
//! A row is kept for ten seconds and deleted by the next sweep, so that rows are deleted as fast as
//! they are written for nearly the whole run.

use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde_json::json;
use testbed::kafka::KafkaCluster;
use testbed::router::RouterProcess;
use tokio::time::{Instant, sleep};

use crate::args::Args;
use crate::bench::Bench;
use crate::choices::{Retention, value_name};
use crate::figures::{Spread, float, megabytes};
use crate::pipeline::BenchPipeline;
use crate::reader::Reader;
use crate::report::Table;
use crate::targets::{Limit, Target};
use crate::writers::{Timetable, WriteResult};
use crate::yardstick::Needs;

const RATE: u64 = 1_000;
const STREAMING_DEADLINE: Duration = Duration::from_secs(30);
/// How long the router may take to acknowledge what was written.
const CATCH_UP: Duration = Duration::from_secs(60);
/// Between two looks at the table's size.
const LOOK: Duration = Duration::from_secs(1);

/// Without a state topic no beginning has to be accepted before rows are removed.
const WITHOUT: &str = "[retention]\nmode = \"off\"\n";
const WITH: &str = "[retention]\nmode = \"delete\"\nkeep = \"10s\"\ninterval = \"5s\"\n\
    time_column = \"created_at\"\n";

/// The figures of one run.
#[derive(Debug, Clone, Copy, Serialize)]
struct Figures {
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    /// The largest size until the middle of the run, and after it, with indexes.
    first_half_megabytes: f64,
    second_half_megabytes: f64,
    rows_left: i64,
}

/// Measures every router.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report, .. } = bench;
    let mut table = Table::new(&[
        "reader",
        "retention",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "MB, first half",
        "second half",
        "rows left",
    ]);
    for (reader, _) in Reader::routers(readers) {
        let mut runs = Vec::new();
        for turn in 0..args.latency_runs() {
            let mut order = args.retention_modes();
            if turn % 2 == 1 {
                order.reverse();
            }
            for mode in order {
                let figures = run(args, reader, kafka, mode).await?;
                let line = json!({ "reader": reader.name(), "rate": RATE, "turn": turn,
                    "seconds": args.retention().as_secs(), "retention": value_name(mode) });
                report.record("retention", line, figures)?;
                runs.push((mode, figures));
            }
        }
        for mode in args.retention_modes() {
            let of = |figure: fn(&Figures) -> f64| {
                let of_mode = runs.iter().filter(|(of, _)| *of == mode);
                Spread::of(of_mode.map(|(_, figures)| figure(figures)))
                    .map_or_else(|| "-".to_owned(), |spread| spread.show_fine())
            };
            table.row([
                reader.name().to_owned(),
                value_name(mode),
                of(|figures| figures.p50_ms),
                of(|figures| figures.p99_ms),
                of(|figures| figures.p999_ms),
                of(|figures| figures.first_half_megabytes),
                of(|figures| figures.second_half_megabytes),
                of(|figures| float(figures.rows_left.unsigned_abs())),
            ]);
        }
        let median = |mode: Retention| {
            let of_mode = runs.iter().filter(|(of, _)| *of == mode);
            Spread::of(of_mode.map(|(_, figures)| figures.p99_ms)).map(|spread| spread.median)
        };
        if let (Some(off), Some(delete)) = (median(Retention::Off), median(Retention::Delete)) {
            let what = format!("{}: writers' p99 with retention, ratio", reader.name());
            let target = Target::new(what, Limit::AtMost(1.05), delete / off);
            report.add_target(target.needs(Needs::QuietMachine));
        }
        let growth = runs
            .iter()
            .filter(|(mode, _)| *mode == Retention::Delete)
            .map(|(_, figures)| figures.second_half_megabytes / figures.first_half_megabytes);
        if let Some(growth) = Spread::of(growth) {
            let what = format!("{}: the table's growth with retention, ratio", reader.name());
            report.add_target(Target::new(what, Limit::AtMost(1.1), growth.median));
        }
    }
    let what = format!("{RATE} transactions a second for {:?}", args.retention());
    report.print(&format!("\nretention, {what}, min median max\n{}", table.show()))
}

async fn run(
    args: &Args,
    reader: &Reader,
    kafka: &KafkaCluster,
    mode: Retention,
) -> anyhow::Result<Figures> {
    let pipeline = BenchPipeline::create(args, kafka, "retention", reader).await?;
    let BenchPipeline { server, topics, slot, .. } = &pipeline;
    // Without it a table never gets smaller, whatever is deleted.
    for sql in ["ALTER SYSTEM SET autovacuum = on", "SELECT pg_reload_conf()"] {
        server.session.batch_execute(sql).await?;
    }
    let time = format!(
        "ALTER TABLE {table} ADD created_at timestamptz NOT NULL DEFAULT now(); \
         CREATE INDEX ON {table} (created_at)",
        table = server.table()
    );
    server.session.batch_execute(&time).await?;
    let Reader::Router { binary, .. } = reader else { anyhow::bail!("only a router removes rows") };
    let section = match mode {
        Retention::Off => WITHOUT,
        Retention::Delete => WITH,
    };
    let config = format!("{}\n{section}", pipeline.router_config());
    let mut router = RouterProcess::with_config(&config)?
        .program(binary)
        .env("OUTBOX_ROUTER__KAFKA__STATE_TOPIC", "");
    router.start_again()?;
    router.wait_state("streaming", STREAMING_DEADLINE).await?;

    let timetable = Timetable::lasting(RATE, args.retention());
    let begun = Instant::now();
    let mut writing = pipeline.write(&timetable);
    let (mut first, mut second) = (0, 0);
    let written = loop {
        tokio::select! {
            written = &mut writing => break written??,
            () = sleep(LOOK) => {
                let size = size(&pipeline).await?;
                let half = if begun.elapsed() * 2 < args.retention() { &mut first } else { &mut second };
                *half = size.max(*half);
            }
        }
    };
    let end = server.postgres.current_wal_lsn().await?;
    testbed::wait::eventually(CATCH_UP, "everything to be confirmed", async || {
        Ok((server.postgres.confirmed(slot).await? >= end).then_some(()))
    })
    .await?;
    let count = format!("SELECT count(*) FROM {}", server.table());
    let rows_left: i64 = server.session.query_one(&count, &[]).await?.get(0);
    let status = router.status().await?;
    let removes = i64::try_from(timetable.events)? > rows_left;
    // Otherwise both runs would be the same.
    anyhow::ensure!(
        removes == (mode == Retention::Delete),
        "{rows_left} rows are left, and the router says {}",
        status.get("retention").unwrap_or(&status)
    );
    router.kill9().await?;
    topics.delete().await?;
    let WriteResult { statements, .. } = written;
    let at = |quantile| float(statements.value_at_quantile(quantile)) / 1e6;
    Ok(Figures {
        p50_ms: at(0.5),
        p99_ms: at(0.99),
        p999_ms: at(0.999),
        first_half_megabytes: megabytes(first),
        second_half_megabytes: megabytes(second),
        rows_left,
    })
}

/// The table with its indexes, in bytes.
async fn size(pipeline: &BenchPipeline) -> anyhow::Result<u64> {
    let server = &pipeline.server;
    let query = format!("SELECT pg_total_relation_size('{}'::regclass)", server.table());
    let size: i64 = server.session.query_one(&query, &[]).await?.get(0);
    u64::try_from(size).context("a table of no size")
}
