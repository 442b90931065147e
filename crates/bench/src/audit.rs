//! Checks whether every event arrived once, complete and in order, while the records are read.
//!
//! Loads of the bench number their events from 0 in member `seq` of the payload, and event *n*
//! belongs to key *n mod keys*, such as `order-7`, or `type3-1003` if there are several topics. So
//! one bit per event and one number per key decide completeness, order and affinity of any run, in
//! a fraction of the memory that the checker of the test suite needs.

use std::fmt;

use anyhow::Context as _;

use crate::shape::Distribution;

/// The state of the check of one run.
#[derive(Debug)]
pub(crate) struct Audit {
    expected: u64,
    distribution: Distribution,
    seen: Vec<u64>,
    keys: Vec<Option<LastRecord>>,
    noted: u64,
    anomalies: AnomalyCounts,
}

#[derive(Debug, Clone, Copy)]
struct LastRecord {
    at: Place,
    seq: u64,
}

/// Where an event was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In this partition, or in this topic where there are many.
    Kafka(i32),
    /// In the table of held events.
    Table,
}

/// How often each anomaly occurred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AnomalyCounts {
    pub(crate) lost: u64,
    pub(crate) duplicates: u64,
    pub(crate) out_of_order: u64,
    /// A key in two partitions.
    pub(crate) scattered: u64,
    /// Not an event of the load, or under the wrong key.
    pub(crate) altered: u64,
}

impl fmt::Display for AnomalyCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, duplicates, out_of_order, scattered, altered } = self;
        write!(
            f,
            "lost {lost}, duplicates {duplicates}, out of order {out_of_order}, \
             keys in two partitions {scattered}, altered {altered}"
        )
    }
}

impl Audit {
    /// Expects the events 0 to `expected`.
    pub(crate) fn new(expected: u64, distribution: Distribution) -> anyhow::Result<Self> {
        Ok(Self {
            expected,
            distribution,
            seen: vec![0; usize::try_from(expected.div_ceil(64))?],
            keys: vec![None; usize::try_from(distribution.keys)?],
            noted: 0,
            anomalies: AnomalyCounts::default(),
        })
    }

    /// There are no events of these numbers: a record of one counts as a duplicate.
    pub(crate) fn leave_out(&mut self, numbers: impl Iterator<Item = u64>) -> anyhow::Result<()> {
        for number in numbers {
            let word = self.seen.get_mut(usize::try_from(number / 64)?);
            *word.context("a number beyond the last event")? |= 1 << (number % 64);
        }
        Ok(())
    }

    /// Takes note of the next record at a place: its partition, or its topic where there are many.
    pub(crate) fn note(&mut self, at: Option<i32>, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.noted += 1;
        if at.and_then(|at| self.identify(Place::Kafka(at), key, value)).is_none() {
            self.anomalies.altered += 1;
        }
    }

    /// Takes note of an event that the table of held events has instead of Kafka, in its order
    /// among the records of its key. `messages` contain its payload.
    pub(crate) fn note_held(&mut self, key: Option<&[u8]>, messages: &[u8]) {
        if self.identify(Place::Table, key, Some(messages)).is_none() {
            self.anomalies.altered += 1;
        }
    }

    /// `None` when the record is no event of the load, or is in the wrong place.
    fn identify(&mut self, at: Place, key: Option<&[u8]>, value: Option<&[u8]>) -> Option<()> {
        let seq = member(value?, b"\"seq\": ").filter(|seq| *seq < self.expected)?;
        let (kind, key) = std::str::from_utf8(key?).ok()?.rsplit_once('-')?;
        let key = key.parse::<u64>().ok().filter(|key| *key == seq % self.distribution.keys)?;
        let topic = key % self.distribution.topics;
        let belongs = match kind.strip_prefix("type") {
            None => kind == "order" && self.distribution.topics == 1,
            Some(number) => number.parse() == Ok(topic) && at.is_of(topic),
        };
        let word = self.seen.get_mut(usize::try_from(seq / 64).ok()?)?;
        let place = self.keys.get_mut(usize::try_from(key).ok()?).filter(|_| belongs)?;
        let bit = 1 << (seq % 64);
        if *word & bit != 0 {
            self.anomalies.duplicates += 1;
        } else if let Some(before) = place {
            self.anomalies.out_of_order += u64::from(before.seq > seq);
            self.anomalies.scattered += u64::from(before.at.excludes(at));
        }
        *word |= bit;
        *place = Some(LastRecord { at, seq });
        Some(())
    }

    /// The number of distinct events that were seen.
    fn arrived(&self) -> u64 {
        self.seen.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The result. The topic holds `records`; those that were not read came after all expected
    /// ones, so they are duplicates.
    ///
    /// # Errors
    ///
    /// Fails when there was any anomaly.
    pub(crate) fn result(mut self, records: u64) -> Result<(), AnomalyCounts> {
        self.anomalies.lost = self.expected - self.arrived();
        self.anomalies.duplicates += records.saturating_sub(self.noted);
        if self.anomalies == AnomalyCounts::default() { Ok(()) } else { Err(self.anomalies) }
    }
}

impl Place {
    fn is_of(self, topic: u64) -> bool {
        match self {
            Self::Kafka(at) => u64::try_from(at) == Ok(topic),
            Self::Table => true,
        }
    }

    /// Whether one key cannot have records here and there.
    fn excludes(self, other: Self) -> bool {
        match (self, other) {
            (Self::Kafka(here), Self::Kafka(there)) => here != there,
            (Self::Table, _) | (_, Self::Table) => false,
        }
    }
}

/// The number after the last occurrence of `name` in a JSON text, whether or not a space stands
/// between them: PostgreSQL writes one, and who writes the JSON again may not.
pub(crate) fn member(json: &[u8], name: &[u8]) -> Option<u64> {
    let name = name.trim_ascii_end();
    let at = json.windows(name.len()).rposition(|window| window == name)?;
    let digits = json.get(at + name.len()..)?.trim_ascii_start();
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(digits.get(..end)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two keys, events 0 to 4; each record is partition, key and seq.
    fn check_delivery(records: &[(i32, u64, u64)]) -> Result<(), AnomalyCounts> {
        let mut audit = Audit::new(4, Distribution { keys: 2, ..Distribution::default() }).unwrap();
        for (partition, key, seq) in records {
            let value = format!("{{\"pad\": \"\\\"seq\\\": 9\", \"seq\": {seq}}}");
            audit.note(
                Some(*partition),
                Some(format!("order-{key}").as_bytes()),
                Some(value.as_bytes()),
            );
        }
        audit.result(u64::try_from(records.len()).unwrap())
    }

    fn anomalies(change: impl FnOnce(&mut AnomalyCounts)) -> Result<(), AnomalyCounts> {
        let mut anomalies = AnomalyCounts::default();
        change(&mut anomalies);
        Err(anomalies)
    }

    #[test]
    fn all_events_once_and_in_the_order_of_their_keys_are_no_anomaly() {
        assert_eq!(check_delivery(&[(0, 1, 1), (1, 0, 0), (1, 0, 2), (0, 1, 3)]), Ok(()));
    }

    #[test]
    fn a_number_is_found_with_and_without_a_space_before_it() {
        for json in ["{\"seq\": 7}", "{\"seq\":7}", "{\"seq\":1,\"seq\":7,\"sent\":3}"] {
            assert_eq!(member(json.as_bytes(), b"\"seq\": "), Some(7), "{json}");
        }
        assert_eq!(member(b"{\"seq\": \"7\"}", b"\"seq\": "), None);
    }

    #[test]
    fn a_missing_event_counts_as_lost() {
        assert_eq!(
            check_delivery(&[(0, 0, 0), (0, 1, 1), (0, 1, 3)]),
            anomalies(|counts| counts.lost = 1)
        );
    }

    #[test]
    fn two_swapped_events_of_a_key_count_as_out_of_order() {
        let swapped = [(0, 0, 2), (0, 0, 0), (1, 1, 1), (1, 1, 3)];
        assert_eq!(check_delivery(&swapped), anomalies(|counts| counts.out_of_order = 1));
    }

    #[test]
    fn a_record_beyond_the_first_of_its_event_counts_as_a_duplicate_even_if_it_was_not_read() {
        let doubled = [(0, 0, 0), (0, 0, 0), (1, 1, 1), (0, 0, 2), (1, 1, 3)];
        assert_eq!(check_delivery(&doubled), anomalies(|counts| counts.duplicates = 1));
        let audit = Audit::new(0, Distribution::default()).unwrap();
        assert_eq!(audit.result(1), anomalies(|counts| counts.duplicates = 1));
    }

    #[test]
    fn a_key_in_two_partitions_counts_as_scattered() {
        let scattered = [(0, 0, 0), (1, 1, 1), (1, 0, 2), (1, 1, 3)];
        assert_eq!(check_delivery(&scattered), anomalies(|counts| counts.scattered = 1));
    }

    #[test]
    fn a_record_with_a_wrong_key_or_an_unknown_number_counts_as_altered() {
        let wrong = [(0, 1, 0), (0, 1, 1), (0, 0, 2), (0, 1, 3), (0, 0, 4)];
        assert_eq!(
            check_delivery(&wrong),
            anomalies(|counts| (counts.altered, counts.lost) = (2, 1))
        );
    }

    #[test]
    fn an_event_in_the_topic_of_another_type_counts_as_altered() {
        let mut audit =
            Audit::new(4, Distribution { keys: 4, topics: 2, ..Distribution::default() }).unwrap();
        for (topic, seq) in [(0, 0), (1, 1), (1, 2), (1, 3)] {
            let (key, value) = (format!("type{}-{seq}", seq % 2), format!("{{\"seq\": {seq}}}"));
            audit.note(Some(topic), Some(key.as_bytes()), Some(value.as_bytes()));
        }
        assert_eq!(audit.result(4), anomalies(|counts| (counts.altered, counts.lost) = (1, 1)));
    }

    #[test]
    fn a_held_event_counts_as_one_that_arrived_and_must_come_in_its_order() {
        let audit_of = |kafka: &[u64], held: &[u64]| {
            let mut audit = Audit::new(6, Distribution { keys: 2, ..Distribution::default() })?;
            audit.leave_out(0..2)?;
            let parts = |seq| (format!("order-{}", seq % 2), format!("D{{\"seq\": {seq}}}\0"));
            for (key, value) in kafka.iter().map(parts) {
                audit.note(Some(3), Some(key.as_bytes()), Some(value.as_bytes()));
            }
            for (key, messages) in held.iter().map(parts) {
                audit.note_held(Some(key.as_bytes()), messages.as_bytes());
            }
            anyhow::Ok(audit.result(u64::try_from(kafka.len())?))
        };
        assert_eq!(audit_of(&[2, 3, 4], &[5]).unwrap(), Ok(()));
        assert_eq!(audit_of(&[2, 3, 4], &[]).unwrap(), anomalies(|counts| counts.lost = 1));
        let twice = anomalies(|counts| counts.duplicates = 1);
        assert_eq!(audit_of(&[2, 3, 4, 5], &[5]).unwrap(), twice);
        let passed = anomalies(|counts| counts.out_of_order = 1);
        assert_eq!(audit_of(&[2, 4, 5], &[3]).unwrap(), passed);
        let left_out = anomalies(|counts| counts.duplicates = 1);
        assert_eq!(audit_of(&[1, 2, 3, 4, 5], &[]).unwrap(), left_out);
    }
}
