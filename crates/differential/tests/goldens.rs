//! Every case against what the real Debezium made of it, without a server.
//!
//! `scripts/test.sh --debezium` records again what is compared with here, and
//! `UPDATE_DOCS=1 cargo test -p differential` writes the table of docs/debezium.md.

use differential::case::{Case, Reason};
use differential::compare::{Verdict, differences, verdict};
use differential::golden::{Golden, Outcome, RecordedRow};
use differential::{ours, page};

fn recorded() -> Vec<(Case, Golden)> {
    let cases = Case::all().expect("cases");
    assert!(!cases.is_empty());
    let golden = |case: Case| {
        let golden = Golden::read(&case.name).expect("a golden of each case");
        assert_eq!(golden.rows.len(), case.rows.len(), "{}: record it again", case.name);
        (case, golden)
    };
    cases.into_iter().map(golden).collect()
}

/// What is wrong with the outcome of a row, given the recording and the reason of the case.
fn complaint(golden: &RecordedRow, ours: &Outcome, why: Option<&Reason>) -> Option<String> {
    let shown = || differences(&golden.debezium, ours).join("; ");
    match (verdict(&golden.debezium, ours), &golden.ours) {
        (Verdict::Same, None) => None,
        (Verdict::Same, Some(_)) => Some("nothing differs any more: record it again".to_owned()),
        (Verdict::Differs, _) if why.is_none() => {
            Some(format!("differs without a reason: {}", shown()))
        }
        (Verdict::Differs | Verdict::BothRefuse, Some(before)) if before == ours => None,
        (Verdict::Differs, _) => Some(format!("differs in another way than recorded: {}", shown())),
        (Verdict::BothRefuse, before) => {
            Some(format!("both refuse, ours with {ours:?}; recorded was {before:?}"))
        }
    }
}

#[test]
fn every_row_becomes_what_debezium_makes_of_it_or_its_case_says_why_not() {
    let mut complaints = Vec::new();
    for (case, golden) in recorded() {
        let outcomes = ours::outcomes(&case, &golden).unwrap();
        for ((row, recorded), ours) in case.rows.iter().zip(&golden.rows).zip(&outcomes) {
            if let Some(what) = complaint(recorded, ours, case.reason(row)) {
                complaints.push(format!("{} {:?}: {what}", case.name, row.values));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

fn differs(golden: &RecordedRow) -> bool {
    golden.verdict() == Verdict::Differs
}

#[test]
fn no_reason_is_given_for_what_does_not_differ() {
    for (case, golden) in recorded() {
        let mut rows = case.rows.iter().zip(&golden.rows);
        let is_used = rows.any(|(row, golden)| row.differs.is_none() && differs(golden));
        assert!(case.differs.is_none() || is_used, "{}", case.name);
        for (row, recorded) in case.rows.iter().zip(&golden.rows) {
            let is_needed = row.differs.is_none() || differs(recorded);
            assert!(is_needed, "{} {:?}", case.name, row.values);
        }
    }
}

#[test]
fn migrate_lists_what_a_case_says() {
    for (case, _) in recorded() {
        let different = ours::migrated(&case).unwrap().different;
        for property in &case.listed {
            let is_listed = different.iter().any(|finding| finding.property == *property);
            assert!(is_listed, "{}: {property} is not in {different:#?}", case.name);
        }
    }
}

#[test]
fn the_page_has_the_table_of_the_cases() {
    let found = std::fs::read_to_string(page::path()).unwrap();
    let wanted = page::with_table(&found, &recorded()).expect("marks of the table");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(page::path(), wanted).unwrap();
    } else {
        assert!(found == wanted, "UPDATE_DOCS=1 cargo test -p differential --test goldens");
    }
}
