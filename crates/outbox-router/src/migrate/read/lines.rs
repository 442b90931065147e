//! Java's properties: the file of a standalone worker, and that of Debezium Server.

use relay::java_properties::{MalformedEscape, entries, unescaped};

use super::{
    super::{
        properties::{Properties, Property},
        report::PropertyFinding,
    },
    error::ReadError,
};

/// What a file of lines holds.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) properties: Properties,
    /// The first comment where Java knows none.
    pub(super) comment: Option<PropertyFinding>,
    /// The properties written with characters beyond ASCII. `Properties.load(InputStream)`, with
    /// which Kafka Connect reads its files, takes the bytes for ISO 8859-1; Debezium Server's
    /// library reads UTF-8.
    pub(super) beyond_ascii: Vec<PropertyFinding>,
}

/// Reads `java.util.Properties`. A name without `=`, `:` or a space after it is refused: Java takes
/// it as a property without a value, but it is more likely a mistake.
pub(super) fn read(text: &str) -> Result<Lines, ReadError> {
    let mut lines = Lines::default();
    for entry in entries(text) {
        let (name, value) = entry.split();
        // Java knows no `;`, but files that were commented out with it are seen.
        if name.starts_with(';') {
            continue;
        }
        let value = value.ok_or_else(|| {
            // Not quoted: it may be the rest of a secret.
            ReadError::new("a name has no value", "write name=value, or # before a comment")
                .at(entry.line)
        })?;
        let malformed = |_: MalformedEscape| {
            let hint = "write \\u and four hexadecimal digits, or \\\\ for a backslash";
            ReadError::new("\\u is not followed by four digits of a character", hint).at(entry.line)
        };
        let is_ascii = name.is_ascii() && value.is_ascii();
        let name = unescaped(name).map_err(malformed)?;
        let value = unescaped(value).map_err(malformed)?;
        let mut property = Property::new(name, &value, entry.line);
        if !is_ascii {
            lines.beyond_ascii.push(read_as_utf8(&property));
        }
        if let Some(value) = before_comment(&property) {
            property.value = value.to_owned();
            let text = "what is after # is no comment to Java but part of the value, so Debezium \
                        fails; it is read as a comment";
            lines.comment.get_or_insert_with(|| PropertyFinding::of(&property, text));
        }
        lines.properties.push(property);
    }
    Ok(lines)
}

fn read_as_utf8(property: &Property) -> PropertyFinding {
    let text = "Kafka Connect reads a .properties file as ISO 8859-1, so it sees other characters \
                here; it is read as UTF-8";
    PropertyFinding::of(property, text)
        .hint("write \\u and four hexadecimal digits for what is not ASCII")
}

/// The value without what tutorials write after it. A value with spaces of its own, such as SQL,
/// and a password are left as they are.
fn before_comment(property: &Property) -> Option<&str> {
    let (value, _) =
        property.value.split_once(" #").or_else(|| property.value.split_once("\t#"))?;
    let value = value.trim_end();
    let is_one_word = !value.is_empty() && !value.contains(char::is_whitespace);
    (is_one_word && !property.name.contains("password")).then_some(value)
}
