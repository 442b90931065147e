//! The taps that are open, and what they are answered.
//!
//! A tap is asked for again and again, each time with the number of the last line that has arrived:
//! what was answered is kept until then, so an answer that breaks off is given again, and no line
//! is lost or comes twice. One long answer was rejected: the endpoint ends every connection after
//! some seconds, and what a broken one has lost could not be known.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, timeout},
};

use super::{
    TapShows, Wants,
    filter::Filter,
    line::Line,
    listener::{Listener, Missed},
    routed::Routed,
    watching::Tap,
};

/// Each costs the streaming task some work for each event.
const TAPS_MAX: usize = 4;
/// A tap that is not asked for this long is forgotten: its command was killed. One whose output is
/// not read (a pager) does not ask either, and should not lose its count at once.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// How long an answer waits for its first line. An answer that took longer would be late for a
/// person who ends the command, and connections of the endpoint end after some seconds.
const FIRST_LINE_WITHIN: Duration = Duration::from_secs(1);
/// How long an answer gathers lines after its first. It is also what limits how often a full
/// channel is read, and so what showing costs.
const GATHERS_FOR: Duration = Duration::from_millis(100);
/// An answer has no further line when it is larger than this, so that a client can limit what it
/// reads.
const ANSWER_BYTES: usize = 1 << 19;

/// Both ends: what the endpoint answers with, and what the streaming task shows to.
pub fn taps(shows: TapShows) -> (Taps, Tap) {
    let (published, listeners) = watch::channel(Arc::from([]));
    (Taps { shows, open: Arc::default(), published }, Tap::new(listeners))
}

/// See the module's header.
#[derive(Debug, Clone)]
pub struct Taps {
    shows: TapShows,
    open: Arc<Mutex<Vec<OpenTap>>>,
    published: watch::Sender<Arc<[Listener]>>,
}

/// Why a tap is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unlistened {
    /// `admin.tap` shows metadata alone.
    #[error(
        "this router shows no content of events: its configuration has admin.tap = \"metadata\"; \
         with admin.tap = \"content\" everybody who reaches admin.listen can read events"
    )]
    ContentNotShown,
    /// There are as many as there may be.
    #[error("{TAPS_MAX} taps of this router are open, which is the limit: end one of them")]
    TooMany,
}

#[derive(Debug)]
struct OpenTap {
    id: String,
    listener: Listener,
    reading: Arc<tokio::sync::Mutex<Reading>>,
    asked_at: Instant,
}

/// What a tap was answered, and what comes next.
#[derive(Debug)]
struct Reading {
    events: mpsc::Receiver<Routed>,
    missed: Missed,
    /// The number of the last line.
    last: u64,
    /// Lines of which it is not known that they have arrived.
    sent: Vec<(u64, String)>,
}

impl Taps {
    /// Opens a tap, and returns its name. Content is wanted where it is shown, or compared.
    ///
    /// # Errors
    /// [`Unlistened`]
    pub fn open(&self, filter: Filter, wants: Wants) -> Result<String, Unlistened> {
        let needs_content = wants == Wants::Content || filter.key.is_some();
        if needs_content && self.shows == TapShows::Metadata {
            return Err(Unlistened::ContentNotShown);
        }
        let mut open = self.lock();
        if open.len() >= TAPS_MAX {
            return Err(Unlistened::TooMany);
        }
        let (listener, events, missed) = Listener::new(filter, wants);
        let reading = Reading { events, missed, last: 0, sent: Vec::new() };
        let id = uuid::Uuid::new_v4().to_string();
        open.push(OpenTap {
            id: id.clone(),
            listener,
            reading: Arc::new(tokio::sync::Mutex::new(reading)),
            asked_at: Instant::now(),
        });
        self.publish(&open);
        Ok(id)
    }

    /// The lines after the one with the number `after`, of those that come within about a second;
    /// `None` if there is no such tap, or not any more. Cancel-safe: a line that was taken is kept.
    pub async fn lines(&self, id: &str, after: u64) -> Option<String> {
        let reading = {
            let mut open = self.lock();
            let tap = open.iter_mut().find(|tap| tap.id == id)?;
            tap.asked_at = Instant::now();
            Arc::clone(&tap.reading)
        };
        let mut reading = reading.lock().await;
        reading.arrived(after);
        if reading.sent.is_empty() {
            reading.gather().await;
        }
        let mut text: String = reading.sent.iter().map(|(_, line)| line.as_str()).collect();
        text.push_str(&Line::Tap { id: id.to_owned(), after: reading.last }.written());
        Some(text)
    }

    /// Forgets a tap.
    pub fn end(&self, id: &str) {
        let mut open = self.lock();
        open.retain(|tap| tap.id != id);
        self.publish(&open);
    }

    /// Forgets taps that nobody asks for any more.
    pub async fn forget(self) -> Infallible {
        let mut listeners = self.published.subscribe();
        loop {
            // What it returns keeps the list from being replaced, so it is dropped at once. An
            // error would mean that this sender is gone.
            drop(listeners.wait_for(|listeners| !listeners.is_empty()).await);
            sleep(Duration::from_secs(1)).await;
            let mut open = self.lock();
            let before = open.len();
            open.retain(|tap| tap.asked_at.elapsed() < FORGOTTEN_AFTER);
            if open.len() < before {
                self.publish(&open);
            }
        }
    }

    fn publish(&self, open: &[OpenTap]) {
        self.published.send_replace(open.iter().map(|tap| tap.listener.clone()).collect());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OpenTap>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reading {
    /// The lines up to this one have arrived.
    fn arrived(&mut self, after: u64) {
        self.sent.retain(|(number, _)| *number > after);
    }

    /// Takes lines out of the channel.
    async fn gather(&mut self) {
        let mut bytes = 0;
        if let Ok(Some(first)) = timeout(FIRST_LINE_WITHIN, self.events.recv()).await {
            bytes += self.add(first);
            sleep(GATHERS_FOR).await;
        }
        while bytes < ANSWER_BYTES {
            let Ok(event) = self.events.try_recv() else {
                let missed = self.missed.take();
                self.not_shown(missed);
                return;
            };
            bytes += self.add(event);
        }
    }

    fn add(&mut self, event: Routed) -> usize {
        self.not_shown(event.missed_before);
        self.line(&Line::Event(Box::new(event.into())))
    }

    fn not_shown(&mut self, events: u64) {
        if events > 0 {
            self.line(&Line::NotShown { events });
        }
    }

    fn line(&mut self, line: &Line) -> usize {
        let text = line.written();
        let bytes = text.len();
        self.last += 1;
        self.sent.push((self.last, text));
        bytes
    }
}
