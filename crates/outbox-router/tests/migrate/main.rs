//! Configurations as tutorials, repositories and issue threads show them: each migrates, or is
//! refused with the name of what is not supported. What comes out of each is in `expected/`;
//! `UPDATE_EXPECTED=1 cargo test -p outbox-router --test migrate` writes it again.
//!
//! The first lines of a configuration name its source, and the flags that a person would give.
//! Where the source cannot be looked up, it begins with "composed" and does not count as one from
//! the field. The password of all of them is `canary`.

mod checking;
mod command;
mod take_over;
mod usage;

use std::{collections::BTreeMap, fs, path::PathBuf};

use command::{Outcome, run};
use outbox_router::cli::Exit;

const REWRITE: &str = "UPDATE_EXPECTED=1 cargo test -p outbox-router --test migrate";

/// One file of `configurations/`.
struct Configuration {
    name: String,
    /// Without the header; its lines are empty, so that the numbers stay.
    text: String,
    flags: Vec<String>,
    source: String,
}

impl Configuration {
    fn is_composed(&self) -> bool {
        self.source.starts_with("composed: ")
    }
}

fn directory(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "migrate", name].iter().collect()
}

fn configurations() -> Vec<Configuration> {
    let entries = fs::read_dir(directory("configurations")).expect("configurations");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let whole = fs::read_to_string(&path).expect("a text");
            let of = |key: &str| whole.lines().find_map(|line| line.strip_prefix(key));
            let source = of("# source: ").map(str::to_owned);
            let source = source.unwrap_or_else(|| panic!("{name} does not name its source"));
            let flags = of("# give: ").unwrap_or_default();
            let text = whole.replacen("# source: ", "\u{0}", 1).replacen("# give: ", "\u{0}", 1);
            let lines = text.lines().map(|line| if line.starts_with('\0') { "" } else { line });
            Configuration {
                text: lines.collect::<Vec<_>>().join("\n"),
                flags: flags.split_whitespace().map(str::to_owned).collect(),
                name,
                source,
            }
        })
        .collect()
}

fn outcome(configuration: &Configuration, more: &[&str]) -> Outcome {
    let flags: Vec<&str> =
        configuration.flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    run(&configuration.text, &flags)
}

fn expectation(configuration: &Configuration) -> String {
    let Outcome { exit, out, err } = outcome(configuration, &[]);
    let mut expectation = format!("exit {}\n\n{err}", exit.code());
    if exit == Exit::Done {
        expectation.push_str(&format!("\n{out}"));
        return expectation;
    }
    assert!(out.is_empty(), "{}: what is refused is not written", configuration.name);
    let accepted = outcome(configuration, &["--accept"]);
    if accepted.exit == Exit::Done {
        expectation.push_str(&format!("\nwith --accept\n\n{}", accepted.out));
    }
    expectation
}

#[test]
fn what_comes_out_is_what_was_read_and_found_right() {
    let mut wrong = Vec::new();
    for configuration in configurations() {
        let file = directory("expected").join(format!("{}.txt", configuration.name));
        let wanted = expectation(&configuration);
        if std::env::var_os("UPDATE_EXPECTED").is_some() {
            fs::write(&file, wanted).expect("expected");
        } else if fs::read_to_string(&file).unwrap_or_default() != wanted {
            wrong.push(configuration.name);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?} come out otherwise; {REWRITE}, and read the difference");
}

#[test]
fn thirty_configurations_from_the_field_migrate_or_are_refused_by_name() {
    let mut counts: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    for configuration in configurations() {
        let Outcome { exit, err, .. } = outcome(&configuration, &[]);
        let named = err.contains("\nnot supported\n");
        assert_eq!(exit == Exit::Failure, named, "{}: {err}", configuration.name);
        if !configuration.is_composed() {
            counts.entry(exit.code()).or_default().push(configuration.name);
        }
    }
    let count = |exit: Exit| counts.get(&exit.code()).map_or(0, Vec::len);
    assert_eq!(
        counts.values().map(Vec::len).sum::<usize>(),
        count(Exit::Done) + count(Exit::Failure)
    );
    assert!(count(Exit::Done) + count(Exit::Failure) >= 30, "{counts:?}");
    assert!(count(Exit::Done) >= 24, "{counts:?}");
}

/// Its host is `@HOST@`, which a script was to fill in: a finding says so.
const TEMPLATE: &str = "zeroshift-sed-template.json";

#[test]
fn what_comes_out_passes_check() {
    let mut checked = 0;
    for configuration in configurations().into_iter().filter(|one| one.name != TEMPLATE) {
        let accepted = outcome(&configuration, &["--accept"]);
        if accepted.exit == Exit::Done {
            checking::expect_checked(&configuration.name, &accepted.out);
            checked += 1;
        }
    }
    assert!(checked >= 40, "only {checked} were written");
}

#[test]
fn no_password_comes_out() {
    for configuration in configurations() {
        for flags in [&[][..], &["--accept"], &["--accept", "--json"]] {
            let Outcome { out, err, .. } = outcome(&configuration, flags);
            assert!(!out.contains("canary") && !err.contains("canary"), "{}", configuration.name);
        }
    }
}

#[test]
fn every_property_of_a_file_is_in_a_list() {
    for configuration in configurations() {
        let Outcome { out, .. } = outcome(&configuration, &["--accept", "--json"]);
        let object: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        if object["toml"].is_null() {
            continue;
        }
        let lists = ["carried", "different", "unsupported"];
        let lines: Vec<u64> = lists
            .iter()
            .flat_map(|list| object[list].as_array().expect("a list"))
            .filter_map(|finding| finding["line"].as_u64())
            .collect();
        for (index, line) in configuration.text.lines().enumerate() {
            let number = u64::try_from(index + 1).expect("a number");
            // Options of a transform that is refused by its class, and of a line that goes on.
            let is_part = line.contains("topicRouter.re") || line.starts_with("  username=");
            let is_property = ["database.", "transforms", "converter", "snapshot.", "errors."];
            let is_property = is_property.iter().any(|word| line.contains(word));
            let is_setting = line.contains('=') || line.contains(':');
            if is_property && is_setting && !is_part && !line.trim_start().starts_with('#') {
                assert!(lines.contains(&number), "{}, line {number}: {line}", configuration.name);
            }
        }
    }
}
