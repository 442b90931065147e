use std::collections::BTreeSet;

use relay::{
    Code, Lsn,
    source::{Gap, Interval, Mark},
};

use super::*;
use crate::config;

fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    explanations().flat_map(|explanation| {
        let cases = explanation.cases.iter().map(|special| special.remedy);
        cases.chain([explanation.remedy]).map(|remedy| (explanation.code, remedy))
    })
}

#[test]
fn every_code_is_explained_once() {
    let of_core = Code::ALL.iter().map(|code| code.as_str());
    let of_configuration = config::Code::ALL.iter().map(|code| code.as_str());
    let codes: BTreeSet<&str> = of_core.chain(of_configuration).collect();
    let documented: Vec<&str> = explanations().map(|explanation| explanation.code).collect();
    assert_eq!(documented.len(), codes.len(), "an explanation too many");
    assert_eq!(documented.into_iter().collect::<BTreeSet<_>>(), codes);
}

#[test]
fn every_case_has_a_remedy_under_its_code() {
    for case in Case::ALL {
        let explanation = explanation(case.code().as_str()).unwrap();
        let found = explanation.cases.iter().filter(|special| special.case == *case).count();
        assert_eq!(found, 1, "{case:?}");
    }
    let all: usize = explanations().map(|explanation| explanation.cases.len()).sum();
    assert_eq!(all, Case::ALL.len(), "a case under the wrong code");
}

#[test]
fn every_placeholder_is_a_name() {
    for (code, remedy) in texts() {
        let filled = template::fill(remedy, &relay::Names::default());
        // `${aggregate_type}` belongs to the configuration's own templates.
        let left = filled.replace("${aggregate_type}", "");
        assert!(!left.contains('{'), "{code}: {left}");
    }
}

#[test]
fn what_stops_at_a_row_or_waits_for_a_person_has_a_remedy() {
    for code in Code::ALL {
        let explanation = explanation(code.as_str()).unwrap();
        let waits = matches!(code.class(), relay::Class::Mendable | relay::Class::Gap);
        assert!(!waits || !explanation.remedy.is_empty(), "{code}");
    }
}

fn gap(failure: Failure) -> Gap {
    let mark = |lsn| Mark { lsn: Lsn::from_u64(lsn), at: None };
    Gap::new(failure, Interval { from: Some(mark(5)), to: mark(9) })
}

#[test]
fn names_are_filled_in() {
    let failure = Failure::new(Code::TopicMissing, "topic orders does not exist")
        .naming(Name::Topic, "orders")
        .naming(Name::Brokers, "kafka:9092")
        .naming(Name::ReplicationFactor, 1);
    assert_eq!(
        hint(&failure).unwrap(),
        "kafka-topics.sh --bootstrap-server kafka:9092 --create --topic orders --partitions 6 \
         --replication-factor 1, or set kafka.create_topics"
    );
}

#[test]
fn what_is_not_known_is_left_to_the_reader() {
    let failure = Failure::new(Code::RecordTooLarge, "a record is too large");
    let hint = hint(&failure).unwrap();
    let expected = "--bootstrap-server HOST:PORT --alter --entity-type topics --entity-name TOPIC \
                    --add-config max.message.bytes=BYTES";
    assert!(hint.ends_with(expected), "{hint}");
}

#[test]
fn a_gap_ends_with_the_command_that_accepts_it() {
    let missing = Failure::new(Code::SlotMissing, "slot \"s\" does not exist");
    assert!(hint(&missing).unwrap().ends_with("then outbox-router accept"));
    let hint_of_gap = hint(&gap(missing).failure).unwrap();
    assert!(hint_of_gap.ends_with("then outbox-router accept --gap P010@0/5"), "{hint_of_gap}");
    // A remedy that repairs only the defect.
    let withheld =
        Failure::new(Code::PublicationLacksInsert, "no inserts").naming(Name::Publication, "\"p\"");
    let statement = "alter publication \"p\" set (publish = 'insert')";
    assert_eq!(hint(&withheld).unwrap(), statement);
    let expected = format!(
        "{statement}; publish the rows that were left out meanwhile from the table, then \
         outbox-router accept --gap P022@0/5"
    );
    assert_eq!(hint(&gap(withheld).failure).unwrap(), expected);
}

#[test]
fn the_cause_is_mended_first() {
    let below = Failure::of(Case::StateTopicForbidden, "no").naming(Name::Topic, "s");
    let failure = Failure::of(Case::FirstRecordUnwritten, "not written").caused_by(below);
    let hint = hint(&failure).unwrap();
    assert!(hint.starts_with("kafka-acls.sh "), "{hint}");
    assert!(hint.contains("--topic s; when that is repaired: outbox-router setup"), "{hint}");
}

#[test]
fn a_failure_that_only_says_what_was_done_has_the_remedy_of_its_cause() {
    let below = Failure::new(Code::TopicForbidden, "no").naming(Name::Topic, "s");
    let expected = hint(&below);
    let failure = Failure::new(below.code, "the slot is dropped all the same").caused_by(below);
    assert_eq!(hint(&failure), expected);
}

#[test]
fn json_in_a_remedy_is_text() {
    let failure = Failure::of(Case::StateTopicReplicas, "one replica")
        .naming(Name::Reassignment, r#"{"version":1}"#);
    assert!(hint(&failure).unwrap().starts_with(r#"echo '{"version":1}' > state.json; "#));
}

#[test]
fn an_explanation_has_every_case() {
    for explanation in explanations() {
        let mut text = String::new();
        explain(explanation, &mut text).unwrap();
        assert!(text.starts_with(&format!("{}: {}\n", explanation.code, explanation.title)));
        for special in explanation.cases {
            assert!(text.contains(special.when), "{text}");
        }
    }
}
