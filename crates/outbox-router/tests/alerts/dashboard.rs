//! The dashboard in `config/dashboards` asks for what a router exports, and Prometheus understands
//! what it asks.

use std::{collections::BTreeSet, fmt::Write as _, path::Path};

use serde_json::Value;

use super::{accepted, admin_fixture, promtool};

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

#[tokio::test]
async fn every_metric_of_the_dashboard_is_exported_and_of_the_chosen_pipelines() {
    let dashboard = dashboard();
    let text = admin_fixture::start().await.get("/metrics").await;
    for (title, expression) in expressions(&dashboard) {
        let named: Vec<(&str, &str)> = metrics(expression).collect();
        assert!(!named.is_empty(), "{title}: {expression}");
        for (name, rest) in named {
            let is_exported = text.contains(&format!("\n{name}{{"))
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

/// Every label by which an expression groups, or which its legend shows, is one that a router or
/// Prometheus gives: a name that is misspelled gives empty legends and no error.
#[tokio::test]
async fn every_label_of_a_legend_is_one_that_is_exported() {
    let text = admin_fixture::start().await.get("/metrics").await;
    // Prometheus itself adds these.
    let mut labels = BTreeSet::from(["instance", "namespace"]);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
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
