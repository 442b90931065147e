//! The page of configuration keys.

use outbox_router::config::{Content, KeyEntry, KeyType, Secrecy, of_one_source, variable};

const HEAD: &str = "\
# Configuration

Every key, with what it takes, its default and the environment variable that sets it. This page and
[the example file](../config/outbox-router.example.toml) are generated from the table in
[`config/keys.rs`](../crates/outbox-router/src/config/keys.rs) by
`UPDATE_DOCS=1 cargo test -p outbox-router --test generated_docs`; without the variable the same
command fails when either is not current.

A value comes from a flag (`--set limits.row_bytes=8MiB`), else from the environment, else from the
file (`--config FILE`, `OUTBOX_ROUTER_CONFIG`, `./outbox-router.toml` or
`/etc/outbox-router/outbox-router.toml`), else it is the default. No file is needed.
`outbox-router check` shows every value in force, secrets as `***`, and refuses what `run` would
refuse, without connecting.

* A key that does not exist is an error, with its place and the likely key. So is one that has no
  meaning with `postgres.source`, with the reason ([polling.md](polling.md)).
* In a variable's name two underscores separate the parts, and tables of a list count from 0:
  `OUTBOX_ROUTER__OUTBOX__1__TABLE`. Below `OUTBOX_ROUTER__KAFKA__PROPERTIES__` one underscore is a
  dot in librdkafka's name: `…__SASL_PASSWORD` is `sasl.password`.
* In texts, `${env:NAME}` and `${file:/path}` are replaced by the variable or the file's content;
  `$${` is a literal `${`.
* A duration is written `\"500ms\"`, `\"5s\"`, `\"2m\"`, `\"1h\"` or `\"7d\"`, a size `\"1000B\"`, `\"512KiB\"`, `\"64MiB\"`
  or `\"2GiB\"`. A bare number is an error.
";

/// The whole page.
pub(crate) fn page(entries: &[KeyEntry]) -> String {
    let mut page = HEAD.to_owned();
    for entry in entries {
        let help = entry.help.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n");
        let title = match &entry.content {
            Content::Section => format!("## `[{}]`", entry.name),
            Content::Sections => format!("## `[[{}]]`", entry.name),
            Content::Group => format!("### `{}`", entry.name),
            Content::Value(value) => format!("### `{}`\n\n{}", entry.name, facts(entry, value)),
        };
        page.push_str(&format!("\n{title}\n\n{help}\n"));
    }
    page
}

fn facts(entry: &KeyEntry, value: &KeyType) -> String {
    let default = match &value.default {
        Some(default) => format!("default `{default}`"),
        None => {
            let examples: Vec<String> =
                value.examples.iter().map(|example| format!("`{example}`")).collect();
            format!("not set by default, e.g. {}", examples.join(", "))
        }
    };
    let secret = match value.secrecy {
        Secrecy::Public => "",
        Secrecy::Secret => " · what may be secret in it is printed as `***`",
    };
    let with = of_one_source(&entry.name).filter(|with| with.value.is_none());
    let with = with.map(|with| format!(" · with `source = \"{}\"` alone", with.source.as_str()));
    let with = with.unwrap_or_default();
    format!("{} · {default} · `{}`{with}{secret}", value.takes, variable(&entry.name))
}
