//! Values that are never printed, and the two cases in which part of one may be: a connection
//! string without its password, and a librdkafka property that is known to be harmless.

use std::fmt;

/// Printed in place of a secret.
pub const HIDDEN: &str = "***";

/// A value whose `Debug` and `Display` are `***`. It can be read only through [`Secret::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself: for the library that needs it, never for a message.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// Connection parameters that hold no secret. The list names what may be shown, because a list of
/// what must be hidden would miss the next parameter that libpq adds.
const SHOWN: [&str; 21] = [
    "host",
    "hostaddr",
    "port",
    "user",
    "dbname",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslnegotiation",
    "ssl_min_protocol_version",
    "channel_binding",
    "application_name",
    "connect_timeout",
    "target_session_attrs",
    "load_balance_hosts",
    "passfile",
    "require_auth",
    "service",
    "keepalives",
    "tcp_user_timeout",
];

/// A PostgreSQL connection string with everything that may be secret replaced; all of it, where it
/// cannot be parsed.
pub fn without_password(conninfo: &Secret<String>) -> String {
    let text = conninfo.expose();
    match text.split_once("://") {
        Some((scheme, rest)) if matches!(scheme, "postgres" | "postgresql") => url(scheme, rest),
        Some(_) | None => key_values(text).unwrap_or_else(|| HIDDEN.to_owned()),
    }
}

/// The user part ends at the *last* `@`, so that a password with an unescaped `/`, `?` or `@` is
/// hidden, too.
fn url(scheme: &str, rest: &str) -> String {
    let (user, address) = match rest.rsplit_once('@') {
        Some((user, address)) => (Some(user), address),
        None => (None, rest),
    };
    let user = match user.map(|user| user.split_once(':').map_or((user, ""), |parts| parts)) {
        None => String::new(),
        Some((name, "")) => format!("{name}@"),
        Some((name, _)) => format!("{name}:{HIDDEN}@"),
    };
    let Some((address, query)) = address.split_once('?') else {
        return format!("{scheme}://{user}{address}");
    };
    let parameters: Vec<String> = query
        .split('&')
        .map(|parameter| match parameter.split_once('=') {
            Some((key, _)) if SHOWN.contains(&key) => parameter.to_owned(),
            Some((key, _)) => format!("{key}={HIDDEN}"),
            None => HIDDEN.to_owned(),
        })
        .collect();
    format!("{scheme}://{user}{address}?{}", parameters.join("&"))
}

/// libpq's `key = 'value'` form; `None` where it does not read as such.
fn key_values(text: &str) -> Option<String> {
    let mut shown = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=')?;
        let key = key.trim();
        if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        let (value, after) = split_value(after.trim_start())?;
        let value = if SHOWN.contains(&key) { value } else { HIDDEN };
        shown.push(format!("{key}={value}"));
        rest = after.trim_start();
    }
    Some(shown.join(" "))
}

/// The first value as it is written, and what follows it; a backslash escapes the next character.
fn split_value(text: &str) -> Option<(&str, &str)> {
    let quoted = text.starts_with('\'');
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(usize::from(quoted)) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\'' if quoted => return text.split_at_checked(at + 1),
            c if !quoted && c.is_whitespace() => return text.split_at_checked(at),
            _ => {}
        }
    }
    if quoted { None } else { Some((text, "")) }
}

/// Whether the value of a librdkafka property must stay hidden.
pub fn is_secret_property(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let tells = ["password", "secret", "token", "pem", "key", "jaas", "credential", "config"];
    !name.ends_with(".location") && tells.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_prints_as_three_stars() {
        let secret = Secret::new("canary".to_owned());
        assert_eq!(format!("{secret:?} {secret}"), "*** ***");
        assert_eq!(secret.expose(), "canary");
    }

    #[test]
    fn a_connection_string_is_shown_without_its_password() {
        let cases = [
            ("postgres://u:canary@h:5432/db", "postgres://u:***@h:5432/db"),
            ("postgres://u@h/db", "postgres://u@h/db"),
            ("postgres:///db?host=/run/x", "postgres:///db?host=/run/x"),
            ("postgres://u:ca/na?r@y@h/db", "postgres://u:***@h/db"),
            (
                "postgresql://h/db?sslmode=require&password=canary&canary",
                "postgresql://h/db?sslmode=require&password=***&***",
            ),
            ("host=h password=canary user=u", "host=h password=*** user=u"),
            ("host = 'a b' password = 'can\\'ary x'", "host='a b' password=***"),
            ("password='canary", "***"),
            ("canary", "***"),
            ("https://u:canary@h", "***"),
        ];
        for (text, shown) in cases {
            assert_eq!(without_password(&Secret::new(text.to_owned())), shown);
        }
    }

    #[test]
    fn properties_that_may_hold_a_secret_are_known_by_their_names() {
        for name in ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.config"]
        {
            assert!(is_secret_property(name), "{name}");
        }
        for name in ["linger.ms", "ssl.ca.location", "ssl.key.location", "sasl.username"] {
            assert!(!is_secret_property(name), "{name}");
        }
    }
}
