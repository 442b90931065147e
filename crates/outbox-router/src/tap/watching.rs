//! The streaming task's side: what it shows to whoever listens.

use std::sync::Arc;

use relay::{
    Code, Fate, LastRow, Now, Oid, Record, RecordSink, Refusal, Relay, Ticket, TopicId, TopicName,
    Unsent,
    held::HeldEvent,
    polling::{PolledRow, Poller, Produced},
};
use tokio::sync::watch;

use super::{
    Wants,
    content::RawContent,
    listener::Listener,
    outcome::Outcome,
    routed::{Routed, Row, RowName, Sizes},
};

/// Who listens, as the streaming task knows it.
#[derive(Debug)]
pub struct Tap {
    published: watch::Receiver<Arc<[Listener]>>,
    listeners: Vec<Known>,
}

/// A listener, and which topics it wants.
#[derive(Debug)]
struct Known {
    listener: Listener,
    /// By the topic's number; `Unknown` until an event of it is shown.
    topics: Vec<Wanted>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Wanted {
    #[default]
    Unknown,
    Yes,
    No,
}

/// An event that a listener wants, by the listener's index; without the names that the core knows.
struct Chosen {
    listener: usize,
    topic: Option<TopicId>,
    event: Routed,
}

impl Tap {
    pub(super) fn new(published: watch::Receiver<Arc<[Listener]>>) -> Self {
        Self { published, listeners: Vec::new() }
    }

    /// Learns who listens now. While that has not changed, it is one atomic load.
    #[inline]
    pub fn refresh(&mut self) {
        if self.published.has_changed().unwrap_or(false) {
            self.take_over();
        }
    }

    #[cold]
    fn take_over(&mut self) {
        let published = Arc::clone(&self.published.borrow_and_update());
        self.listeners.retain(|known| published.iter().any(|now| now.is(&known.listener)));
        for listener in published.iter() {
            if !self.listeners.iter().any(|known| known.listener.is(listener)) {
                self.listeners.push(Known { listener: listener.clone(), topics: Vec::new() });
            }
        }
    }

    /// Whether nobody listens.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Shows what became of the row in a frame, or in the beginning of one, that the core has just
    /// taken.
    #[cold]
    #[inline(never)]
    pub fn taken(&mut self, relay: &mut Relay, payload: &[u8]) {
        // Most frames of small transactions have no row: 25 bytes precede the message.
        if payload.get(25) != Some(&b'I') {
            return;
        }
        if self.listeners.iter().all(|known| known.counts_only()) {
            if relay.has_row(payload) {
                self.listeners.iter().for_each(|known| known.listener.miss());
            }
            return;
        }
        let (mut chosen, listeners) = (Vec::new(), &self.listeners);
        let mut table = None;
        relay.last_row(payload, &mut |last, fate| {
            table = Some(last.table);
            match fate {
                Fate::Produced(record) => {
                    let wanted = listeners.iter().enumerate().filter(|(_, k)| k.copies(record));
                    chosen.extend(wanted.map(|(index, known)| {
                        of_record(index, known, record, row(&last), Outcome::Routed)
                    }));
                }
                Fate::Without(reason, unsent) => {
                    let wanted = listeners.iter().enumerate().filter(|(_, k)| k.takes(unsent));
                    let (outcome, code) = Outcome::of(reason);
                    chosen.extend(wanted.map(|(index, known)| {
                        let event =
                            Routed { code, ..of_unsent(known, unsent, row(&last), outcome) };
                        Chosen { listener: index, topic: None, event }
                    }));
                }
            }
        });
        if !chosen.is_empty() {
            let table = table.and_then(|table: Oid| relay.table_name(table)).unwrap_or_default();
            for mut chosen in chosen {
                chosen.event.row.table.clone_from(&table);
                self.show(|topic| relay.topic_name(topic), chosen);
            }
        }
    }

    /// [`Relay::release`], and shows what left the table of held events.
    #[cold]
    #[inline(never)]
    pub fn release<S: RecordSink>(&mut self, relay: &mut Relay, now: Now, sink: &mut S) {
        let mut shown = Shown::before(sink, &self.listeners);
        relay.release(now, &mut shown);
        for chosen in shown.chosen {
            self.show(|topic| relay.topic_name(topic), chosen);
        }
    }

    /// [`Poller::produce`], and shows what became of the rows.
    #[cold]
    #[inline(never)]
    pub fn produce<S: RecordSink>(
        &mut self,
        poller: &mut Poller,
        sink: &mut S,
        clock: impl FnMut() -> Now,
    ) -> Produced {
        let mut shown = Shown::before(sink, &self.listeners);
        let produced = poller.produce(&mut shown, clock);
        for chosen in shown.chosen {
            self.show(|topic| poller.topic_name(topic), chosen);
        }
        produced
    }

    /// Names the topic, and shows the event if the listener wants the topic.
    fn show<'n>(&mut self, topic_name: impl Fn(TopicId) -> Option<&'n TopicName>, chosen: Chosen) {
        let Some(known) = self.listeners.get_mut(chosen.listener) else { return };
        let mut event = chosen.event;
        if let Some(topic) = chosen.topic {
            let name = topic_name(topic).map(TopicName::as_str);
            if !known.takes_topic(topic, name) {
                return;
            }
            event.topic = name.map(ToOwned::to_owned);
        }
        known.listener.show(event);
    }
}

impl Known {
    /// Whether every event is wanted and none finds room, so that nothing needs to be known of it.
    fn counts_only(&self) -> bool {
        self.listener.filter.takes_all() && !self.listener.has_room()
    }

    /// Compares a topic's name once.
    fn takes_topic(&mut self, topic: TopicId, name: Option<&str>) -> bool {
        if self.topics.len() <= topic.index() {
            self.topics.resize(topic.index() + 1, Wanted::Unknown);
        }
        let Some(wanted) = self.topics.get_mut(topic.index()) else { return false };
        if *wanted == Wanted::Unknown {
            let takes = self.listener.filter.takes_topic(name);
            *wanted = if takes { Wanted::Yes } else { Wanted::No };
        }
        *wanted == Wanted::Yes
    }

    /// Whether a row without a record is wanted.
    fn takes(&self, unsent: &Unsent) -> bool {
        let filter = &self.listener.filter;
        filter.takes_topic(unsent.topic.as_deref()) && filter.takes_key(unsent.key.as_deref())
    }

    /// Whether a record is to be copied for this listener. If it is wanted and finds no room, it is
    /// counted.
    fn copies(&self, record: &Record<'_>) -> bool {
        if !self.listener.filter.takes_key(Some(record.key)) {
            return false;
        }
        match self.topics.get(record.topic.index()).copied().unwrap_or_default() {
            Wanted::No => false,
            Wanted::Unknown => true,
            Wanted::Yes if self.listener.has_room() => true,
            Wanted::Yes => {
                self.listener.miss();
                false
            }
        }
    }
}

/// The table's name is added later.
fn row(last: &LastRow<'_>) -> Row {
    Row {
        name: RowName::Streamed(last.id),
        at: last.committed_at,
        table: String::new(),
        aggregate_type: text(last.aggregate_type),
        event_type: text(last.event_type),
    }
}

fn text(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|text| String::from_utf8_lossy(text).into_owned())
}

fn of_record(
    listener: usize,
    known: &Known,
    record: &Record<'_>,
    row: Row,
    outcome: Outcome,
) -> Chosen {
    let shows = known.listener.wants == Wants::Content;
    let event = Routed {
        row,
        outcome,
        code: None,
        topic: None,
        sizes: Sizes::of_record(record),
        content: shows.then(|| RawContent::of_record(record)),
        missed_before: 0,
    };
    Chosen { listener, topic: Some(record.topic), event }
}

fn of_unsent(known: &Known, unsent: &Unsent, row: Row, outcome: Outcome) -> Routed {
    let shows = known.listener.wants == Wants::Content;
    Routed {
        row,
        outcome,
        code: None,
        topic: unsent.topic.clone(),
        sizes: Sizes::of_unsent(unsent),
        content: shows.then(|| RawContent::of_unsent(unsent)),
        missed_before: 0,
    }
}

/// The sink, and what it is given of events that leave the table of held events, or are polled.
struct Shown<'t, S> {
    sink: &'t mut S,
    listeners: &'t [Known],
    chosen: Vec<Chosen>,
    /// The row that the next record is of, and what then has become of it.
    next: Option<(Row, Outcome)>,
}

impl<'t, S> Shown<'t, S> {
    fn before(sink: &'t mut S, listeners: &'t [Known]) -> Self {
        Self { sink, listeners, chosen: Vec::new(), next: None }
    }
}

impl<S: RecordSink> RecordSink for Shown<'_, S> {
    fn produce(&mut self, record: &Record<'_>, ticket: Ticket) -> Result<(), Refusal> {
        let next = self.next.take();
        self.sink.produce(record, ticket)?;
        // The record that shows a dead letter to people is of no event that is released.
        if let Some((row, outcome)) = next {
            let wanted = self.listeners.iter().enumerate().filter(|(_, k)| k.copies(record));
            self.chosen.extend(
                wanted.map(|(index, known)| of_record(index, known, record, row.clone(), outcome)),
            );
        }
        Ok(())
    }

    fn releasing(&mut self, event: &HeldEvent) {
        let row = Row {
            name: RowName::Streamed(event.id),
            at: event.committed_at,
            table: event.table.clone(),
            aggregate_type: None,
            event_type: None,
        };
        self.next = Some((row, Outcome::Released));
    }

    fn polled(&mut self, row: &PolledRow<'_>) {
        let [aggregate_type, event_type] = row.types().map(text);
        let row = Row {
            name: RowName::Polled(row.id().clone()),
            at: row.at(),
            table: row.table().to_string(),
            aggregate_type,
            event_type,
        };
        self.next = Some((row, Outcome::Routed));
    }

    fn unfit(&mut self, why: Code) {
        let Some((row, _)) = self.next.take() else { return };
        let unsent = Unsent::default();
        let wanted = self.listeners.iter().enumerate().filter(|(_, k)| k.takes(&unsent));
        self.chosen.extend(wanted.map(|(index, known)| {
            let event = of_unsent(known, &unsent, row.clone(), Outcome::Failed);
            Chosen { listener: index, topic: None, event: Routed { code: Some(why), ..event } }
        }));
    }
}
