use std::collections::BTreeSet;

use relay::{
    Case, Code, Lsn, Name,
    source::{Gap, Interval, Mark},
};

use super::*;
use crate::{
    config,
    postgres::{CommandError, ServerMessage, command_failure, stream_failure},
};

fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    explanations().flat_map(|explanation| {
        let cases = explanation.cases.iter().map(|case_remedy| case_remedy.remedy);
        cases.chain([explanation.remedy]).map(|remedy| (explanation.code, remedy))
    })
}

#[test]
fn every_code_is_explained_once() {
    let of_core = Code::ALL.iter().map(|code| code.as_str());
    let of_configuration = config::ConfigCode::ALL.iter().map(|code| code.as_str());
    let of_doctor = Advice::ALL.iter().map(|advice| advice.as_str());
    let codes: BTreeSet<&str> = of_core.chain(of_configuration).chain(of_doctor).collect();
    let documented: Vec<&str> = explanations().map(|explanation| explanation.code).collect();
    assert_eq!(documented.len(), codes.len(), "an explanation too many");
    assert_eq!(documented.into_iter().collect::<BTreeSet<_>>(), codes);
}

#[test]
fn every_case_has_a_remedy_under_its_code() {
    for case in Case::ALL {
        let explanation = explanation(case.code().as_str()).unwrap();
        let found =
            explanation.cases.iter().filter(|case_remedy| case_remedy.case == *case).count();
        assert_eq!(found, 1, "{case:?}");
    }
    let all: usize = explanations().map(|explanation| explanation.cases.len()).sum();
    assert_eq!(all, Case::ALL.len(), "a case under the wrong code");
}

#[test]
fn every_placeholder_is_a_name() {
    for (code, remedy) in texts() {
        let filled = template::fill(remedy, &relay::Names::default(), None);
        // These belong to the configuration's own templates.
        let left = filled.replace("${aggregate_type}", "").replace("${payload#/orderId}", "");
        assert!(!left.contains('{'), "{code}: {left}");
    }
}

#[test]
fn what_stops_at_a_row_or_waits_for_a_person_has_a_remedy() {
    for code in Code::ALL {
        let explanation = explanation(code.as_str()).unwrap();
        let waits = matches!(code.class(), Class::Mendable | Class::Gap | Class::Note);
        assert!(!waits || !explanation.remedy.is_empty(), "{code}");
    }
}

#[test]
fn a_missing_column_names_every_role_that_it_may_be_mapped_to() {
    let remedy = hint(&Failure::new(Code::ColumnMissing, "a column is missing")).unwrap();
    for role in relay::Role::ALL {
        assert!(remedy.contains(role.as_str()), "{}: {remedy}", role.as_str());
    }
    assert!(remedy.ends_with("tracestate, timestamp, partition and tracing"), "{remedy}");
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
         --replication-factor 1; or set kafka.create_topics and restart; if the topic existed \
         before: first see whether kafka.bootstrap_servers leads to the former cluster; a topic \
         that is made again needs its former number of partitions, else keys move, and the events \
         that the former one had are sent again by outbox-router replay --where SQL --admin-url \
         postgres://ADMIN@HOST:PORT/DATABASE (docs/replay.md)"
    );
}

/// A topic that is made again has nothing of what the former one had, and the slot does not send
/// that again; neither does another cluster have it.
#[test]
fn who_lost_acknowledged_records_is_told_of_replay() {
    for code in [Code::TopicMissing, Code::TopicShrunk, Code::ClusterChanged] {
        let hint = hint(&Failure::new(code, "gone")).unwrap();
        assert!(hint.contains("outbox-router replay "), "{code}: {hint}");
    }
    let changed = hint_of_open(&gap(Failure::new(Code::ClusterChanged, "x")).failure, "K021@0/5");
    let order = "outbox-router accept --gap K021@0/5; then, unless the events were copied to it, \
                 outbox-router replay --all ";
    assert!(changed.as_ref().unwrap().contains(order), "{changed:?}");
    assert!(!changed.unwrap().contains("recover"), "recover cannot close it");
}

#[test]
fn unknown_names_are_left_as_placeholders() {
    let failure = Failure::new(Code::RecordTooLarge, "a record is too large");
    let hint = hint(&failure).unwrap();
    let setup = "outbox-router setup --apply --admin-url postgres://ADMIN@HOST:PORT/DATABASE";
    let expected = format!(
        "--bootstrap-server HOST:PORT --alter --entity-type topics --entity-name TOPIC \
         --add-config max.message.bytes=BYTES; or, so that the events of other keys go on: {setup} \
         --dead-letters, then write too_large = \"dead_letter\" under [on_error] and restart (the \
         topic dead_letters.topic has to exist, or to be \"\"); where rows are polled, in the place \
         of --dead-letters: alter table TABLE add column abandoned_at timestamptz and {setup}, \
         unless it has such a column, or a status with a word for abandoned"
    );
    assert!(hint.ends_with(&expected), "{hint}");
}

#[test]
fn the_last_resort_gives_up_the_one_row_at_which_the_router_stands() {
    let at = |code| hint(&Failure::new(code, "wrong").at(Lsn::from_u64(0x16B_3748))).unwrap();
    let skip =
        "; or, after the same setup, give up this one row: outbox-router skip --lsn 0/16B3748";
    let admin = "--admin-url postgres://ADMIN@HOST:PORT/DATABASE";
    for code in [Code::KeyIsNull, Code::TopicIllegal, Code::RowTooLarge, Code::NotJson] {
        let hint = at(code);
        let first = format!("outbox-router setup --apply {admin} --dead-letters, then write ");
        assert!(hint.contains(&first), "{hint}");
        assert!(hint.ends_with(&format!("{skip} --id ID --table TABLE {admin}")), "{hint}");
    }
    let named = Failure::new(Code::KeyIsNull, "wrong").at(Lsn::from_u64(0x16B_3748));
    let named = named.naming(relay::Name::RowId, "e-101").naming(relay::Name::Table, "public.a");
    let named = hint(&named).unwrap();
    assert!(named.ends_with(&format!("{skip} --id e-101 --table public.a {admin}")), "{named}");
    let without_id = at(Code::IdIsNull);
    assert!(without_id.ends_with(&format!("{skip} --table TABLE {admin}")), "there is no id");
    // The broker may be who refuses it, and a gap is no row.
    for code in [Code::RecordTooLarge, Code::RecordRefused, Code::SlotMissing] {
        assert!(!at(code).contains("outbox-router skip"), "{code}");
    }
    assert!(!hint(&Failure::new(Code::KeyIsNull, "wrong")).unwrap().contains("skip"));
}

/// The router's own role may not write a decision.
#[test]
fn who_is_told_to_decide_about_dead_letters_is_told_to_do_it_as_another_role() {
    let mut decisions = 0;
    for (code, remedy) in texts() {
        let filled = template::fill(remedy, &relay::Names::default(), None);
        for verb in [
            "dead-letters requeue",
            "dead-letters drop",
            "dead-letters adopt",
            "outbox-router skip",
        ] {
            for (_, after) in filled.match_indices(verb).map(|(at, _)| filled.split_at(at)) {
                let command = after.split([',', ';']).next().unwrap();
                assert!(command.contains(template::ADMIN), "{code}: {command}");
                decisions += 1;
            }
        }
    }
    assert!(decisions >= 4, "{decisions}");
}

/// What begins a command: a program, or a statement.
const COMMANDS: [&str; 16] = [
    "outbox-router ",
    "kafka-",
    "echo ",
    "alter ",
    "select ",
    "grant ",
    "create ",
    "update ",
    "begin; ",
    "index ",
    "insert ",
    "delete ",
    "drop ",
    "rollback ",
    "STATEMENTS",
    "revoke ",
];

/// A command without a mark is prose on the page, and has no box there.
#[test]
fn every_command_of_a_remedy_is_marked_and_nothing_else() {
    for explanation in explanations() {
        let of_cases = explanation.cases.iter().map(|case| case.remedy);
        for remedy in of_cases.chain([explanation.remedy]) {
            assert_eq!(remedy.matches('`').count() % 2, 0, "{remedy}");
            let hint = template::fill(remedy, &Names::default(), None);
            for command in hint.commands() {
                let begins = COMMANDS.iter().any(|begin| command.starts_with(begin));
                assert!(begins && !command.contains('`'), "{}: {command}", explanation.code);
            }
            for part in hint.parts() {
                let HintPart::Text(text) = part else { continue };
                let unmarked = ["outbox-router ", "kafka-", "select pg_", "alter system set "]
                    .into_iter()
                    .find(|begin| text.contains(begin))
                    .filter(|_| !text.contains("version of outbox-router that"));
                assert_eq!(unmarked, None, "{}: {text}", explanation.code);
            }
        }
    }
}

#[test]
fn a_gap_ends_with_the_command_that_accepts_it() {
    let missing = Failure::new(Code::SlotMissing, "slot \"s\" does not exist");
    assert!(hint(&missing).unwrap().contains("then outbox-router accept gives them up"));
    let made = Failure::of(Case::SlotNotMade, "slot \"s\" does not exist");
    let setup = "outbox-router setup --apply --admin-url postgres://ADMIN@HOST:PORT/DATABASE";
    assert_eq!(hint(&made).unwrap(), format!("{setup} creates it"));
    let open = hint_of_open(&gap(missing).failure, "P010@0/5").unwrap();
    assert!(!open.contains("creates it"), "there was a slot: {open}");
    assert!(open.contains("then outbox-router accept --gap P010@0/5 gives them up"), "{open}");
    // A remedy that repairs only the defect.
    let withheld =
        Failure::new(Code::PublicationFiltersRows, "filtered").naming(Name::AddAgain, "add again");
    assert_eq!(hint(&withheld).unwrap(), "add again");
    let recover = "add again; outbox-router recover --admin-url postgres://ADMIN@HOST:PORT/DATABASE \
                   sends the missing rows and closes the gap (docs/recover.md); or outbox-router accept";
    let failure = gap(withheld).failure;
    assert_eq!(hint(&failure).unwrap(), format!("{recover} gives them up"));
    let hint = hint_of_open(&failure, "P023@0/5").unwrap();
    assert_eq!(hint, format!("{recover} --gap P023@0/5 gives them up"));
}

#[test]
fn the_remedy_of_the_cause_comes_first() {
    let below = Failure::of(Case::StateTopicForbidden, "no").naming(Name::Topic, "s");
    let failure = Failure::of(Case::FirstWitnessUnwritten, "not written").caused_by(below);
    let hint = hint(&failure).unwrap();
    assert!(hint.starts_with("kafka-acls.sh "), "{hint}");
    assert!(hint.contains("--topic s; when that is repaired: outbox-router setup"), "{hint}");
}

#[test]
fn a_failure_without_a_remedy_of_its_own_has_that_of_its_cause() {
    let below = Failure::new(Code::TopicForbidden, "no").naming(Name::Topic, "s");
    let expected = hint(&below);
    let failure = Failure::new(below.code, "the slot is dropped all the same").caused_by(below);
    assert_eq!(hint(&failure), expected);
}

/// The router connects again at once.
#[test]
fn who_needs_the_slot_is_told_to_stop_the_router_and_not_to_cut_its_connection() {
    let failure = Failure::of(Case::SlotNeeded, "in use").naming(Name::Pid, 7);
    let hint = hint(&failure).unwrap();
    assert!(hint.starts_with("stop that router first, by SIGTERM; only where its process is gone"));
    assert!(hint.contains("select pg_terminate_backend(7) (a router that runs connects again)"));
}

#[test]
fn what_a_switch_has_to_wait_for_can_be_typed() {
    let held = hint(&Failure::of(Case::SwitchHeld, "held")).unwrap();
    let admin = template::ADMIN;
    for verb in ["requeue", "drop"] {
        let command = format!("outbox-router dead-letters {verb} --all {admin}");
        assert!(held.contains(&command), "{held}");
    }
}

#[test]
fn who_gives_a_table_another_mark_is_told_to_make_its_index() {
    let setup = "outbox-router setup --apply --admin-url postgres://ADMIN@HOST:PORT/DATABASE";
    let polling = hint(&Failure::new(Code::Polling, "no column")).unwrap();
    assert!(polling.contains(&format!("then {setup}, since the index")), "{polling}");
}

/// Neither a column nor a key of the configuration mends it.
#[test]
fn who_has_marks_undone_is_told_how_to_find_what_undoes_them() {
    for (case, follows) in [
        (Case::MarksUndone, "it writes their marks by itself, does not send them again"),
        (Case::ClaimsUndone, "None of these rows was sent"),
    ] {
        let failure =
            Failure::of(case, "undone").naming(Name::QuotedTable, "\"public\".\"outbox\"");
        let hint = to_type(&failure).unwrap();
        assert_eq!(
            hint.commands(),
            [
                "select tgname from pg_trigger where tgrelid = '\"public\".\"outbox\"'::regclass \
                 and not tgisinternal",
                "select rulename from pg_rewrite where ev_class = \
                 '\"public\".\"outbox\"'::regclass",
                "alter table \"public\".\"outbox\" disable trigger NAME",
            ]
        );
        assert!(hint.contains(follows) && hint.contains("(in psql \\d shows both"), "{hint}");
        assert!(!hint.contains("outbox.mark"), "{hint}");
    }
}

#[test]
fn json_in_a_remedy_is_text() {
    let failure = Failure::of(Case::StateTopicReplicas, "one replica")
        .naming(Name::Reassignment, r#"{"version":1}"#);
    assert!(hint(&failure).unwrap().starts_with(r#"echo '{"version":1}' > state.json; "#));
}

fn explained(code: &str) -> String {
    let mut text = String::new();
    explain(explanation(code).unwrap(), &mut text).unwrap();
    text
}

#[test]
fn an_explanation_has_every_case() {
    for explanation in explanations() {
        let text = explained(explanation.code);
        let class = explanation.class().map(|class| format!(" ({})", class.as_str()));
        let (code, title, class) = (explanation.code, explanation.title, class.unwrap_or_default());
        assert!(text.starts_with(&format!("{code}: {title}{class}\n")), "{text}");
        for case_remedy in explanation.cases {
            assert!(text.contains(case_remedy.when), "{text}");
        }
    }
}

#[test]
fn the_command_that_creates_the_state_topic_makes_it_compacted() {
    let text = explained("K010");
    assert!(text.contains("--partitions 1 --config cleanup.policy=compact "), "{text}");
}

#[test]
fn where_most_failures_need_nothing_an_explanation_says_so() {
    let text = explained("P001");
    assert!(text.contains("\nThere is nothing to type, unless:\n"), "{text}");
}

#[test]
fn an_explanation_says_what_follows_the_repair_of_a_gap() {
    let closing = "\nIf the router reported it as a gap, repairing is half of it: outbox-router \
                   recover --admin-url postgres://ADMIN@HOST:PORT/DATABASE sends the missing rows and \
                   closes the gap (docs/recover.md); or outbox-router accept gives them up.\n";
    for (code, follows) in [("P023", true), ("P030", true), ("P014", false), ("P028", false)] {
        assert_eq!(explained(code).contains(closing), follows, "{code}");
    }
}

#[test]
fn an_explanation_says_of_both_sources_what_becomes_of_an_event() {
    let text = explained("R001");
    let corrected = "one that is polled can:\n  update TABLE set KEY_COLUMN = VALUE where ID_COLUMN \
                     = 'ID'\n\nWith on_error.bad_row = \"dead_letter\" ";
    let kept = "A row that is polled stays in its own table, marked as abandoned: that takes a \
                column abandoned_at, or a status with a word for abandoned.";
    for part in [corrected, "that outbox-router setup --dead-letters makes. ", kept] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!explained("R005").contains("is polled can"), "nothing in the row is wrong");
}

#[test]
fn an_explanation_with_a_tool_of_kafka_says_how_it_authenticates() {
    for (code, has_tool) in [("K001", true), ("K020", true), ("K021", false), ("P001", false)] {
        assert_eq!(explained(code).contains(KAFKA_TOOLS), has_tool, "{code}");
    }
}

#[test]
fn a_case_without_a_remedy_says_so() {
    let expected = "\nIf the router's producer is being replaced:\n  nothing to type\n";
    assert!(explained("K001").contains(expected), "{}", explained("K001"));
}

#[test]
fn the_remedy_of_an_unclear_preset_names_those_that_fit() {
    let failure = Failure::of(Case::SeveralPresetsFit, "both fit");
    let fitting = failure.clone().naming(relay::Name::Presets, "default or payload");
    let expected = "set preset in its [[outbox]] block to default or payload, and restart";
    assert_eq!(hint(&fitting).unwrap(), expected);
    let presets = relay::PRESETS.map(|one| one.name).join(" or ");
    assert!(hint(&failure).unwrap().contains(&presets), "an explanation names all");
}

/// The settings `key = value` of a text whose key is one of the configuration, as a file would have
/// them.
fn settings(text: &str) -> Vec<String> {
    let mut files = Vec::new();
    for (at, _) in text.match_indices(" = ") {
        let (before, after) = (&text[..at], &text[at + 3..]);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        let key = &before[before.trim_end_matches(is_name).len()..];
        let end = match after.chars().next() {
            Some('"') => after[1..].find('"').map(|end| end + 2),
            Some('[') => after.find(']').map(|end| end + 1),
            _ => after.find(|c: char| !is_name(c)),
        };
        let value = &after[..end.unwrap_or(after.len())];
        let entries: Vec<_> = config::KEYS.iter().filter(|entry| entry.value().is_some()).collect();
        if entries.iter().any(|entry| entry.name == format!("outbox[].{key}")) {
            files.push(format!("[[outbox]]\ntable = \"public.outbox\"\n{key} = {value}\n"));
        } else if entries.iter().any(|entry| entry.name == key) {
            files.push(format!("{key} = {value}\n"));
        }
    }
    files
}

#[test]
fn every_setting_in_a_remedy_is_one_that_its_key_takes() {
    let mut count = 0;
    for (code, remedy) in texts() {
        for setting in settings(remedy) {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &setting).unwrap();
            let environment = config::Environment::new([]);
            let loaded = config::load(Some(file.path()), &environment, &[]);
            // A key that needs another one has it where the failure occurs.
            let is_taken =
                |error: &config::ConfigError| error.code == config::ConfigCode::Contradiction;
            if let Err(errors) = loaded.map_err(|errors| errors.0) {
                assert!(errors.iter().all(is_taken), "{code}: {setting}{errors:?}");
            }
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} settings were found");
}

#[track_caller]
fn assert_remedy_names(code: Code, settings: &[&str]) {
    let of_code = |case: &&Case| case.code() == code;
    let cases = Case::ALL.iter().filter(of_code).map(|case| Failure::of(*case, "a row"));
    let failures = cases.chain([Failure::new(code, "a row")]);
    let remedies: Vec<String> = failures.filter_map(|failure| hint(&failure)).collect();
    for setting in settings {
        let is_named = remedies.iter().any(|remedy| remedy.contains(setting));
        assert!(is_named, "{setting}: {remedies:?}");
    }
}

#[test]
fn a_remedy_names_every_key_that_can_have_caused_its_failure() {
    let formats = ["key_format", "value_format", "extra_headers", "envelope"];
    assert_remedy_names(Code::ColumnType, &formats);
    assert_remedy_names(Code::ColumnType, &["timestamp = \"commit\"", "columns.partition = []"]);
    let headers = ["columns.headers = []", "columns.tracing = []", "extra_headers"];
    assert_remedy_names(Code::HeadersMalformed, &headers);
    assert_remedy_names(Code::ColumnMissing, &["missing_columns = \"ignore\"", "where", "topic"]);
    assert_remedy_names(Code::TopicIsNull, &["${aggregate_type}", "without that column"]);
}

#[test]
fn the_servers_own_hint_is_given_for_every_kind_of_failure() {
    let message = |code: &str| ServerMessage {
        code: code.to_owned(),
        message: "library \"pgoutput\" may not be used as an output plugin".to_owned(),
        hint: Some("Add it to \"output_plugin_libraries\".".to_owned()),
        ..ServerMessage::default()
    };
    let own = "Add it to \"output_plugin_libraries\". (PostgreSQL's own hint)";
    let refused = |code: &str| CommandError::Server {
        command: "START_REPLICATION",
        message: Box::new(message(code)),
    };
    // A privilege would not help.
    for failure in [command_failure(refused("42501")), stream_failure(&message("42501"))] {
        assert_eq!(failure.code, Code::AuthenticationFailed);
        assert_eq!(hint(&failure).as_deref(), Some(own));
        assert_eq!(hint(&failure.with_case(Case::CommandDenied)).as_deref(), Some(own));
    }
    assert_eq!(hint(&command_failure(refused("XX000"))).as_deref(), Some(own));
    let full = hint(&stream_failure(&message("53400"))).unwrap();
    assert!(full.starts_with(own), "{full}");
}
