//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum as _};
use humantime::parse_duration;

use crate::choices::{GrowthSeries, HeldPart, Measurement, Peer, Retention, Socket};
use crate::shape::Shape;

/// Measures outbox-router on real servers, and compares it with `pg_recvlogical`, which writes
/// to /dev/null.
#[derive(Debug, Parser)]
#[command(name = "bench", max_term_width = 100)]
#[command(after_help = "Examples:\n  \
    scripts/bench.sh drain latency --runs 3 --rate 1000,5000\n  \
    scripts/bench.sh drain --shape 100x1024,1000000x400 --pg 15,17,18 --socket tcp,unix\n  \
    scripts/bench.sh drain --shape 1x400 --runs 7 --binary OLD --binary NEW\n  \
    scripts/bench.sh --from run.jsonl --plots docs/plots")]
pub(crate) struct Args {
    /// What to measure [default: drain latency memory start]
    #[arg(value_enum)]
    modes: Vec<Measurement>,
    /// Measure everything: every mode, shape, rate, socket and version (about two hours with peers)
    #[arg(long)]
    all: bool,
    /// Counted runs of each reader; one more run comes first and is not counted
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Rows of each backlog [default: 1000000; 500000 of large rows, 400000 in transactions of one]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1000..))]
    events: Option<u64>,
    /// Backlogs to drain, as ROWSxBYTES: rows per transaction and bytes per row [default:
    /// 100x400,1x400]
    #[arg(long, value_delimiter = ',')]
    shape: Vec<Shape>,
    /// Transactions a second of the latency measurement [default: 1000,5000]
    #[arg(long, value_delimiter = ',', num_args = 1..,
          value_parser = clap::value_parser!(u32).range(1..))]
    rate: Vec<u32>,
    /// Runs of each reader at each rate, of 20 s each after 10 s that are not counted [default:
    /// 1; with --all 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    latency_runs: Option<u32>,
    /// Versions of PostgreSQL: backlogs are drained from each, all else is measured on the first
    /// one [default: 17; with --all 17,15,18, and peers on 17 only]
    #[arg(long, value_delimiter = ',')]
    pg: Vec<u16>,
    /// How readers reach PostgreSQL: backlogs are drained over each, all else goes over the first
    /// one [default: tcp; with --all tcp,tls,unix to the first version, and tcp to the others]
    #[arg(long, value_enum, value_delimiter = ',')]
    socket: Vec<Socket>,
    /// Congestion control of PostgreSQL's connections over TCP, such as bbr,cubic: backlogs are
    /// drained under each. It is set for the whole machine while a run lasts, which needs root
    /// [default: the system's]
    #[arg(long, value_delimiter = ',')]
    pub(crate) congestion: Vec<String>,
    /// Which parameter grows in the measurement `flat` [default: topics,keys,partitions,rows]
    #[arg(long, value_enum, value_delimiter = ',')]
    series: Vec<GrowthSeries>,
    /// Which part of the measurement `held` [default: latency,drain,release,start]
    #[arg(long, value_enum, value_delimiter = ',')]
    held: Vec<HeldPart>,
    /// How long the broker is down while 5000 transactions a second are written [default: 60s; with
    /// --all 10m]
    #[arg(long, value_parser = parse_duration)]
    outage: Option<Duration>,
    /// How long writers go on in a run with retention, and in one without [default: 60s; with --all
    /// 1h]
    #[arg(long, value_parser = parse_duration)]
    retention: Option<Duration>,
    /// Which runs of the measurement `retention` [default: off,delete]
    #[arg(long, value_enum, value_delimiter = ',')]
    retention_mode: Vec<Retention>,
    /// How long an idle router is measured [default: 20s; with --all 60s]
    #[arg(long, value_parser = parse_duration)]
    idle: Option<Duration>,
    /// The router's binary; several are compared with each other, in alternating runs [default: the
    /// one that was built]
    #[arg(long)]
    pub(crate) binary: Vec<PathBuf>,
    /// Peers to measure beside the router in `drain` and `latency` [without a value: all, without
    /// those that cannot be had]
    #[arg(long, value_enum, value_delimiter = ',', num_args = 0.., require_equals = true,
          default_missing_values = ["debezium", "debezium-tuned", "go-pq-cdc"])]
    pub(crate) peers: Vec<Peer>,
    /// Append every figure to this file, one JSON object per line
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Draw the figures into this directory, as SVG
    #[arg(long)]
    pub(crate) plots: Option<PathBuf>,
    /// Measure nothing, and draw the figures of this JSON file of an earlier run; may be repeated
    #[arg(long, requires = "plots")]
    pub(crate) from: Vec<PathBuf>,
}

impl Args {
    pub(crate) fn measures(&self, mode: Measurement) -> bool {
        self.all
            || self.chosen(&self.modes, &Measurement::USUAL, &Measurement::ORDER).contains(&mode)
    }

    /// Rows of a backlog: `usual`, unless the command line gives a number.
    pub(crate) fn events(&self, usual: u64) -> u64 {
        self.events.unwrap_or(usual)
    }

    /// What was given on the command line, else `every` with --all, else `usual`.
    fn chosen<T: Clone>(&self, typed: &[T], usual: &[T], every: &[T]) -> Vec<T> {
        match (typed, self.all) {
            ([], true) => every.to_vec(),
            ([], false) => usual.to_vec(),
            (typed, _) => typed.to_vec(),
        }
    }

    pub(crate) fn shapes(&self) -> Vec<Shape> {
        self.chosen(&self.shape, &[Shape::BATCHED, Shape::SINGLE], &Shape::ALL)
    }

    pub(crate) fn rates(&self) -> Vec<u32> {
        self.chosen(&self.rate, &[1000, 5000], &[1000, 5000, 10_000])
    }

    pub(crate) fn versions(&self) -> Vec<u16> {
        // Everything but draining is measured on the first version.
        self.chosen(&self.pg, &[17], &[17, 15, 18])
    }

    fn sockets(&self) -> Vec<Socket> {
        self.chosen(&self.socket, &[Socket::Tcp], &[Socket::Tcp, Socket::Tls, Socket::Unix])
    }

    /// The sockets over which backlogs of `version` are drained. Unless the command line chooses,
    /// only one thing varies at a time.
    pub(crate) fn sockets_to(&self, version: u16) -> Vec<Socket> {
        if self.socket.is_empty() && version != self.version() {
            vec![self.first_socket()]
        } else {
            self.sockets()
        }
    }

    /// Whether peers drain backlogs of `version`. They take half a minute for each, so by default
    /// they drain one version only.
    pub(crate) fn includes_peers_on(&self, version: u16) -> bool {
        !self.pg.is_empty() || version == self.version()
    }

    pub(crate) fn latency_runs(&self) -> u32 {
        self.latency_runs.unwrap_or(if self.all { 3 } else { 1 })
    }

    pub(crate) fn outage(&self) -> Duration {
        self.outage.unwrap_or(Duration::from_mins(if self.all { 10 } else { 1 }))
    }

    pub(crate) fn retention(&self) -> Duration {
        self.retention.unwrap_or(Duration::from_mins(if self.all { 60 } else { 1 }))
    }

    pub(crate) fn retention_modes(&self) -> Vec<Retention> {
        let all = Retention::value_variants();
        self.chosen(&self.retention_mode, all, all)
    }

    pub(crate) fn idle(&self) -> Duration {
        self.idle.unwrap_or(Duration::from_secs(if self.all { 60 } else { 20 }))
    }

    pub(crate) fn series(&self) -> Vec<GrowthSeries> {
        self.chosen(&self.series, GrowthSeries::value_variants(), GrowthSeries::value_variants())
    }

    pub(crate) fn held(&self) -> Vec<HeldPart> {
        self.chosen(&self.held, HeldPart::value_variants(), HeldPart::value_variants())
    }

    /// The version on which everything but draining is measured.
    pub(crate) fn version(&self) -> u16 {
        self.versions().first().copied().unwrap_or(17)
    }

    /// The socket over which everything but draining is measured.
    pub(crate) fn first_socket(&self) -> Socket {
        self.sockets().first().copied().unwrap_or(Socket::Tcp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Args {
        Args::try_parse_from(line.split_whitespace()).unwrap()
    }

    #[test]
    fn without_arguments_the_usual_modes_are_measured_and_with_all_every_mode() {
        let usual = parse("bench");
        assert!(usual.measures(Measurement::Drain) && !usual.measures(Measurement::Flat));
        let all = parse("bench --all --pg 18");
        assert!(all.measures(Measurement::Flat));
        assert_eq!((all.shapes().len(), all.versions()), (Shape::ALL.len(), vec![18]));
        assert_eq!((all.outage(), all.latency_runs()), (Duration::from_mins(10), 3));
        assert_eq!((usual.outage(), usual.latency_runs()), (Duration::from_mins(1), 1));
        assert_eq!(parse("bench --all --outage 30s").outage(), Duration::from_secs(30));
        let flat = parse("bench flat");
        assert!(flat.measures(Measurement::Flat) && !flat.measures(Measurement::Drain));
    }

    #[test]
    fn lists_of_values_are_separated_by_commas() {
        let args = parse("bench drain --pg 15,17 --socket tcp,unix --shape 1x400,100x1024");
        assert_eq!(args.versions(), [15, 17]);
        assert_eq!(args.sockets_to(15), [Socket::Tcp, Socket::Unix]);
        assert_eq!(args.sockets_to(17), [Socket::Tcp, Socket::Unix]);
        assert_eq!(args.shapes(), [Shape::SINGLE, Shape::LARGE]);
    }

    #[test]
    fn peers_without_a_value_means_all_of_them() {
        assert_eq!(parse("bench drain").peers, []);
        assert_eq!(parse("bench --peers drain").peers, Peer::value_variants());
        assert_eq!(parse("bench --peers=debezium-tuned drain").peers, [Peer::DebeziumTuned]);
    }

    #[test]
    fn by_default_only_one_parameter_varies_at_a_time() {
        let all = parse("bench --all --peers");
        assert_eq!(all.sockets_to(17), [Socket::Tcp, Socket::Tls, Socket::Unix]);
        assert_eq!(all.sockets_to(18), [Socket::Tcp]);
        assert!(all.includes_peers_on(17) && !all.includes_peers_on(18));
        assert!(parse("bench drain --peers --pg 17,18").includes_peers_on(18));
    }
}
