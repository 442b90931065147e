//! The server's version, and its clock.

use relay::{Code, Name, Names};

use super::{
    check::{Check, note, warning},
    facts::ServerFacts,
    finding::{Finding, Severity},
};
use crate::{codes::Advice, monitor::server::outdated};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "the minor version has no known fault in logical decoding",
        reports: &[warning(Code::ServerOutdated.as_str()), warning(Advice::VersionFaulty.as_str())],
        judge: |facts| Ok(faults(facts.server()?.version)),
    },
    Check {
        name: "the major version gets fixes",
        reports: &[note(Advice::VersionUnsupported.as_str())],
        judge: |facts| Ok(unsupported(facts.server()?)),
    },
    Check {
        name: "this machine and the server have the same time",
        reports: &[warning(Advice::ClocksDiffer.as_str())],
        judge: |facts| Ok(clocks(facts.server()?)),
    },
];

/// Per major version, the one minor version in which the repair of P034 made invalidation messages
/// multiply (PostgreSQL's commit d87d07b7ad3, of June 2025, is in the next one of each).
const MULTIPLYING: [(i32, i32); 5] = [(13, 21), (14, 18), (15, 13), (16, 9), (17, 5)];

fn faults(version: i32) -> Vec<Finding> {
    let mut findings: Vec<Finding> = outdated(version).iter().map(Finding::of).collect();
    let (major, minor) = (version / 10_000, version % 10_000);
    if MULTIPLYING.contains(&(major, minor)) {
        let mut names = Names::default();
        names.set(Name::Version, format!("{major}.{}", minor + 1));
        let what = format!(
            "a walsender of PostgreSQL {major}.{minor} may fail where the catalog was changed \
             during many transactions"
        );
        findings.push(Finding::advice(Severity::Warning, Advice::VersionFaulty, what, &names));
    }
    findings
}

/// Per major version, the day after its last release (postgresql.org, "Versioning Policy"), in days
/// since 1970.
const UNSUPPORTED_SINCE: [(i32, &str, i64); 6] = [
    (13, "November 2025", 20_406),
    (14, "November 2026", 20_770),
    (15, "November 2027", 21_134),
    (16, "November 2028", 21_498),
    (17, "November 2029", 21_862),
    (18, "November 2030", 22_233),
];

/// By the server's own clock.
fn unsupported(server: &ServerFacts) -> Vec<Finding> {
    const DAY: i64 = 24 * 3_600 * 1_000_000;
    let major = server.version / 10_000;
    let known = UNSUPPORTED_SINCE.iter().find(|(known, ..)| *known == major);
    let Some((_, since, _)) = known.filter(|(.., day)| server.clock / DAY >= *day) else {
        return Vec::new();
    };
    let what = format!("PostgreSQL {major} has had its last release in {since}");
    vec![Finding::advice(Severity::Note, Advice::VersionUnsupported, what, &Names::default())]
}

/// Synchronised clocks differ by milliseconds.
const CLOCKS_MAX: i64 = 2_000_000;

/// The answer says when the statement was executed, and not when it was sent.
fn clocks(server: &ServerFacts) -> Vec<Finding> {
    let ahead = server.clock_ahead;
    let certain = ahead.saturating_abs().saturating_sub(server.clock_margin);
    if certain < CLOCKS_MAX {
        return Vec::new();
    }
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let seconds = ahead.saturating_abs() / 1_000_000;
    let what = format!("PostgreSQL's clock is {seconds} s {direction} this machine's");
    vec![Finding::advice(Severity::Warning, Advice::ClocksDiffer, what, &Names::default())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::samples::{codes, server};

    #[test]
    fn a_minor_version_with_a_known_fault_is_named_with_the_one_that_has_the_fix() {
        assert_eq!(codes(&faults(170_004)), ["P034"]);
        let found = faults(170_005);
        assert_eq!(codes(&found), ["D006"]);
        let expected = "install PostgreSQL 17.6 or a later minor version";
        assert_eq!(found[0].remedy.as_deref(), Some(expected));
        for good in [130_022, 140_019, 150_014, 160_010, 170_006, 180_000] {
            assert!(faults(good).is_empty(), "{good}");
        }
    }

    #[test]
    fn a_major_version_is_noted_from_its_last_release_on() {
        const DAY: i64 = 24 * 3_600 * 1_000_000;
        let on = |day: i64| ServerFacts { version: 130_022, clock: day * DAY, ..server() };
        assert_eq!(codes(&unsupported(&on(20_406))), ["D005"]);
        assert!(unsupported(&on(20_405)).is_empty());
        assert!(unsupported(&ServerFacts { version: 190_000, ..on(30_000) }).is_empty());
    }

    #[test]
    fn clocks_differ_only_by_what_the_time_of_the_answer_cannot_explain() {
        let differ = |clock_ahead, clock_margin| {
            codes(&clocks(&ServerFacts { clock_ahead, clock_margin, ..server() }))
        };
        assert_eq!(differ(3_000_000, 1_000), ["D007"]);
        assert_eq!(differ(-3_000_000, 1_000), ["D007"]);
        assert!(differ(3_000_000, 2_000_000).is_empty(), "a slow answer");
        assert!(differ(1_000_000, 0).is_empty());
    }
}
