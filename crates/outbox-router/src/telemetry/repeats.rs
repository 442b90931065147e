//! Leaves out log lines that say again what was said less than a minute ago, and counts them. While
//! a server is down, the same error comes every few seconds; a log of these alone hides the others.
//!
//! Only warnings, errors and librdkafka's lines are counted: every other line is a change of state.
//! The count is written once a minute, and what was said last stays said as long as it goes on.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Filter};

/// The target of the counts, which are not counted themselves.
pub(super) const COUNTS: &str = "outbox_router::repeated";

/// The target of librdkafka's lines (`kafka/log.rs`).
const LIBRDKAFKA: &str = "librdkafka";

/// Lines that are remembered at most. What comes beyond is written, and not counted.
const LINES_MAX: usize = 200;

/// What was said within the last minute.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    lines: Mutex<BTreeMap<String, Said>>,
}

#[derive(Debug)]
struct Said {
    level: Level,
    message: String,
    /// How often it was left out since the last count.
    more: u64,
}

/// A line that was left out since the last count.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    pub(super) level: Level,
    pub(super) message: String,
    pub(super) more: u64,
}

impl Repeats {
    fn lines(&self) -> MutexGuard<'_, BTreeMap<String, Said>> {
        // The map is whole after every statement, so a panic elsewhere left nothing half done.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a line, and returns whether it is written.
    fn is_new(&self, key: String, level: Level, message: String) -> bool {
        let mut lines = self.lines();
        match lines.get_mut(&key) {
            Some(said) => {
                said.more = said.more.saturating_add(1);
                false
            }
            None => {
                if lines.len() < LINES_MAX {
                    lines.insert(key, Said { level, message, more: 0 });
                }
                true
            }
        }
    }

    /// What was left out since the last call. What did not come again is forgotten, so that it is
    /// written at once when it does.
    pub(super) fn count(&self) -> Vec<Repeated> {
        let mut lines = self.lines();
        lines.retain(|_, said| said.more > 0);
        let counted = lines.values_mut().map(|said| Repeated {
            level: said.level,
            message: said.message.clone(),
            more: mem::take(&mut said.more),
        });
        counted.collect()
    }
}

/// The filter of the log's layer.
pub(super) struct WithoutRepeats(pub(super) Arc<Repeats>);

impl<S: Subscriber> Filter<S> for WithoutRepeats {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let is_foreign = metadata.target() == LIBRDKAFKA;
        if metadata.target() == COUNTS || (*metadata.level() > Level::WARN && !is_foreign) {
            return true;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let mut key = format!("{} {}{}", metadata.target(), text.message, text.others);
        if is_foreign {
            // Its lines contain the time that an attempt took, and how many it left out itself.
            key.retain(|c| !c.is_ascii_digit());
        }
        self.0.is_new(key, *metadata.level(), text.message)
    }
}

/// The fields of an event as text.
#[derive(Default)]
struct Text {
    message: String,
    others: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _written = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(repeats: &Repeats, text: &str) -> bool {
        repeats.is_new(text.to_owned(), Level::WARN, text.to_owned())
    }

    fn counted(message: &str, more: u64) -> Repeated {
        Repeated { level: Level::WARN, message: message.to_owned(), more }
    }

    #[test]
    fn what_was_said_is_counted_and_said_again_only_after_a_minute_of_silence() {
        let repeats = Repeats::default();
        assert!(say(&repeats, "a") && say(&repeats, "b"));
        assert!(!say(&repeats, "a") && !say(&repeats, "a"));
        assert_eq!(repeats.count(), [counted("a", 2)]);
        assert!(say(&repeats, "b"), "it was silent");
        assert!(!say(&repeats, "a"), "it goes on");
        assert_eq!(repeats.count(), [counted("a", 1)]);
        assert_eq!(repeats.count(), []);
        assert!(say(&repeats, "a"));
    }

    #[test]
    fn no_more_is_remembered_than_the_limit_and_the_rest_is_written() {
        let repeats = Repeats::default();
        for line in 0..=LINES_MAX {
            assert!(say(&repeats, &line.to_string()));
        }
        let beyond = LINES_MAX.to_string();
        assert!(say(&repeats, &beyond) && say(&repeats, &beyond));
        assert!(!say(&repeats, "0"));
        assert_eq!(repeats.lines().len(), LINES_MAX);
    }
}
