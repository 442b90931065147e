//! The topic of a table as it is configured.

use std::fmt;

use super::{
    java_regex::JavaRegex,
    name::{IllegalTopicName, TopicName},
};
use crate::routing::template::{MalformedTemplate, Template};

/// A topic's name with placeholders: `${aggregate_type}`, `${column}` or, with a regular
/// expression, `${group}` and `$1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicTemplate {
    text: String,
}

/// A part of a topic whose placeholders are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// The aggregate type.
    Type,
    /// A group of the regular expression.
    Group(Group),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Group {
    Number(usize),
    Name(String),
}

/// The placeholder of the aggregate type.
const AGGREGATE_TYPE: &str = "aggregate_type";

/// What is wrong with a topic template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IllegalTemplate {
    /// A placeholder is malformed.
    #[error("{0}")]
    Template(MalformedTemplate),
    /// `$1` without a regular expression.
    #[error("${0} is a group of the route expression, and there is none")]
    NoRegex(usize),
    /// A group that the regular expression does not have.
    #[error("the route expression has no group {0}")]
    NoGroup(String),
    /// The fixed parts are not legal in a topic name.
    #[error("the topic would not be legal: {0}")]
    Topic(IllegalTopicName),
}

impl TopicTemplate {
    /// Reads a template such as `outbox.event.${aggregate_type}`. Whether its groups exist is known
    /// only with the regular expression.
    ///
    /// # Errors
    /// A placeholder is malformed, or the fixed parts are not legal in a topic name.
    pub fn parse(text: &str) -> Result<Self, IllegalTemplate> {
        let template = Self { text: text.to_owned() };
        let parts = template.raw_parts()?;
        // The fixed parts must be legal with any value: "x" is put into each placeholder.
        let name: String = parts
            .iter()
            .map(|part| match part {
                RawPart::Text(text) => text.as_str(),
                RawPart::Placeholder(_) | RawPart::Number(_) => "x",
            })
            .collect();
        TopicName::new(&name).map_err(IllegalTemplate::Topic)?;
        Ok(template)
    }

    /// Whether the topic depends on the row's aggregate type.
    pub fn depends_on_type(&self) -> bool {
        self.text.contains("${aggregate_type}")
    }

    /// The template over columns, if it names any beside the aggregate type.
    pub(crate) fn of_columns(&self) -> Option<Template> {
        let parts = self.raw_parts().ok()?;
        let names_column =
            |part: &RawPart| matches!(part, RawPart::Placeholder(name) if name != AGGREGATE_TYPE);
        let template = Template::parse(&self.text).ok()?;
        parts.iter().any(names_column).then_some(template)
    }

    /// Its parts, where its placeholders are the groups of a regular expression.
    ///
    /// # Errors
    /// The expression has no such group.
    pub(super) fn with_groups(&self, regex: &JavaRegex) -> Result<Vec<Part>, IllegalTemplate> {
        let mut parts = Vec::new();
        for part in self.raw_parts()? {
            match part {
                RawPart::Text(text) => parts.push(Part::Text(text)),
                RawPart::Placeholder(name) if regex.has_group(&name) => {
                    parts.push(Part::Group(Group::Name(name)));
                }
                RawPart::Placeholder(name) if name == AGGREGATE_TYPE => parts.push(Part::Type),
                RawPart::Placeholder(name) => return Err(IllegalTemplate::NoGroup(name)),
                RawPart::Number(digits) => {
                    let Some((number, rest)) = regex.numbered_group(&digits) else {
                        return Err(IllegalTemplate::NoGroup(digits));
                    };
                    parts.push(Part::Group(Group::Number(number)));
                    if !rest.is_empty() {
                        parts.push(Part::Text(rest.to_owned()));
                    }
                }
            }
        }
        Ok(parts)
    }

    /// Its parts, where the only placeholder is the aggregate type.
    ///
    /// # Errors
    /// It names a group by its number.
    pub(super) fn without_groups(&self) -> Result<Vec<Part>, IllegalTemplate> {
        let part = |part| match part {
            RawPart::Text(text) => Ok(Part::Text(text)),
            RawPart::Placeholder(_) => Ok(Part::Type),
            RawPart::Number(digits) => {
                Err(IllegalTemplate::NoRegex(digits.parse().unwrap_or_default()))
            }
        };
        self.raw_parts()?.into_iter().map(part).collect()
    }

    fn raw_parts(&self) -> Result<Vec<RawPart>, IllegalTemplate> {
        let mut parts = Vec::new();
        let mut rest = self.text.as_str();
        while let Some((before, after)) = rest.split_once('$') {
            if !before.is_empty() {
                parts.push(RawPart::Text(before.to_owned()));
            }
            if let Some(after) = after.strip_prefix('{') {
                let unclosed = IllegalTemplate::Template(MalformedTemplate::Unclosed);
                let (inside, after) = after.split_once('}').ok_or(unclosed)?;
                if inside.is_empty() {
                    return Err(IllegalTemplate::Template(MalformedTemplate::NoColumn));
                }
                parts.push(RawPart::Placeholder(inside.to_owned()));
                rest = after;
            } else {
                let digits = after.bytes().take_while(u8::is_ascii_digit).count();
                match after.split_at_checked(digits) {
                    Some((digits, after)) if !digits.is_empty() => {
                        parts.push(RawPart::Number(digits.to_owned()));
                        rest = after;
                    }
                    // A lone "$" is left for the check of the name to refuse.
                    _ => {
                        parts.push(RawPart::Text("$".to_owned()));
                        rest = after;
                    }
                }
            }
        }
        if !rest.is_empty() {
            parts.push(RawPart::Text(rest.to_owned()));
        }
        Ok(parts)
    }
}

/// A part whose meaning depends on whether there is a regular expression.
enum RawPart {
    Text(String),
    /// What stands between `${` and `}`.
    Placeholder(String),
    /// The digits after a `$`.
    Number(String),
}

impl Default for TopicTemplate {
    /// `outbox.event.${aggregate_type}`, which is Debezium's default.
    fn default() -> Self {
        Self { text: "outbox.event.${aggregate_type}".to_owned() }
    }
}

impl fmt::Display for TopicTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_placeholders_and_illegal_parts_are_refused() {
        for text in
            ["a b", "", "a/${aggregate_type}", "a.${", "a.${}", "a$b", "__${aggregate_type}"]
        {
            assert!(TopicTemplate::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn columns_make_a_template_of_columns() {
        let columns = |text: &str| TopicTemplate::parse(text).unwrap().of_columns();
        assert!(columns("a.${aggregate_type}").is_none());
        assert!(columns("a").is_none());
        assert_eq!(
            columns("a.${tenant}.${aggregate_type}").unwrap().to_string(),
            "a.${tenant}.${aggregate_type}"
        );
    }

    #[test]
    fn groups_are_those_of_the_expression() {
        let regex = JavaRegex::parse("(?<a>x)(y)").unwrap();
        let parts = |text: &str| TopicTemplate::parse(text).unwrap().with_groups(&regex);
        let number = |number| Part::Group(Group::Number(number));
        assert_eq!(parts("$1").unwrap(), [number(1)]);
        assert_eq!(parts("$2x").unwrap(), [number(2), Part::Text("x".into())]);
        // Java: the 12th group does not exist, so the first and a "2".
        assert_eq!(parts("$12").unwrap(), [number(1), Part::Text("2".into())]);
        assert_eq!(parts("${a}").unwrap(), [Part::Group(Group::Name("a".into()))]);
        assert_eq!(parts("$3"), Err(IllegalTemplate::NoGroup("3".into())));
        assert_eq!(parts("${b}"), Err(IllegalTemplate::NoGroup("b".into())));
        let without = TopicTemplate::parse("a.$1").unwrap().without_groups();
        assert_eq!(without, Err(IllegalTemplate::NoRegex(1)));
    }
}
