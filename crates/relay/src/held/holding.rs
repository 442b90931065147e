//! What the core knows of held events, and what it asks of the table next.

use std::{collections::BTreeMap, time::Duration};

use pgoutput::{Lsn, PgTimestamp};

use super::{
    Closed, EventId, HeldAnswer, HeldEvent, HeldRequest, HeldSettings, HoldKeys, KeyHash, Leaving,
    Letter, OnError, OpenCount, TableMark,
    decisions::Decisions,
    keys::{HeldKeys, Load},
    queue::Queue,
    release::Release,
    skipping::Skipping,
    suspects::{Narrowed, Refusals},
};
use crate::{
    clock::Moment,
    failure::{Case, Class, Code, Failure},
    progress::{LastTransaction, ticket::Ticket},
    telemetry::{HeldReport, HeldTotals, NewLetter, SkippedRow},
    witness::Notes,
};

/// The pause after a request that failed, if the cause may pass by itself, and if a person is
/// needed.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MENDABLE: Duration = Duration::from_secs(30);

/// Whether rows need to be compared with what is held or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attention {
    None,
    Rows,
}

/// Whether the session follows the WAL. While the router stops, nothing more is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follows {
    Yes,
    /// No batch begins: everything that was produced has to be acknowledged first.
    Paused,
    /// Nothing is released, and nothing is decided.
    No,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) settings: HeldSettings,
    attention: Attention,
    pub(crate) keys: HeldKeys,
    /// What the table is, by its last answer.
    mark: TableMark,
    pub(crate) queue: Queue,
    pub(crate) release: Release,
    pub(crate) refusals: Refusals,
    /// The request that runs.
    running: Option<Running>,
    last_number: u64,
    /// Whether nobody knows if the last close is committed. Then it is repeated before any other
    /// write, so that the table's count of writes tells.
    must_close_again: bool,
    /// When the next request may be made, after one that failed.
    retry_at: Moment,
    decisions: Decisions,
    pub(crate) skipping: Skipping,
    failure: Option<Failure>,
    pub(crate) totals: HeldTotals,
    /// Dead letters that were not logged yet.
    letters: Vec<NewLetter>,
    /// Skipped rows that were not logged yet.
    skipped: Vec<SkippedRow>,
}

#[derive(Debug)]
struct Running {
    number: u64,
    /// The keys of a [`HeldRequest::ReadNext`].
    keys: Vec<KeyHash>,
}

impl Holding {
    pub(crate) fn new(settings: HeldSettings) -> Self {
        Self {
            settings,
            attention: Attention::None,
            keys: HeldKeys::default(),
            mark: TableMark::default(),
            queue: Queue::default(),
            release: Release::default(),
            refusals: Refusals::default(),
            running: None,
            must_close_again: false,
            last_number: 0,
            retry_at: Moment::default(),
            decisions: Decisions::default(),
            skipping: Skipping::default(),
            failure: None,
            totals: HeldTotals::default(),
            letters: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Whether no row needs to be compared with what is held or refused: the usual case, which
    /// costs a row one comparison.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.attention == Attention::None
    }

    /// Sets whether rows need to be compared. Called after everything that makes it so, and each
    /// turn, since what makes it not so may happen within a row.
    pub(crate) fn review(&mut self) {
        let is_idle = self.keys.is_empty() && self.refusals.is_empty() && self.skipping.is_idle();
        self.attention = if is_idle { Attention::None } else { Attention::Rows };
    }

    /// Whether an event that fails with this code becomes a dead letter.
    pub(crate) fn takes(&self, code: Code) -> bool {
        self.settings.policy.of(code) == OnError::DeadLetter
    }

    /// What an event is held by.
    pub(crate) fn hash(&self, id: EventId, key: Option<&[u8]>) -> KeyHash {
        match (key, self.settings.hold_keys) {
            (Some(key), HoldKeys::Yes) => KeyHash::of_key(key),
            (Some(_) | None, HoldKeys::Yes | HoldKeys::No) => KeyHash::of_event(id),
        }
    }

    /// Events that are on their way into the table.
    pub(crate) fn queued(&self) -> u64 {
        u64::try_from(self.queue.len()).unwrap_or(u64::MAX)
    }

    /// Whether it is being found out which record a broker refuses.
    pub(crate) fn is_narrowing(&self) -> bool {
        !self.refusals.is_empty() || self.release.is_searching()
    }

    /// Whether a key has events in the table, and this event does not precede them.
    pub(crate) fn holds(&self, key: &[u8], id: EventId) -> bool {
        // The table may have events of the key from a time when keys were held.
        if self.settings.hold_keys == HoldKeys::No {
            return false;
        }
        let hash = KeyHash::of_key(key);
        self.keys.contains(&hash) && !self.keys.precedes(&hash, id)
    }

    /// Why nothing more of this key can be held; `None` if an event can. What comes again can
    /// always, which is a window at most: nothing is released before it has come, so a session
    /// would wait for ever.
    pub(crate) fn full(&self, hash: &KeyHash, bytes: usize) -> Option<Failure> {
        if self.keys.has_known() {
            return None;
        }
        let (held, limits) = (self.keys.totals(), self.settings.limits);
        let bytes = held.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        let (case, what) = if held.keys >= limits.keys && !self.keys.contains(hash) {
            (Case::HeldKeysFull, format!("{} keys are held, which is the limit", limits.keys))
        } else if held.events >= limits.events {
            (Case::HeldEventsFull, format!("{} events are held, which is the limit", limits.events))
        } else if bytes > limits.bytes {
            let limit = limits.bytes;
            let what = format!("{} bytes are held, which is near the limit of {limit}", held.bytes);
            (Case::HeldBytesFull, what)
        } else {
            return None;
        };
        Some(Failure::of(case, what))
    }

    /// A broker refused a record of this transaction.
    pub(crate) fn refused(&mut self, of: LastTransaction, failure: &Failure) -> Narrowed {
        let narrowed = self.refusals.refused(of, failure);
        self.review();
        narrowed
    }

    /// An event has become a dead letter.
    pub(crate) fn note(&mut self, event: &HeldEvent, letter: &Letter) {
        *self.totals.letters.entry(letter.code).or_default() += 1;
        self.letters.push(NewLetter {
            id: event.id,
            table: event.table.clone(),
            event_id: event.event_id.clone(),
            code: letter.code,
            message: letter.message.clone(),
        });
    }

    /// A row is skipped.
    pub(crate) fn note_skip(&mut self, id: EventId, table: String, event_id: Option<String>) {
        self.totals.skipped += 1;
        self.skipped.push(SkippedRow { id, table, event_id });
    }

    /// The code of the dead letter that this event has just become, if it has.
    pub(crate) fn letter_of(&self, id: EventId) -> Option<Code> {
        self.letters.last().filter(|letter| letter.id == id).map(|letter| letter.code)
    }

    /// Whether this event was skipped just now.
    pub(crate) fn is_skipped(&self, id: EventId) -> bool {
        self.skipped.last().is_some_and(|row| row.id == id)
    }

    /// Whether this event is the last on its way into the table.
    pub(crate) fn is_queued(&self, id: EventId) -> bool {
        self.queue.last().is_some_and(|event| event.id == id)
    }

    /// The skipped rows since the last call.
    pub(crate) fn take_skipped(&mut self) -> Vec<SkippedRow> {
        std::mem::take(&mut self.skipped)
    }

    /// The dead letters since the last call.
    pub(crate) fn take_letters(&mut self) -> Vec<NewLetter> {
        std::mem::take(&mut self.letters)
    }

    pub(crate) fn report(&self) -> HeldReport {
        HeldReport {
            held: self.keys.totals(),
            oldest: self.keys.oldest(),
            table: self.mark,
            totals: self.totals.clone(),
        }
    }

    /// An event goes into the table.
    pub(crate) fn hold(&mut self, event: HeldEvent, ticket: Ticket) {
        if let Some(letter) = event.letter.clone() {
            self.note(&event, &letter);
        }
        let bytes = u64::try_from(event.bytes()).unwrap_or(u64::MAX);
        self.keys.add(event.hash, bytes, (event.id, event.committed_at));
        self.queue.push(event, ticket);
        self.review();
    }

    /// The request by which a session begins. Everything that is known is read again.
    pub(crate) fn load(&mut self, since: Lsn, relied_on: TableMark) -> (u64, HeldRequest) {
        let open = relied_on.version.map_or(OpenCount::Counted, |_| OpenCount::Recorded);
        self.number(HeldRequest::Load { since, open }, Vec::new())
    }

    /// What to ask next, if anything.
    pub(crate) fn next_request(
        &mut self,
        at: Moment,
        follows: Follows,
    ) -> Option<(u64, HeldRequest)> {
        if self.running.is_some() || self.retry_at > at {
            return None;
        }
        if !self.must_close_again
            && let Some(events) = self.queue.next_write()
        {
            return Some(self.number(HeldRequest::Insert(events), Vec::new()));
        }
        if let Some(leaving) = self.release.finished() {
            self.must_close_again = true;
            let after = self.mark.version;
            return Some(self.number(HeldRequest::Close { leaving, after }, Vec::new()));
        }
        if let Some(request) = self.skipping.request(at) {
            return Some(self.number(request, Vec::new()));
        }
        if follows != Follows::Yes {
            return None;
        }
        // What the server sends again of a key precedes what is released of it.
        if !self.keys.has_known()
            && let Some(next) = self.release.next_batch()
        {
            let keys = next.keys.clone();
            let request =
                HeldRequest::ReadNext { keys: next.keys, events: next.events, bytes: next.bytes };
            return Some(self.number(request, keys));
        }
        if self.keys.totals().events > 0 && self.decisions.due_at() <= at {
            return Some(self.number(HeldRequest::ReadDecided, Vec::new()));
        }
        None
    }

    fn number(&mut self, request: HeldRequest, keys: Vec<KeyHash>) -> (u64, HeldRequest) {
        self.last_number += 1;
        self.running = Some(Running { number: self.last_number, keys });
        (self.last_number, request)
    }

    /// Whether the request that runs has this number. Then it is answered.
    pub(crate) fn take_answer(&mut self, number: u64) -> bool {
        self.running.as_ref().is_some_and(|running| running.number == number)
    }

    /// The request that runs failed. It is repeated.
    pub(crate) fn failed(&mut self, failure: Failure, at: Moment) {
        let wait = if failure.class() == Class::Mendable { RETRY_MENDABLE } else { RETRY };
        self.running = None;
        self.retry_at = at + wait;
        self.failure = Some(failure);
    }

    /// The request that runs was answered, with these consequences. Returns the tickets of events
    /// that are in the table now, and what became of events that have left.
    pub(crate) fn answered(&mut self, answer: HeldAnswer, at: Moment) -> Answered {
        let answered = self.take(answer, at);
        self.review();
        answered
    }

    fn take(&mut self, answer: HeldAnswer, at: Moment) -> Answered {
        let running = self.running.take();
        self.failure = None;
        match answer {
            HeldAnswer::Absent => {
                (self.keys, self.mark) = (HeldKeys::default(), TableMark::default());
            }
            HeldAnswer::Loaded(loaded) => {
                self.mark = loaded.mark;
                self.release.go_on(&loaded.leaving);
                self.keys = HeldKeys::loaded(*loaded);
                self.decisions.begin(at);
            }
            HeldAnswer::Inserted(mark) => {
                if !self.continues_in(mark) {
                    return Answered::Replaced;
                }
                return Answered::Written(self.queue.written());
            }
            HeldAnswer::Decided(keys) => {
                self.decisions.answered(keys.len(), at);
                self.release.add(keys);
            }
            HeldAnswer::Skipped(noted) => {
                self.skipping.answered(at);
                if let Some(notes) = noted
                    && self.skipping.decided()
                {
                    return Answered::Skip { notes };
                }
            }
            HeldAnswer::Next(events) => {
                let keys = running.map_or_else(Vec::new, |running| running.keys);
                self.release.begin(&keys, events);
                if self.release.has_nothing() {
                    self.decisions.carried_out(at);
                }
            }
            HeldAnswer::Closed(Closed { mark, first }) => {
                self.must_close_again = false;
                self.decisions.events_left();
                if !self.continues_in(mark) {
                    return Answered::Replaced;
                }
                let leaving = self.release.finished().unwrap_or_default();
                let left = self.release.closed();
                self.events_left(first.into_iter().collect(), &left);
                return Answered::Closed(leaving);
            }
        }
        Answered::Nothing
    }

    /// Takes what the table is after a write. If that does not include what the session has read or
    /// written, it is another table.
    fn continues_in(&mut self, mark: TableMark) -> bool {
        let before = std::mem::replace(&mut self.mark, mark);
        before.version.is_none_or(|before| mark.version.is_some_and(|now| now.includes(before)))
    }

    /// What the table is, for the witness.
    pub(crate) fn mark(&self) -> TableMark {
        self.mark
    }

    /// Events have left the table. What is not written yet is not in the table's answer.
    fn events_left(
        &mut self,
        mut first: BTreeMap<KeyHash, Option<(EventId, PgTimestamp)>>,
        left: &BTreeMap<KeyHash, Load>,
    ) {
        for event in self.queue.events() {
            if let Some(first) = first.get_mut(&event.hash)
                && first.is_none_or(|(first, _)| event.id < first)
            {
                *first = Some((event.id, event.committed_at));
            }
        }
        for (key, first) in first {
            self.keys.left(key, left.get(&key).copied().unwrap_or_default(), first);
        }
    }

    /// Why the table cannot be used.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Whether nothing is on its way into or out of the table.
    pub(crate) fn is_settled(&self) -> bool {
        self.queue.is_empty() && self.release.is_idle()
    }

    /// When the next request is due, if no answer comes first.
    pub(crate) fn deadline(&self, follows: Follows) -> Option<Moment> {
        if self.running.is_some() {
            return None;
        }
        let has_work = !self.queue.is_empty() || self.release.finished().is_some();
        if has_work {
            return Some(self.retry_at);
        }
        let ask = self.skipping.due_at().map(|due| due.max(self.retry_at));
        let polls = follows == Follows::Yes && self.keys.totals().events > 0;
        let poll = polls.then(|| self.decisions.due_at().max(self.retry_at));
        [ask, poll].into_iter().flatten().min()
    }

    /// The session is over: the next one reads the table again.
    pub(crate) fn session_ended(&mut self) {
        self.keys = HeldKeys::default();
        self.queue.clear();
        self.release.session_ended();
        self.refusals.session_ended();
        self.skipping = Skipping::default();
        self.review();
        (self.running, self.must_close_again) = (None, false);
        self.failure = None;
        self.retry_at = Moment::default();
    }
}

/// What an answer has led to.
pub(crate) enum Answered {
    Nothing,
    /// The row at which the session waits is to be offered again, and skipped.
    Skip {
        /// The database's notes when the decision was there.
        notes: Notes,
    },
    /// Events are in the table, which redeems their tickets.
    Written(Vec<Ticket>),
    /// Events have left the table, or stay in it as dead letters.
    Closed(Vec<Leaving>),
    /// The table is not the one that the session has read.
    Replaced,
}
