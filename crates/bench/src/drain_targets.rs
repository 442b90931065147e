//! The targets of draining.
//!
//! The speed relative to `pg_recvlogical` has to be reached in every run, over every socket and
//! under every congestion control that was measured: a backlog that is read fast on good days alone
//! is not read fast. Turns in which other processes used the cores do not count.

use crate::choices::Socket;
use crate::figures::Spread;
use crate::reader_runs::ReaderRuns;
use crate::report::Report;
use crate::shape::Shape;
use crate::targets::{Limit, Target};
use crate::yardstick::{QuietTurns, rate_obstacle};

/// Adds those of one backlog, which is called `backlog`.
pub(crate) fn add(backlog: &str, shape: Shape, all_runs: &[ReaderRuns], report: &mut Report) {
    for runs in all_runs.iter().filter(|runs| runs.reader.is_router()) {
        let name = |what: &str| {
            format!("{} over {}, {backlog}: {what}", runs.reader.name(), runs.way.name())
        };
        let baseline = runs.baseline(all_runs);
        if let Some((limit, aim)) = ratio_limits(shape) {
            let ratio = baseline.and_then(|baseline| runs.turns_beside(baseline));
            let target = of_turns(name("x pg_recvlogical"), Limit::AtLeast(limit), ratio);
            add_target(report, target.map(|target| target.aim(aim).in_every_run()));
            for peer in all_runs.iter().filter(|peer| peer.reader.is_peer() && peer.way == runs.way)
            {
                let what = name(&format!("x {}", peer.reader.name()));
                let target = of_turns(what, Limit::AtLeast(1.6), runs.turns_beside(peer));
                add_target(report, target.map(|target| target.aim(2.0)));
            }
        }
        // What follows was set for loopback, which every machine has.
        if runs.way.socket != Socket::Tcp {
            continue;
        }
        if shape == Shape::LARGE {
            let limit = 80.0;
            let rate = runs.turns(|run| run.payload);
            let floor = baseline.and_then(|baseline| baseline.spread(|run| run.payload));
            let target = of_turns(name("payload MB/s"), Limit::AtLeast(limit), rate);
            add_target(report, target.map(|target| target.unless(rate_obstacle(floor, limit))));
        }
        let cpu = runs.turns(|run| run.measured.cpu.reader);
        let target = of_turns(name("router CPU, us/event"), Limit::AtMost(5.5), cpu);
        add_target(report, target.map(|target| target.aim(4.5)));
        // For memory the worst run counts, and other processes do not matter.
        let peak = runs.peak_megabytes().map(|peak| Spread::from(peak.max));
        let target =
            peak.map(|peak| Target::new(name("peak memory, MB"), Limit::AtMost(50.0), peak));
        add_target(report, target.map(|target| target.aim(25.0)));
    }
}

fn add_target(report: &mut Report, target: Option<Target>) {
    if let Some(target) = target {
        report.add_target(target);
    }
}

fn of_turns(what: String, limit: Limit, turns: Option<QuietTurns>) -> Option<Target> {
    let turns = turns?;
    let target = Target::new(what + &turns.note(), limit, turns.figures);
    Some(target.unless(turns.obstacle()))
}

/// The speed relative to `pg_recvlogical`, at least and as an aim, in the shapes that peers are
/// known for.
fn ratio_limits(shape: Shape) -> Option<(f64, f64)> {
    match shape {
        Shape::BATCHED => Some((1.1, 1.2)),
        Shape::SINGLE => Some((1.8, 2.2)),
        Shape { .. } => None,
    }
}
