//! Looking at a run while it goes: progress and CPU time at the same moments.

use std::time::Duration;

use testbed::process::{children, cpu_time, family_cpu_time, has_ended, written_bytes};
use tokio::time::Instant;

use crate::figures::float;
use crate::machine::busy_time;
use crate::run::Fault;
use crate::series::{Cpu, Sample};
use crate::topic::Ends;

const PAUSE: Duration = Duration::from_millis(50);
/// While waiting for the first sign of life, which is timed.
const SHORT_PAUSE: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(60);

/// What tells how far a reader is.
pub(crate) enum Gauge {
    /// Bytes it has written; it ends by itself when it is done.
    Written,
    /// Records in its topics; it is done when as many have come as are expected.
    Records { ends: Ends, before: u64, expected: u64 },
}

/// The processes of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cast {
    pub(crate) reader: u32,
    pub(crate) postmaster: u32,
    pub(crate) broker: u32,
}

/// CPU time of a cast. The walsender comes and goes with the reader's connection: it is looked for
/// until found, and keeps its last figure when it has gone.
pub(crate) struct CpuMeter {
    cast: Cast,
    walsender: Option<u32>,
    last: Cpu,
}

impl CpuMeter {
    pub(crate) fn new(cast: Cast) -> Self {
        Self { cast, walsender: None, last: Cpu::default() }
    }

    pub(crate) fn read(&mut self) -> anyhow::Result<Cpu> {
        if self.walsender.is_none() {
            self.walsender = children(self.cast.postmaster)
                .into_iter()
                .find_map(|(pid, line)| line.contains("walsender").then_some(pid));
        }
        let of = |pid: u32| cpu_time(pid).map(|time| time.as_secs_f64());
        let walsender = self.walsender.and_then(|pid| of(pid).ok());
        let mut now = Cpu {
            reader: of(self.cast.reader)?,
            walsender: walsender.unwrap_or(self.last.walsender),
            broker: of(self.cast.broker)?,
            others: 0.0,
        };
        let server = family_cpu_time(self.cast.postmaster)?.as_secs_f64();
        let ours = now.reader + server + now.broker + of(std::process::id())?;
        now.others = busy_time()?.as_secs_f64() - ours;
        self.last = now;
        Ok(now)
    }
}

/// Looks at a reader started at `started` until it is done. It is a fault, and no reason to leave the
/// other runs undone, when the reader ends too early or stands still.
pub(crate) fn watch(
    gauge: &Gauge,
    cast: Cast,
    started: Instant,
) -> anyhow::Result<Result<Vec<Sample>, Fault>> {
    let mut meter = CpuMeter::new(cast);
    let mut samples: Vec<Sample> = Vec::new();
    let mut moved = Instant::now();
    loop {
        let ended = has_ended(cast.reader);
        let progress = match gauge {
            Gauge::Written => written_bytes(cast.reader)?,
            Gauge::Records { ends, before, .. } => ends.records()? - before,
        };
        let at = started.elapsed().as_secs_f64();
        let sample = Sample { at, progress: float(progress), cpu: meter.read()? };
        if samples.last().is_none_or(|last| last.progress < sample.progress) {
            moved = Instant::now();
        }
        samples.push(sample);
        match gauge {
            Gauge::Written if ended => return Ok(Ok(samples)),
            Gauge::Records { expected, .. } if progress >= *expected => return Ok(Ok(samples)),
            Gauge::Records { expected, .. } if ended => {
                return Ok(Err(format!("ended after {progress} of {expected} records")));
            }
            Gauge::Written | Gauge::Records { .. } => {}
        }
        if moved.elapsed() >= PATIENCE {
            return Ok(Err(format!("stood still for {PATIENCE:?}, at {progress}")));
        }
        let pause = if progress == 0 { SHORT_PAUSE } else { PAUSE };
        std::thread::sleep(match gauge {
            Gauge::Written => pause,
            Gauge::Records { ends, .. } => pause.max(ends.pause()),
        });
    }
}
