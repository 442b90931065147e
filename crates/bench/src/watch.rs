//! Samples a run: progress and CPU time at the same moments.

use std::time::Duration;

use testbed::postgres::DatabaseSession;
use testbed::process::{cpu_time, family_cpu_time, has_ended, written_bytes};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::conditions::{CpuSeconds, Look, Observed};
use crate::figures::float;
use crate::machine_info::busy_time;
use crate::server::BenchServer;
use crate::throughput::{Cpu, Sample};
use crate::topic::EndOffsetsClient;

const PAUSE: Duration = Duration::from_millis(50);
/// Between samples before the first progress, whose time is measured.
const SHORT_PAUSE: Duration = Duration::from_millis(10);
const NO_PROGRESS_MAX: Duration = Duration::from_secs(60);

/// What was wrong with a run, which then has no figures.
pub(crate) type Anomaly = String;

/// How the progress of a reader is read.
pub(crate) enum ProgressSource {
    /// Bytes that it has written; it ends by itself when it is done.
    BytesWritten,
    /// Records in its topics; it is done when as many have come as are expected.
    Records { ends: EndOffsetsClient, before: u64, expected: u64 },
}

/// The processes of a run.
pub(crate) struct MeasuredProcesses {
    pub(crate) reader: u32,
    pub(crate) postmaster: u32,
    pub(crate) broker: u32,
    pub(crate) decoders: Decoders,
}

/// Asks the server which processes decode for a reader: the walsender that streams from the slot of
/// the run, and a backend that reads a temporary copy of it by SQL. A reader may have several
/// connections, also to walsenders.
pub(crate) struct Decoders {
    session: DatabaseSession,
    slot: String,
    runtime: Handle,
}

impl Decoders {
    /// Opens the session. It is used from a thread that may block.
    pub(crate) async fn of(server: &BenchServer, slot: &str) -> anyhow::Result<Self> {
        let session = server.postgres.connect().await?;
        Ok(Self { session, slot: slot.to_owned(), runtime: Handle::current() })
    }

    fn pids(&self) -> anyhow::Result<Vec<u32>> {
        let asked = "SELECT active_pid FROM pg_replication_slots \
                     WHERE active_pid IS NOT NULL AND (slot_name = $1::text::name OR temporary)";
        let rows = self.runtime.block_on(self.session.query(asked, &[&self.slot]))?;
        let pids = rows.iter().map(|row| u32::try_from(row.get::<_, i32>(0)));
        Ok(pids.collect::<Result<_, _>>()?)
    }
}

/// CPU time of all processes that decoded in a run: each belongs to one connection of the reader.
/// The last figure of a process that has ended is kept.
#[derive(Default)]
struct Decoding {
    /// Of each that was seen.
    seconds: CpuSeconds,
}

impl Decoding {
    /// Reads the CPU time of those that were seen, and of those that decode now.
    fn cpu_seconds(
        &mut self,
        now: impl IntoIterator<Item = u32>,
        time: impl Fn(u32) -> Option<f64>,
    ) -> f64 {
        for pid in now {
            self.seconds.entry(pid).or_default();
        }
        for (pid, seconds) in &mut self.seconds {
            *seconds = time(*pid).unwrap_or(*seconds);
        }
        self.seconds.values().sum()
    }
}

/// CPU time of the processes of a run.
pub(crate) struct CpuMeter {
    processes: MeasuredProcesses,
    decoding: Decoding,
}

impl CpuMeter {
    pub(crate) fn new(processes: MeasuredProcesses) -> Self {
        Self { processes, decoding: Decoding::default() }
    }

    /// CPU time of each process that has decoded so far, as it was read last.
    fn decoding(&self) -> CpuSeconds {
        self.decoding.seconds.clone()
    }

    pub(crate) fn read(&mut self) -> anyhow::Result<Cpu> {
        let Self { processes, decoding } = self;
        let of = |pid: u32| cpu_time(pid).map(|time| time.as_secs_f64());
        let living = |pid: u32| if has_ended(pid) { None } else { of(pid).ok() };
        let mut now = Cpu {
            reader: of(processes.reader)?,
            decoding: decoding.cpu_seconds(processes.decoders.pids()?, living),
            broker: of(processes.broker)?,
            others: 0.0,
        };
        let server = family_cpu_time(processes.postmaster)?.as_secs_f64();
        let ours = now.reader + server + now.broker + of(std::process::id())?;
        now.others = busy_time()?.as_secs_f64() - ours;
        Ok(now)
    }
}

/// A run from its start to its end.
#[derive(Default)]
pub(crate) struct Watched {
    pub(crate) samples: Vec<Sample>,
    pub(crate) looks: Vec<Look>,
}

/// Samples a reader that was started at `started` until it is done. A reader that ends too early or
/// makes no progress is an anomaly of this run; the other runs continue.
pub(crate) fn watch(
    source: &ProgressSource,
    processes: MeasuredProcesses,
    mut observed: Observed,
    started: Instant,
) -> anyhow::Result<Result<Watched, Anomaly>> {
    let reader = processes.reader;
    let mut meter = CpuMeter::new(processes);
    let Watched { mut samples, mut looks } = Watched::default();
    let mut moved = Instant::now();
    loop {
        let ended = has_ended(reader);
        let progress = match source {
            ProgressSource::BytesWritten => written_bytes(reader)?,
            ProgressSource::Records { ends, before, .. } => ends.records()? - before,
        };
        let at = started.elapsed().as_secs_f64();
        let sample = Sample { at, progress: float(progress), cpu: meter.read()? };
        let look = Look {
            at,
            progress: sample.progress,
            decoding: meter.decoding(),
            broker: sample.cpu.broker,
            busy: busy_time()?.as_secs_f64(),
            ..Look::default()
        };
        looks.push(observed.look(reader, look));
        if samples.last().is_none_or(|last| last.progress < sample.progress) {
            moved = Instant::now();
        }
        samples.push(sample);
        match source {
            ProgressSource::BytesWritten if ended => return Ok(Ok(Watched { samples, looks })),
            ProgressSource::Records { expected, .. } if progress >= *expected => {
                return Ok(Ok(Watched { samples, looks }));
            }
            ProgressSource::Records { expected, .. } if ended => {
                return Ok(Err(format!("ended after {progress} of {expected} records")));
            }
            ProgressSource::BytesWritten | ProgressSource::Records { .. } => {}
        }
        if moved.elapsed() >= NO_PROGRESS_MAX {
            return Ok(Err(format!("made no progress for {NO_PROGRESS_MAX:?}, after {progress}")));
        }
        let pause = if progress == 0 { SHORT_PAUSE } else { PAUSE };
        std::thread::sleep(match source {
            ProgressSource::BytesWritten => pause,
            ProgressSource::Records { ends, .. } => pause.max(ends.pause()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_every_process_that_decoded_is_summed() {
        let mut decoding = Decoding::default();
        let mut look = |now: &[u32], living: &[(u32, f64)]| {
            let time = |pid| Some(living.iter().find(|(of, _)| *of == pid)?.1);
            decoding.cpu_seconds(now.iter().copied(), time)
        };
        let sums = [
            look(&[], &[(1, 9.0)]),
            look(&[2], &[(1, 9.0), (2, 1.0)]),
            look(&[2, 3], &[(2, 3.0), (3, 0.5)]),
            look(&[], &[(3, 1.0)]),
            look(&[], &[]),
            look(&[4], &[(4, 2.0)]),
        ];
        let expected = [0.0, 1.0, 3.5, 4.0, 4.0, 6.0];
        assert!(
            sums.iter().zip(expected).all(|(sum, right)| (sum - right).abs() < 1e-9),
            "{sums:?}"
        );
    }
}
