//! YAML documents as trees in which every node knows its line.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::super::error::ReadError;

/// Deeper than any resource; the tree is read by recursion.
const DEPTH_MAX: usize = 32;

/// A node, with its line counted from 1.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Value {
    /// The text of a scalar, whatever type YAML gives it; empty for null.
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<Member>),
}

/// A member of a mapping.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) node: Node,
}

impl Node {
    /// The member of a mapping.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        let found = self.members().iter().find(|member| member.name == name);
        found.map(|member| &member.node)
    }

    /// The members, where it is a mapping.
    pub(super) fn members(&self) -> &[Member] {
        match &self.value {
            Value::Map(members) => members,
            Value::Scalar(_) | Value::List(_) => &[],
        }
    }

    /// The items, where it is a list.
    pub(super) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            Value::Scalar(_) | Value::Map(_) => &[],
        }
    }

    /// The text, where it is a single value.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) => Some(text),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The text of a setting, which the file writes under this name.
    pub(super) fn single(&self, written: &str) -> Result<&str, ReadError> {
        self.text().ok_or_else(|| {
            let hint = "a connector's configuration is flat: names with dots, each with one text";
            ReadError::new(format!("{written} is no single value"), hint).at(self.line)
        })
    }
}

/// Every document of a file.
pub(super) fn documents(text: &str) -> Result<Vec<Node>, ReadError> {
    let mut reader = Reader { parser: Parser::new_from_str(text) };
    let mut documents = Vec::new();
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            event @ (Event::Alias(_)
            | Event::Scalar(..)
            | Event::SequenceStart(..)
            | Event::SequenceEnd
            | Event::MappingStart(..)
            | Event::MappingEnd) => documents.push(reader.node(event, span, 0)?),
        }
    }
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), ReadError> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => Err(malformed(&error)),
            None => Err(ReadError::new("the YAML ends too early", SPACES)),
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, ReadError> {
        let line = span.start.line();
        if depth > DEPTH_MAX {
            let message = format!("more than {DEPTH_MAX} levels of YAML");
            return Err(ReadError::new(message, "give the KafkaConnector alone").at(line));
        }
        let value = match event {
            Event::Scalar(text, style, ..) => Value::Scalar(scalar(&text, style)),
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.map(depth)?,
            Event::Alias(_)
            | Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => {
                let hint = "write the value where the alias (*name) stands";
                return Err(ReadError::new("an alias of YAML is not read", hint).at(line));
            }
        };
        Ok(Node { line, value })
    }

    fn list(&mut self, depth: usize) -> Result<Value, ReadError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::List(items));
            }
            items.push(self.node(event, span, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Value, ReadError> {
        let mut members = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Value::Map(members));
            }
            let line = span.start.line();
            let Event::Scalar(name, ..) = event else {
                let message = "a name in a YAML mapping is no single value";
                return Err(ReadError::new(message, SPACES).at(line));
            };
            let (event, span) = self.next()?;
            let node = self.node(event, span, depth + 1)?;
            members.push(Member { name: name.into_owned(), line, node });
        }
    }
}

const SPACES: &str = "check the indentation, and put texts with ': ' or ' #' into quotes";

fn malformed(error: &ScanError) -> ReadError {
    ReadError::new(format!("not valid YAML: {}", error.info()), SPACES).at(error.marker().line())
}

/// The text of a scalar, whatever type YAML gives it; empty for null.
fn scalar(text: &str, style: ScalarStyle) -> String {
    let is_null = style == ScalarStyle::Plain && matches!(text, "~" | "null" | "Null" | "NULL");
    if is_null { String::new() } else { text.to_owned() }
}
