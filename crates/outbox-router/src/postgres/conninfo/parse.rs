//! The two spellings of a connection string, read into name-value pairs.
//!
//! Only the syntax is checked here. As in libpq, a later pair overrides an earlier one.

use super::ConnInfoError;

/// Name-value pairs in the order of the text.
pub(super) type Pairs = Vec<(String, String)>;

/// Reads either form.
pub(super) fn pairs(text: &str) -> Result<Pairs, ConnInfoError> {
    let text = text.trim();
    for scheme in ["postgres://", "postgresql://"] {
        if let Some(rest) = text.strip_prefix(scheme) {
            return url(rest);
        }
    }
    if text.is_empty() {
        Ok(Vec::new())
    } else if text.contains('=') && !text.contains("://") {
        keyword_value(text)
    } else {
        Err(ConnInfoError::Form)
    }
}

/// What follows the scheme: `[user[:password]@][host[:port]][/database][?name=value&…]`.
fn url(rest: &str) -> Result<Pairs, ConnInfoError> {
    let (rest, query) = split_once_or_all(rest, '?');
    let (authority, database) = split_once_or_all(rest, '/');
    // A `/` or `?` in a password ends the authority early; what follows must neither be taken for a
    // name nor be printed.
    if [database, query].into_iter().flatten().any(|text| text.contains('@')) {
        return Err(ConnInfoError::StrayAt);
    }
    let mut pairs = Vec::new();
    let mut push = |name: &str, value: &str| -> Result<(), ConnInfoError> {
        pairs.push((name.to_owned(), percent_decoded(value)?));
        Ok(())
    };
    let address = match authority.split_once('@') {
        Some((user, address)) => {
            let (user, password) = split_once_or_all(user, ':');
            push("user", user)?;
            if let Some(password) = password {
                push("password", password)?;
            }
            address
        }
        None => authority,
    };
    if address.contains('@') {
        return Err(ConnInfoError::StrayAt);
    }
    if address.contains(',') {
        return Err(ConnInfoError::SeveralHosts);
    }
    let (host, port) = host_and_port(address)?;
    push("host", host)?;
    if let Some(port) = port {
        push("port", port)?;
    }
    if let Some(database) = database {
        push("dbname", database)?;
    }
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair
            .split_once('=')
            .ok_or(ConnInfoError::Syntax("a parameter after ? has no value"))?;
        pairs.push((percent_decoded(name)?, percent_decoded(value)?));
    }
    Ok(pairs)
}

fn host_and_port(address: &str) -> Result<(&str, Option<&str>), ConnInfoError> {
    let bad =
        ConnInfoError::Value { name: "host", expected: "a name, an address or [IPv6 address]" };
    let Some(bracketed) = address.strip_prefix('[') else {
        return Ok(split_once_or_all(address, ':'));
    };
    match bracketed.split_once(']') {
        Some((host, "")) => Ok((host, None)),
        Some((host, rest)) => rest.strip_prefix(':').map(|port| (host, Some(port))).ok_or(bad),
        None => Err(bad),
    }
}

fn split_once_or_all(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(left, right)| (left, Some(right)))
}

fn percent_decoded(text: &str) -> Result<String, ConnInfoError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let value = match (digit(), digit()) {
            (Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            (Some(_), None) | (None, _) => None,
        };
        bytes.push(value.ok_or(ConnInfoError::PercentEncoding)?);
    }
    String::from_utf8(bytes).map_err(|_| ConnInfoError::PercentEncoding)
}

/// `name = value` pairs between spaces; a value may be quoted with `'`, and `\` escapes one
/// character.
fn keyword_value(text: &str) -> Result<Pairs, ConnInfoError> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) =
            rest.split_once('=').ok_or(ConnInfoError::Syntax("a parameter has no = and value"))?;
        let name = name.trim_end();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(ConnInfoError::Syntax("a parameter has no = and value"));
        }
        let (value, after) = keyword_text(after.trim_start())?;
        pairs.push((name.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

/// One value at the start of `text`, and what follows it.
fn keyword_text(text: &str) -> Result<(String, &str), ConnInfoError> {
    let (quoted, body) = match text.strip_prefix('\'') {
        Some(body) => (Quoted::Yes, body),
        None => (Quoted::No, text),
    };
    let mut value = String::new();
    let mut characters = body.char_indices();
    while let Some((at, character)) = characters.next() {
        match (character, quoted) {
            ('\\', _) => match characters.next() {
                Some((_, escaped)) => value.push(escaped),
                None => return Err(ConnInfoError::Syntax("a backslash at the end")),
            },
            ('\'', Quoted::Yes) => return Ok((value, body.get(at + 1..).unwrap_or_default())),
            (space, Quoted::No) if space.is_whitespace() => {
                return Ok((value, body.get(at..).unwrap_or_default()));
            }
            (other, Quoted::Yes | Quoted::No) => value.push(other),
        }
    }
    match quoted {
        Quoted::Yes => Err(ConnInfoError::Syntax("a quoted value has no closing '")),
        Quoted::No => Ok((value, "")),
    }
}

#[derive(Clone, Copy)]
enum Quoted {
    Yes,
    No,
}
