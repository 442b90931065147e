//! The pages in `docs/runbook`. The head of a page is generated from the table of alerts or of
//! codes; what follows its last line is written by hand, because nobody can be helped by a table
//! alone. These tests fail when a page is missing, when its head is not current, and when a page
//! that calls a person lacks a part.

mod families;
mod index;
mod pages;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use families::FAMILIES;
use outbox_router::{alerts::alerts, codes::explanations};
use relay::Class;

use crate::{REWRITE, wrap::wrapped};

/// Ends the generated head of a page.
const END: &str =
    "<!-- Above: generated from the table of alerts or codes. Below: written by hand. -->\n";

/// What a person needs who was called.
const PARTS: [&str; 4] =
    ["What it means", "How to look", "What to do", "How to see that it is over"];

/// A part says at least this much.
const SHORTEST_PART: usize = 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("a workspace")
        .join("docs/runbook")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap_or_default()
}

/// Fails if the head of a page is not current; with UPDATE_DOCS, writes it and leaves the rest.
fn assert_head_is_current(name: &str, head: &str) {
    let head = format!("{}{END}", wrapped(head));
    let found = read(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let rest = found.split_once(END).map_or("", |(_, rest)| rest);
        std::fs::write(folder().join(name), format!("{head}{rest}"))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    } else {
        assert!(found.starts_with(&head), "the head of docs/runbook/{name} is stale: {REWRITE}");
    }
}

/// The parts that a page lacks.
fn lacking(name: &str) -> Vec<&'static str> {
    let page = read(name);
    let by_hand = page.split_once(END).map_or("", |(_, rest)| rest);
    let says = |part: &str| {
        let text =
            by_hand.split("\n## ").find_map(|text| text.strip_prefix(part)?.strip_prefix('\n'));
        text.is_some_and(|text| text.trim().len() >= SHORTEST_PART)
    };
    PARTS.into_iter().filter(|part| !says(part)).collect()
}

#[test]
fn every_alert_has_a_page_with_every_part() {
    for alert in alerts() {
        let name = format!("{}.md", alert.name);
        assert_head_is_current(&name, &pages::of_alert(alert));
        assert_eq!(lacking(&name), [""; 0], "docs/runbook/{name} lacks parts");
    }
}

#[test]
fn every_code_has_a_place_and_those_that_call_a_person_have_every_part() {
    for family in FAMILIES {
        let name = family.file();
        assert_head_is_current(&name, &pages::of_family(family));
        let calls = family
            .explanations()
            .any(|code| matches!(code.class(), Some(Class::Gap | Class::Mendable)));
        if calls {
            assert_eq!(lacking(&name), [""; 0], "docs/runbook/{name} lacks parts");
        }
    }
    for explanation in explanations() {
        let code = explanation.code;
        let places = FAMILIES.iter().filter(|family| family.contains(code)).count();
        assert_eq!(places, 1, "{code} belongs to one page of docs/runbook");
    }
}

#[test]
fn the_index_is_current_and_there_is_no_page_that_it_does_not_name() {
    let index = wrapped(&index::page());
    let name = "README.md";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(folder().join(name), &index).unwrap();
    }
    assert!(read(name) == index, "docs/runbook/{name} is not what the tables say: {REWRITE}");
    let named: BTreeSet<String> = alerts()
        .map(|alert| format!("{}.md", alert.name))
        .chain(FAMILIES.iter().map(families::Family::file))
        .chain([name.to_owned()])
        .collect();
    let found: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, named);
}

#[test]
fn every_page_that_is_linked_to_exists() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let page = read(&name);
        for link in page.split("](").skip(1).filter_map(|text| text.split(')').next()) {
            let file = link.split('#').next().unwrap_or(link);
            assert!(folder().join(file).is_file(), "{name} links to {link}");
        }
    }
}
