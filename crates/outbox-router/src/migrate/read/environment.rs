//! Debezium Server's properties as variables of its environment.

use super::super::properties::{Properties, Property};

/// Variables that begin like these are Debezium Server's; others fill placeholders.
const OWN: [&str; 2] = ["DEBEZIUM_", "QUARKUS_"];

/// A file of variables, as `docker run --env-file` takes it; `None` where none of them is
/// Debezium's.
pub(super) fn read(text: &str) -> Option<Properties> {
    let lines = text.lines().map(str::trim).enumerate();
    let variables = lines.filter(|(_, line)| !line.starts_with('#'));
    let variables = variables.filter_map(|(index, line)| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim_end(), unquoted(value.trim()), index + 1))
    });
    of(variables)
}

/// The variables of one process that are Debezium's, each with its line.
pub(super) fn of<'v>(
    variables: impl Iterator<Item = (&'v str, &'v str, usize)>,
) -> Option<Properties> {
    let mut properties = Properties::default();
    for (variable, value, line) in variables {
        if OWN.iter().any(|own| variable.starts_with(own)) {
            // As Debezium Server does it, so no name with an underscore can be given so.
            let name = variable.to_ascii_lowercase().replace('_', ".");
            let property = Property::new(name, value, line);
            properties.push(Property { written: variable.to_owned(), ..property });
        }
    }
    properties.get("debezium.source.connector.class").is_some().then_some(properties)
}

/// The value without the pair of quotes around it.
fn unquoted(value: &str) -> &str {
    let within = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(value)
}
