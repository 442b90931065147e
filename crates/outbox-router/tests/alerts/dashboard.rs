//! The dashboard in `config/dashboards` asks for what a router exports, and Prometheus understands
//! what it asks.

use std::{collections::BTreeSet, fmt::Write as _, path::Path};

use outbox_router::alerts::{Alert, Pace, Scope, Severity, alerts};
use serde_json::Value;

use super::{accepted, exposed, promtool};

/// What the variables stand for where Prometheus reads an expression.
const VARIABLES: [(&str, &str); 3] =
    [("$pipeline", "shop"), ("$namespace", ".*"), ("$__rate_interval", "1m")];

/// What each metric is narrowed by.
const CHOSEN: &str = "{pipeline=~\"$pipeline\",namespace=~\"$namespace\"";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

fn dashboard() -> Value {
    let file = root().join("config/dashboards/outbox-router.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

/// Every panel, with those that a collapsed row holds within itself.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let held = |row| Value::as_array(row).into_iter().flatten();
    let top = dashboard["panels"].as_array().unwrap().iter();
    top.flat_map(|panel| [panel].into_iter().chain(held(&panel["panels"]))).collect()
}

/// Each expression, with the title of its panel.
fn expressions(dashboard: &Value) -> Vec<(&str, &str)> {
    let mut expressions = Vec::new();
    for panel in panels(dashboard) {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().into_iter().flatten() {
            expressions.push((title, target["expr"].as_str().unwrap()));
        }
    }
    assert!(expressions.len() > 40, "{}", expressions.len());
    expressions
}

/// Each metric that an expression names, and what follows the name.
fn metrics(expression: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = expression.char_indices().filter(move |(at, c)| {
        is_part(*c) && !expression[..*at].chars().next_back().is_some_and(is_part)
    });
    starts.filter_map(move |(at, _)| {
        let rest = &expression[at..];
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        (name.starts_with("outbox_") || name.starts_with("process_")).then(|| (name, &rest[end..]))
    })
}

/// Whether a router whose `/metrics` is `text` exports it.
fn is_in(text: &str, name: &str) -> bool {
    text.contains(&format!("\n{name}{{"))
}

#[tokio::test]
async fn every_metric_of_the_dashboard_is_exported_and_of_the_chosen_pipelines() {
    let dashboard = dashboard();
    let [streams, polls] = exposed().await;
    for (title, expression) in expressions(&dashboard) {
        let named: Vec<(&str, &str)> = metrics(expression).collect();
        assert!(!named.is_empty(), "{title}: {expression}");
        for (name, rest) in named {
            let is_exported = is_in(&streams, name)
                || is_in(&polls, name)
                // The role may not list the directory in the fixture.
                || name == "outbox_wal_directory_bytes";
            assert!(is_exported, "{title} asks for {name}");
            assert!(rest.starts_with(CHOSEN), "{title}: {name}{rest}");
        }
        // Pipelines of one name in two namespaces are two, as they are for the rules.
        for grouped in ["by (", "on ("].iter().flat_map(|word| expression.split(word).skip(1)) {
            let labels = grouped.split(')').next().unwrap();
            // A histogram is drawn of all that are chosen.
            let is_whole = labels == "le";
            assert!(is_whole || labels.contains("namespace, pipeline"), "{title}: {expression}");
        }
    }
}

/// A panel that is empty, or means something else, with one source must not look like a fault.
#[tokio::test]
async fn a_panel_without_data_of_one_source_says_so() {
    let dashboard = dashboard();
    let [streams, polls] = exposed().await;
    let mut row = "";
    for panel in panels(&dashboard) {
        let title = panel["title"].as_str().unwrap();
        if panel["type"] == "row" {
            row = title;
            continue;
        }
        let said = format!("{row}\n{title}\n{}", panel["description"].as_str().unwrap());
        let said = said.to_lowercase();
        let asked: Vec<&str> = panel["targets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|target| target["expr"].as_str().unwrap())
            .collect();
        let lacks = |text: &str| {
            let is_whole =
                |expression: &&&str| metrics(expression).all(|(name, _)| is_in(text, name));
            asked.len() - asked.iter().filter(is_whole).count()
        };
        if lacks(&polls) == asked.len() {
            assert!(said.contains("no data with polling"), "{title} is empty with polling");
        } else if lacks(&polls) + lacks(&streams) > 0 {
            assert!(said.contains("polling"), "{title} is not the same with polling");
        }
    }
}

/// What an alert's expression is compared with. A count that must not be above 0 is coloured at 1.
fn limit(alert: &Alert) -> u64 {
    let expression = Scope::Every.expression(alert, Pace::AS_SHIPPED);
    let (_, after) = expression.split_once(" > ").unwrap();
    let number = after.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    number.parse::<u64>().unwrap().max(1)
}

/// A panel that leads to the page of an alert has its colour where the alert begins.
#[test]
fn panels_have_the_limits_of_the_alerts() {
    let dashboard = dashboard();
    let is_compared = |alert: &&Alert| {
        alert.name.starts_with("OutboxPolling")
            || ["OutboxOldestUnacked", "OutboxStalled", "OutboxGapOpen"].contains(&alert.name)
    };
    for alert in alerts().filter(is_compared) {
        let colour = match alert.severity {
            Severity::Critical => "red",
            Severity::Warning => "orange",
        };
        let step = serde_json::json!({"color": colour, "value": limit(alert)});
        let page = format!("${{runbook}}/{}.md", alert.name);
        let leads = |panel: &&Value| {
            panel["links"].as_array().into_iter().flatten().any(|link| link["url"] == page)
        };
        let panels: Vec<&Value> = panels(&dashboard).into_iter().filter(leads).collect();
        assert!(!panels.is_empty(), "no panel leads to {page}");
        for panel in panels {
            let config = &panel["fieldConfig"];
            let overridden = config["overrides"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|it| it["properties"].as_array().unwrap())
                .filter(|property| property["id"] == "thresholds")
                .map(|property| &property["value"]);
            let mut steps = [&config["defaults"]["thresholds"]]
                .into_iter()
                .chain(overridden)
                .flat_map(|thresholds| thresholds["steps"].as_array().unwrap());
            assert!(
                steps.any(|it| *it == step),
                "{} has no {step} of {}",
                panel["title"],
                alert.name
            );
        }
    }
}

/// Every label by which an expression groups, or which its legend shows, is one that a router or
/// Prometheus gives: a name that is misspelled gives empty legends and no error.
#[tokio::test]
async fn every_label_of_a_legend_is_one_that_is_exported() {
    let exposed = exposed().await;
    // Prometheus itself adds these.
    let mut labels = BTreeSet::from(["instance", "namespace"]);
    for line in exposed.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#')) {
        let inner = line.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        let pairs = inner.into_iter().flat_map(|(inner, _)| inner.split(','));
        labels.extend(pairs.filter_map(|pair| pair.split_once('=').map(|(name, _)| name)));
    }
    let dashboard = dashboard();
    for target in
        panels(&dashboard).into_iter().flat_map(|panel| panel["targets"].as_array()).flatten()
    {
        let legend = target["legendFormat"].as_str().unwrap();
        for shown in legend.split("{{").skip(1) {
            let (label, _) = shown.split_once("}}").unwrap();
            assert!(labels.contains(label), "{legend} shows {label}");
        }
    }
}

#[test]
fn prometheus_understands_every_expression() {
    let dashboard = dashboard();
    let mut rules = String::from("groups:\n  - name: dashboard\n    rules:\n");
    for (index, (_, expression)) in expressions(&dashboard).into_iter().enumerate() {
        let plain = VARIABLES
            .iter()
            .fold(expression.to_owned(), |text, (name, value)| text.replace(name, value));
        assert!(!plain.contains('$'), "a variable is left: {plain}");
        let quoted = Value::from(plain);
        writeln!(rules, "      - {{record: \"of:panel:{index}\", expr: {quoted}}}").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dashboard.yml"), rules).unwrap();
    accepted(&promtool(&["check", "rules", "dashboard.yml"], folder.path(), ""));
}

#[test]
fn panels_have_numbers_of_their_own_and_do_not_overlap() {
    let dashboard = dashboard();
    let panels = panels(&dashboard);
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let side = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        let (x, y, w, h) = (side("x"), side("y"), side("w"), side("h"));
        assert!(w > 0 && h > 0 && x + w <= 24, "{panel}");
        for cell in (x..x + w).flat_map(|column| (y..y + h).map(move |line| (column, line))) {
            assert!(taken.insert(cell), "{} lies on another panel at {cell:?}", panel["title"]);
        }
    }
}

#[test]
fn it_can_be_imported_anywhere() {
    let dashboard = dashboard();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 39);
    assert_eq!(dashboard.get("id"), None, "Grafana gives it a number");
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables.iter().map(|v| v["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "namespace", "pipeline", "runbook"]);
    // Outside of Kubernetes there is no such label, which `.*` matches.
    assert_eq!(variables[1]["allValue"], ".*");
    for panel in panels(&dashboard).into_iter().filter(|panel| panel["type"] != "row") {
        let title = &panel["title"];
        let defaults = &panel["fieldConfig"]["defaults"];
        assert!(defaults["unit"].is_string(), "{title} has no unit");
        let targets = panel["targets"].as_array().unwrap().iter();
        for source in targets.chain([panel]).map(|asks| &asks["datasource"]["uid"]) {
            assert_eq!(source, "${datasource}", "{title} has a data source of its own");
        }
        for link in panel["links"].as_array().unwrap() {
            let page = link["url"].as_str().unwrap().strip_prefix("${runbook}/").unwrap();
            let file = root().join("docs/runbook").join(page);
            assert!(file.exists(), "{title}: {page} does not exist");
        }
    }
}
