//! Whatever the values are, what comes out is TOML, and no line is lost.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::{CONNECTOR, debezium, given};
use crate::migrate::names::{CONNECTOR as NAMES, EVENT_ROUTER_OPTIONS, PRODUCER};

/// Every known name, as a connector writes it.
static KNOWN: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tables = [
        ("", NAMES),
        ("transforms.outbox.", EVENT_ROUTER_OPTIONS),
        ("producer.override.", PRODUCER),
    ];
    let names = tables.into_iter().flat_map(|(prefix, table)| {
        let names = table.iter().flat_map(|rule| rule.names);
        names.map(move |name| format!("{prefix}{}", name.replace('*', "x")))
    });
    // These decide whether there is anything to translate.
    let shapes = ["connector.class", "transforms", "debezium.sink.type"];
    let of_chain =
        ["predicate", "negate", "nonsense"].map(|name| format!("transforms.outbox.{name}"));
    names.chain(of_chain).filter(|name| !shapes.contains(&name.as_str())).collect()
});

proptest! {
    #[test]
    fn what_comes_out_is_toml(
        settings in proptest::collection::vec(
            (
                proptest::sample::select(KNOWN.as_slice()),
                "[ -Z_-~\\[]{0,12}|[$]{1,2}[{][a-zA-Z:_.]{0,8}[}]|[a-z]:(header|envelope|partition)|true|json",
            ),
            0..20,
        )
    ) {
        let lines = settings.iter().map(|(name, value)| format!("{name}={value}\n"));
        let text = format!("{CONNECTOR}{}", lines.collect::<String>());
        let migration = debezium(&text, &given()).expect("properties");
        let toml = migration.toml.as_deref().unwrap_or_default();
        prop_assert!(toml.parse::<toml::Table>().is_ok(), "{text}\n{toml}");
        // A later line of the same name replaces an earlier one.
        for (index, line) in text.lines().enumerate() {
            let name = line.split('=').next().unwrap_or_default();
            let is_last = !text.lines().skip(index + 1).any(|later| later.split('=').next() == Some(name));
            let lists = [&migration.carried, &migration.different, &migration.unsupported];
            let with_it = format!(" {}: ", index + 1);
            let found = lists.into_iter().flatten().any(|finding| {
                finding.line == Some(index + 1) || finding.text.contains(&with_it)
            });
            prop_assert!(found || !is_last, "line {}: {line}", index + 1);
        }
    }
}
