//! libpq's password file: lines of `host:port:database:user:password`, where `*` matches anything.
//!
//! As in libpq, a file that others can read is not used: its password is no longer a secret, and
//! using it would hide that.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::Password;

/// The password for `[host, port, database, user]`, or the reason why the file was not used.
///
/// A missing file is the usual case and gives no warning.
pub(super) fn password(path: &Path, wanted: [&str; 4]) -> Result<Option<Password>, String> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(format!("password file {} is not used: {error}", path.display()));
        }
    };
    if !metadata.is_file() {
        return Err(format!("password file {} is not used: not a plain file", path.display()));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(format!(
            "password file {path} is not used: others may read it; type chmod 600 {path}",
            path = path.display()
        ));
    }
    let text = fs::read_to_string(path)
        .map_err(|error| format!("password file {} is not used: {error}", path.display()))?;
    Ok(text.lines().find_map(|line| password_in(line, wanted)))
}

fn password_in(line: &str, wanted: [&str; 4]) -> Option<Password> {
    if line.starts_with('#') {
        return None;
    }
    let mut rest = line;
    for value in wanted {
        let (field, after) = split_field(rest)?;
        if field.text != value && !(field.text == "*" && field.spelling == Spelling::Plain) {
            return None;
        }
        rest = after;
    }
    // The password is the rest of the line, with the same escapes; an unescaped colon ends it.
    let field = split_field(rest).map_or_else(|| unescaped(rest), |(field, _)| field);
    Some(Password::new(field.text)).filter(|password| !password.expose().is_empty())
}

struct Field {
    text: String,
    spelling: Spelling,
}

#[derive(PartialEq, Eq)]
enum Spelling {
    Plain,
    /// `\*` is a star, not a wildcard.
    Escaped,
}

/// The field before the next unescaped colon, and what follows the colon.
fn split_field(text: &str) -> Option<(Field, &str)> {
    let mut escaped = false;
    let end = text.char_indices().find_map(|(at, character)| {
        let ends = character == ':' && !escaped;
        escaped = character == '\\' && !escaped;
        ends.then_some(at)
    })?;
    Some((unescaped(text.get(..end)?), text.get(end + 1..)?))
}

fn unescaped(text: &str) -> Field {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    let mut spelling = Spelling::Plain;
    while let Some(character) = characters.next() {
        if character == '\\' {
            spelling = Spelling::Escaped;
            plain.extend(characters.next());
        } else {
            plain.push(character);
        }
    }
    Field { text: plain, spelling }
}
