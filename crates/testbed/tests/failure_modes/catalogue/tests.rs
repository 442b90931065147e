//! Tests of the check itself, on small catalogues with one defect each.

use super::*;

/// A catalogue in which every mode is explained.
fn complete() -> String {
    IDS.map(|id| format!("[[mode]]\nid = \"{id}\"\ntrouble = \"t\"\nnot_yet = \"n\"\n")).concat()
}

fn complaints(text: &str) -> Vec<String> {
    text.parse::<Catalogue>().unwrap().complaints()
}

fn reference(text: &str) -> Reference {
    text.to_owned().try_into().unwrap()
}

#[test]
fn a_complete_catalogue_has_no_defects() {
    assert!(complaints(&complete()).is_empty());
}

#[test]
fn a_missing_repeated_or_unknown_mode_is_reported() {
    let entry = "[[mode]]\nid = \"A3\"\ntrouble = \"t\"\nnot_yet = \"n\"\n";
    assert_eq!(complaints(&complete().replacen(entry, "", 1)), ["A3: listed 0 times"]);
    assert_eq!(complaints(&(complete() + entry)), ["A3: listed 2 times"]);
    let strange = complete() + &entry.replace("A3", "Z9");
    assert_eq!(complaints(&strange), ["Z9: no such failure mode"]);
}

#[test]
fn modes_out_of_order_are_reported() {
    let swapped = complete().replace("\"A2\"", "\"x\"").replace("\"A3\"", "\"A2\"");
    let swapped = swapped.replace("\"x\"", "\"A3\"");
    assert_eq!(complaints(&swapped), ["the failure modes are out of order"]);
}

#[test]
fn a_mode_without_a_test_or_an_explanation_is_reported() {
    let silent = complete().replacen("not_yet = \"n\"\n", "", 1);
    assert_eq!(complaints(&silent), ["A2: has neither a test nor an explanation"]);
}

#[test]
fn unknown_keys_and_malformed_references_are_refused() {
    for wrong in ["shown = []", "shown_by = [\"e2e:x\"]", "shown_by = [\"proof:a::b\"]"] {
        let text = format!("[[mode]]\nid = \"A2\"\ntrouble = \"t\"\n{wrong}\n");
        assert!(text.parse::<Catalogue>().is_err(), "{wrong}");
    }
}

#[test]
fn a_reference_that_leads_nowhere_is_reported() {
    let root = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| {
        let file = root.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write("tests/e2e/gaps/moments.rs", "#[tokio::test]\nasync fn there() {}\nfn helper() {}\n");
    write("crates/simulation/mutants/early.patch", "about: x\n");
    let sources = Sources::new(root.path());
    for (text, missing) in [
        ("e2e:gaps/moments.rs::there", None),
        ("e2e:gaps/moments.rs::helper", Some("no such test in tests/e2e/gaps/moments.rs")),
        ("e2e:gaps.rs::there", Some("there is no tests/e2e/gaps.rs")),
        ("unit:relay::src/ledger.rs::there", Some("there is no crates/relay/src/ledger.rs")),
        ("mutant:early", None),
        ("mutant:late", Some("there is no crates/simulation/mutants/late.patch")),
        ("simulation:KillRouter", Some("there is no crates/simulation/src/fault.rs")),
    ] {
        let found = reference(text).missing_from(&sources);
        assert_eq!(found.as_deref(), missing, "{text}");
    }
}

#[test]
fn the_table_links_the_tests_and_states_what_has_none() {
    let text = "
        [[mode]]
        id = \"A2\"
        trouble = \"something\"
        shown_by = [\"e2e:kills.rs::it_holds\", \"unit:relay::src/ledger/tests.rs::so_it_is\", \"mutant:early\"]
        [[mode]]
        id = \"T1\"
        trouble = \"another\"
        not_yet = \"no reason\"
    ";
    let table = text.parse::<Catalogue>().unwrap().table();
    assert_eq!(
        table,
        "2 failure modes · 1 shown · 0 shown in part · 1 not yet\n\n\
         | id | what may go wrong | shown by | not shown, and why |\n|---|---|---|---|\n\
         | A2 | something | end to end: [it holds](../tests/e2e/kills.rs)<br>\
         `relay`: [so it is](../crates/relay/src/ledger/tests.rs)<br>\
         mutant: [`early`](../crates/simulation/mutants/early.patch) |  |\n\
         | T1 | another |  | no reason |\n"
    );
}
