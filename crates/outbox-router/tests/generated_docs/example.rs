//! The file that people start from: what stands in it without a `#` is the default.

use outbox_router::config::{Content, KeyEntry, KeyType, of_one_source};

const HEAD: &str = "\
# Every key of outbox-router. What is written here without a `#` is the default; lines after a single `#` show keys
# that have none, or stand for what a preset or PostgreSQL would decide, or that one postgres.source alone takes: with
# the other they are refused. docs/configuration.md is the same as a page.
#
# Precedence: flag (--set limits.row_bytes=8MiB), environment, this file, default.
# Any key by environment, with two underscores between the parts; no file is needed at all:
#   OUTBOX_ROUTER__KAFKA__BOOTSTRAP_SERVERS=kafka:9092
#   OUTBOX_ROUTER__OUTBOX__0__TABLE=public.outbox               (tables of a list count from 0)
#   OUTBOX_ROUTER__KAFKA__PROPERTIES__SECURITY_PROTOCOL=SSL     (one underscore is a dot in librdkafka's names)
# In texts, ${env:NAME} and ${file:/path} are replaced by the variable or the file's content; $${ is a literal ${.
# Durations are written \"500ms\", \"5s\", \"2m\", \"1h\", \"7d\"; sizes \"1000B\", \"512KiB\", \"64MiB\", \"2GiB\".";

/// The whole file.
pub(crate) fn file(entries: &[KeyEntry]) -> String {
    let mut lines = vec![HEAD.to_owned()];
    let (mut section, mut group) = (String::new(), None);
    let mut last_takes = "";
    for entry in entries {
        let comments = entry.help.iter().map(|line| format!("# {}", line.trim()));
        match &entry.content {
            Content::Section => {
                lines.push(String::new());
                lines.extend(comments);
                lines.push(format!("[{}]", entry.name));
                section = format!("{}.", entry.name);
            }
            Content::Sections => {
                lines.push(String::new());
                lines.extend(comments);
                lines.push(format!("[[{}]]", entry.name));
                section = format!("{}[].", entry.name);
            }
            Content::Group => {
                lines.push(String::new());
                lines.extend(comments);
                group = Some(format!("{}.", entry.name));
                last_takes = "";
            }
            Content::Value(value) => match entry.name.strip_suffix(".*") {
                Some(table) => {
                    lines.push(String::new());
                    lines.extend(comments);
                    lines.push(format!("[{table}]"));
                    lines.extend(value.examples.iter().map(|example| format!("# {example}")));
                }
                None => {
                    group = group.filter(|group| entry.name.starts_with(group.as_str()));
                    if group.is_none() && !lines.last().is_some_and(|line| line.starts_with('[')) {
                        lines.push(String::new());
                    }
                    lines.extend(comments);
                    if last_takes != value.takes || group.is_none() {
                        lines.push(format!("# Takes {}.", value.takes));
                    }
                    last_takes = &value.takes;
                    let key = entry.name.strip_prefix(&section).unwrap_or(&entry.name);
                    let with = of_one_source(&entry.name);
                    if let Some(with) = with.filter(|with| with.value.is_none()) {
                        lines.push(format!("# With source = \"{}\" alone.", with.source.as_str()));
                    }
                    let mut of_key = key_lines(key, value);
                    if with.is_some() {
                        comment_out(&mut of_key);
                    }
                    lines.extend(of_key);
                }
            },
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

fn key_lines(key: &str, value: &KeyType) -> Vec<String> {
    match &value.default {
        Some(default) => vec![format!("{key} = {default}")],
        None => value.examples.iter().map(|example| format!("# {key} = {example}")).collect(),
    }
}

fn comment_out(lines: &mut [String]) {
    for line in lines.iter_mut().filter(|line| !line.starts_with('#')) {
        line.insert_str(0, "# ");
    }
}
