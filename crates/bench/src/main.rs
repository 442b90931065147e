//! The bench: the real binary between real servers, measured from outside.
//!
//! Ratios count: the router and `pg_recvlogical` take turns on one machine over one backlog,
//! because absolute figures do not carry over to another machine. A run that lost, duplicated or
//! reordered anything has no figures. The exit code reports correctness alone: 0, or 1 when there
//! was any anomaly.

mod args;
mod arrival;
mod audit;
mod bench;
mod choices;
mod conditions;
mod congestion;
mod debezium;
mod drain;
mod drain_targets;
mod figures;
mod flat;
mod floor;
mod go_pq_cdc;
mod held;
mod idle;
mod latency;
mod latency_figures;
mod listen;
mod machine_info;
mod memory;
mod outage;
mod pipeline;
mod plot;
mod polling;
mod reader;
mod reader_runs;
mod report;
mod retention;
mod run;
mod scrape;
mod server;
mod shape;
mod targets;
mod throughput;
mod topic;
mod watch;
mod way;
mod writers;
mod yardstick;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use serde_json::{Value, json};
use testbed::kafka::{Jvm, KafkaCluster, KafkaOptions};
use testbed::router;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Args;
use crate::bench::Bench;
use crate::choices::{Measurement, Peer};
use crate::congestion::CongestionSetting;
use crate::machine_info::{MachineInfo, OTHER_CORES_MAX, busy_cores, router_version};
use crate::reader::Reader;
use crate::report::Report;
use crate::server::BenchServer;
use crate::shape::Distribution;
use crate::yardstick::Yardstick;

/// How long other processes are watched before a measurement.
const LOOK: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let interrupted = tokio::select! {
        done = run(args) => return done,
        // What was measured is dropped: servers are ended, and settings set back.
        interrupted = ended_by_signal() => interrupted,
    };
    interrupted?;
    // Threads that still wait for records would delay an end that was asked for.
    std::process::exit(130)
}

/// Waits for Ctrl-C, or for another signal that asks for an end.
async fn ended_by_signal() -> anyhow::Result<()> {
    let (mut terminate, mut hang_up) =
        (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    tokio::select! {
        interrupted = ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    Ok(())
}

async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut report = Report::open(args.json.as_deref())?;
    if !args.from.is_empty() {
        draw(&args, &plot::read(&args.from)?, &report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let congestion = if args.congestion.is_empty() {
        None
    } else {
        let setting = CongestionSetting::for_all(&args.congestion)?;
        report.print(&setting.describe())?;
        Some(setting)
    };
    let readers = readers(&args, &report)?;
    let others_cores = busy_cores(LOOK, &[]).await?;
    let kafka = KafkaCluster::start(KafkaOptions::default().jvm(Jvm::Fast)).await?;
    print_setup(&args, &readers, &mut report).await?;
    if others_cores > OTHER_CORES_MAX {
        report.print(&format!(
            "WARNING: other processes keep {others_cores:.1} cores busy: ratios will be noisy and \
             figures low"
        ))?;
    }
    let floor = floor::at_start(&kafka).await?;
    let floor = report.require_no_anomaly("floor", floor)?;
    let machine = Yardstick { floor_p50_ms: floor.map(|floor| floor.p50), others_cores };
    if let Some(floor) = floor {
        report.print(&format!(
            "floor: a producer alone at 1,000/s: p50 {:.2} ms, p99 {:.2} ms",
            floor.p50, floor.p99
        ))?;
        report.record("floor", json!({ "others_cores": others_cores }), floor)?;
    }
    let mut bench = Bench { args, readers, kafka, report, congestion };
    measure(&mut bench, machine).await?;
    let Bench { args, report, .. } = bench;
    draw(&args, report.lines(), &report)?;
    Ok(if report.close()? == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures everything that is wanted.
async fn measure(bench: &mut Bench, machine: Yardstick) -> anyhow::Result<()> {
    let wanted = Measurement::ORDER.map(|mode| bench.args.measures(mode).then_some(mode));
    for mode in wanted.into_iter().flatten() {
        let broker = bench.kafka.broker(1)?.process()?.pid();
        let others_cores = busy_cores(LOOK, &[broker]).await?;
        bench.report.judge_by(Yardstick { others_cores, ..machine });
        match mode {
            Measurement::Drain => drain::measure(bench).await?,
            Measurement::Latency => latency::measure(bench).await?,
            Measurement::Memory => memory::measure(bench).await?,
            Measurement::Start => arrival::starts(bench).await?,
            Measurement::Outage => outage::measure(bench).await?,
            Measurement::Takeover => arrival::takeovers(bench).await?,
            Measurement::Idle => idle::measure(bench).await?,
            Measurement::Scrape => scrape::measure(bench).await?,
            Measurement::Held => held::measure(bench).await?,
            Measurement::Retention => retention::measure(bench).await?,
            Measurement::Polling => polling::measure(bench).await?,
            Measurement::Flat => flat::measure(bench).await?,
        }
    }
    Ok(())
}

/// Draws the figures, if plots are asked for.
fn draw(args: &Args, lines: &[Value], report: &Report) -> anyhow::Result<()> {
    let Some(directory) = &args.plots else { return Ok(()) };
    let drawn = plot::draw(lines, directory)?;
    report.print(&format!("drew into {}: {}", directory.display(), drawn.join(", ")))
}

fn readers(args: &Args, report: &Report) -> anyhow::Result<Vec<Reader>> {
    let mut binaries = args.binary.clone();
    if binaries.is_empty() {
        binaries.push(router::binary()?);
    }
    let several = binaries.len() > 1;
    let routers = binaries.into_iter().zip(1..).map(|(binary, number)| Reader::Router {
        name: if several { format!("router {number}") } else { "router".to_owned() },
        binary,
    });
    let mut peers = args.peers.clone();
    if peers.contains(&Peer::GoPqCdc) && go_pq_cdc::program().is_none() {
        report.print(&go_pq_cdc::why_left_out())?;
        peers.retain(|peer| *peer != Peer::GoPqCdc);
    }
    let peers = peers.into_iter().map(Reader::Peer);
    Ok([Reader::PgRecvlogical].into_iter().chain(routers).chain(peers).collect())
}

/// Prints what is measured, and on what.
async fn print_setup(args: &Args, readers: &[Reader], report: &mut Report) -> anyhow::Result<()> {
    let machine = MachineInfo::read()?;
    let mut postgres = Vec::new();
    for version in args.versions() {
        postgres.push(BenchServer::start(version, Distribution::default()).await?.version().await?);
    }
    let kafka = KafkaCluster::version().await?;
    report.print(&format!(
        "{} x {}, {} GiB, kernel {}, TCP congestion control {}\nPostgreSQL {}, Kafka {kafka}, 6 partitions, acks=all",
        machine.cores,
        machine.cpu,
        machine.memory_gib,
        machine.kernel,
        machine.congestion_control,
        postgres.join(", "),
    ))?;
    report.record("machine", json!({}), machine)?;
    report.record("servers", json!({ "postgres": postgres, "kafka": kafka }), ())?;
    for (reader, binary) in Reader::routers(readers) {
        let (name, version) = (reader.name(), router_version(binary).await?);
        report.print(&format!("{name}: {version}"))?;
        report.record("router", json!({ "name": name, "version": version }), ())?;
    }
    let mut versions = Vec::new();
    if args.peers.iter().any(|peer| *peer != Peer::GoPqCdc) {
        versions.push(testbed::debezium::versions()?);
    }
    if readers.iter().any(|reader| matches!(reader, Reader::Peer(Peer::GoPqCdc))) {
        versions.push(go_pq_cdc::version().await?);
    }
    for version in versions {
        report.print(&version)?;
        report.record("peer", json!({ "version": version }), ())?;
    }
    Ok(())
}
