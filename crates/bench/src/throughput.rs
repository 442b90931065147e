//! The speed of a run, from samples of its progress: one rule for every reader.
//!
//! What counts is the time from the moment at which the server begins to decode for the reader
//! until 95 % of the backlog are done: in files (`pg_recvlogical`) or in Kafka (the router). So the
//! start of a process does not count, nor do the last events, and no reader is credited with what
//! is still in a socket. What the server decodes *before* a reader has the first event counts: a
//! backlog that is read by SQL comes in batches, each of which is decoded as a whole, so a rate
//! that began with the first events would leave out the decoding of a batch. CPU time is taken
//! between the same two moments. Between two samples everything is interpolated linearly.

use serde::Serialize;

use crate::figures::float;

/// CPU time used since the start of each process, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Cpu {
    #[serde(rename = "reader_cpu_us")]
    pub(crate) reader: f64,
    /// Of the server, to decode: the walsender, and a backend that reads a backlog by SQL.
    #[serde(rename = "decoding_cpu_us")]
    pub(crate) decoding: f64,
    #[serde(rename = "broker_cpu_us")]
    pub(crate) broker: f64,
    /// Everything else on the machine, without the bench itself and the rest of the database
    /// server.
    #[serde(skip)]
    pub(crate) others: f64,
}

impl Measured {
    /// The rate that speaks most for the reader.
    pub(crate) fn best_rate(&self) -> f64 {
        self.steady_events_per_second.unwrap_or_default().max(self.events_per_second)
    }
}

impl Cpu {
    /// Combines two values member by member.
    fn zip(self, other: Self, combine: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            reader: combine(self.reader, other.reader),
            decoding: combine(self.decoding, other.decoding),
            broker: combine(self.broker, other.broker),
            others: combine(self.others, other.others),
        }
    }

    /// What was used from `self` to `later`.
    pub(crate) fn until(self, later: Self) -> Self {
        let used = later.zip(self, |later, earlier| (later - earlier).max(0.0));
        // The remainder of the machine's CPU time after all known shares are subtracted. It is
        // shown as it is, even below zero.
        Self { others: later.others - self.others, ..used }
    }

    /// In microseconds, for each of `events`.
    pub(crate) fn per_event(self, events: f64) -> Self {
        self.zip(self, |seconds, _| seconds * 1e6 / events)
    }
}

/// One sample of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    /// Seconds since the reader was started.
    pub(crate) at: f64,
    /// Bytes or records that the reader is done with.
    pub(crate) progress: f64,
    /// CPU time so far.
    pub(crate) cpu: Cpu,
}

/// The figures from the samples of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Measured {
    pub(crate) events_per_second: f64,
    /// The same from 5 % to 95 % of the backlog: a reader that is slow at first, as a JVM is, is
    /// faster then.
    pub(crate) steady_events_per_second: Option<f64>,
    /// Microseconds per event.
    #[serde(flatten)]
    pub(crate) cpu: Cpu,
    /// Cores that other processes kept busy meanwhile.
    pub(crate) others_cores: f64,
    /// Milliseconds from the start of the process to the first sample with progress.
    pub(crate) first_ms: f64,
}

/// What counts of the steady part begins at this part of the backlog.
const FROM: f64 = 0.05;
/// What counts of a run ends at this part of the backlog.
pub(crate) const TO: f64 = 0.95;

/// Measures a run over `events` events; `None` when the run was too short for samples in between.
pub(crate) fn measure(samples: &[Sample], events: u64) -> Option<Measured> {
    let total = samples.last()?.progress;
    let (from, to) = (decoding_begins(samples)?, crossing(samples, total * TO)?);
    let done = if total > 0.0 { (total * TO - from.progress) / total } else { 0.0 };
    let (seconds, of_all) = (to.at - from.at, float(events));
    let events = of_all * done;
    let first = samples.iter().find(|sample| sample.progress > 0.0)?.at;
    let used = from.cpu.until(to.cpu);
    let steady = crossing(samples, total * FROM).map(|from| to.at - from.at);
    let steady = steady.filter(|seconds| *seconds > 0.0);
    (seconds > 0.0).then(|| Measured {
        events_per_second: events / seconds,
        steady_events_per_second: steady.map(|seconds| of_all * (TO - FROM) / seconds),
        cpu: used.per_event(events),
        others_cores: used.others / seconds,
        first_ms: first * 1e3,
    })
}

/// The last sample before the server has used time to decode; the first one, if it had before.
fn decoding_begins(samples: &[Sample]) -> Option<Sample> {
    let used = samples.iter().position(|sample| sample.cpu.decoding > 0.0).unwrap_or_default();
    samples.get(used.saturating_sub(1)).copied()
}

/// The moment at which `level` was passed.
fn crossing(samples: &[Sample], level: f64) -> Option<Sample> {
    samples.windows(2).find_map(|pair| {
        let [a, b] = pair else { return None };
        if a.progress >= level || b.progress < level {
            return None;
        }
        let part = (level - a.progress) / (b.progress - a.progress);
        let between = |a: f64, b: f64| a + (b - a) * part;
        Some(Sample { at: between(a.at, b.at), progress: level, cpu: a.cpu.zip(b.cpu, between) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: f64, progress: f64, reader: f64) -> Sample {
        Sample { at, progress, cpu: Cpu { reader, ..Cpu::default() } }
    }

    fn decoding(sample: Sample, decoding: f64) -> Sample {
        Sample { cpu: Cpu { decoding, ..sample.cpu }, ..sample }
    }

    #[test]
    fn the_rate_of_an_even_run_does_not_depend_on_the_time_that_its_start_took() {
        let run = [
            sample(0.0, 0.0, 0.0),
            sample(3.0, 0.0, 7.0),
            decoding(sample(8.0, 500.0, 7.5), 4.0),
            decoding(sample(13.0, 1000.0, 8.0), 9.0),
        ];
        let measured = measure(&run, 2000).unwrap();
        assert!((measured.events_per_second - 200.0).abs() < 1e-9);
        assert!((measured.cpu.reader - 500.0).abs() < 1e-6, "1 s for 2000 events");
        assert_eq!(measured.first_ms, 8000.0);
    }

    #[test]
    fn what_the_server_decodes_before_the_first_event_counts() {
        let run = [
            sample(0.0, 0.0, 0.0),
            decoding(sample(1.0, 0.0, 0.0), 0.9),
            decoding(sample(9.0, 0.0, 0.0), 8.5),
            decoding(sample(10.0, 1000.0, 1.0), 9.5),
        ];
        let measured = measure(&run, 1000).unwrap();
        assert!((measured.events_per_second - 950.0 / 9.95).abs() < 1e-9);
        assert!((measured.best_rate() - 1000.0).abs() < 1e-6, "900 events in 0.9 s");
        assert!((measured.cpu.decoding - 9.45 / 950.0 * 1e6).abs() < 1e-6);
    }

    #[test]
    fn what_was_done_before_the_first_sample_does_not_count() {
        let run = [decoding(sample(0.0, 400.0, 0.0), 5.0), decoding(sample(6.0, 1000.0, 0.0), 6.0)];
        let measured = measure(&run, 1000).unwrap();
        assert!((measured.events_per_second - 100.0).abs() < 1e-9);
    }

    #[test]
    fn the_last_twentieth_of_the_events_does_not_lower_the_rate() {
        let run = [sample(0.0, 0.0, 0.0), sample(1.0, 96.0, 0.0), sample(60.0, 100.0, 0.0)];
        let measured = measure(&run, 96).unwrap();
        assert!(measured.events_per_second > 90.0);
    }

    #[test]
    fn a_run_with_fewer_than_two_samples_has_no_rate() {
        assert_eq!(measure(&[sample(0.1, 100.0, 0.0)], 100), None);
        assert_eq!(measure(&[], 100), None);
    }
}
