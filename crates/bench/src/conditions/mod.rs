//! What a run was: how the server could send, how the backlog was read, and which limit held.

mod connections;
mod limit;
mod looks;
mod router_status;
mod segments;

use serde::Serialize;

pub(crate) use self::connections::ConnectionSource;
use self::limit::{HeldBy, Shares};
pub(crate) use self::looks::{CpuSeconds, Look, Observed};
pub(crate) use self::router_status::{BacklogRead, StatusSource};
use self::segments::{MainConnection, main_connection};
use crate::figures::float;
use crate::throughput::TO;

/// The conditions of one run, in the time from which its rate is taken.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Conditions {
    /// `None` for a unix socket, and where the kernel does not show connections.
    #[serde(flatten)]
    pub(crate) connection: Option<MainConnection>,
    /// How the router read the backlog; `None` if it did not say.
    #[serde(rename = "backlog_read")]
    pub(crate) read: Option<BacklogRead>,
    pub(crate) held_by: HeldBy,
    #[serde(flatten)]
    pub(crate) shares: Shares,
}

/// What a reader is, as far as its looks do not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadAs {
    /// It says how it reads.
    Router,
    /// Whatever else reads a slot reads the walsender's stream.
    Stream,
}

impl Conditions {
    /// From the looks of a run on a machine with so many cores; `None` if there are too few.
    pub(crate) fn of(looks: &[Look], read_as: ReadAs, cores: u32) -> Option<Self> {
        let looks = measured(looks)?;
        let shares = shares(looks, cores)?;
        let answers = looks.iter().filter_map(|look| Some(look.status?.read));
        Some(Self {
            connection: main_connection(looks.iter().map(|look| &look.connections)),
            read: match read_as {
                ReadAs::Router => BacklogRead::of(answers),
                ReadAs::Stream => Some(BacklogRead::Stream),
            },
            held_by: HeldBy::of(&shares),
            shares,
        })
    }

    /// For people.
    pub(crate) fn show(&self) -> String {
        let connection = match &self.connection {
            Some(MainConnection { congestion, segment_bytes }) => {
                format!("{congestion}, {segment_bytes:.0} B per segment")
            }
            None => "no TCP segments seen".to_owned(),
        };
        let read = self.read.map_or("unknown", BacklogRead::name);
        let (held_by, shares) = (self.held_by.name(), &self.shares);
        format!("{connection}; backlog read: {read}; limit: {held_by}; {shares}")
    }
}

/// From the last look before the server has used time to decode to the first one after 95 % of the
/// progress.
fn measured(looks: &[Look]) -> Option<&[Look]> {
    let total = looks.last()?.progress;
    let used = |look: &Look| look.decoding.values().any(|seconds| *seconds > 0.0);
    let from = looks.iter().position(used).unwrap_or_default().saturating_sub(1);
    let to = looks.iter().position(|look| look.progress >= total * TO)?;
    looks.get(from..=to)
}

/// How busy the parts were from the first look to the last.
fn shares(looks: &[Look], cores: u32) -> Option<Shares> {
    let (first, last) = (looks.first()?, looks.last()?);
    let seconds = last.at - first.at;
    if seconds <= 0.0 {
        return None;
    }
    // A process or thread that has ended meanwhile keeps its last figure.
    let mut decoding = CpuSeconds::new();
    let mut threads = first.threads.clone();
    for look in looks {
        decoding.extend(look.decoding.iter().map(|(pid, cpu)| (*pid, *cpu)));
        threads.extend(look.threads.iter().map(|(id, thread)| (*id, thread.clone())));
    }
    let decoding = decoding
        .into_iter()
        .map(|(pid, cpu)| cpu - first.decoding.get(&pid).unwrap_or(&0.0))
        .fold(0.0, f64::max);
    let (reader, thread) = threads
        .into_iter()
        .map(|(id, (name, cpu))| (cpu - first.threads.get(&id).map_or(0.0, |seen| seen.1), name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or_default();
    let answers = || looks.iter().filter_map(|look| Some((look.at, look.status?.paused)));
    let paused = answers().next().zip(answers().next_back()).and_then(|(first, last)| {
        let between = last.0 - first.0;
        (between > 0.0).then(|| (last.1 - first.1) / between)
    });
    Some(Shares {
        decoding: decoding / seconds,
        reader: reader / seconds,
        thread,
        broker: (last.broker - first.broker) / seconds,
        idle: (1.0 - (last.busy - first.busy) / (seconds * float(cores.into()))).max(0.0),
        paused,
    })
}

#[cfg(test)]
mod tests {
    use super::connections::{Connection, Connections};
    use super::router_status::RouterStatus;
    use super::*;

    /// A run of a hundred seconds on two cores, the first five without decoding, in which something
    /// changes with each look.
    fn run(change: impl Fn(f64, &mut Look)) -> Vec<Look> {
        let looks = (0..=100_u32).map(|second| {
            let at = f64::from(second);
            let mut look = Look { at, progress: at, ..Look::default() };
            look.decoding = CpuSeconds::from([(1, (at - 5.0).max(0.0) * 0.95)]);
            look.threads = [(7, ("main".to_owned(), at * 0.5))].into();
            look.busy = at * 1.5;
            change(at, &mut look);
            look
        });
        looks.collect()
    }

    fn connection(bytes: u64, segments: u64) -> Connections {
        Connections::from([(5, Connection { bytes, segments, congestion: "bbr".to_owned() })])
    }

    #[test]
    fn shares_are_those_of_the_busiest_process_and_thread_from_the_begin_of_decoding_to_95_percent()
    {
        let looks = run(|at, look| {
            // Both are as busy only outside of what is measured.
            look.decoding.insert(2, (at - 95.0).max(0.0) * 10.0);
            let outside = at.min(5.0) + (at - 95.0).max(0.0);
            look.threads.insert(9, ("start".to_owned(), outside * 10.0));
            look.threads.insert(8, ("rdk:broker1".to_owned(), at * 0.6));
            look.broker = at * 0.25;
        });
        let found = Conditions::of(&looks, ReadAs::Stream, 2).unwrap();
        let near = |share: f64, expected: f64| (share - expected).abs() < 1e-9;
        let Shares { decoding, reader, thread, broker, idle, paused } = &found.shares;
        assert!(near(*decoding, 0.95) && near(*reader, 0.6), "{found:?}");
        assert!(near(*broker, 0.25) && near(*idle, 0.25), "{found:?}");
        assert_eq!((thread.as_str(), *paused), ("rdk:broker1", None));
        assert_eq!((found.held_by, found.read), (HeldBy::Decoding, Some(BacklogRead::Stream)));
        assert_eq!(found.connection, None);
    }

    #[test]
    fn a_backend_that_decodes_only_in_the_middle_counts_with_all_of_its_time() {
        let looks = run(|at, look| {
            look.decoding = CpuSeconds::from([(1, f64::from(u8::from(at > 5.0)) * 0.01)]);
            if (20.0..=70.0).contains(&at) {
                look.decoding.insert(3, at - 20.0);
            }
        });
        let found = Conditions::of(&looks, ReadAs::Stream, 2).unwrap();
        assert!((found.shares.decoding - 50.0 / 90.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn what_the_router_says_outside_of_what_is_measured_does_not_count() {
        let looks = run(|at, look| {
            let read =
                if (5.0..97.0).contains(&at) { BacklogRead::Sql } else { BacklogRead::Stream };
            look.status = Some(RouterStatus { read, paused: at.max(50.0) - 50.0 });
            look.decoding = CpuSeconds::from([(1, f64::from(u8::from(at > 5.0)) * 0.01)]);
            look.connections = if at <= 95.0 { connection(1000, 1) } else { connection(9000, 90) };
        });
        let found = Conditions::of(&looks, ReadAs::Router, 2).unwrap();
        assert_eq!((found.read, found.held_by), (Some(BacklogRead::Sql), HeldBy::Kafka));
        assert_eq!(found.shares.paused, Some(0.5));
        assert_eq!(found.connection, None, "nothing came between the looks that count");
    }

    #[test]
    fn the_line_of_a_run_shows_its_connection_how_it_was_read_and_its_limit() {
        let looks = run(|at, look| {
            let segments = if at < 50.0 { 10 } else { 20 };
            look.connections = connection(segments * 300, segments);
        });
        let line = Conditions::of(&looks, ReadAs::Stream, 2).unwrap().show();
        assert_eq!(
            line,
            "bbr, 300 B per segment; backlog read: stream; limit: decoding; decoding 0.95 of a \
             core, reader 0.50 (main), broker 0.00, cores idle 25 %"
        );
    }

    #[test]
    fn a_run_of_one_look_has_no_conditions() {
        assert_eq!(Conditions::of(&[], ReadAs::Stream, 2), None);
        let one = Look { at: 1.0, progress: 1.0, ..Look::default() };
        assert_eq!(Conditions::of(&[one], ReadAs::Stream, 2), None);
    }
}
