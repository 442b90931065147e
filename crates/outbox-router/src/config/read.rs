//! Takes typed values out of the tree, one table at a time. Every problem is noted with its place
//! and reading goes on, so that a person sees all problems at once. A key that is left when its
//! table has been read is unknown.

use std::ops::RangeInclusive;

use super::{
    entry::KeyEntry,
    error::{ConfigCode, ConfigError, ConfigErrors, Place, Rejection},
    quantity::{NotAQuantity, Quantity},
    secret::{HIDDEN, Secret},
    source::SourceFile,
    suggest,
    tree::{Node, Origin, Quoting, Table, Value},
};

/// The problems found so far.
#[derive(Debug)]
pub(super) struct Problems<'f> {
    file: Option<&'f SourceFile>,
    known: &'f [KeyEntry],
    errors: Vec<ConfigError>,
}

impl<'f> Problems<'f> {
    /// `known` is every key there is, for suggestions.
    pub(super) const fn new(file: Option<&'f SourceFile>, known: &'f [KeyEntry]) -> Self {
        Self { file, known, errors: Vec::new() }
    }

    /// Notes a problem, with the place where the value was set.
    pub(super) fn report(&mut self, error: ConfigError, origin: &Origin) {
        self.errors.push(error.at(origin.place(self.file)));
    }

    /// Notes a problem that has its place already, or has none.
    pub(super) fn push(&mut self, error: ConfigError) {
        self.errors.push(error);
    }

    /// Whether there is one with what was set at this place.
    pub(super) fn has_any_at(&self, place: &Place) -> bool {
        self.errors.iter().any(|error| error.place == *place)
    }

    /// How many were found so far.
    pub(super) fn count(&self) -> usize {
        self.errors.len()
    }

    /// `value`, unless there were problems.
    pub(super) fn into_result<T>(self, value: T) -> Result<T, ConfigErrors> {
        if self.errors.is_empty() { Ok(value) } else { Err(ConfigErrors(self.errors)) }
    }
}

/// One table of the tree. Its reader takes the keys out of it.
pub(super) struct Section {
    path: String,
    members: Table,
    asked: Vec<&'static str>,
}

impl Section {
    /// The whole tree.
    pub(super) const fn root(members: Table) -> Self {
        Self { path: String::new(), members, asked: Vec::new() }
    }

    /// Its full name.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn take(&mut self, key: &'static str) -> Option<Node> {
        self.asked.push(key);
        self.members.remove(key).map(|member| member.node)
    }

    fn wrong_type(
        &self,
        key: &str,
        node: &Node,
        expected: &str,
        hint: impl Into<Option<String>>,
        problems: &mut Problems<'_>,
    ) {
        let (path, kind) = (self.path_of(key), node.value.kind());
        let mut error = ConfigError::new(
            ConfigCode::WrongType,
            format!("{path} must be {expected}, not {kind}"),
        );
        error.hint = hint.into();
        problems.report(error, &node.origin);
    }

    fn reject(&self, key: &str, node: &Node, why: Rejection, problems: &mut Problems<'_>) {
        let shown = match &node.value {
            Value::Text(text) if text.quoting == Quoting::Allowed => format!("{:?}", text.text),
            Value::Text(_) | Value::List(_) | Value::Table(_) => HIDDEN.to_owned(),
            Value::Literal { text, .. } => text.clone(),
        };
        let message = format!("{} {shown} {}", self.path_of(key), why.message);
        let mut error = ConfigError::new(why.code, message);
        error.hint = why.hint;
        problems.report(error, &node.origin);
    }

    /// The table at `key`; empty when it is absent or something else.
    pub(super) fn section(&mut self, key: &'static str, problems: &mut Problems<'_>) -> Self {
        self.optional_section(key, problems).unwrap_or_else(|| self.inner(key, Table::new()))
    }

    /// The table at `key`, where its presence has a meaning of its own.
    pub(super) fn optional_section(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        let node = self.take(key)?;
        match node.value {
            Value::Table(members) => Some(self.inner(key, members)),
            Value::Text(_) | Value::Literal { .. } | Value::List(_) => {
                self.wrong_type(key, &node, "a table", None, problems);
                None
            }
        }
    }

    /// The list of tables at `key`.
    pub(super) fn sections(&mut self, key: &'static str, problems: &mut Problems<'_>) -> Vec<Self> {
        let Some(node) = self.take(key) else { return Vec::new() };
        let hint = Some(format!("write [[{key}]], in double brackets, above each of them"));
        let Value::List(items) = node.value else {
            self.wrong_type(key, &node, "a list of tables", hint, problems);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            match item.value {
                Value::Table(members) => {
                    sections.push(self.inner(&format!("{key}[{index}]"), members));
                }
                Value::Text(_) | Value::Literal { .. } | Value::List(_) => {
                    self.wrong_type(key, &item, "a list of tables", hint.clone(), problems);
                }
            }
        }
        sections
    }

    fn inner(&self, key: &str, members: Table) -> Self {
        Self { path: self.path_of(key), members, asked: Vec::new() }
    }

    /// A text that `parse` understands.
    pub(super) fn text<T>(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
        parse: impl FnOnce(&str) -> Result<T, Rejection>,
    ) -> Option<T> {
        let node = self.take(key)?;
        match &node.value {
            Value::Text(text) => match parse(&text.text) {
                Ok(value) => Some(value),
                Err(why) => {
                    self.reject(key, &node, why, problems);
                    None
                }
            },
            Value::Literal { text, .. } => {
                let hint = format!("write it in quotes: \"{text}\"");
                self.wrong_type(key, &node, "a text", hint, problems);
                None
            }
            Value::List(_) | Value::Table(_) => {
                self.wrong_type(key, &node, "a text", None, problems);
                None
            }
        }
    }

    /// A text that no message quotes.
    pub(super) fn secret(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
    ) -> Option<Secret<String>> {
        let node = self.take(key)?;
        if let Value::Text(text) = node.value {
            return Some(Secret::new(text.text));
        }
        self.wrong_type(key, &node, "a text", None, problems);
        None
    }

    /// One text, or a list of alternatives; an empty list means none at all.
    pub(super) fn texts<T>(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
        parse: impl Fn(&str) -> Result<T, Rejection>,
    ) -> Option<Vec<T>> {
        let node = self.take(key)?;
        let Node { value, origin } = node;
        let items = match value {
            Value::List(items) => items,
            value @ (Value::Text(_) | Value::Literal { .. } | Value::Table(_)) => {
                vec![Node { value, origin }]
            }
        };
        let mut texts = Vec::new();
        for item in items {
            match &item.value {
                Value::Text(text) => match parse(&text.text) {
                    Ok(text) => texts.push(text),
                    Err(why) => self.reject(key, &item, why, problems),
                },
                Value::Literal { .. } | Value::List(_) | Value::Table(_) => {
                    self.wrong_type(key, &item, "a text or a list of texts", None, problems);
                }
            }
        }
        Some(texts)
    }

    /// A whole number without a unit; `reason` is why it is limited, where that is not plain.
    pub(super) fn count(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        reason: Option<&'static str>,
        problems: &mut Problems<'_>,
    ) -> Option<u64> {
        let node = self.take(key)?;
        let digits = match &node.value {
            Value::Literal { text, kind: "an integer" } => text.clone(),
            // The environment, flags and placeholders give only texts.
            Value::Text(text)
                if !matches!(node.origin, Origin::File(_))
                    || text.quoting == Quoting::Forbidden =>
            {
                text.text.replace('_', "")
            }
            Value::Text(_) | Value::Literal { .. } | Value::List(_) | Value::Table(_) => {
                self.wrong_type(key, &node, "a whole number", None, problems);
                return None;
            }
        };
        let (least, most) = (range.start(), range.end());
        match digits.parse() {
            Ok(number) if range.contains(&number) => return Some(number),
            Ok(_) | Err(_) => {}
        }
        let why = Rejection::value(format!("is not a whole number from {least} to {most}"));
        let why = match reason {
            Some(reason) => why.hint(reason),
            None => why,
        };
        self.reject(key, &node, why, problems);
        None
    }

    /// true or false.
    pub(super) fn switch(
        &mut self,
        key: &'static str,
        problems: &mut Problems<'_>,
    ) -> Option<bool> {
        let node = self.take(key)?;
        let word = match &node.value {
            Value::Literal { text, kind: "a boolean" } => text.as_str(),
            // The environment, flags and placeholders give only texts.
            Value::Text(text)
                if !matches!(node.origin, Origin::File(_))
                    || text.quoting == Quoting::Forbidden =>
            {
                text.text.as_str()
            }
            Value::Text(_) | Value::Literal { .. } | Value::List(_) | Value::Table(_) => {
                self.wrong_type(key, &node, "true or false", None, problems);
                return None;
            }
        };
        match word {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                self.reject(key, &node, Rejection::value("is not true or false"), problems);
                None
            }
        }
    }

    /// A duration in milliseconds or a size in bytes.
    pub(super) fn quantity(
        &mut self,
        key: &'static str,
        quantity: Quantity,
        range: RangeInclusive<u64>,
        problems: &mut Problems<'_>,
    ) -> Option<u64> {
        let node = self.take(key)?;
        let text = match &node.value {
            Value::Text(text) => text.text.as_str(),
            Value::Literal { text, kind: "an integer" } => text.as_str(),
            Value::Literal { .. } | Value::List(_) | Value::Table(_) => {
                self.wrong_type(key, &node, quantity.noun(), None, problems);
                return None;
            }
        };
        let why = match quantity.parse(text) {
            Ok(amount) if range.contains(&amount) => return Some(amount),
            Ok(_) => {
                let [least, most] = [range.start(), range.end()].map(|n| quantity.print(*n));
                Rejection::value(format!("is not between {least} and {most}"))
            }
            Err(why) => {
                let problem = match why {
                    NotAQuantity::Bare => "has no unit".to_owned(),
                    NotAQuantity::Unit => "has a unit that is not known".to_owned(),
                    NotAQuantity::Malformed => format!("is not {}", quantity.noun()),
                };
                Rejection::unit(problem).hint(format!("write it like {}", quantity.example()))
            }
        };
        self.reject(key, &node, why, problems);
        None
    }

    /// Every member as a text, whatever its name: for librdkafka's properties.
    pub(super) fn properties(mut self, problems: &mut Problems<'_>) -> Vec<(String, String)> {
        let mut properties = Vec::new();
        for (name, member) in std::mem::take(&mut self.members) {
            match &member.node.value {
                Value::Text(text) => properties.push((name, text.text.clone())),
                Value::Literal { text, .. } => properties.push((name, text.clone())),
                Value::List(_) | Value::Table(_) => {
                    self.wrong_type(&name, &member.node, "a text", None, problems);
                }
            }
        }
        properties
    }

    /// Reports every key that was not asked for as unknown.
    pub(super) fn finish(self, problems: &mut Problems<'_>) {
        for (name, member) in &self.members {
            let place = match self.path.as_str() {
                "" => "at the top level".to_owned(),
                path => format!("in {path}"),
            };
            let message = format!("there is no key {name} {place}");
            let mut error = ConfigError::new(ConfigCode::UnknownKey, message);
            let likely = suggest::elsewhere(name, problems.known)
                .or_else(|| suggest::nearest(name, self.asked.iter().copied()));
            error.hint = likely.map(|key| format!("did you mean {key}?"));
            problems.report(error, &member.key);
        }
    }
}
