//! Texts in which `${…}` may stand for what a row's columns have: `${column}`; `${first|second}`,
//! the first that is not NULL; `${document#/tenant/id}`, a value within a column of JSON (RFC 6901,
//! JSON Pointer).

use std::fmt;

use crate::routing::pointer::{JsonPointer, MalformedPointer};

/// A text in which `${…}` may stand for columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Written as it is.
    Text(String),
    /// Filled by the first of these that is not NULL.
    Placeholder(Vec<Alternative>),
}

/// What may fill a placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternative {
    /// The column.
    pub column: String,
    /// The value within the column's JSON; `None`: the column's text.
    pub pointer: Option<JsonPointer>,
}

/// What is wrong with a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MalformedTemplate {
    /// `${` without `}`.
    #[error("a ${{ is never closed")]
    Unclosed,
    /// `${}`, or nothing between two `|`.
    #[error("a ${{…}} names no column; write ${{column}}")]
    NoColumn,
    /// What follows a `#`.
    #[error("what follows # is no JSON Pointer: {0}")]
    Pointer(MalformedPointer),
}

impl Template {
    /// Whether a text is a template, and not a column's name.
    pub fn is_one(text: &str) -> bool {
        text.contains("${")
    }

    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with a placeholder.
    pub fn parse(text: &str) -> Result<Self, MalformedTemplate> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (inside, after) = after.split_once('}').ok_or(MalformedTemplate::Unclosed)?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Placeholder(alternatives(inside)?));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    /// The columns that it names.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        let alternatives = self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Placeholder(alternatives) => Some(alternatives),
        });
        alternatives.flatten().map(|alternative| alternative.column.as_str())
    }

    /// Its parts, in their order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
}

/// What stands between `${` and `}`.
pub(crate) fn alternatives(inside: &str) -> Result<Vec<Alternative>, MalformedTemplate> {
    inside.split('|').map(alternative).collect()
}

fn alternative(text: &str) -> Result<Alternative, MalformedTemplate> {
    let (column, pointer) = match text.split_once('#') {
        None => (text, None),
        Some((column, pointer)) => {
            let pointer = JsonPointer::parse(pointer).map_err(MalformedTemplate::Pointer)?;
            (column, Some(pointer))
        }
    };
    if column.is_empty() {
        return Err(MalformedTemplate::NoColumn);
    }
    Ok(Alternative { column: column.to_owned(), pointer })
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Text(text) => f.write_str(text)?,
                Part::Placeholder(alternatives) => {
                    f.write_str("${")?;
                    for (index, alternative) in alternatives.iter().enumerate() {
                        let separator = if index == 0 { "" } else { "|" };
                        write!(f, "{separator}{alternative}")?;
                    }
                    f.write_str("}")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Alternative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.column)?;
        match &self.pointer {
            Some(pointer) => write!(f, "#{pointer}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_written_as_it_was_read() {
        for text in [
            "${tenant}",
            "a-${tenant}.${ordering_key|event_id}-z",
            "${doc#/tenant/id|id}",
            "${doc#/a~1b/m~0n/0}",
            "constant",
        ] {
            assert_eq!(Template::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn malformed_placeholders_are_refused() {
        for text in ["${", "a ${b", "${}", "${a|}", "${|a}", "${#/a}", "${a#b}", "${a#/~2}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }
}
