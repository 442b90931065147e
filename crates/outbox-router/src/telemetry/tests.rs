//! The log as its reader sees it.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::*;

/// What was written.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Runs with a log of its own, as JSON at level `info`.
fn logged(run: impl FnOnce(&Repeats)) -> Page {
    let page = Page::default();
    let writer = page.clone();
    let repeats = Arc::new(Repeats::default());
    let subscriber =
        lines(Form::Json, EnvFilter::new("info"), move || writer.clone(), Arc::clone(&repeats));
    tracing::subscriber::with_default(subscriber, || run(&repeats));
    page
}

/// The lines that something writes.
pub(crate) fn lines_of(run: impl FnOnce()) -> Vec<Value> {
    logged(|_| run()).lines()
}

#[test]
fn an_error_that_comes_again_is_written_once_and_then_counted() {
    let page = logged(|repeats| {
        for _ in 0..5 {
            tracing::warn!(code = "P001", "no answer");
            tracing::error!("the disk is full");
        }
        tracing::warn!(code = "P002", "no answer");
        write_counts(repeats.count());
        tracing::warn!(code = "P001", "no answer");
        write_counts(repeats.count());
    });
    let said: Vec<(String, String)> = page
        .lines()
        .iter()
        .map(|line| (line["level"].to_string(), line["message"].as_str().unwrap().to_owned()))
        .collect();
    let line = |level: &str, message: &str| (format!("\"{level}\""), message.to_owned());
    let expected = [
        line("WARN", "no answer"),
        line("ERROR", "the disk is full"),
        line("WARN", "no answer"),
        line("WARN", "no answer (4 times more in the last minute)"),
        line("ERROR", "the disk is full (4 times more in the last minute)"),
        line("WARN", "no answer (once more in the last minute)"),
    ];
    let mut sorted = said.clone();
    sorted.sort();
    let mut wanted = expected.to_vec();
    wanted.sort();
    assert_eq!(sorted, wanted, "{said:?}");
}

#[test]
fn a_change_of_state_is_written_every_time_and_nothing_below_info() {
    let page = logged(|_| {
        for _ in 0..3 {
            tracing::info!(state = "streaming", "the state changed");
            tracing::debug!("a detail");
        }
    });
    let lines = page.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[0]["state"], "streaming");
}

/// It repeats the time that each attempt took.
#[test]
fn librdkafkas_lines_are_alike_up_to_their_numbers_and_have_the_same_form() {
    let page = logged(|repeats| {
        for millis in 0..4 {
            tracing::warn!(
                target: "librdkafka",
                facility = "FAIL",
                "127.0.0.1:9092/1: Connect failed: Connection refused (after {millis}ms in state CONNECT)"
            );
        }
        tracing::warn!(target: "librdkafka", facility = "FAIL", "SSL handshake failed");
        write_counts(repeats.count());
    });
    let lines = page.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[0]["target"], "librdkafka");
    assert_eq!(lines[0]["facility"], "FAIL");
    assert_eq!(lines[2]["more"], 3);
    assert!(lines[2]["message"].as_str().unwrap().contains("refused (after 0ms"), "{lines:?}");
}
