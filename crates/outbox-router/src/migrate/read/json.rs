//! What is posted to Kafka Connect: `{name, config}`, or the configuration alone.

use serde_json::{Map, Value};

use super::{
    super::properties::{Properties, Property},
    error::ReadError,
};

/// Members with a connector's properties; Terraform divides Confluent's in two.
const CONFIGS: [&str; 3] = ["config", "config_nonsensitive", "config_sensitive"];

/// Members beside them that Connect and Terraform write about a connector.
const ABOUT: [&str; 7] =
    ["tasks", "type", "initial_state", "environment", "kafka_cluster", "id", "status"];

pub(super) fn read(text: &str) -> Result<Properties, ReadError> {
    let whole: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
        let hint = "give the JSON as it is posted to Kafka Connect, without comments and without \
                    what a shell puts around it";
        // The message ends with the position, which is reported separately.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        ReadError::new(format!("not valid JSON: {message}"), hint).at(error.line())
    })?;
    let configs = CONFIGS.iter().filter_map(|name| whole.get(*name)?.as_object());
    let configs: Vec<&Map<String, Value>> = configs.collect();
    let is_own =
        |name: &str| configs.is_empty() || !(CONFIGS.contains(&name) || ABOUT.contains(&name));
    let own = whole.iter().filter(|(name, _)| is_own(name));
    let mut found = Vec::new();
    for (name, value) in own.chain(configs.iter().copied().flatten()) {
        found.push(property(text, name, value)?);
    }
    // The map is ordered by name; people look for their lines in the order of the file.
    found.sort_by_key(|property| property.line);
    let mut properties = Properties::default();
    found.into_iter().for_each(|property| properties.push(property));
    Ok(properties)
}

fn property(text: &str, name: &str, value: &Value) -> Result<Property, ReadError> {
    let line = line_of(text, name);
    let value = match value {
        Value::String(value) => value.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Null => String::new(),
        Value::Array(_) | Value::Object(_) => {
            let message = format!("{name} is no single value");
            let hint = "a connector's configuration is flat: names with dots, each with one text";
            return Err(ReadError::new(message, hint).at(line));
        }
    };
    Ok(Property::new(name, &value, line))
}

/// The line that names a member. `serde_json` does not keep it.
fn line_of(text: &str, name: &str) -> usize {
    let quoted = Value::from(name).to_string();
    let is_name = |at: &usize| {
        let rest = text.get(at + quoted.len()..).unwrap_or_default();
        rest.trim_start().starts_with(':')
    };
    let found = text.match_indices(&quoted).map(|(at, _)| at).find(is_name);
    let before = found.and_then(|at| text.get(..at)).unwrap_or_default();
    before.matches('\n').count() + 1
}
