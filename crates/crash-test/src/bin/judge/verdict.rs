//! The verdict: what was committed, compared with what is in the tables and in the topics. Plain
//! functions of recorded lists.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::topics::{Sent, SentEvents};
use crate::truth::{Committed, Kind, Look, Place};

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// Committed, in no topic, and nothing will send it any more.
    Lost,
    /// The row is gone, and its event is in no topic.
    RemovedUnsent,
    /// The row is marked as delivered, or gone, and its last version is in no topic.
    Stale,
    /// Within a key, an event is before an earlier one, or in another partition.
    Order,
    /// A record differs from what was committed.
    Altered,
    /// A record of something that was never committed.
    Phantom,
    /// A record came again although nothing was interrupted.
    Repeated,
    /// A table is gone that a person has detached to keep it.
    Taken,
    /// The pipeline does not deliver what is there, or stands at a gap that nothing has made.
    Stopped,
}

impl Wrong {
    pub(crate) const ALL: [Self; 9] = [
        Self::Lost,
        Self::RemovedUnsent,
        Self::Stale,
        Self::Order,
        Self::Altered,
        Self::Phantom,
        Self::Repeated,
        Self::Taken,
        Self::Stopped,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::RemovedUnsent => "removed unsent",
            Self::Stale => "stale",
            Self::Order => "order",
            Self::Altered => "altered",
            Self::Phantom => "phantom",
            Self::Repeated => "repeated",
            Self::Taken => "taken",
            Self::Stopped => "stopped",
        }
    }
}

/// One thing that is wrong, and with which event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) wrong: Wrong,
    pub(crate) event: String,
    pub(crate) said: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {}", self.wrong.name(), self.event, self.said)
    }
}

/// When a look was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// While the round goes on: what is not sent yet may still be under way.
    During,
    /// After everything was delivered that will be.
    End,
}

/// Whether events are sent for which nothing speaks any more. `sent` was read after `look`.
pub(crate) fn unsent(look: &Look, sent: &SentEvents, moment: Moment) -> Vec<Finding> {
    let is_last = |one: &Committed| look.latest.get(&one.key) == Some(&one.event);
    look.committed
        .iter()
        .filter(|one| !sent.contains(&one.event))
        .filter(|one| one.kind != Kind::Version || is_last(one))
        .filter_map(|one| {
            let place = look.places.get(&one.event).copied();
            let wrong = wrong_with(one.kind, place, moment)?;
            Some(finding(wrong, one, &shown(place)))
        })
        .collect()
}

/// What is wrong with an event that is in no topic.
fn wrong_with(kind: Kind, place: Option<Place>, moment: Moment) -> Option<Wrong> {
    let is_end = moment == Moment::End;
    match (kind, place) {
        (Kind::Deleted, _) => is_end.then_some(Wrong::Lost),
        (Kind::Version, None | Some(Place::Marked | Place::Archived)) => Some(Wrong::Stale),
        (_, None | Some(Place::Archived)) => Some(Wrong::RemovedUnsent),
        // A row that its application gave up in a table of its own is for a person.
        (_, Some(Place::Detached)) | (Kind::Poison | Kind::Older, Some(Place::Kept)) => None,
        (_, Some(Place::Marked)) => Some(Wrong::Lost),
        (Kind::Poison, Some(Place::Abandoned | Place::Pending)) => None,
        (_, Some(Place::Kept | Place::Abandoned)) => is_end.then_some(Wrong::Lost),
        (_, Some(Place::Pending)) => is_end.then_some(Wrong::Stopped),
    }
}

fn shown(place: Option<Place>) -> String {
    place.map_or_else(
        || "is in no topic and in no table".to_owned(),
        |place| format!("is in no topic; its row: {place:?}"),
    )
}

fn finding(wrong: Wrong, one: &Committed, what: &str) -> Finding {
    let Committed { event, table, key, ordinal, kind, how, .. } = one;
    let said = format!("{what} ({table}, key {key}, no. {ordinal}, {}, {how})", kind.name());
    Finding { wrong, event: event.clone(), said }
}

/// Whether the records are those of the events, and in their order.
pub(crate) fn records(look: &Look, sent: &SentEvents, order: Order) -> Vec<Finding> {
    let committed: HashMap<&str, &Committed> =
        look.committed.iter().map(|one| (one.event.as_str(), one)).collect();
    let mut findings = Vec::new();
    let mut keys: BTreeMap<&str, Vec<(&Sent, &Committed)>> = BTreeMap::new();
    for (event, record) in sent.iter() {
        let Some(one) = committed.get(event.as_str()) else {
            let said = format!("is in {}, and was never committed", record.topic);
            findings.push(Finding { wrong: Wrong::Phantom, event: event.clone(), said });
            continue;
        };
        if record.key != one.key || record.value != one.value {
            findings.push(finding(Wrong::Altered, one, &format!("its record is {record:?}")));
        }
        keys.entry(&one.key).or_default().push((record, one));
    }
    if order == Order::OfCommits {
        findings.extend(keys.into_values().filter_map(|records| out_of_order(records)));
    }
    findings
}

/// Whether commits of a key have to arrive in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    OfCommits,
    Any,
}

/// The first event of a key that is before an earlier one, or in another partition.
fn out_of_order(mut records: Vec<(&Sent, &Committed)>) -> Option<Finding> {
    records.sort_by_key(|(record, _)| (record.partition, record.offset));
    records.windows(2).find_map(|pair| {
        let [(before, one), (after, other)] = pair else { return None };
        let is_right = before.partition == after.partition && one.ordinal < other.ordinal;
        (!is_right).then(|| {
            let what = format!(
                "is at {}/{} behind no. {} at {}/{}",
                after.partition, after.offset, one.ordinal, before.partition, before.offset
            );
            finding(Wrong::Order, other, &what)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(event: &str, ordinal: i64, kind: Kind) -> Committed {
        Committed {
            event: event.to_owned(),
            table: "outbox".to_owned(),
            key: "k".to_owned(),
            ordinal,
            kind,
            how: "Single".to_owned(),
            value: "{}".to_owned(),
        }
    }

    fn look(kind: Kind, place: Option<Place>) -> Look {
        Look {
            committed: vec![committed("e", 1, kind)],
            places: place.map(|place| ("e".to_owned(), place)).into_iter().collect(),
            latest: [("k".to_owned(), "e".to_owned())].into(),
        }
    }

    fn sent(events: &[(&str, i32, i64)]) -> SentEvents {
        let mut sent = SentEvents::default();
        for (event, partition, offset) in events {
            let record = Sent {
                topic: "t".to_owned(),
                partition: *partition,
                offset: *offset,
                key: "k".to_owned(),
                value: "{}".to_owned(),
                copies: 1,
            };
            sent.add((*event).to_owned(), record);
        }
        sent
    }

    fn wrong(look: &Look, events: &[(&str, i32, i64)], moment: Moment) -> Option<Wrong> {
        unsent(look, &sent(events), moment).first().map(|finding| finding.wrong)
    }

    #[test]
    fn a_row_that_is_gone_is_removed_unsent_at_any_moment_unless_its_record_is_there() {
        for kind in [Kind::Event, Kind::Poison, Kind::Older] {
            let gone = look(kind, None);
            for moment in [Moment::During, Moment::End] {
                assert_eq!(wrong(&gone, &[], moment), Some(Wrong::RemovedUnsent));
                assert_eq!(wrong(&gone, &[("e", 0, 0)], moment), None);
            }
        }
    }

    #[test]
    fn a_row_that_the_slot_has_passed_is_lost_at_the_end_and_may_be_under_way_before() {
        let kept = look(Kind::Event, Some(Place::Kept));
        assert_eq!(wrong(&kept, &[], Moment::During), None);
        assert_eq!(wrong(&kept, &[], Moment::End), Some(Wrong::Lost));
    }

    #[test]
    fn rows_that_are_kept_for_a_person_are_not_lost() {
        for (kind, place) in [
            (Kind::Poison, Place::Kept),
            (Kind::Poison, Place::Abandoned),
            (Kind::Older, Place::Kept),
            (Kind::Event, Place::Detached),
        ] {
            assert_eq!(wrong(&look(kind, Some(place)), &[], Moment::End), None, "{kind:?}");
        }
    }

    #[test]
    fn a_mark_on_what_was_never_sent_is_wrong_at_once() {
        let event = look(Kind::Event, Some(Place::Marked));
        assert_eq!(wrong(&event, &[], Moment::During), Some(Wrong::Lost));
        for place in [None, Some(Place::Marked)] {
            let version = look(Kind::Version, place);
            assert_eq!(wrong(&version, &[], Moment::During), Some(Wrong::Stale));
            assert_eq!(wrong(&version, &[("e", 0, 0)], Moment::During), None);
        }
    }

    #[test]
    fn only_the_last_version_of_a_key_has_to_be_sent() {
        let mut look = look(Kind::Version, Some(Place::Pending));
        look.latest.insert("k".to_owned(), "later".to_owned());
        look.places.clear();
        assert_eq!(wrong(&look, &[], Moment::End), None);
    }

    #[test]
    fn order_is_that_of_the_first_records_in_one_partition() {
        let look = Look {
            committed: vec![committed("a", 1, Kind::Event), committed("b", 2, Kind::Event)],
            ..Look::default()
        };
        let found = |events: &[(&str, i32, i64)], order| {
            let findings = records(&look, &sent(events), order);
            findings.first().map(|finding| finding.wrong)
        };
        assert_eq!(found(&[("a", 0, 0), ("b", 0, 1), ("a", 0, 2)], Order::OfCommits), None);
        assert_eq!(found(&[("b", 0, 0), ("a", 0, 1)], Order::OfCommits), Some(Wrong::Order));
        assert_eq!(found(&[("a", 0, 0), ("b", 1, 1)], Order::OfCommits), Some(Wrong::Order));
        assert_eq!(found(&[("b", 0, 0), ("a", 0, 1)], Order::Any), None);
        assert_eq!(found(&[("c", 0, 0)], Order::Any), Some(Wrong::Phantom));
    }
}
