//! The forms that Debezium's configuration is kept in. The form is told by the content; a file's
//! name proves nothing.

mod environment;
mod error;
mod form;
mod json;
mod lines;
mod server;
mod yaml;

pub use error::ReadError;
pub(super) use form::Form;
use lines::Lines;

use super::{properties::Properties, report::PropertyFinding};

/// A connector's configuration has a few kilobytes; whatever is larger is something else.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a file holds.
#[derive(Debug)]
pub(super) struct Source {
    /// How it was written.
    pub(super) form: Form,
    /// Under the names that a connector has in Kafka Connect.
    pub(super) properties: Properties,
    /// What was read in another way than Debezium reads it.
    pub(super) remarks: Vec<PropertyFinding>,
}

/// What a file may be.
const FORMS: &str = "give a connector as JSON (curl http://CONNECT:8083/connectors/NAME), its \
                     .properties file, application.properties or the environment variables of Debezium \
                     Server, or a KafkaConnector, a DebeziumServer or a compose file as YAML";

/// Reads a file in any of the forms.
pub(super) fn read(text: &str) -> Result<Source, ReadError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some((number, first)) = first_line(text) else {
        return Err(ReadError::new("the file has no property", FORMS));
    };
    let (form, properties, remarks) = match (first.chars().next(), separator(first)) {
        (Some('{'), _) => (Form::ConnectJson, json::read(text)?, Vec::new()),
        (Some('['), _) => {
            let error = ReadError::new("a list, where one connector is expected", FORMS);
            return Err(error.at(number));
        }
        (_, Some('=')) if let Some(properties) = environment::read(text) => {
            (Form::ServerProperties, server::as_connector(properties), Vec::new())
        }
        (_, Some('=')) => {
            let Lines { properties, comment, beyond_ascii } = lines::read(text)?;
            if properties.iter().any(|property| property.name.starts_with("debezium.")) {
                let remarks = comment.into_iter().collect();
                (Form::ServerProperties, server::as_connector(properties), remarks)
            } else {
                let remarks = comment.into_iter().chain(beyond_ascii).collect();
                (Form::ConnectProperties, properties, remarks)
            }
        }
        (_, Some(_)) => {
            let (form, properties) = yaml::read(text)?;
            (form, properties, Vec::new())
        }
        (_, None) => return Err(unknown(first).at(number)),
    };
    Ok(Source { form, properties, remarks })
}

/// The first line that is neither empty nor a comment, with its number.
fn first_line(text: &str) -> Option<(usize, &str)> {
    let lines = text.lines().map(str::trim).enumerate();
    lines
        .map(|(index, line)| (index + 1, line))
        .find(|(_, line)| !line.is_empty() && !line.starts_with(['#', '!', ';']))
}

/// What stands after the name at the beginning of a line: `=` in properties, `:` in YAML.
fn separator(line: &str) -> Option<char> {
    if line.starts_with("---") || line.starts_with("- ") {
        return Some(':');
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "._-\"'%".contains(c);
    let rest = line.trim_start_matches(is_name);
    let named = rest.len() < line.len();
    let next = rest.trim_start().chars().next();
    next.filter(|c| named && matches!(c, '=' | ':'))
}

fn unknown(line: &str) -> ReadError {
    let seen = if line.starts_with("curl") || line.starts_with("#!") {
        "a shell command"
    } else if line.contains("{{") {
        "a template of Helm"
    } else if line.starts_with("resource ") {
        "Terraform's language"
    } else if line.starts_with('<') {
        "XML"
    } else {
        "neither JSON, properties nor YAML"
    };
    let hint = match seen {
        "a shell command" => "give the JSON after -d or --data alone",
        "a template of Helm" => {
            "render it first: helm template CHART | outbox-router migrate debezium -"
        }
        "Terraform's language" => {
            "give the map config_nonsensitive as JSON: terraform show -json | jq \
             'first(.. | .config_nonsensitive? // empty)' | outbox-router migrate debezium -"
        }
        _ => FORMS,
    };
    ReadError::new(format!("{seen}, where Debezium's configuration is expected"), hint)
}

#[cfg(test)]
mod tests;
