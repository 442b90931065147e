//! Java's properties: the file of a standalone worker, and that of Debezium Server.

use relay::java_properties::{MalformedEscape, entries, unescaped};

use super::{
    super::{
        properties::{Properties, Property},
        report::PropertyFinding,
    },
    error::ReadError,
};

/// Reads `java.util.Properties`. A name without `=`, `:` or a space after it is refused: Java takes
/// it as a property without a value, but it is more likely a mistake. The remark is about comments
/// where Java knows none.
pub(super) fn read(text: &str) -> Result<(Properties, Option<PropertyFinding>), ReadError> {
    let mut properties = Properties::default();
    let mut remark = None;
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
        let name = unescaped(name).map_err(malformed)?;
        let value = unescaped(value).map_err(malformed)?;
        let mut property = Property::new(name, &value, entry.line);
        if let Some(value) = before_comment(&property) {
            property.value = value.to_owned();
            let text = "what is after # is no comment to Java but part of the value, so Debezium \
                        fails; it is read as a comment";
            remark.get_or_insert_with(|| PropertyFinding::of(&property, text));
        }
        properties.push(property);
    }
    Ok((properties, remark))
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
