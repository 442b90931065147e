//! Which limit held in a run: the part that could not have done more, or that the others waited
//! for.

use std::fmt;

use serde::Serialize;

/// From this share of one core on, a part had no time left. A part that waits for another sleeps
/// meanwhile, so it stays below; sampling and the scheduler take some hundredths.
const FULL: f64 = 0.9;
/// Below this share of all cores, no core was idle.
const NO_IDLE_TIME: f64 = 0.05;
/// A router that did not read for at least this share of the time, because of what was in flight,
/// waited for Kafka.
const PAUSED: f64 = 0.5;

/// How busy each part of a run was, as shares of the time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Shares {
    /// Of one core: the process of the server that decoded most.
    #[serde(rename = "decoding_share")]
    pub(crate) decoding: f64,
    /// Of one core: the busiest thread of the reader.
    #[serde(rename = "reader_share")]
    pub(crate) reader: f64,
    /// The name of that thread.
    #[serde(rename = "reader_thread")]
    pub(crate) thread: String,
    /// Of one core: the broker, with all of its threads, since they take turns with the requests of
    /// one connection.
    #[serde(rename = "broker_share")]
    pub(crate) broker: f64,
    /// Of all cores together.
    #[serde(rename = "idle_share")]
    pub(crate) idle: f64,
    /// For how much of the time the router did not read, because as much was in flight as may be;
    /// `None` where that is not known.
    #[serde(rename = "paused_share")]
    pub(crate) paused: Option<f64>,
}

/// What held a run up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HeldBy {
    /// The walsender, or the backend that reads by SQL.
    Decoding,
    /// A thread of the reader.
    Reader,
    /// The broker, or the way to it and back.
    Kafka,
    /// All cores were busy, and no part alone.
    Machine,
    /// No part was full: they waited for each other.
    EachOther,
}

impl HeldBy {
    /// The rule. A part that uses a whole core could not have done more on a machine with more
    /// cores, so the machine is to blame only if there is no such part.
    pub(crate) fn of(shares: &Shares) -> Self {
        let parts = [
            (shares.decoding, Self::Decoding),
            (shares.reader, Self::Reader),
            (shares.broker, Self::Kafka),
        ];
        let busiest = parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        match busiest {
            Some((share, part)) if share >= FULL => part,
            _ if shares.idle < NO_IDLE_TIME => Self::Machine,
            _ if shares.paused.is_some_and(|paused| paused >= PAUSED) => Self::Kafka,
            _ => Self::EachOther,
        }
    }

    /// For people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Decoding => "decoding",
            Self::Reader => "reader",
            Self::Kafka => "Kafka",
            Self::Machine => "machine",
            Self::EachOther => "each other",
        }
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { decoding, reader, thread, broker, idle, paused } = self;
        let idle = idle * 100.0;
        write!(f, "decoding {decoding:.2} of a core, reader {reader:.2} ({thread}), ")?;
        write!(f, "broker {broker:.2}, cores idle {idle:.0} %")?;
        match paused {
            Some(paused) => write!(f, ", waited for acks {:.0} %", paused * 100.0),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(parts: [f64; 3], idle: f64, paused: Option<f64>) -> Shares {
        let [decoding, reader, broker] = parts;
        Shares { decoding, reader, thread: "main".to_owned(), broker, idle, paused }
    }

    fn held_by(parts: [f64; 3], idle: f64, paused: Option<f64>) -> HeldBy {
        HeldBy::of(&shares(parts, idle, paused))
    }

    #[test]
    fn the_part_that_uses_a_whole_core_held_the_run_even_if_no_core_was_idle() {
        for idle in [0.0, 0.3] {
            assert_eq!(held_by([0.97, 0.4, 0.3], idle, Some(0.0)), HeldBy::Decoding);
            assert_eq!(held_by([0.5, 0.93, 0.3], idle, Some(0.9)), HeldBy::Reader);
            assert_eq!(held_by([0.91, 0.4, 1.2], idle, None), HeldBy::Kafka);
        }
    }

    #[test]
    fn the_machine_held_the_run_if_no_part_was_full_and_no_core_idle() {
        assert_eq!(held_by([0.7, 0.6, 0.5], 0.04, Some(0.8)), HeldBy::Machine);
        assert_eq!(held_by([0.7, 0.6, 0.5], 0.05, Some(0.0)), HeldBy::EachOther);
    }

    #[test]
    fn a_router_that_waited_for_acknowledgements_half_of_the_time_was_held_by_kafka() {
        assert_eq!(held_by([0.3, 0.4, 0.3], 0.4, Some(0.5)), HeldBy::Kafka);
        assert_eq!(held_by([0.3, 0.4, 0.3], 0.4, Some(0.49)), HeldBy::EachOther);
        assert_eq!(held_by([0.3, 0.4, 0.3], 0.4, None), HeldBy::EachOther);
    }
}
