//! Generates the table of `docs/failure-modes.md` from `tests/failure-modes.toml`, which lists what
//! may go wrong and which test shows that it does no harm. Fails when the table is not current,
//! when a mode is missing, or when a test, fault or planted bug is named that is not in the
//! sources.
//!
//! `UPDATE_DOCS=1 cargo test -p testbed --test failure_modes` writes the table.

mod catalogue;
mod document;
mod sources;

use std::path::{Path, PathBuf};

use catalogue::{Catalogue, Reference};
use sources::Sources;

const REWRITE: &str = "UPDATE_DOCS=1 cargo test -p testbed --test failure_modes";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace").to_owned()
}

fn catalogue() -> Catalogue {
    let text = std::fs::read_to_string(root().join("tests/failure-modes.toml"))
        .expect("tests/failure-modes.toml");
    text.parse().unwrap_or_else(|error| panic!("tests/failure-modes.toml: {error}"))
}

/// Complaints about the references of some kinds.
fn dangling(of_kind: impl Fn(&Reference) -> bool) -> Vec<String> {
    let sources = Sources::new(root());
    let complaint = |id: &str, reference: &Reference| {
        reference.missing_from(&sources).map(|why| format!("{id}: {reference}: {why}"))
    };
    let catalogue = catalogue();
    let references = catalogue.modes.iter().flat_map(|mode| {
        mode.shown_by.iter().filter(|one| of_kind(one)).filter_map(|one| complaint(&mode.id, one))
    });
    references.collect()
}

#[test]
fn every_failure_mode_is_listed_once_and_has_a_test_or_an_explanation() {
    let complaints = catalogue().complaints();
    assert!(complaints.is_empty(), "tests/failure-modes.toml:\n{}", complaints.join("\n"));
}

#[test]
fn every_test_that_is_referred_to_exists() {
    let missing = dangling(|one| matches!(one, Reference::Test { .. }));
    assert!(missing.is_empty(), "tests/failure-modes.toml:\n{}", missing.join("\n"));
}

#[test]
fn every_fault_failpoint_and_planted_bug_that_is_referred_to_exists() {
    let missing =
        dangling(|one| matches!(one, Reference::Variant { .. } | Reference::Mutant { .. }));
    assert!(missing.is_empty(), "tests/failure-modes.toml:\n{}", missing.join("\n"));
}

#[test]
fn the_generated_table_is_current() {
    let file = root().join("docs/failure-modes.md");
    let found = std::fs::read_to_string(&file).expect("docs/failure-modes.md");
    let wanted =
        document::with_section(&found, "failure-modes", &catalogue().table()).expect("its markers");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, wanted).expect("docs/failure-modes.md can be written");
    } else {
        assert!(
            found == wanted,
            "docs/failure-modes.md is not generated from the present tests/failure-modes.toml: run {REWRITE}"
        );
    }
}
