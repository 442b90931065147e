//! How the router fares, in one line: "ok: rows flow, 3.1 MiB behind, 1240 events/s". Word and
//! sentence are the verdict's, as in `/status.json`.

use std::fmt::Write as _;

use tokio::time::Instant;

use super::standing::Standing;
use crate::status::Word;

/// Longest sentence that is shown. The line is for a glance; `outbox-router status` has the rest.
const SENTENCE_MAX: usize = 160;

/// Counts events between two lines.
#[derive(Debug, Default)]
pub(super) struct Progress {
    last: Option<(Instant, u64)>,
}

impl Progress {
    /// The line of this moment, with the rate since the last one.
    pub(super) fn line(&mut self, standing: &Standing) -> String {
        let verdict = &standing.verdict;
        let mut line = format!("{}: {}", verdict.word.as_str(), one_line(&verdict.sentence));
        // A sentence that is cut has lost the code, which stands at its end.
        if verdict.sentence.chars().count() > SENTENCE_MAX {
            let code = verdict.code.map(|code| format!(" ({code})")).unwrap_or_default();
            // Writing to a string does not fail.
            let _written = write!(line, "…{code}");
        }
        // The verdict of rows that flow names no distance.
        if verdict.word == Word::Ok {
            let _written = write!(line, "{}", standing.behind);
        }
        if let Some(rate) = self.rate(standing.now, standing.acked) {
            let _written = write!(line, ", {rate} events/s");
        }
        line
    }

    /// Events a second since the last call; `None` at the first.
    fn rate(&mut self, now: Instant, acked: u64) -> Option<u64> {
        let (at, before) = self.last.replace((now, acked))?;
        let millis = u64::try_from(now.duration_since(at).as_millis()).ok()?;
        acked.saturating_sub(before).saturating_mul(1_000).checked_div(millis)
    }
}

/// A text without line ends, each of which would begin another message to the service manager.
fn one_line(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SENTENCE_MAX);
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_cannot_begin_another_message() {
        assert_eq!(one_line("P001 no\nREADY=1\r"), "P001 no READY=1 ");
        assert_eq!(one_line(&"x".repeat(1_000)).len(), SENTENCE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_is_of_the_time_since_the_last_line() {
        let mut progress = Progress::default();
        let start = Instant::now();
        let at = |seconds| start + std::time::Duration::from_secs(seconds);
        assert_eq!(progress.rate(at(0), 500), None);
        assert_eq!(progress.rate(at(5), 1_500), Some(200));
        assert_eq!(progress.rate(at(10), 1_500), Some(0));
        assert_eq!(progress.rate(at(10), 1_600), None, "no time has passed");
    }
}
