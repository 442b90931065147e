//! One polled table: what is known of it, and when it is read next.

use std::{collections::BTreeMap, time::Duration};

use super::{
    lease::Readable, pending_row::PendingRow, protocol::WaitsKept, row_id::RowId,
    unanswered::Unanswered, waits::Waits,
};
use crate::{
    clock::Moment,
    delivered::{RowVersion, SentVersion},
    failure::{Class, Failure},
    routing::{record::TopicId, table::TableName},
    source::Oid,
};

/// From the beginning of one reading to the next that a NOTIFY asks for. While writers commit all
/// the time, each reading finds the rows of several transactions, and costs the server once what it
/// costs to read and to mark.
pub(super) const BETWEEN_NOTIFIED: Duration = Duration::from_millis(5);

/// See the module's header.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: TableName,
    pub(super) description: Description,
    /// Which table was described last.
    relation: Option<Oid>,
    /// When to read it next.
    pub(super) fetch_at: Moment,
    /// Before this it is not read because of a NOTIFY, or since an interval or the wait of a row is
    /// over.
    rests_until: Moment,
    /// When the locks have ended of the worker that had shards before this one.
    unlocked_at: Option<Moment>,
    /// Whether a NOTIFY has arrived since it was read last.
    news: News,
    pub(super) waits: Waits,
    /// The rows of the last marks, where some of them were not as they were read.
    unmarked: BTreeMap<RowId, RowVersion>,
    /// How many of its rows are still to be read one by one, since one of several was refused.
    pub(super) one_by_one: usize,
    /// The topic that its next row waits for. It stays while the row is read again and again.
    pub(super) awaited: Option<TopicId>,
    pub(super) unanswered: Unanswered,
    /// Why none of its rows can be produced.
    pub(super) failure: Option<Failure>,
    /// Since when each attempt to describe it has met what a person has to mend.
    indescribable_since: Option<Moment>,
    pub(super) totals: TableTotals,
}

/// Whether the core knows what the table looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Description {
    /// Not yet, or not any more; when to ask.
    Unknown(Moment),
    Known(Shape),
}

/// What a table looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Which table that is.
    pub(super) relation: Oid,
    pub(super) waits: WaitsKept,
    pub(super) since: Moment,
}

/// Whether a table may have rows that its last reading did not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Some,
    None,
}

/// What was done with a table's rows since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TableTotals {
    pub(super) batches: u64,
    pub(super) fetched: u64,
    pub(super) published: u64,
    pub(super) changed: u64,
    pub(super) failed: u64,
    pub(super) abandoned: u64,
}

impl Table {
    pub(super) fn new(name: TableName) -> Self {
        Self {
            name,
            description: Description::Unknown(Moment::default()),
            relation: None,
            fetch_at: Moment::default(),
            rests_until: Moment::default(),
            unlocked_at: None,
            news: News::None,
            waits: Waits::default(),
            unmarked: BTreeMap::new(),
            one_by_one: 0,
            awaited: None,
            unanswered: Unanswered::default(),
            failure: None,
            indescribable_since: None,
            totals: TableTotals::default(),
        }
    }

    /// Of these rows so many were marked: of the others somebody has deleted, marked or changed
    /// each.
    pub(super) fn has_marked(&mut self, sent: &[SentVersion], marked: usize) {
        self.totals.published += u64::try_from(marked).unwrap_or(0);
        if marked < sent.len() {
            let rows = sent.iter().map(SentVersion::row);
            self.unmarked = rows.map(|row| (row.id.clone(), row.version)).collect();
        }
    }

    /// These rows were read. One that was sent before, and comes at another version, was changed
    /// meanwhile.
    pub(super) fn has_read(&mut self, rows: &[PendingRow]) {
        let unmarked = std::mem::take(&mut self.unmarked);
        let is_changed = |row: &&PendingRow| {
            unmarked.get(&row.id).is_some_and(|version| *version != row.version)
        };
        let changed = rows.iter().filter(is_changed).count();
        self.totals.changed += u64::try_from(changed).unwrap_or(0);
    }

    /// A NOTIFY says that there are rows.
    pub(super) fn notified(&mut self) {
        self.news = News::Some;
    }

    /// It is read now.
    pub(super) fn reads(&mut self, at: Moment) {
        self.rests_until = at + BETWEEN_NOTIFIED;
        self.news = News::None;
    }

    /// A reading that was asked for at `began` has found nothing. Rows that are not due may stand
    /// first in the index, and then it takes long: it rests for as long, so that at most half of
    /// the time is spent on such readings.
    pub(super) fn found_nothing(&mut self, began: Moment, at: Moment) {
        self.rests_until = at + at.since(began).max(BETWEEN_NOTIFIED);
        self.awaited = None;
        self.unanswered.end();
    }

    /// A reading that was asked for at `began` has found all that there was. The table is left
    /// alone for an interval, and until it has rested, unless it is known to have rows before that
    /// is over.
    pub(super) fn is_read_out(&mut self, interval: Duration, began: Moment, at: Moment) {
        self.unlocked_at = self.unlocked_at.filter(|unlocked_at| *unlocked_at > began);
        self.fetch_at = (at + interval).max(self.rests_until);
        self.unlocked_at.into_iter().for_each(|unlocked_at| self.is_due_at(unlocked_at));
        self.waits.next_due(began).into_iter().for_each(|due| self.is_due_at(due));
    }

    /// There may be rows at this time.
    pub(super) fn is_due_at(&mut self, due: Moment) {
        self.fetch_at = self.fetch_at.min(due.max(self.rests_until));
    }

    /// Shards of it are newly held, of which nothing was read before. Rows that another worker has
    /// claimed are left to it until its locks have ended, at `unlocked_at` at the latest.
    pub(super) fn has_more_shards(&mut self, unlocked_at: Moment, at: Moment) {
        self.fetch_at = self.fetch_at.min(at);
        self.unlocked_at = Some(unlocked_at);
    }

    /// No shard of it is held, so nothing is read of it, and it waits for no topic. Rows that wait
    /// are those of other workers, but a short loss of the lease does not make this one forget
    /// their attempts.
    pub(super) fn is_unheld(&mut self, at: Moment) {
        self.awaited = None;
        self.waits.forget(at);
    }

    /// The table that bears its name is this one: another one than was described is described anew.
    pub(super) fn is_now(&mut self, relation: Option<Oid>, at: Moment) {
        if let (Description::Known(known), Some(relation)) = (self.description, relation)
            && known.relation != relation
        {
            self.description = Description::Unknown(at);
        }
    }

    /// It was described, and is this one. What is remembered of the rows of another one, which had
    /// the name before, does not count for those of this one, whatever their ids.
    pub(super) fn bears_name_now(&mut self, relation: Oid) {
        if self.relation.replace(relation).is_some_and(|former| former != relation) {
            self.waits = Waits::default();
            self.unmarked.clear();
            self.one_by_one = 0;
            self.awaited = None;
            self.unanswered.end();
        }
    }

    /// An attempt to describe it has failed, or not.
    pub(super) fn was_described(&mut self, failure: Option<&Failure>, at: Moment) {
        match failure.map(Failure::class) {
            Some(Class::Mendable | Class::Gap) => {
                self.indescribable_since.get_or_insert(at);
            }
            // Of the server's own trouble nothing follows for the table.
            None | Some(Class::Transport | Class::Replay | Class::Note) => {
                self.indescribable_since = None;
            }
        }
    }

    /// Whether this worker can read it. In the first moments another one may have the same trouble.
    pub(super) fn readable(&self, patience: Duration, at: Moment) -> Readable {
        match self.indescribable_since {
            Some(since) if since + patience <= at => Readable::No,
            Some(_) | None => Readable::Yes,
        }
    }

    /// When its rows are to be read.
    pub(super) fn due_at(&self) -> Moment {
        match self.news {
            News::Some => self.fetch_at.min(self.rests_until),
            News::None => self.fetch_at,
        }
    }

    /// Where waits are kept, once the table is described.
    pub(super) fn waits_kept(&self) -> Option<WaitsKept> {
        match self.description {
            Description::Known(known) => Some(known.waits),
            Description::Unknown(_) => None,
        }
    }
}
