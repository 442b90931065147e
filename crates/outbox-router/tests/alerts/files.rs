//! The files in `config/alerts` are what the table says. `UPDATE_DOCS=1 cargo test -p outbox-router
//! --test alerts` writes them again.

use std::path::{Path, PathBuf};

use outbox_router::alerts::{Form, Scope};

use super::{accepted, promtool, rules, shop};

const REWRITE: &str = "UPDATE_DOCS=1 cargo test -p outbox-router --test alerts";

const PROMETHEUS: &str = "\
# Alerts on what the router exports, for every pipeline that one Prometheus scrapes. No rule needs editing: the limits on
# bytes_behind come from the router's own configuration ([monitor] bytes_behind). `outbox-router alerts` prints the rules
# of one configuration, which also fire when its pipeline was never scraped; load one or the other, and not both.
# They hold for scrape and evaluation intervals of up to one minute, which is Prometheus' default, and also when a scrape is
# lost: 15s is better, since an alert comes one or two intervals later than the times in `for` say. At more than one
# minute the ranges of the rules hold too few samples, and alerts flap.
# The label `pipeline` is the configuration's `name` alone: routers of different slots or databases need different names.
# Generated from crates/outbox-router/src/alerts; what each alert means and what to do: docs/runbook.
";

const KUBERNETES: &str = "\
# The rules of outbox-router.rules.yml for the Prometheus Operator. It reads only what its ruleSelector selects: add the
# labels that yours asks for, such as `release`. Generated from crates/outbox-router/src/alerts.
";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("config/alerts")
}

fn assert_current(name: &str, wanted: &str) {
    let file = folder().join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&file, wanted).unwrap();
    } else {
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(found == wanted, "{name} is not what the table says: {REWRITE}");
    }
}

#[test]
fn the_rule_file_is_current_and_prometheus_accepts_it() {
    let name = "outbox-router.rules.yml";
    assert_current(name, &format!("{PROMETHEUS}{}", rules(&Scope::Every).print(Form::Prometheus)));
    accepted(&promtool(&["check", "rules", name], &folder(), ""));
}

#[test]
fn the_object_for_kubernetes_is_current_and_holds_the_same_groups() {
    let printed = rules(&Scope::Every).print(Form::Kubernetes);
    assert_current("prometheus-rule.yml", &format!("{KUBERNETES}{printed}"));
    // What is below `spec` is a rule file.
    for scope in [Scope::Every, shop()] {
        let object = rules(&scope).print(Form::Kubernetes);
        let (head, groups) = object.split_once("spec:\n").unwrap();
        assert!(head.starts_with("apiVersion: monitoring.coreos.com/v1\n"), "{head}");
        let lines = groups.lines().map(|line| line.strip_prefix("  ").unwrap_or(line));
        let groups: String = lines.flat_map(|line| [line, "\n"]).collect();
        assert_eq!(groups, rules(&scope).print(Form::Prometheus));
    }
}

#[test]
fn prometheus_accepts_the_rules_of_one_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let text = rules(&shop()).print(Form::Prometheus);
    std::fs::write(folder.path().join("shop.yml"), &text).unwrap();
    accepted(&promtool(&["check", "rules", "shop.yml"], folder.path(), ""));
    let alone = text.match_indices("outbox_").filter(|(at, _)| {
        let rest = &text[*at..];
        let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap();
        // A description names a metric without asking for it.
        text[..*at].rfind("expr:") > text[..*at].rfind("annotations:")
            && !rest[word..].starts_with("{pipeline=\"shop\"")
    });
    assert_eq!(alone.count(), 0, "{text}");
}
