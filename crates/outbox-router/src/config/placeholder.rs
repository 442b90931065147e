//! `${env:NAME}` and `${file:/path}` inside of texts, resolved after parsing: their values are
//! never read as TOML, nor searched for further placeholders. `$${` writes a literal `${`. In the
//! keys of an outbox table, every other `${…}` is left for the template that it is part of.

use std::{io::Read, path::Path};

use super::{
    environment::Environment,
    error::{ConfigCode, ConfigError},
    read::Problems,
    tree::{Node, Quoting, Table, Text, Value},
};

/// A secret or certificate is far smaller; a wrong path (a device, a log) must not fill the memory.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Resolves every placeholder in the tree, and reports those that cannot be resolved.
pub(super) fn resolve(table: &mut Table, environment: &Environment, problems: &mut Problems<'_>) {
    for (name, member) in table {
        resolve_node(name, &mut member.node, environment, problems);
    }
}

fn resolve_node(
    path: &str,
    node: &mut Node,
    environment: &Environment,
    problems: &mut Problems<'_>,
) {
    match &mut node.value {
        Value::Literal { .. } => {}
        Value::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                resolve_node(&format!("{path}[{index}]"), item, environment, problems);
            }
        }
        Value::Table(table) => {
            for (name, member) in table {
                resolve_node(&format!("{path}.{name}"), &mut member.node, environment, problems);
            }
        }
        Value::Text(text) => match expand(&text.text, OtherPlaceholders::of(path), environment) {
            Ok(expanded) => *text = expanded,
            Err(unresolved) => {
                let error = ConfigError::new(
                    ConfigCode::Reference,
                    format!("{path}: {}", unresolved.message),
                );
                problems.report(error.hint(unresolved.hint), &node.origin);
            }
        },
    }
}

/// A placeholder that cannot be resolved.
struct Unresolved {
    message: String,
    hint: &'static str,
}

const LITERAL: &str = "${env:NAME} and ${file:/path} are resolved; a literal ${ is written $${";

/// What becomes of any other `${…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OtherPlaceholders {
    /// It is part of a template.
    Kept,
    /// It is a mistake.
    Refused,
}

impl OtherPlaceholders {
    /// Columns may stand in the keys of an outbox table.
    fn of(path: &str) -> Self {
        if path.starts_with("outbox[") || path.starts_with("outbox.") {
            Self::Kept
        } else {
            Self::Refused
        }
    }
}

fn expand(
    text: &str,
    others: OtherPlaceholders,
    environment: &Environment,
) -> Result<Text, Unresolved> {
    let mut expanded = String::new();
    let mut quoting = Quoting::Allowed;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        expanded.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            return Err(Unresolved { message: "a ${ is never closed".to_owned(), hint: LITERAL });
        };
        match name.split_once(':') {
            Some(("env", name)) => expanded.push_str(variable(name, environment)?),
            Some(("file", path)) => expanded.push_str(&file(path)?),
            _ if others == OtherPlaceholders::Kept => {
                expanded.push_str("${");
                expanded.push_str(name);
                expanded.push('}');
                rest = after;
                continue;
            }
            Some(_) | None => return Err(unknown(name)),
        }
        quoting = Quoting::Forbidden;
        rest = after;
    }
    expanded.push_str(rest);
    Ok(Text { text: expanded, quoting })
}

/// The text is quoted only where it looks like a name, because it may be part of a password.
fn unknown(name: &str) -> Unresolved {
    let plain = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let shown = if plain { format!("${{{name}}}") } else { "a ${…}".to_owned() };
    Unresolved { message: format!("{shown} has no meaning here"), hint: LITERAL }
}

fn variable<'e>(name: &str, environment: &'e Environment) -> Result<&'e str, Unresolved> {
    environment.get(name).ok_or_else(|| Unresolved {
        message: format!("the environment variable {name} is not set"),
        hint: "set it where the router is started",
    })
}

/// The file's text without the line end that editors and `echo` leave.
fn file(path: &str) -> Result<String, Unresolved> {
    let unreadable = |what: String| Unresolved {
        message: format!("cannot read {path}: {what}"),
        hint: "the path in ${file:…} must be readable by the router's user",
    };
    let opened =
        std::fs::File::open(Path::new(path)).map_err(|error| unreadable(error.to_string()))?;
    let mut text = String::new();
    let read = opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    let length = read.map_err(|error| unreadable(error.to_string()))?;
    if u64::try_from(length).is_ok_and(|length| length > FILE_BYTES_MAX) {
        return Err(unreadable("it is larger than 1MiB".to_owned()));
    }
    let end = text.trim_end_matches(['\r', '\n']).len();
    text.truncate(end);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<(String, Quoting), String> {
        expanded_at("postgres.url", text)
    }

    fn expanded_at(path: &str, text: &str) -> Result<(String, Quoting), String> {
        let variables = [("USER_NAME", "u${env:X}"), ("EMPTY", "")];
        let environment =
            Environment::new(variables.map(|(name, value)| (name.into(), value.into())));
        expand(text, OtherPlaceholders::of(path), &environment)
            .map(|t| (t.text, t.quoting))
            .map_err(|unresolved| unresolved.message)
    }

    #[test]
    fn placeholders_are_replaced_once_and_the_rest_is_left_alone() {
        let cases = [
            ("plain $ {} $$", "plain $ {} $$", Quoting::Allowed),
            ("$${env:X}", "${env:X}", Quoting::Allowed),
            ("<${env:USER_NAME}>", "<u${env:X}>", Quoting::Forbidden),
            ("${env:EMPTY}", "", Quoting::Forbidden),
        ];
        for (text, result, quoting) in cases {
            assert_eq!(expanded(text), Ok((result.to_owned(), quoting)), "{text}");
        }
    }

    #[test]
    fn other_placeholders_are_kept_in_the_keys_of_an_outbox_table_alone() {
        let topic = "${env:EMPTY}a.${aggregate_type}.${x|y#/z}";
        let expected = Ok(("a.${aggregate_type}.${x|y#/z}".to_owned(), Quoting::Forbidden));
        assert_eq!(expanded_at("outbox[0].topic", topic), expected);
        assert!(expanded_at("kafka.state_topic", topic).is_err());
        assert!(expanded_at("outbox[0].topic", "${env:NOPE}").is_err());
    }

    #[test]
    fn a_placeholder_that_leads_nowhere_is_reported() {
        let cases = [
            ("${env:NOPE}", "the environment variable NOPE is not set"),
            ("${NOPE}", "${NOPE} has no meaning here"),
            ("pass${w0rd}", "a ${…} has no meaning here"),
            ("${env:X", "a ${ is never closed"),
            (
                "${file:/nowhere/at/all}",
                "cannot read /nowhere/at/all: No such file or directory (os error 2)",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(expanded(text), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_file_loses_only_its_last_line_ends() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), " a\nb \r\n").unwrap();
        let text = format!("${{file:{}}}", file.path().display());
        assert_eq!(expanded(&text), Ok((" a\nb ".to_owned(), Quoting::Forbidden)));
    }
}
