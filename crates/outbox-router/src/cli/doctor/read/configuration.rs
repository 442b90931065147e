//! What the configuration says that `check` does not refuse.

use std::path::Path;

use crate::{
    cli::doctor::facts::ConfigurationFacts,
    config::{Config, Environment, Secret, is_secret_property, without_password},
    postgres::ConnInfo,
};

/// Keys of connection strings.
const URLS: [(&str, &str); 2] = [("postgres", "url"), ("retention", "url")];

pub(super) fn facts(
    file: Option<&Path>,
    config: &Config,
    environment: &Environment,
) -> ConfigurationFacts {
    let text = file.and_then(|file| std::fs::read_to_string(file).ok());
    let variable = |name: &str| environment.get(name).map(str::to_owned);
    let url = config.postgres.url.as_ref().map(|url| url.expose().as_str());
    let warnings = ConnInfo::resolve(url, &variable).map(|conninfo| conninfo.warnings);
    let protocol = config.kafka.properties.iter().find(|(name, _)| *name == "security.protocol");
    ConfigurationFacts {
        admin: config.admin.listen,
        has_state_topic: config.kafka.state_topic.is_some(),
        file: file.map(Path::to_owned),
        plain_secrets: text.as_deref().map(plain_secrets).unwrap_or_default(),
        connection_warnings: warnings.unwrap_or_default(),
        kafka_protocol: protocol.map(|(_, value)| value.expose().trim().to_ascii_lowercase()),
        critical_bytes: config.monitor.bytes_behind.critical,
    }
}

/// The keys of a file under which a secret itself stands, and not the place where it is.
fn plain_secrets(file: &str) -> Vec<String> {
    let Ok(root) = file.parse::<toml::Table>() else { return Vec::new() };
    let text = |table: &str, key: &str| Some(root.get(table)?.get(key)?.as_str()?.to_owned());
    let mut found = Vec::new();
    for (table, key) in URLS {
        let has_password = |url: &String| {
            is_plain(url) && without_password(&Secret::new(url.clone())) != normal(url)
        };
        found.extend(text(table, key).filter(has_password).map(|_| format!("{table}.{key}")));
    }
    let kafka = root.get("kafka").and_then(|kafka| kafka.get("properties")?.as_table());
    for (name, value) in kafka.into_iter().flatten() {
        let is_plain = value.as_str().is_some_and(|value| !value.is_empty() && is_plain(value));
        if is_plain && is_secret_property(name) {
            found.push(format!("kafka.properties.\"{name}\""));
        }
    }
    found
}

/// A text without placeholders.
fn is_plain(value: &str) -> bool {
    !value.contains("${env:") && !value.contains("${file:")
}

/// As [`without_password`] writes a string without secrets: one space between two settings.
fn normal(url: &str) -> String {
    if url.contains("://") {
        return url.to_owned();
    }
    let words: Vec<&str> = url.split_whitespace().collect();
    words.join(" ").replace(" = ", "=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_that_stands_in_the_file_is_named_by_its_key_and_never_shown() {
        for (file, keys) in [
            ("[postgres]\nurl = \"postgres://u:canary@h/d\"", &["postgres.url"][..]),
            ("[postgres]\nurl = \"host=h password=canary\"", &["postgres.url"]),
            ("[postgres]\nurl = \"host = h  user=u\"", &[]),
            ("[postgres]\nurl = \"postgres://u@h/d\"", &[]),
            ("[postgres]\nurl = \"postgres://u:${env:PASSWORD}@h/d\"", &[]),
            ("[retention]\nurl = \"postgres://u:canary@h/d\"", &["retention.url"]),
            (
                "[kafka.properties]\n\"sasl.password\" = \"canary\"\n\"linger.ms\" = \"5\"",
                &["kafka.properties.\"sasl.password\""],
            ),
            ("[kafka.properties]\n\"sasl.password\" = \"${file:/run/secrets/k}\"", &[]),
            ("kafka.properties.\"ssl.key.location\" = \"/etc/k.pem\"", &[]),
            ("not toml", &[]),
        ] {
            assert_eq!(plain_secrets(file), keys, "{file}");
        }
    }
}
