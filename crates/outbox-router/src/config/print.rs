//! The effective configuration as TOML, without its secrets: what `check` shows. It reads back as the same
//! configuration, except for what is hidden.

use std::fmt::Write as _;

use relay::{Format, OutboxTable, Preset, Role, TableName, Timestamp};

use super::{
    model::Config,
    quantity::{print_duration, print_size},
    secret::without_password,
};

/// Every key with its value, defaults included.
pub fn effective(config: &Config) -> String {
    let mut lines = vec![
        format!("name = {}", text(&config.name)),
        String::new(),
        "[postgres]".to_owned(),
        match &config.postgres.url {
            Some(url) => format!("url = {}", text(&without_password(url))),
            None => "# url is not set: PGHOST, PGUSER and libpq's other variables apply".to_owned(),
        },
        format!("slot = {}", text(config.postgres.slot.as_str())),
        format!("publication = {}", text(config.postgres.publication.as_str())),
    ];
    if config.outbox.is_empty() {
        lines.push(
            "\n# no [[outbox]]: every table of the publication, with the defaults".to_owned(),
        );
    }
    for outbox in &config.outbox {
        outbox_lines(outbox, &mut lines);
    }
    lines.push(format!("\n[kafka]\nbootstrap_servers = {}", text(&config.kafka.bootstrap_servers)));
    if let Some(create) = config.kafka.create_topics {
        let known = |name: &str, value: i64| (value > 0).then(|| format!("{name} = {value}"));
        let members: Vec<String> = [
            known("partitions", create.partitions.into()),
            known("replication_factor", create.replication_factor.into()),
        ]
        .into_iter()
        .flatten()
        .collect();
        lines.push(format!("create_topics = {{ {} }}", members.join(", ")));
    }
    let state_topic = config.kafka.state_topic.as_ref().map_or("", |name| name.as_str());
    lines.push(format!("state_topic = {}", text(state_topic)));
    lines.push("[kafka.properties]".to_owned());
    for (name, value) in config.kafka.properties.shown() {
        lines.push(format!("{} = {}", text(name), text(value)));
    }
    let (limits, monitor) = (&config.limits, &config.monitor);
    let size = |bytes| text(&print_size(bytes));
    let duration = |duration| text(&print_duration(duration));
    lines.extend([
        "\n[limits]".to_owned(),
        format!("window_events = {}", limits.window_events),
        format!("window_bytes = {}", size(limits.window_bytes)),
        format!("row_bytes = {}", size(limits.row_bytes)),
        format!("shutdown = {}", duration(limits.shutdown)),
        "\n[monitor]".to_owned(),
        format!("interval = {}", duration(monitor.interval)),
        format!(
            "bytes_behind = {{ warning = {}, critical = {} }}",
            size(monitor.bytes_behind.warning),
            size(monitor.bytes_behind.critical)
        ),
        format!("\n[admin]\nlisten = {}", text(&config.admin.listen.to_string())),
        format!("\n[log]\nformat = {}", text(config.log.format.as_str())),
        format!("level = {}\n", text(&config.log.level)),
    ]);
    lines.join("\n")
}

fn outbox_lines(outbox: &OutboxTable, lines: &mut Vec<String>) {
    let preset = match outbox.preset {
        Preset::Auto => "auto",
        Preset::Default => "default",
        Preset::Debezium => "debezium",
    };
    let format = match outbox.format {
        Format::Plain => "plain",
        Format::Debezium => "debezium",
    };
    let timestamp = match outbox.timestamp {
        Timestamp::Commit => "commit",
        Timestamp::Now => "now",
    };
    lines.extend([
        format!("\n[[outbox]]\ntable = {}", text(&table(&outbox.name))),
        format!("preset = {}", text(preset)),
        format!("format = {}", text(format)),
        format!("topic = {}", text(&outbox.topic.to_string())),
        format!("timestamp = {}", text(timestamp)),
    ]);
    for role in Role::ALL {
        if let Some(names) = outbox.columns.get(role) {
            let names: Vec<String> = names.iter().map(|name| text(name)).collect();
            lines.push(format!("columns.{} = [{}]", role.as_str(), names.join(", ")));
        }
    }
    lines.push(format!("headers.id = {}", text(&outbox.headers.id)));
    lines.push(format!("headers.event_type = {}", text(&outbox.headers.event_type)));
}

/// Quoted as the reader of `outbox.table` takes it.
fn table(name: &TableName) -> String {
    let quote = |part: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c == '_';
        if part.chars().all(plain) && !part.is_empty() {
            part.to_owned()
        } else {
            format!("\"{}\"", part.replace('"', "\"\""))
        }
    };
    format!("{}.{}", quote(&name.schema), quote(&name.name))
}

/// A TOML basic string. `${` is doubled, so that nothing is taken for a reference when it is read again.
fn text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.replace("${", "$${").replace("$${aggregate_type}", "${aggregate_type}").chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Writing to a `String` cannot fail.
            c if c.is_control() => {
                write!(quoted, "\\u{:04x}", u32::from(c)).unwrap_or_default();
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
