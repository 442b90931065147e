//! The live line: state, bytes behind, latency, rate, and who has to act.
//!
//! All of it is what the router reports in `/status.json` and `/metrics`. While no router answers,
//! PostgreSQL shows how far behind the slot is.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use testbed::postgres::PostgresServer;
use testbed::router::RouterProcess;
use tokio::time::Instant;

use crate::system::SLOT;

/// What rate and latency are averaged over.
const SPAN: Duration = Duration::from_secs(1);

/// The counters of one moment.
#[derive(Debug, Clone, Copy)]
struct Counters {
    at: Instant,
    events: f64,
    latency_sum: f64,
}

/// What the live line shows of one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LiveStatus {
    /// The router's state, `down` if no router answers.
    pub(crate) state: String,
    /// Bytes of WAL past the slot's confirmed position.
    pub(crate) bytes_behind: Option<u64>,
    /// From commit to acknowledgement, on average; `None` while nothing is acknowledged.
    pub(crate) latency: Option<Duration>,
    /// Acknowledged events a second.
    pub(crate) rate: f64,
    /// Who has to act.
    pub(crate) blame: String,
}

/// Takes readings, and keeps those from which a rate is computed.
#[derive(Debug, Default)]
pub(crate) struct StatusReader {
    span: VecDeque<Counters>,
}

impl StatusReader {
    /// Takes a reading now. A router that does not answer is a reading and not an error.
    pub(crate) async fn read(
        &mut self,
        router: &RouterProcess,
        postgres: &PostgresServer,
    ) -> anyhow::Result<LiveStatus> {
        let Ok(status) = router.status().await else {
            self.span.clear();
            return Ok(LiveStatus {
                state: "down".to_owned(),
                bytes_behind: Some(bytes_behind(postgres).await?),
                blame: "router".to_owned(),
                ..LiveStatus::default()
            });
        };
        let sum = async |name: &str| router.metric(name, "").await.ok().flatten().unwrap_or(0.0);
        let now = Counters {
            at: Instant::now(),
            events: sum("outbox_event_latency_seconds_count").await,
            latency_sum: sum("outbox_event_latency_seconds_sum").await,
        };
        let (rate, latency) = self.advance(now);
        let text = |key: &str| status.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
        let slot = status.get("slot").and_then(|slot| slot.get("bytes_behind"));
        let bytes_behind = match slot.and_then(Value::as_u64) {
            None => Some(bytes_behind(postgres).await?),
            end => end,
        };
        Ok(LiveStatus { state: text("state"), bytes_behind, latency, rate, blame: text("blame") })
    }

    /// Events a second, and their mean latency, over the last [`SPAN`].
    fn advance(&mut self, now: Counters) -> (f64, Option<Duration>) {
        // The counters of a new process begin at zero.
        if self.span.back().is_some_and(|last| last.events > now.events) {
            self.span.clear();
        }
        while self.span.front().is_some_and(|first| now.at.duration_since(first.at) > SPAN) {
            self.span.pop_front();
        }
        self.span.push_back(now);
        let Some(first) = self.span.front() else { return (0.0, None) };
        let seconds = now.at.duration_since(first.at).as_secs_f64();
        let events = now.events - first.events;
        if seconds == 0.0 || events == 0.0 {
            return (0.0, None);
        }
        let latency = (now.latency_sum - first.latency_sum) / events;
        (events / seconds, Duration::try_from_secs_f64(latency).ok())
    }
}

async fn bytes_behind(postgres: &PostgresServer) -> anyhow::Result<u64> {
    let end = u64::from(postgres.current_wal_lsn().await?);
    Ok(end.saturating_sub(postgres.confirmed(SLOT).await?.into()))
}

impl fmt::Display for LiveStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let behind = self.bytes_behind.map_or("? B".to_owned(), size);
        let latency = self.latency.map_or("–".to_owned(), duration);
        let blame = match self.blame.as_str() {
            "postgresql" => "PostgreSQL",
            "kafka" => "Kafka",
            "router" => "the router",
            "holder" => "another router",
            other => other,
        };
        write!(
            f,
            "{:<9}  {behind:>8} behind  latency {latency:>6}  {:>5.0} events/s  to blame: {blame}",
            self.state, self.rate
        )
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}

fn duration(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_micros().div_ceil(1_000))
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, millis: u64, events: f64, latency_sum: f64) -> Counters {
        Counters { at: start + Duration::from_millis(millis), events, latency_sum }
    }

    #[test]
    fn rate_and_latency_are_taken_over_the_last_second() {
        let (mut status_reader, start) = (StatusReader::default(), Instant::now());
        assert_eq!(status_reader.advance(at(start, 0, 100.0, 50.0)), (0.0, None));
        let (rate, latency) = status_reader.advance(at(start, 1_000, 300.0, 51.0));
        assert_eq!((rate, latency), (200.0, Some(Duration::from_millis(5))));
        // What was acknowledged before the span no longer counts.
        assert_eq!(status_reader.advance(at(start, 2_100, 300.0, 51.0)), (0.0, None));
    }

    #[test]
    fn counters_that_go_back_start_a_new_measurement() {
        let (mut status_reader, start) = (StatusReader::default(), Instant::now());
        status_reader.advance(at(start, 0, 5_000.0, 9.0));
        assert_eq!(status_reader.advance(at(start, 500, 10.0, 1.0)), (0.0, None));
        assert_eq!(status_reader.advance(at(start, 1_000, 20.0, 1.1)).0, 20.0);
    }

    #[test]
    fn the_live_line_says_who_is_to_blame() {
        let live_status = LiveStatus {
            state: "blocked".to_owned(),
            bytes_behind: Some(3_500_000),
            latency: None,
            rate: 0.0,
            blame: "kafka".to_owned(),
        };
        let line = "blocked     3.3 MiB behind  latency      –      0 events/s  to blame: Kafka";
        assert_eq!(live_status.to_string(), line);
    }
}
