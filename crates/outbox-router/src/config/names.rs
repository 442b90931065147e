//! Names of PostgreSQL's objects, checked when they are read. PostgreSQL would cut a name that is
//! too long and fold one that is not quoted; both would make the router follow something other than
//! what was meant, so both are refused.

use std::fmt;

use relay::TableName;

use super::error::Rejection;

/// PostgreSQL's NAMEDATALEN − 1, in bytes.
const LENGTH_MAX: usize = 63;

/// The default name of slot and publication.
const DEFAULT: &str = "outbox_router";

/// A replication slot's name: `[a-z0-9_]{1,63}`, PostgreSQL's own rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotName(String);

impl SlotName {
    pub(super) fn parse(text: &str) -> Result<Self, Rejection> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !text.is_empty() && text.len() <= LENGTH_MAX && text.chars().all(legal) {
            return Ok(Self(text.to_owned()));
        }
        Err(Rejection::value("is no slot name")
            .hint("1 to 63 of a-z, 0-9 and _ are what PostgreSQL allows"))
    }

    /// As PostgreSQL stores it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SlotName {
    fn default() -> Self {
        Self(DEFAULT.to_owned())
    }
}

/// A publication's name, as PostgreSQL stores it: any characters, at most 63 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicationName(String);

impl PublicationName {
    pub(super) fn parse(text: &str) -> Result<Self, Rejection> {
        identifier(text).map(|name| Self(name.to_owned()))
    }

    /// As PostgreSQL stores it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for PublicationName {
    fn default() -> Self {
        Self(DEFAULT.to_owned())
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for PublicationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks what holds for every identifier: not empty, without NUL, at most 63 bytes.
pub(super) fn identifier(text: &str) -> Result<&str, Rejection> {
    if text.is_empty() {
        return Err(Rejection::value("is empty"));
    }
    if text.contains('\0') {
        return Err(Rejection::value("holds a NUL character"));
    }
    if text.len() > LENGTH_MAX {
        return Err(Rejection::value(format!("is longer than {LENGTH_MAX} bytes"))
            .hint("PostgreSQL would cut it"));
    }
    Ok(text)
}

/// Reads `public.outbox`, `outbox` (schema `public`) or `"Weird Schema".outbox`, as in SQL.
pub(super) fn parse_table(text: &str) -> Result<TableName, Rejection> {
    let (first, rest) = part(text)?;
    let (schema, name) = match rest.strip_prefix('.') {
        None if rest.is_empty() => ("public".to_owned(), first),
        None => return Err(malformed()),
        Some(rest) => match part(rest)? {
            (second, "") => (first, second),
            _ => return Err(malformed()),
        },
    };
    Ok(TableName { schema, name })
}

/// Reads a table's name as the configuration does: for flags.
///
/// # Errors
/// The text is no table's name; the message says what one looks like.
pub fn table_name(text: &str) -> Result<TableName, String> {
    parse_table(text).map_err(|rejection| match rejection.hint {
        Some(hint) => format!("{}; {hint}", rejection.message),
        None => rejection.message,
    })
}

/// Writes the name as [`table_name`] reads it.
pub(super) fn print_table(name: &TableName) -> String {
    let quote = |part: &String| match plain(part) {
        Ok(plain) => plain,
        Err(_) => format!("\"{}\"", part.replace('"', "\"\"")),
    };
    format!("{}.{}", quote(&name.schema), quote(&name.name))
}

fn malformed() -> Rejection {
    Rejection::value("is no table name").hint(
        "write schema.table; a part with other characters than a-z, 0-9 and _ needs double quotes",
    )
}

/// One part of the name, and what follows it.
fn part(text: &str) -> Result<(String, &str), Rejection> {
    let (name, rest) = match text.strip_prefix('"') {
        Some(quoted) => unquote(quoted).ok_or_else(malformed)?,
        None => {
            let end = text.find('.').unwrap_or(text.len());
            let (name, rest) = text.split_at_checked(end).ok_or_else(malformed)?;
            (plain(name)?, rest)
        }
    };
    identifier(&name)?;
    Ok((name, rest))
}

/// The name up to the closing quote, and what follows; a doubled quote stands for one.
pub(super) fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = quoted;
    loop {
        let (before, after) = rest.split_once('"')?;
        name.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                name.push('"');
                rest = after;
            }
            None => return Some((name, after)),
        }
    }
}

fn plain(name: &str) -> Result<String, Rejection> {
    if name.chars().any(|c| c.is_ascii_uppercase()) {
        return Err(Rejection::value("has capital letters without quotes").hint(format!(
            "write '\"{name}\"' if the name was quoted when the table was created, else {}",
            name.to_ascii_lowercase()
        )));
    }
    let first = |c: char| c.is_ascii_lowercase() || c == '_' || !c.is_ascii();
    let other = |c: char| first(c) || c.is_ascii_digit() || c == '$';
    if name.starts_with(first) && name.chars().all(other) {
        return Ok(name.to_owned());
    }
    Err(malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Result<(String, String), String> {
        parse_table(text).map(|t| (t.schema, t.name)).map_err(|rejection| rejection.message)
    }

    #[test]
    fn table_names_are_read_as_in_sql() {
        let cases = [
            ("outbox", ("public", "outbox")),
            ("shop.outbox", ("shop", "outbox")),
            ("\"Weird Schema\".outbox", ("Weird Schema", "outbox")),
            ("\"a.b\".\"c\"\"d\"", ("a.b", "c\"d")),
            ("größe._x$1", ("größe", "_x$1")),
        ];
        for (text, (schema, name)) in cases {
            assert_eq!(table(text), Ok((schema.to_owned(), name.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_postgresql_would_fold_or_cut_is_refused() {
        assert_eq!(table("OutboxMessage").unwrap_err(), "has capital letters without quotes");
        assert_eq!(table(&"x".repeat(64)).unwrap_err(), "is longer than 63 bytes");
        for text in ["", ".", "a.", "a.b.c", "a b", "1a", "\"a", "\"a\"b", "a;drop table x"] {
            assert!(table(text).is_err(), "{text}");
        }
    }

    #[test]
    fn slot_names_follow_postgresqls_rules() {
        assert_eq!(SlotName::parse("outbox_2").unwrap().as_str(), "outbox_2");
        for text in ["", "Outbox", "a-b", "a b", &"x".repeat(64)] {
            assert!(SlotName::parse(text).is_err(), "{text}");
        }
    }
}
