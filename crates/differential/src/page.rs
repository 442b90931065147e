//! The table of docs/debezium.md: what is the same, what is better, what differs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::case::{Case, Reason};
use crate::compare::Verdict;
use crate::golden::Golden;

const BEGIN: &str = "<!-- the cases of crates/differential -->\n";
const END: &str = "<!-- end of the cases -->\n";

/// What stands for Debezium's reason where neither log nor task names one.
const UNKNOWN: &str = "neither the worker's log nor the task says why";

/// The page.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/debezium.md")
}

/// The page with the table of these cases in its place.
pub fn with_table(page: &str, cases: &[(Case, Golden)]) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}{END}{after}", table(cases)))
}

fn table(cases: &[(Case, Golden)]) -> String {
    let mut text = "\n| case | rows | same | both refuse | better | different | wrong |\n\
         |---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut reasons: BTreeMap<&Reason, Vec<&str>> = BTreeMap::new();
    let mut refused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (case, golden) in cases {
        let [mut same, mut both, mut better, mut different, mut wrong] = [0; 5];
        for (row, recorded) in case.rows.iter().zip(&golden.rows) {
            if recorded.verdict() == Verdict::BothRefuse {
                both += 1;
                let why = recorded.refused.as_deref().unwrap_or(UNKNOWN);
                note(&mut refused, why, &case.name);
                continue;
            }
            let reason = recorded.ours.as_ref().and_then(|_| case.reason(row));
            match reason {
                None => same += 1,
                Some(Reason::Better(_)) => better += 1,
                Some(Reason::Different(_)) => different += 1,
                Some(Reason::Wrong(_)) => wrong += 1,
            }
            if let Some(reason) = reason {
                note(&mut reasons, reason, &case.name);
            }
        }
        let counts = [case.rows.len(), same, both, better, different, wrong].map(shown).join(" | ");
        text.push_str(&format!("| {}: {} | {counts} |\n", case.name, case.about));
    }
    text.push('\n');
    for (why, names) in refused {
        text.push_str(&format!("* **both refuse** ({}): `{why}`\n", names.join(", ")));
    }
    for (reason, names) in reasons {
        let (kind, why) = match reason {
            Reason::Better(why) => ("better", why),
            Reason::Different(why) => ("different", why),
            Reason::Wrong(why) => ("wrong", why),
        };
        text.push_str(&format!("* **{kind}** ({}): {why}\n", names.join(", ")));
    }
    text.push('\n');
    text
}

/// Adds a case to those of a reason, once.
fn note<'c, K: Ord>(reasons: &mut BTreeMap<K, Vec<&'c str>>, reason: K, case: &'c str) {
    let names = reasons.entry(reason).or_default();
    if names.last() != Some(&case) {
        names.push(case);
    }
}

fn shown(count: usize) -> String {
    if count == 0 { String::new() } else { count.to_string() }
}
