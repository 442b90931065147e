//! `outbox-router compare` on the topics that the real Debezium has written.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use serde_json::Value;

use super::{Servers, Subject, Tally, id_of, router};
use crate::golden::{Bytes, Golden, Outcome, Record, Time};
use crate::ours::Routed;
use crate::postgres::SlotOf;

/// How long `compare` waits for records. Debezium has ended, so none comes any more.
const WAIT: &str = "10s";

/// What `compare` answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Answer {
    events: u64,
    found: u64,
    same: u64,
    /// How many of each kind.
    findings: BTreeMap<String, u64>,
    has_read_all: bool,
    exit: i32,
}

/// What `compare` has to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    Answer(Answer),
    /// It cannot know, and why.
    Unknown(&'static str),
}

/// Lets `compare` answer, and checks its answer by the recording.
pub(super) async fn check(servers: &Servers, subject: &Subject) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    let expected = match expected(&subject.golden, &subject.routed) {
        Expected::Answer(expected) => expected,
        Expected::Unknown(why) => {
            tally.not_compared.insert(why, 1);
            return Ok(tally);
        }
    };
    let router =
        router::migrated(servers, subject, &servers.debezium_kafka, SlotOf::Compare).await?;
    let output = router.command(&["compare", "--json", "--wait", WAIT]).await?;
    let text = String::from_utf8_lossy(&output.stdout);
    let says = || format!("compare says: {text}{}", String::from_utf8_lossy(&output.stderr));
    let found = serde_json::from_str(&text).with_context(says)?;
    let answer = answer(&found, output.status.code()).with_context(says)?;
    if answer == expected {
        tally.compared = 1;
        tally.events = answer.events;
        tally.findings = answer.findings.values().sum();
    } else {
        let name = &subject.case.name;
        tally.complain(format!("{name}: expected {expected:?}\n  {answer:?}\n  {}", says()));
    }
    Ok(tally)
}

fn answer(found: &Value, exit: Option<i32>) -> Option<Answer> {
    let count = |name: &str| found.get(name)?.as_u64();
    let findings = found.get("findings")?.as_array()?.iter().map(|finding| {
        Some((finding.get("kind")?.as_str()?.to_owned(), finding.get("count")?.as_u64()?))
    });
    Some(Answer {
        events: count("events")?,
        found: count("found")?,
        same: count("same")?,
        findings: findings.collect::<Option<_>>()?,
        has_read_all: found.get("ended")? == "complete",
        exit: exit?,
    })
}

/// What `compare` has to answer if the topics are as recorded.
fn expected(golden: &Golden, routed: &Routed) -> Expected {
    if let Some(why) = unknown(golden, routed) {
        return Expected::Unknown(why);
    }
    // By the id: where Debezium writes it in another way, its record belongs to no event.
    let is_found = |ours: &Outcome, theirs: &Record| match ours {
        Outcome::Record(ours) => is_read(routed, &theirs.topic) && id_of(ours) == id_of(theirs),
        Outcome::Stops(_) => false,
    };
    let mut answer = Answer { has_read_all: true, ..Answer::default() };
    for (row, outcome) in golden.rows.iter().zip(&routed.alone) {
        let mut find = |kind: &str| *answer.findings.entry(kind.to_owned()).or_default() += 1;
        match (outcome, row.debezium.first().filter(|theirs| is_found(outcome, theirs))) {
            (Outcome::Stops(_), _) => find("refused"),
            (Outcome::Record(_), None) => {
                find("missing");
                answer.events += 1;
            }
            (Outcome::Record(ours), Some(theirs)) => {
                let parts = differing(ours, theirs);
                parts.iter().for_each(|part| find(part));
                answer.events += 1;
                answer.found += 1;
                answer.same += u64::from(parts.is_empty());
            }
        }
    }
    if routed.stops_before_last.is_some() {
        // Every row is changed by one statement.
        let updates =
            golden.before_last_row.iter().filter(|message| message.0.first() == Some(&b'U'));
        let updates = u64::try_from(updates.count()).unwrap_or_default();
        *answer.findings.entry("refused".to_owned()).or_default() += updates;
    }
    answer.exit = i32::from(answer.events == 0 || !answer.findings.is_empty());
    Expected::Answer(answer)
}

/// Whether `compare` reads a topic: only those to which the router would write.
fn is_read(routed: &Routed, topic: &str) -> bool {
    let mut outcomes = routed.alone.iter();
    outcomes.any(|outcome| matches!(outcome, Outcome::Record(ours) if ours.topic == topic))
}

/// Why `compare` cannot answer by the recording.
fn unknown(golden: &Golden, routed: &Routed) -> Option<&'static str> {
    let mut ids = BTreeSet::new();
    for (row, outcome) in golden.rows.iter().zip(&routed.alone) {
        let theirs = match row.debezium.as_slice() {
            [] => None,
            [theirs] => Some(theirs),
            _ => return Some("Debezium wrote several records of a row"),
        };
        let ours = match outcome {
            Outcome::Record(ours) => Some(ours),
            Outcome::Stops(_) => None,
        };
        if theirs.is_some_and(|theirs| theirs.partition.is_none()) && ours.is_some() {
            return Some("Debezium may write a record without a key into any partition");
        }
        // Without an event of ours nobody looks for a record, unless it is in the way of others.
        let theirs = theirs.filter(|theirs| ours.is_some() || is_read(routed, &theirs.topic));
        let of_row: BTreeSet<_> = theirs.into_iter().chain(ours).map(id_of).collect();
        if of_row.contains(&None) {
            return Some("a record has no id");
        }
        if of_row.into_iter().any(|id| !ids.insert(id)) {
            return Some("two rows have one id");
        }
    }
    None
}

/// The kinds of findings of a row of which both sides have a record.
fn differing(ours: &Record, theirs: &Record) -> Vec<&'static str> {
    let place = if ours.topic == theirs.topic { "partition" } else { "topic" };
    let is_elsewhere = ours.topic != theirs.topic || ours.partition != theirs.partition;
    // Debezium writes when it reads, so a time that is not the row's is not compared.
    let is_untimely = matches!(ours.time, Time::Row(_)) && ours.time != theirs.time;
    let parts = [
        (place, is_elsewhere),
        ("key", ours.key != theirs.key),
        ("value", ours.value != theirs.value),
        ("headers", !compared_headers(ours).eq(compared_headers(theirs))),
        ("timestamp", is_untimely),
    ];
    parts.into_iter().filter(|(_, differs)| *differs).map(|(part, _)| part).collect()
}

/// The headers that are compared: not those with which Debezium names itself.
fn compared_headers(record: &Record) -> impl Iterator<Item = &(String, Option<Bytes>)> {
    record.headers.iter().filter(|(name, _)| !name.starts_with("__debezium.context."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{Hex, RecordedBy, RecordedRow};

    fn record(id: &str) -> Record {
        let bytes = |text: &str| Some(Bytes(text.as_bytes().to_vec()));
        Record {
            topic: "t".to_owned(),
            partition: Some(1),
            key: bytes("k"),
            value: bytes("v"),
            headers: vec![("id".to_owned(), bytes(id))],
            time: Time::Event,
        }
    }

    fn expected_of(rows: &[(&[Record], Outcome)], stops: Option<&str>) -> Expected {
        let recorded_by =
            RecordedBy { versions: String::new(), postgres: 18, command: String::new() };
        let row = |debezium: &[Record]| RecordedRow {
            insert: Hex(Vec::new()),
            debezium: debezium.to_vec(),
            refused: None,
            ours: None,
        };
        let golden = Golden {
            recorded_by,
            types: Vec::new(),
            relation: Hex(Vec::new()),
            rows: rows.iter().map(|(debezium, _)| row(debezium)).collect(),
            before_last_row: vec![Hex(b"R".to_vec()), Hex(b"U".to_vec()), Hex(b"D".to_vec())],
            task_failed: None,
        };
        let routed = Routed {
            alone: rows.iter().map(|(_, outcome)| outcome.clone()).collect(),
            topics: BTreeSet::new(),
            stops_before_last: stops.map(str::to_owned),
        };
        expected(&golden, &routed)
    }

    fn findings<const N: usize>(found: [(&str, u64); N]) -> BTreeMap<String, u64> {
        found.map(|(kind, count)| (kind.to_owned(), count)).into()
    }

    #[test]
    fn rows_that_are_the_same_give_no_finding() {
        let [one, two] = ["1", "2"].map(record);
        let theirs = [one.clone(), two.clone()];
        let rows = [(&theirs[..1], Outcome::Record(one)), (&theirs[1..], Outcome::Record(two))];
        let wanted =
            Answer { events: 2, found: 2, same: 2, has_read_all: true, ..Answer::default() };
        assert_eq!(expected_of(&rows, None), Expected::Answer(wanted.clone()));
        let wanted = Answer { findings: findings([("refused", 1)]), exit: 1, ..wanted };
        assert_eq!(expected_of(&rows, Some("R014")), Expected::Answer(wanted), "one UPDATE after");
    }

    #[test]
    fn a_row_of_one_side_is_missing_or_refused_and_each_part_that_differs_is_a_finding() {
        let theirs = ["1", "2", "3"].map(record);
        let ours = Record { partition: Some(2), value: None, time: Time::Row(1), ..record("2") };
        let rows = [
            (&[][..], Outcome::Record(record("1"))),
            (&theirs[1..2], Outcome::Record(ours)),
            (&theirs[2..], Outcome::Stops("R001".to_owned())),
        ];
        let kinds = ["missing", "partition", "refused", "timestamp", "value"];
        let wanted = Answer {
            events: 2,
            found: 1,
            same: 0,
            findings: findings(kinds.map(|kind| (kind, 1))),
            has_read_all: true,
            exit: 1,
        };
        assert_eq!(expected_of(&rows, None), Expected::Answer(wanted));
    }

    #[test]
    fn a_record_in_a_topic_that_is_not_read_counts_as_missing() {
        let ours = Record { topic: "other".to_owned(), ..record("1") };
        let Expected::Answer(answer) =
            expected_of(&[(&[record("1")], Outcome::Record(ours))], None)
        else {
            panic!("no answer")
        };
        assert_eq!(answer.findings, findings([("missing", 1)]));
    }

    #[test]
    fn a_record_with_another_text_of_the_id_counts_as_missing() {
        let Expected::Answer(answer) =
            expected_of(&[(&[record("\"1\"")], Outcome::Record(record("1")))], None)
        else {
            panic!("no answer")
        };
        assert_eq!((answer.found, answer.findings), (0, findings([("missing", 1)])));
    }

    #[test]
    fn what_has_no_id_of_its_own_cannot_be_compared() {
        let same = |record: Record| Outcome::Record(record);
        let without = Record { headers: Vec::new(), ..record("1") };
        let stops = || Outcome::Stops("R004".to_owned());
        let alone = expected_of(&[(std::slice::from_ref(&without), stops())], None);
        assert!(matches!(alone, Expected::Answer(_)), "its topic is not read: {alone:?}");
        for rows in [
            vec![(&[without][..], stops()), (&[record("1")], same(record("1")))],
            vec![(&[record("1")][..], same(record("1"))), (&[record("1")], same(record("1")))],
            vec![(&[record("1"), record("1")][..], same(record("1")))],
            vec![(&[Record { partition: None, ..record("1") }][..], same(record("1")))],
        ] {
            let found = expected_of(&rows, None);
            assert!(matches!(found, Expected::Unknown(_)), "{found:?}");
        }
    }
}
