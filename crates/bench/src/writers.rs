//! Writers at a fixed rate: synchronous transactions of one row, each connection on its own thread.
//!
//! The timetable is fixed in advance: event *n* is due *n / rate* seconds after the start, whether
//! or not the events before it were late. Each payload carries the moment at which its commit was
//! sent, on the bench's own clock. Connection *c* of eight writes every eighth event. The number of
//! keys is a multiple of eight, so each key belongs to one connection and its commit order is
//! known.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use hdrhistogram::Histogram;
use testbed::postgres::DatabaseSession;
use tokio::runtime;
use tokio::time::Instant;

use crate::shape::{Distribution, Shape};

/// Headers that are no object: a row with them can become no record.
pub(crate) const POISON: &str = "'[7]'";

/// Not counted where latency is measured: meanwhile connections are opened, pools filled, code
/// compiled.
pub(crate) const WARM_UP: Duration = Duration::from_secs(10);

/// Connections that write at once.
pub(crate) const CONNECTIONS: u64 = 8;

/// What is written, and when.
#[derive(Debug, Clone)]
pub(crate) struct Timetable {
    /// Events a second, all connections together.
    pub(crate) rate: u64,
    /// A multiple of [`CONNECTIONS`].
    pub(crate) events: u64,
    /// Zero of the clock that payloads are stamped with.
    pub(crate) epoch: Instant,
    /// The time at its beginning whose latencies are not counted.
    pub(crate) warm_up: Duration,
    /// An event that cannot be delivered: it and the later ones of its key are held.
    pub(crate) poisoned: Option<u64>,
}

impl Timetable {
    /// Events for `time` at `rate` a second.
    pub(crate) fn lasting(rate: u64, time: Duration) -> Self {
        let events = rate * time.as_secs();
        Self {
            rate,
            events: events - events % CONNECTIONS,
            epoch: Instant::now(),
            warm_up: WARM_UP,
            poisoned: None,
        }
    }

    /// How many events are delivered; the others are held.
    pub(crate) fn delivered(&self) -> u64 {
        let held = |from: u64| (self.events - from).div_ceil(Distribution::default().keys);
        self.events - self.poisoned.map_or(0, held)
    }

    /// Waits until event `n` is due, counted from `start`, and returns how late it is.
    pub(crate) fn await_turn(&self, start: Instant, n: u64) -> Duration {
        let due = start + Duration::from_nanos(n * 1_000_000_000 / self.rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        due.elapsed()
    }

    /// The aggregate that event `n` belongs to.
    pub(crate) fn key(n: u64) -> String {
        format!("order-{}", n % Distribution::default().keys)
    }

    /// The payload of event `n`, stamped with this moment.
    pub(crate) fn payload(&self, n: u64) -> anyhow::Result<String> {
        let sent = u64::try_from(self.epoch.elapsed().as_nanos())?;
        let padding = usize::try_from(Shape::SINGLE.padding())?;
        Ok(format!("{{\"pad\": \"{:x<padding$}\", \"seq\": {n}, \"sent\": {sent}}}", ""))
    }
}

/// The result of writing a timetable.
pub(crate) struct WriteResult {
    pub(crate) took: Duration,
    /// Nanoseconds by which events were sent later than they were due. This lies before the start
    /// of their latency clock.
    pub(crate) lateness: Histogram<u64>,
    /// Nanoseconds that the statements took, each a transaction.
    pub(crate) statements: Histogram<u64>,
}

/// Writes all of a timetable's events into `table`. Blocks.
pub(crate) fn write(url: &str, table: &str, timetable: &Timetable) -> anyhow::Result<WriteResult> {
    let columns = "gen_random_uuid(), 'order', $1::text, 'bench', $2::text::jsonb";
    let inserts = [
        format!("INSERT INTO {table} VALUES ({columns})"),
        format!("INSERT INTO {table} VALUES ({columns}, {POISON})"),
    ];
    let together = Barrier::new(usize::try_from(CONNECTIONS)?);
    let began = Instant::now();
    let (mut lateness, mut statements) = (Histogram::new(3)?, Histogram::new(3)?);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let (inserts, together) = (&inserts, &together);
                scope.spawn(move || connection(url, inserts, timetable, number, together))
            })
            .collect();
        for writer in writers {
            let (late, took) = writer.join().map_err(|_| anyhow!("a writer panicked"))??;
            lateness += late;
            statements += took;
        }
        anyhow::Ok(())
    })?;
    Ok(WriteResult { took: began.elapsed(), lateness, statements })
}

/// One connection; returns how late each of its events was, and how long its statement took. Only
/// the statement in progress needs the runtime, so the thread itself sleeps, with microsecond
/// precision; a runtime's timer would round to milliseconds.
fn connection(
    url: &str,
    [insert, poison]: &[String; 2],
    timetable: &Timetable,
    number: u64,
    together: &Barrier,
) -> anyhow::Result<(Histogram<u64>, Histogram<u64>)> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let opened = runtime.block_on(async {
        let session = DatabaseSession::open(url).await?;
        let statement = session.prepare(insert).await?;
        let poisoned = timetable.poisoned.filter(|poisoned| poisoned % CONNECTIONS == number);
        let poison = match poisoned {
            Some(poisoned) => Some((poisoned, session.prepare(poison).await?)),
            None => None,
        };
        anyhow::Ok((session, statement, poison))
    });
    // A connection that failed waits here, too; otherwise the others would wait for ever.
    together.wait();
    let (session, statement, poison) = opened?;
    let start = Instant::now();
    let (mut lateness, mut statements) = (Histogram::new(3)?, Histogram::new(3)?);
    for n in (number..timetable.events).step_by(usize::try_from(CONNECTIONS)?) {
        lateness.record(u64::try_from(timetable.await_turn(start, n).as_nanos())?)?;
        let (key, payload) = (Timetable::key(n), timetable.payload(n)?);
        let statement = match &poison {
            Some((poisoned, poison)) if n == *poisoned => poison,
            Some(_) | None => &statement,
        };
        let begun = Instant::now();
        runtime
            .block_on(session.execute(statement, &[&key, &payload]))
            .context("cannot write an event")?;
        statements.record(u64::try_from(begun.elapsed().as_nanos())?)?;
    }
    Ok((lateness, statements))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poisoned_event_and_the_later_ones_of_its_key_are_not_delivered() {
        let mut timetable = Timetable::lasting(5000, Duration::from_secs(6));
        assert_eq!(timetable.delivered(), 30_000);
        for (poisoned, held) in [(9_999, 3), (10_000, 2), (19_999, 2), (20_000, 1)] {
            timetable.poisoned = Some(poisoned);
            assert_eq!(timetable.delivered(), 30_000 - held, "{poisoned}");
        }
    }
}
