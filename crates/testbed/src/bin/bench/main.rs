//! The bench: the real binary between real servers, measured from outside.
//!
//! Ratios count: the router and `pg_recvlogical` take turns on one machine over one backlog, and
//! absolute figures do not travel. A run that lost, doubled or disordered anything has no figures,
//! and the exit code tells of correctness alone: 0, or 1 when anything was wrong.

mod args;
mod audit;
mod drain;
mod figures;
mod floor;
mod latency;
mod machine;
mod report;
mod run;
mod series;
mod stage;
mod startup;
mod topic;
mod watch;
mod writers;

use std::process::ExitCode;

use clap::Parser as _;
use serde_json::json;
use testbed::kafka::{Jvm, Kafka, Options};
use testbed::router;

use crate::args::{Args, Mode};
use crate::machine::{Machine, router_version};
use crate::report::Report;
use crate::run::Reader;
use crate::stage::Stage;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mut report = Report::open(args.json.as_deref())?;
    let readers = readers(&args)?;
    let mut kafka = Kafka::start(Options::default().jvm(Jvm::Fast)).await?;
    introduce(&args, &readers, &mut report).await?;
    if args.measures(Mode::Drain) {
        drain::measure(&args, &readers, &mut kafka, &mut report).await?;
    }
    if args.measures(Mode::Memory) {
        drain::measure_memory(&args, &readers, &mut kafka, &mut report).await?;
    }
    if args.measures(Mode::Start) {
        startup::measure(&args, &readers, &mut kafka, &mut report).await?;
    }
    if args.measures(Mode::Latency) {
        latency::measure(&args, &readers, &mut kafka, &mut report).await?;
    }
    Ok(if report.close()? == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `pg_recvlogical` and the builds of the router.
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
    Ok([Reader::PgRecvlogical].into_iter().chain(routers).collect())
}

/// Says what is measured, and on what.
async fn introduce(args: &Args, readers: &[Reader], report: &mut Report) -> anyhow::Result<()> {
    let machine = Machine::look()?;
    let postgres = Stage::set(args.pg, args.socket).await?.version().await?;
    let kafka = Kafka::version().await?;
    report.say(&format!(
        "{} x {}, {} GiB, kernel {}\nPostgreSQL {postgres} over {:?}, Kafka {kafka}, 6 partitions, acks=all",
        machine.cores, machine.cpu, machine.memory_gib, machine.kernel, args.socket,
    ))?;
    report.record(&machine.json())?;
    let mut versions = vec![json!({ "kind": "servers", "postgres": postgres, "kafka": kafka })];
    for reader in readers {
        if let Reader::Router { name, binary } = reader {
            let version = router_version(binary).await?;
            report.say(&format!("{name}: {version}"))?;
            versions.push(json!({ "kind": "router", "name": name, "version": version }));
        }
    }
    versions.iter().try_for_each(|line| report.record(line))?;
    if machine.load_average > 0.5 {
        report.say(&format!(
            "WARNING: others are at work here (load average {:.1}): ratios will be noisy, figures low",
            machine.load_average
        ))?;
    }
    Ok(())
}
