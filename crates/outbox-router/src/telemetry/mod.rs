//! The log: by default text on a terminal and JSON elsewhere, always on standard error. What is
//! said again and again is counted instead of repeated.

mod repeats;

#[cfg(test)]
pub(crate) mod tests;

use std::{
    io::{self, IsTerminal},
    sync::{Arc, LazyLock},
};

use tracing::{Level, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer as _, fmt,
    fmt::MakeWriter,
    layer::SubscriberExt as _,
    registry::{LookupSpan, Registry},
    util::SubscriberInitExt as _,
};

use crate::config::{LogFormat, LogSection};
use repeats::{COUNTS, Repeated, Repeats, WithoutRepeats};

/// A process has one log.
static REPEATS: LazyLock<Arc<Repeats>> = LazyLock::new(Arc::default);

/// Opens the log of the process. A second call changes nothing.
pub fn start(log: &LogSection) {
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let is_text = match log.format {
        LogFormat::Auto => io::stderr().is_terminal(),
        LogFormat::Json => false,
        LogFormat::Text => true,
    };
    let form = if is_text { Form::Text } else { Form::Json };
    let opened = lines(form, filter, io::stderr, Arc::clone(&REPEATS)).try_init();
    if opened.is_err() {
        tracing::debug!("the log was open already");
    }
}

/// Writes how often lines were left out since the last call, which is due once a minute and at
/// the end of the process.
pub fn count_repeats() {
    write_counts(REPEATS.count());
}

fn write_counts(counted: Vec<Repeated>) {
    for Repeated { level, message, more } in counted {
        let again = match more {
            1 => "once more".to_owned(),
            more => format!("{more} times more"),
        };
        if level == Level::ERROR {
            tracing::error!(target: COUNTS, more, "{message} ({again} in the last minute)");
        } else {
            tracing::warn!(target: COUNTS, more, "{message} ({again} in the last minute)");
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Text,
    Json,
}

fn lines(
    form: Form,
    filter: EnvFilter,
    out: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
    repeats: Arc<Repeats>,
) -> impl Subscriber + for<'a> LookupSpan<'a> + Send + Sync {
    // Colours only on a terminal: a file or a journal would keep the escape sequences.
    let has_colours = io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let layer = fmt::layer::<_>().with_writer(out).with_ansi(has_colours);
    let layer = match form {
        Form::Text => layer.with_target(false).boxed(),
        Form::Json => layer.json().flatten_event(true).boxed(),
    };
    Registry::default().with(filter).with(layer.with_filter(WithoutRepeats(repeats)))
}
