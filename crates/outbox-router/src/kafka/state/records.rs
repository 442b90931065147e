//! Processes a read of the state topic record by record, and decides whether the log is the one
//! that was read before.
//!
//! A read continues an earlier one only if the log is certainly the same. The topic may have been
//! deleted and re-created, or truncated by an election that lost records, and in either case have
//! grown past the old end since. Compaction may also have removed a deletion (a record without a
//! value) that was not read yet. So a read that continues starts with the last record that was
//! read, which has to be there unchanged, and no offset after it may be missing. Any difference
//! (new records that are compacted already, a transaction marker) costs one read of the whole
//! topic, which is rare.

use std::collections::HashMap;

use relay::StateTopicRecord;

use super::content::Anchor;
use crate::kafka::ffi::FetchedRecord;

/// See the module's documentation.
pub(super) struct Reading<'p> {
    prefix: &'p [u8],
    /// Records at this offset and after it are ignored.
    end: i64,
    by_key: HashMap<Vec<u8>, (i64, Vec<u8>)>,
    last: Option<Anchor>,
    mode: ReadMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadMode {
    /// Reading from the beginning, where compaction leaves holes.
    FromStart,
    /// Reading on: the first record must be the one that was read last.
    AtAnchor,
    /// Reading on: that record was there, and the offsets after it must have no holes.
    PastAnchor,
}

/// What a fetched record, or the reported end of the log, means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// There is more to come.
    More,
    /// Everything up to the end was read.
    Done,
    /// The log ends before the end that was asked for.
    EndsEarly,
    /// The log is not the one that was read before.
    AnotherLog,
}

impl<'p> Reading<'p> {
    /// A read of everything up to `end`.
    pub(super) fn from_start(prefix: &'p [u8], end: i64) -> Self {
        Self { prefix, end, by_key: HashMap::new(), last: None, mode: ReadMode::FromStart }
    }

    /// A read of what comes after `anchor`. `known` are the latest records up to `anchor`.
    pub(super) fn on(
        prefix: &'p [u8],
        end: i64,
        known: &[StateTopicRecord],
        anchor: Anchor,
    ) -> Self {
        let by_key = known.iter().map(|record| {
            let StateTopicRecord { key, value, offset } = record.clone();
            (key, (offset, value))
        });
        let (by_key, last) = (by_key.collect(), Some(anchor));
        Self { prefix, end, by_key, last, mode: ReadMode::AtAnchor }
    }

    /// Takes a fetched record.
    pub(super) fn record(&mut self, record: FetchedRecord) -> Progress {
        let anchor = Anchor::of(&record);
        let is_next = match (self.mode, self.last) {
            (_, None) => true,
            (ReadMode::FromStart, Some(last)) => anchor.offset > last.offset,
            (ReadMode::AtAnchor, Some(last)) => anchor == last,
            (ReadMode::PastAnchor, Some(last)) => anchor.offset == last.offset + 1,
        };
        if !is_next {
            return Progress::AnotherLog;
        }
        if self.mode == ReadMode::AtAnchor {
            self.mode = ReadMode::PastAnchor;
        }
        if anchor.offset < self.end {
            self.last = Some(anchor);
            self.keep(record);
        }
        if anchor.offset + 1 >= self.end { Progress::Done } else { Progress::More }
    }

    /// Takes the broker's report that the log ends at `offset`.
    pub(super) fn ends(&self, offset: i64) -> Progress {
        let is_whole = match (self.mode, self.last) {
            // The last offsets may have no record, because of compaction or because transaction
            // markers are not returned as records.
            (ReadMode::FromStart, _) => true,
            (ReadMode::AtAnchor, _) | (ReadMode::PastAnchor, None) => false,
            (ReadMode::PastAnchor, Some(last)) => last.offset + 1 >= self.end,
        };
        match is_whole {
            _ if offset < self.end => Progress::EndsEarly,
            true => Progress::Done,
            false => Progress::AnotherLog,
        }
    }

    fn keep(&mut self, record: FetchedRecord) {
        let Some(key) = record.key.filter(|key| key.starts_with(self.prefix)) else { return };
        match record.value {
            Some(value) => drop(self.by_key.insert(key, (record.offset, value))),
            None => drop(self.by_key.remove(&key)),
        }
    }

    /// The latest record of each key, in the order of the topic, and the last record of any key.
    pub(super) fn found(self) -> (Vec<StateTopicRecord>, Option<Anchor>) {
        let record = |(key, (offset, value))| StateTopicRecord { key, value, offset };
        let mut records: Vec<_> = self.by_key.into_iter().map(record).collect();
        records.sort_unstable_by_key(|record| record.offset);
        (records, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &[u8] = b"p/";

    fn record(offset: i64, key: &str, value: Option<&str>) -> FetchedRecord {
        FetchedRecord {
            topic: 0,
            partition: 0,
            headers: Vec::new(),
            offset,
            timestamp_ms: 1_000 + offset,
            key: Some(key.into()),
            value: value.map(Into::into),
        }
    }

    fn pairs(records: &[StateTopicRecord]) -> Vec<(i64, &str, &str)> {
        let text = |bytes| std::str::from_utf8(bytes).unwrap();
        records.iter().map(|r| (r.offset, text(&r.key), text(&r.value))).collect()
    }

    /// `p/a` at 1, `p/b` at 2, and another pipeline's at 3.
    fn known() -> (Vec<StateTopicRecord>, Anchor) {
        let mut reading = Reading::from_start(PREFIX, 4);
        assert_eq!(reading.record(record(1, "p/a", Some("1"))), Progress::More);
        assert_eq!(reading.record(record(2, "p/b", Some("2"))), Progress::More);
        assert_eq!(reading.record(record(3, "q/a", Some("3"))), Progress::Done);
        let (records, anchor) = reading.found();
        (records, anchor.unwrap())
    }

    fn on(end: i64) -> Reading<'static> {
        let (records, anchor) = known();
        Reading::on(PREFIX, end, &records, anchor)
    }

    #[test]
    fn what_is_new_replaces_adds_and_deletes() {
        let mut reading = on(8);
        assert_eq!(reading.record(record(3, "q/a", Some("3"))), Progress::More);
        assert_eq!(reading.record(record(4, "p/a", Some("4"))), Progress::More);
        assert_eq!(reading.record(record(5, "p/b", None)), Progress::More);
        assert_eq!(reading.record(record(6, "q/b", Some("6"))), Progress::More);
        assert_eq!(reading.record(record(7, "p/c", Some("7"))), Progress::Done);
        let (records, anchor) = reading.found();
        assert_eq!(pairs(&records), [(4, "p/a", "4"), (7, "p/c", "7")]);
        assert_eq!(anchor.unwrap().offset, 7);
    }

    #[test]
    fn where_nothing_is_new_everything_stays() {
        let mut reading = on(4);
        assert_eq!(reading.record(record(3, "q/a", Some("3"))), Progress::Done);
        assert_eq!(reading.found().0, known().0);
    }

    /// Made again, or cut and grown since: the same offset holds another record.
    #[test]
    fn a_log_whose_last_record_is_another_is_another_log() {
        let changed = [
            record(3, "q/a", Some("other")),
            record(3, "q/b", Some("3")),
            record(3, "q/a", None),
            FetchedRecord { timestamp_ms: 7, ..record(3, "q/a", Some("3")) },
            // It was compacted away.
            record(4, "p/a", Some("4")),
            // There is no such offset, and it begins from the start.
            record(0, "p/a", Some("0")),
        ];
        for record in changed {
            assert_eq!(on(8).record(record), Progress::AnotherLog);
        }
        assert_eq!(on(8).ends(8), Progress::AnotherLog);
    }

    /// A deletion may have been where nothing is now.
    #[test]
    fn a_hole_in_what_is_new_is_not_passed_over() {
        let mut reading = on(8);
        reading.record(record(3, "q/a", Some("3")));
        assert_eq!(reading.record(record(5, "p/c", Some("5"))), Progress::AnotherLog);
        let mut reading = on(8);
        reading.record(record(3, "q/a", Some("3")));
        assert_eq!(reading.ends(8), Progress::AnotherLog);
    }

    /// From the beginning they are what compaction leaves.
    #[test]
    fn holes_in_a_topic_that_is_read_from_its_beginning_are_no_matter() {
        let mut reading = Reading::from_start(PREFIX, 100);
        assert_eq!(reading.record(record(50, "p/a", Some("1"))), Progress::More);
        assert_eq!(reading.record(record(70, "p/b", Some("1"))), Progress::More);
        assert_eq!(reading.ends(100), Progress::Done);
        assert_eq!(reading.found().0.len(), 2);
    }

    /// A leader that was elected a moment ago does not know yet how far its log counts; or records
    /// are lost.
    #[test]
    fn a_log_that_ends_before_its_end_is_not_read_completely() {
        let mut reading = Reading::from_start(PREFIX, 100);
        reading.record(record(50, "p/a", Some("1")));
        assert_eq!(reading.ends(51), Progress::EndsEarly);
        assert_eq!(Reading::from_start(PREFIX, 1).ends(0), Progress::EndsEarly);
        assert_eq!(on(8).ends(4), Progress::EndsEarly);
        assert_eq!(reading.record(record(99, "p/b", Some("2"))), Progress::Done);
    }

    #[test]
    fn a_log_that_begins_again_while_it_is_read_is_another() {
        let mut reading = Reading::from_start(PREFIX, 100);
        reading.record(record(50, "p/a", Some("1")));
        assert_eq!(reading.record(record(0, "p/a", Some("2"))), Progress::AnotherLog);
    }

    #[test]
    fn what_comes_after_the_end_is_left_for_the_next_reading() {
        let mut reading = on(4);
        assert_eq!(reading.record(record(3, "q/a", Some("3"))), Progress::Done);
        let mut reading = Reading::from_start(PREFIX, 4);
        assert_eq!(reading.record(record(5, "p/a", Some("5"))), Progress::Done);
        assert_eq!(reading.found(), (vec![], None));
    }
}
