//! The rules as files: of Prometheus, and of its operator for Kubernetes.
//!
//! Written here, since a serializer would fold no line. Values are folded scalars, which need no
//! escapes: the texts of the tables have single blanks, and no line begins with one.

use std::fmt::Write as _;

use super::{Alert, Pace, Scope, alerts};

/// Where the pages are from the root of the repository.
pub const DEFAULT_RUNBOOK: &str = "docs/runbook/";

/// The longest line that is not one word.
const WIDTH: usize = 100;

/// Which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A rule file of Prometheus.
    Prometheus,
    /// A `PrometheusRule`, which the Prometheus Operator reads.
    Kubernetes,
}

/// Rules to be printed.
#[derive(Debug)]
pub struct Rules<'r> {
    /// Which pipelines they are about.
    pub scope: &'r Scope,
    /// How fast they are.
    pub pace: Pace,
    /// What precedes the name of a page in `runbook_url`.
    pub runbook: &'r str,
}

impl Rules<'_> {
    /// The file.
    pub fn print(&self, form: Form) -> String {
        let name = self.name();
        let mut text = String::new();
        let indent = match form {
            Form::Prometheus => "",
            Form::Kubernetes => {
                text.push_str("apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\n");
                text.push_str("metadata:\n");
                text.push_str(&format!("  name: {}\n", object_name(&name)));
                text.push_str("  labels: {app.kubernetes.io/name: outbox-router}\nspec:\n");
                "  "
            }
        };
        let mut lines = String::new();
        lines.push_str(&format!("groups:\n  - name: {name}\n    rules:"));
        for (place, alert) in alerts().enumerate() {
            lines.push_str(if place == 0 { "\n" } else { "\n\n" });
            self.rule(alert, &mut lines);
        }
        for line in lines.lines() {
            let indent = if line.is_empty() { "" } else { indent };
            text.push_str(&format!("{indent}{line}\n"));
        }
        text
    }

    /// The group's name, which differs between pipelines, so that their files can be merged.
    fn name(&self) -> String {
        match self.scope {
            Scope::Every => "outbox-router".to_owned(),
            Scope::One { pipeline, .. } if pipeline == "outbox-router" => pipeline.clone(),
            Scope::One { pipeline, .. } => format!("outbox-router-{pipeline}"),
        }
    }

    fn rule(&self, alert: &Alert, out: &mut String) {
        let Alert { name, severity, summary, description, hold, .. } = alert;
        out.push_str(&format!("      - alert: {name}\n"));
        folded("        ", "expr", &self.scope.expression(alert, self.pace), out);
        if *hold > 0 {
            out.push_str(&format!("        for: {}\n", self.pace.seconds(*hold)));
        }
        out.push_str(&format!("        labels: {{severity: {severity}}}\n"));
        out.push_str("        annotations:\n");
        folded("          ", "summary", summary, out);
        folded("          ", "description", description, out);
        out.push_str(&format!("          runbook_url: {}", self.runbook_url(alert)));
    }

    /// Where the page of an alert is.
    pub fn runbook_url(&self, alert: &Alert) -> String {
        let separator = if self.runbook.ends_with('/') { "" } else { "/" };
        format!("{}{separator}{}.md", self.runbook, alert.name)
    }
}

/// A name of an object in Kubernetes has small letters, digits, '-' and '.', and begins and ends
/// with a letter or a digit.
fn object_name(name: &str) -> String {
    let legal = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() || c == '.' => c,
        _ => '-',
    };
    let name: String = name.chars().map(legal).collect();
    name.trim_end_matches(['-', '.']).replace("-.", "-").replace(".-", "-")
}

/// What stays on one line: a word, or an action of a template, which a person would not recognise
/// across two.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut is_in_action = false;
    for word in text.split(' ') {
        match words.last_mut() {
            Some(last) if is_in_action => {
                last.push(' ');
                last.push_str(word);
            }
            Some(_) | None => words.push(word.to_owned()),
        }
        let (begins, ends) = (word.rfind("{{"), word.rfind("}}"));
        is_in_action = begins > ends || (is_in_action && ends.is_none());
    }
    words
}

fn folded(indent: &str, key: &str, text: &str, out: &mut String) {
    out.push_str(&format!("{indent}{key}: >-"));
    let mut width = WIDTH;
    for word in words(text) {
        let length = word.chars().count();
        if width + 1 + length > WIDTH {
            let _written = write!(out, "\n{indent}  {word}");
            width = indent.len() + 2 + length;
        } else {
            let _written = write!(out, " {word}");
            width += 1 + length;
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_a_name_that_kubernetes_takes() {
        assert_eq!(object_name("outbox-router-Shop_1."), "outbox-router-shop-1");
    }

    #[test]
    fn a_page_is_below_the_base_with_or_without_a_slash() {
        let of = |runbook| {
            let rules = Rules { scope: &Scope::Every, pace: Pace::AS_SHIPPED, runbook };
            rules.runbook_url(alerts().next().unwrap())
        };
        assert_eq!(of("https://wiki.example/x"), of("https://wiki.example/x/"));
    }

    #[test]
    fn no_text_of_the_tables_needs_an_escape() {
        for alert in alerts() {
            let expression = Scope::Every.expression(alert, Pace::AS_SHIPPED);
            for text in [&expression, alert.summary, alert.description] {
                assert!(text.split(' ').all(|word| !word.is_empty()), "{}: {text}", alert.name);
                assert!(!text.contains('\n'), "{}: {text}", alert.name);
            }
        }
    }
}
