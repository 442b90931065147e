use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::codes::{Advice, explanation};

/// The severities of each code, over all checks.
fn severities() -> BTreeMap<&'static str, BTreeSet<Severity>> {
    let mut severities: BTreeMap<_, BTreeSet<Severity>> = BTreeMap::new();
    for reports in GROUPS.iter().flat_map(|group| group.checks).flat_map(|check| check.reports) {
        severities.entry(reports.code).or_default().extend(reports.severities);
    }
    severities
}

#[test]
fn every_code_of_advice_is_reported_by_some_check_and_every_code_is_explained() {
    let severities = severities();
    for advice in Advice::ALL {
        assert!(severities.contains_key(advice.as_str()), "{advice} is reported by no check");
    }
    for code in severities.keys() {
        assert!(explanation(code).is_some(), "{code}");
    }
}

#[test]
fn a_check_is_named_once() {
    let names: Vec<&str> =
        GROUPS.iter().flat_map(|group| group.checks).map(|check| check.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}
