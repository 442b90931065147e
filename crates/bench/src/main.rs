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
mod debezium;
mod drain;
mod figures;
mod flat;
mod floor;
mod held;
mod idle;
mod latency;
mod listen;
mod machine_info;
mod memory;
mod outage;
mod pipeline;
mod plot;
mod reader;
mod reader_runs;
mod report;
mod retention;
mod run;
mod scrape;
mod server;
mod shape;
mod throughput;
mod topic;
mod watch;
mod writers;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use serde_json::{Value, json};
use testbed::kafka::{Jvm, KafkaCluster, KafkaOptions};
use testbed::router;

use crate::args::Args;
use crate::bench::Bench;
use crate::choices::Measurement;
use crate::machine_info::{MachineInfo, OTHER_CORES_MAX, busy_cores, router_version};
use crate::reader::Reader;
use crate::report::Report;
use crate::server::BenchServer;
use crate::shape::Distribution;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let report = Report::open(args.json.as_deref())?;
    if !args.from.is_empty() {
        draw(&args, &plot::read(&args.from)?, &report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let readers = readers(&args)?;
    let busy = busy_cores(Duration::from_secs(1)).await?;
    let kafka = KafkaCluster::start(KafkaOptions::default().jvm(Jvm::Fast)).await?;
    let mut bench = Bench { args, readers, kafka, report };
    print_setup(&mut bench).await?;
    if busy > OTHER_CORES_MAX {
        bench.report.print(&format!(
            "WARNING: other processes keep {busy:.1} cores busy: ratios will be noisy and figures low"
        ))?;
    }
    let wanted = Measurement::ORDER.map(|mode| bench.args.measures(mode).then_some(mode));
    for mode in wanted.into_iter().flatten() {
        let bench = &mut bench;
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
            Measurement::Flat => flat::measure(bench).await?,
        }
    }
    let Bench { args, report, .. } = bench;
    draw(&args, report.lines(), &report)?;
    Ok(if report.close()? == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Draws the figures, if plots are asked for.
fn draw(args: &Args, lines: &[Value], report: &Report) -> anyhow::Result<()> {
    let Some(directory) = &args.plots else { return Ok(()) };
    let drawn = plot::draw(lines, directory)?;
    report.print(&format!("drew into {}: {}", directory.display(), drawn.join(", ")))
}

fn readers(args: &Args) -> anyhow::Result<Vec<Reader>> {
    let mut binaries = args.binary.clone();
    if binaries.is_empty() {
        binaries.push(router::binary()?);
    }
    let several = binaries.len() > 1;
    let routers = binaries.into_iter().zip(1..).map(|(binary, number)| Reader::Router {
        name: if several { format!("router {number}") } else { "router".to_owned() },
        binary,
    });
    let peers = args.peers.iter().copied().map(Reader::Debezium);
    Ok([Reader::PgRecvlogical].into_iter().chain(routers).chain(peers).collect())
}

/// Prints what is measured, and on what.
async fn print_setup(Bench { args, readers, report, .. }: &mut Bench) -> anyhow::Result<()> {
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
    if !args.peers.is_empty() {
        let version = testbed::debezium::versions()?;
        report.print(&version)?;
        report.record("peer", json!({ "version": version }), ())?;
    }
    Ok(())
}
