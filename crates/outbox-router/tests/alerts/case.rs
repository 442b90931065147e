//! A case: series, and which alerts fire of them when. It is written as a test file of promtool,
//! which evaluates the rules as Prometheus does.

use std::fmt::Write as _;

use outbox_router::alerts::{Alert, Rules, alerts};

/// Series and what follows from them.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The time between two values of a series.
    pub(crate) interval: &'static str,
    /// Each series and its values, in promtool's notation.
    pub(crate) series: &'static [(&'static str, &'static str)],
    pub(crate) checks: &'static [Check],
}

impl Case {
    /// Whether it takes days, which promtool would evaluate for minutes.
    pub(crate) fn is_long(&self) -> bool {
        self.interval == "5m"
    }
}

/// What an alert does at a time.
pub(crate) struct Check {
    pub(crate) at: &'static str,
    pub(crate) alert: &'static str,
    /// All that fire of the alert then.
    pub(crate) fired: &'static [Fired],
}

/// An alert that fires: its labels as `name=value`, with blanks between, and its summary.
pub(crate) struct Fired(pub(crate) &'static str, pub(crate) &'static str);

pub(crate) const fn fires(at: &'static str, alert: &'static str, fired: &'static [Fired]) -> Check {
    Check { at, alert, fired }
}

pub(crate) const fn quiet(at: &'static str, alert: &'static str) -> Check {
    Check { at, alert, fired: &[] }
}

/// A test file of promtool. The rules are evaluated every 15 s, also where the series have a value
/// a minute: whoever scrapes once a minute may evaluate more often. What an alert's description
/// says and where its page is follow from the table; labels and summary are what the case says.
pub(crate) fn promtool_file(
    rule_file: &str,
    evaluation: &str,
    rules: &Rules<'_>,
    cases: &[&Case],
) -> String {
    let mut file =
        format!("rule_files: [{rule_file:?}]\nevaluation_interval: {evaluation}\ntests:\n");
    for Case { name, interval, series, checks } in cases {
        write!(file, "  - name: {name:?}\n    interval: {interval}\n    input_series:\n").unwrap();
        for (series, values) in *series {
            writeln!(file, "      - {{series: {series:?}, values: {values:?}}}").unwrap();
        }
        file.push_str("    alert_rule_test:\n");
        for Check { at, alert, fired } in *checks {
            write!(file, "      - eval_time: {at}\n        alertname: {alert}\n").unwrap();
            file.push_str("        exp_alerts:\n");
            let alert = alerts().find(|known| known.name == *alert);
            let alert = alert.unwrap_or_else(|| panic!("{name}: no such alert"));
            for fired in *fired {
                file.push_str(&expected(fired, alert, rules));
            }
        }
    }
    file
}

fn expected(Fired(labels, summary): &Fired, alert: &Alert, rules: &Rules<'_>) -> String {
    let labels: Vec<(&str, &str)> =
        labels.split(' ').map(|label| label.split_once('=').unwrap()).collect();
    let mut description = alert.description.to_owned();
    for (name, value) in &labels {
        description = description.replace(&format!("{{{{ $labels.{name} }}}}"), value);
    }
    assert!(!description.contains("{{"), "{}: a label has no value", alert.name);
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
    format!(
        "          - exp_labels: {{{}}}\n            exp_annotations:\n              \
         summary: {summary:?}\n              description: {description:?}\n              \
         runbook_url: {:?}\n",
        labels.join(", "),
        rules.runbook_url(alert)
    )
}
