//! Placeholders of Kafka Connect and Debezium Server, as the router's. `${env:NAME}`
//! means the same in both; every other provider of Kafka Connect gives way to an environment
//! variable.

use super::{draft::Text, read::Form};

/// A value with its placeholders translated.
#[derive(Debug, Default)]
pub(super) struct Translated {
    pub(super) text: Text,
    /// What is not the same as before, for the list of differences.
    pub(super) notes: Vec<String>,
}

/// Translates a value. `variable` is the environment variable that stands for a placeholder that
/// brings no name of its own.
pub(super) fn translate(value: &str, form: Form, variable: &str) -> Translated {
    let mut translated = Translated::default();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let doubled = form == Form::ServerProperties && before.ends_with('$');
        let Some((name, after)) = after.split_once('}').filter(|_| !doubled) else {
            let before = if doubled { before.strip_suffix('$') } else { None }.unwrap_or(before);
            translated.text.push(&format!("{before}${{"));
            rest = after;
            continue;
        };
        translated.text.push(before);
        translated.placeholder(name, form, variable);
        rest = after;
    }
    translated.text.push(rest);
    translated
}

impl Translated {
    fn placeholder(&mut self, name: &str, form: Form, variable: &str) {
        match name.split_once(':') {
            Some((name, _default)) if form == Form::ServerProperties => {
                self.variable(name);
                self.notes.push(format!(
                    "${{{name}:…}} has a default in Debezium Server; ${{env:{}}} has none, so set \
                     the variable",
                    as_variable(name)
                ));
            }
            Some(("env", name)) => self.text.push_placeholder(&format!("env:{name}")),
            Some(("dir", path)) if path.contains(':') => {
                self.text.push_placeholder(&format!("file:{}", path.replacen(':', "/", 1)));
            }
            Some((provider, _)) => {
                self.text.push_placeholder(&format!("env:{variable}"));
                self.notes.push(format!(
                    "${{{provider}:…}} is a provider of Kafka Connect; ${{env:{variable}}} takes \
                     its place, so set that variable where the router is started"
                ));
            }
            None => {
                self.variable(name);
                if form != Form::ServerProperties {
                    self.notes.push(format!(
                        "${{{name}}} is nothing that Kafka Connect fills in, so a script does; \
                         here it is the environment variable {}",
                        as_variable(name)
                    ));
                }
            }
        }
    }

    fn variable(&mut self, name: &str) {
        self.text.push_placeholder(&format!("env:{}", as_variable(name)));
    }
}

/// A variable's name as it is; the name of a property as the variable by which Debezium Server
/// reads it, too.
fn as_variable(name: &str) -> String {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.chars().all(is_legal) {
        return name.to_owned();
    }
    name.to_ascii_uppercase().replace(|c| !is_legal(c), "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, form: Form, toml: &str, notes: usize) {
        let translated = translate(value, form, "POSTGRES_PASSWORD");
        assert_eq!(translated.text.toml(), format!("\"{toml}\""), "{value}");
        assert_eq!(translated.notes.len(), notes, "{:?}", translated.notes);
    }

    #[test]
    fn providers_become_variables() {
        let json = Form::ConnectJson;
        check("plain", json, "plain", 0);
        check("${env:DB_PW}", json, "${env:DB_PW}", 0);
        check("a-${env:X}-b", json, "a-${env:X}-b", 0);
        check("${dir:/run/secrets:pw}", json, "${file:/run/secrets/pw}", 0);
        check("${file:/opt/c.properties:dbPassword}", json, "${env:POSTGRES_PASSWORD}", 1);
        check("${secrets:ns/name:password}", Form::Yaml, "${env:POSTGRES_PASSWORD}", 1);
        check("${DB_PASSWORD}", json, "${env:DB_PASSWORD}", 1);
        check("${unclosed", json, "$${unclosed", 0);
    }

    #[test]
    fn debezium_server_has_variables_with_defaults_and_a_doubled_dollar() {
        let server = Form::ServerProperties;
        check("${DB_HOST}", server, "${env:DB_HOST}", 0);
        check("${DB_HOST:postgres}", server, "${env:DB_HOST}", 1);
        check("${db.host}", server, "${env:DB_HOST}", 0);
        check("$${routedByValue}", server, "$${routedByValue}", 0);
    }
}
