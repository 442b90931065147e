//! What the router says of itself while it drains: how it reads the backlog, and for how long it
//! did not read because of what was in flight.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use testbed::http::send;
use tokio::runtime::Handle;
use tokio::time::Instant;

/// Each answer costs the router some tenths of a millisecond.
const INTERVAL: Duration = Duration::from_millis(200);
const DEADLINE: Duration = Duration::from_secs(1);

/// How a backlog was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BacklogRead {
    /// The walsender sent it.
    Stream,
    /// By SQL, from a copy of the slot.
    Sql,
    /// A part of it by each.
    Both,
}

impl BacklogRead {
    /// From the answers of a run; `None` if there was none.
    ///
    /// A router says that it reads the stream before it has begun to read by SQL, and when it has
    /// read all but the acknowledgements are still to come: one in five such answers is no part of
    /// the backlog.
    pub(crate) fn of(answers: impl IntoIterator<Item = Self>) -> Option<Self> {
        let answers: Vec<Self> = answers.into_iter().collect();
        let first = answers.iter().position(|answer| *answer == Self::Sql);
        let Some(first) = first else { return answers.first().copied() };
        let since: Vec<&Self> = answers.iter().skip(first).collect();
        let by_sql = since.iter().filter(|answer| ***answer == Self::Sql).count();
        Some(if by_sql * 5 >= since.len() * 4 { Self::Sql } else { Self::Both })
    }

    /// For people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Sql => "sql",
            Self::Both => "sql and stream",
        }
    }
}

/// One answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RouterStatus {
    pub(crate) read: BacklogRead,
    /// Seconds for which it did not read, since its start, because the window or the producer's
    /// queue was full. Other reasons to pause say nothing of Kafka's speed.
    pub(crate) paused: f64,
}

impl RouterStatus {
    /// From `/status.json`; `None` if that is not a router's.
    fn parse(text: &str) -> Option<Self> {
        let status: Value = serde_json::from_str(text).ok()?;
        let positions = status.get("positions")?;
        // A build that cannot read by SQL does not have the member.
        let by_sql = positions.get("backlog_by_sql_until").is_some_and(Value::is_string);
        let reasons = status.get("backpressure_seconds")?;
        let seconds = |reason| reasons.get(reason).and_then(Value::as_f64).unwrap_or_default();
        Some(Self {
            read: if by_sql { BacklogRead::Sql } else { BacklogRead::Stream },
            paused: seconds("window") + seconds("queue"),
        })
    }
}

/// Asks a router from a thread that may block.
pub(crate) struct StatusSource {
    address: String,
    runtime: Handle,
    asked: Option<Instant>,
}

impl StatusSource {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), runtime: Handle::current(), asked: None }
    }

    /// An answer, unless there was one a moment ago, or none comes: a router that is just starting
    /// does not answer.
    pub(crate) fn ask(&mut self) -> Option<RouterStatus> {
        if self.asked.is_some_and(|asked| asked.elapsed() < INTERVAL) {
            return None;
        }
        self.asked = Some(Instant::now());
        let asking = send(("GET", "/status.json"), &self.address, None, DEADLINE);
        let answer = self.runtime.block_on(asking).ok()?;
        RouterStatus::parse(&answer.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_how_the_backlog_is_read_and_how_long_kafka_was_waited_for() {
        let status = |positions: &str| {
            let text = format!(
                "{{\"positions\": {positions}, \"backpressure_seconds\": \
                 {{\"window\": 1.5, \"queue\": 0.25, \"topic\": 8, \"row\": 8}}}}"
            );
            RouterStatus::parse(&text).unwrap()
        };
        let by_sql = status("{\"backlog_by_sql_until\": \"0/15\"}");
        assert_eq!(by_sql, RouterStatus { read: BacklogRead::Sql, paused: 1.75 });
        assert_eq!(status("{\"backlog_by_sql_until\": null}").read, BacklogRead::Stream);
        assert_eq!(status("{}").read, BacklogRead::Stream);
        assert_eq!(RouterStatus::parse("not ready"), None);
    }

    #[test]
    fn a_part_was_read_by_each_if_more_than_a_fifth_of_the_answers_since_the_first_sql_say_so() {
        use BacklogRead::{Both, Sql, Stream};
        for (answers, expected) in [
            (vec![], None),
            (vec![Sql, Sql], Some(Sql)),
            (vec![Stream], Some(Stream)),
            (vec![Stream, Stream, Sql, Sql, Sql, Sql, Stream], Some(Sql)),
            (vec![Sql, Sql, Sql, Stream], Some(Both)),
            (vec![Sql, Stream, Stream, Stream, Sql], Some(Both)),
        ] {
            assert_eq!(BacklogRead::of(answers.clone()), expected, "{answers:?}");
        }
    }
}
