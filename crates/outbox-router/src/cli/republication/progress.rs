//! Tells a person how far a run is.

use std::{io, time::Duration};

use relay::Failure;
use tokio::time::Instant;

use crate::{
    cli::shown_bytes,
    republish::sender::{Counts, Watch},
    wording::roughly,
};

/// How often a line is written where nobody watches.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// How many rows that are left out are named.
const NAMED_MAX: u64 = 20;
/// How many ids of such rows are written down.
const IDS_KEPT: usize = 100;

/// Where progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Place {
    /// One line of a terminal, which is written again.
    Line,
    /// A line now and then.
    Log,
}

/// Progress, and the rows that are left out.
pub(in crate::cli) struct Progress<'t> {
    err: &'t mut (dyn io::Write + Send),
    place: Place,
    total: u64,
    /// What is counted, in the plural.
    unit: &'static str,
    begun: Instant,
    told: Instant,
    named: u64,
    /// Ids of rows that were left out, at most [`IDS_KEPT`].
    left_out: Vec<String>,
    /// Why Kafka was waited for when it was told last.
    waits_for: Option<String>,
    /// A line of a terminal is open.
    is_open: bool,
}

impl<'t> Progress<'t> {
    pub(in crate::cli) fn new(
        err: &'t mut (dyn io::Write + Send),
        place: Place,
        total: u64,
    ) -> Self {
        Self::of((total, "rows"), err, place)
    }

    /// The same for what are no rows.
    pub(in crate::cli) fn of(
        (total, unit): (u64, &'static str),
        err: &'t mut (dyn io::Write + Send),
        place: Place,
    ) -> Self {
        let (begun, told) = (Instant::now(), Instant::now());
        let (named, left_out, waits_for, is_open) = (0, Vec::new(), None, false);
        Self { err, place, total, unit, begun, told, named, left_out, waits_for, is_open }
    }

    /// Since it began.
    pub(in crate::cli) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Ids of rows that were left out, as far as they are kept; once.
    pub(in crate::cli) fn take_left_out(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left_out)
    }

    /// Ends the line of a terminal.
    pub(in crate::cli) fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.write("\n");
        }
    }

    fn text(&self, counts: &Counts) -> String {
        let done = counts.rows.saturating_sub(counts.in_flight);
        let rate = rate(done, self.begun.elapsed());
        let left = self.total.saturating_sub(done);
        let eta = match rate {
            0 => String::new(),
            _ if left == 0 => String::new(),
            rate => format!(", {} left", roughly(Duration::from_secs(left / rate))),
        };
        format!("{done} of {} {}, {rate}/s{eta}", self.total, self.unit)
    }

    /// What is told about progress, is no part of the result; where it cannot be written, the work
    /// goes on.
    fn write(&mut self, text: &str) {
        let _written = self.err.write_all(text.as_bytes()).and_then(|()| self.err.flush());
    }

    fn line(&mut self, text: &str) {
        self.close();
        self.write(&format!("{text}\n"));
    }
}

/// So many a second.
pub(in crate::cli) fn rate(count: u64, time: Duration) -> u64 {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    count.saturating_mul(1_000) / millis
}

impl Watch for Progress<'_> {
    fn progress(&mut self, counts: &Counts, waits_for: Option<&Failure>) {
        let waits_for = waits_for.map(ToString::to_string);
        if waits_for != self.waits_for {
            match &waits_for {
                Some(reason) => self.line(&format!("waiting for Kafka: {reason}")),
                None => self.line("Kafka answers again"),
            }
            self.waits_for = waits_for;
        }
        match self.place {
            Place::Line => {
                // Erases what a longer text has left.
                let text = format!("\r\x1b[K{}", self.text(counts));
                self.write(&text);
                self.is_open = true;
            }
            Place::Log if self.told.elapsed() >= LINE_EVERY => {
                self.told = Instant::now();
                let text = self.text(counts);
                self.line(&text);
            }
            Place::Log => {}
        }
    }

    fn left_out(&mut self, id: Option<&[u8]>, failure: &Failure) {
        self.named += 1;
        let id = id.map(shown_bytes::id);
        if self.left_out.len() < IDS_KEPT {
            self.left_out.extend(id.clone());
        }
        if self.named > NAMED_MAX {
            if self.named == NAMED_MAX + 1 {
                self.line("left out: more rows, which are counted");
            }
            return;
        }
        let id = id.map(|id| format!("{id}: "));
        self.line(&format!("left out: {}{failure:#}", id.unwrap_or_default()));
    }

    fn caution(&mut self, failure: &Failure) {
        self.line(&format!("note: {failure:#}"));
    }
}

#[cfg(test)]
mod tests {
    use relay::Code;

    use super::*;

    fn counts(rows: u64, in_flight: u64) -> Counts {
        Counts { rows, sent: rows, in_flight, ..Counts::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_terminal_shows_one_line_with_rate_and_time_left() {
        let mut out = Vec::new();
        let mut progress = Progress::new(&mut out, Place::Line, 10_000);
        tokio::time::advance(Duration::from_secs(2)).await;
        progress.progress(&counts(3_000, 1_000), None);
        progress.close();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "\r\x1b[K2000 of 10000 rows, 1000/s, 8 s left\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_has_a_line_now_and_then() {
        let mut out = Vec::new();
        let mut progress = Progress::new(&mut out, Place::Log, 100);
        for _ in 0..50 {
            tokio::time::advance(Duration::from_millis(500)).await;
            progress.progress(&counts(50, 0), None);
        }
        assert_eq!(String::from_utf8(out).unwrap().lines().count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn that_kafka_is_away_is_told_once_and_its_return_too() {
        let mut out = Vec::new();
        let mut progress = Progress::new(&mut out, Place::Log, 100);
        let down = Failure::new(Code::KafkaUnreachable, "no broker answers");
        for down in [None, Some(&down), Some(&down), None, None] {
            progress.progress(&counts(50, 0), down);
        }
        let text = String::from_utf8(out).unwrap();
        let code = Code::KafkaUnreachable.as_str();
        let expected =
            format!("waiting for Kafka: {code}: no broker answers\nKafka answers again\n");
        assert_eq!(text, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_rows_that_are_left_out_the_first_are_named() {
        let mut out = Vec::new();
        let mut progress = Progress::new(&mut out, Place::Log, 100);
        let failure = Failure::new(Code::KeyIsNull, "no key");
        for id in 0..30 {
            progress.left_out(Some(id.to_string().as_bytes()), &failure);
        }
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 21);
        assert!(text.starts_with("left out: 0: "), "{text}");
    }
}
