//! Kinds of single values.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    super::{
        entry::{Content, KeyEntry, KeyType, Secrecy},
        error::Rejection,
        print::{Lines, quoted, quoted_template},
        quantity::{Quantity, print_duration, print_size},
        read::{Problems, Section},
        secret::{Secret, without_password},
    },
    kind::{KeyName, Kind, Named},
};

/// A kind of key that holds no further keys.
pub(in super::super) struct Leaf<T> {
    take: Take<T>,
    /// The value as TOML; `None` when it is not set.
    print: Print<T>,
    /// Type, range and unit.
    takes: String,
    /// For a key that is not set by default, as TOML.
    example: Option<String>,
    /// What applies while the key is not set; printed as a comment.
    unset: Option<&'static str>,
    secrecy: Secrecy,
}

type Take<T> = Box<dyn Fn(KeyName, &mut Section, &mut Problems<'_>) -> Option<T>>;
type Print<T> = Box<dyn Fn(&T) -> Option<String>>;

impl<T> Kind<T> for Leaf<T> {
    fn read(&self, key: KeyName, from: &mut Section, problems: &mut Problems<'_>) -> Option<T> {
        (self.take)(key, from, problems)
    }

    fn write(&self, key: &str, value: &T, lines: &mut Lines) {
        match ((self.print)(value), self.unset) {
            (Some(value), _) => lines.set(key, &value),
            (None, Some(unset)) => lines.unset(key, unset),
            (None, None) => {}
        }
    }

    fn describe(&self, key: Named, default: &T, entries: &mut Vec<KeyEntry>) {
        let Named { name, help } = key;
        let content = Content::Value(KeyType {
            takes: self.takes.clone(),
            default: (self.print)(default),
            examples: self.example.iter().cloned().collect(),
            secrecy: self.secrecy,
        });
        entries.push(KeyEntry { name, help, content });
    }
}

impl<T> Leaf<T> {
    pub(super) fn new(
        takes: impl Into<String>,
        take: impl Fn(KeyName, &mut Section, &mut Problems<'_>) -> Option<T> + 'static,
        print: impl Fn(&T) -> Option<String> + 'static,
    ) -> Self {
        Self {
            take: Box::new(take),
            print: Box::new(print),
            takes: takes.into(),
            example: None,
            unset: None,
            secrecy: Secrecy::Public,
        }
    }
}

impl<T> Leaf<T> {
    /// The same kind, with an example for a key that is not set by default.
    pub(super) fn with_example(self, example: &str) -> Self {
        Self { example: Some(example.to_owned()), ..self }
    }
}

/// A text that `parse` understands and `print` writes.
pub(in super::super) fn text<T: 'static>(
    takes: &str,
    parse: fn(&str) -> Result<T, Rejection>,
    print: fn(&T) -> String,
) -> Leaf<T> {
    let take =
        move |key, from: &mut Section, problems: &mut Problems<'_>| from.text(key, problems, parse);
    Leaf::new(takes, take, move |value| Some(quoted(&print(value))))
}

/// A text that need not be set; `unset` says what applies then. A `${` in it is part of the text.
pub(in super::super) fn optional_text<T: 'static>(
    takes: &str,
    parse: fn(&str) -> Result<T, Rejection>,
    print: fn(&T) -> String,
    unset: &'static str,
    example: &str,
) -> Leaf<Option<T>> {
    let take = move |key, from: &mut Section, problems: &mut Problems<'_>| {
        from.text(key, problems, parse).map(Some)
    };
    let print = move |value: &Option<T>| value.as_ref().map(|value| quoted_template(&print(value)));
    let example = Some(quoted_template(example));
    Leaf { example, unset: Some(unset), ..Leaf::new(takes, take, print) }
}

/// Texts of which there need not be any; `unset` says what applies then.
pub(in super::super) fn optional_texts<T: 'static>(
    takes: &str,
    parse: fn(&str) -> Result<T, Rejection>,
    print: fn(&T) -> String,
    unset: &'static str,
    example: &str,
) -> Leaf<Vec<T>> {
    let take = move |key, from: &mut Section, problems: &mut Problems<'_>| {
        from.texts(key, problems, parse)
    };
    let print = move |values: &Vec<T>| {
        let texts: Vec<String> = values.iter().map(|value| quoted(&print(value))).collect();
        (!texts.is_empty()).then(|| format!("[{}]", texts.join(", ")))
    };
    let example = Some(example.to_owned());
    Leaf { example, unset: Some(unset), ..Leaf::new(takes, take, print) }
}

/// One of the listed words.
pub(in super::super) fn choice<T: Copy + PartialEq>(
    choices: &'static [(&'static str, T)],
) -> Leaf<T> {
    let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
    let takes = format!("one of {}", words.join(", "));
    let hint = takes.clone();
    let parse = move |text: &str| {
        let found = choices.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| Rejection::value("is not a choice").hint(hint.clone()))
    };
    let print = |value: &T| {
        let found = choices.iter().find(|(_, known)| known == value);
        found.map(|(word, _)| quoted(word))
    };
    Leaf::new(takes, move |key, from, problems| from.text(key, problems, &parse), print)
}

/// true or false, each of which has a name in the code.
pub(in super::super) fn switch<T: Copy + PartialEq + 'static>(yes: T, no: T) -> Leaf<T> {
    Leaf::new(
        "true or false",
        move |key, from, problems| from.switch(key, problems).map(|is| if is { yes } else { no }),
        move |value| Some((*value == yes).to_string()),
    )
}

fn numbers(range: &RangeInclusive<u64>) -> String {
    format!("a whole number from {} to {}", range.start(), range.end())
}

/// A whole number without a unit. The type holds every number of the range.
pub(in super::super) fn count<T>(range: RangeInclusive<u64>) -> Leaf<T>
where
    T: TryFrom<u64> + ToString,
{
    let takes = numbers(&range);
    let take = move |key, from: &mut Section, problems: &mut Problems<'_>| {
        from.count(key, range.clone(), None, problems).and_then(|count| T::try_from(count).ok())
    };
    Leaf::new(takes, take, |value: &T| Some(value.to_string()))
}

/// The same where a person needs the reason of its limit.
pub(in super::super) fn count_because(
    range: RangeInclusive<u64>,
    reason: &'static str,
) -> Leaf<u64> {
    Leaf::new(
        numbers(&range),
        move |key, from, problems| from.count(key, range.clone(), Some(reason), problems),
        |value| Some(value.to_string()),
    )
}

/// A whole number; where it is left out, the broker chooses. Kafka's CreateTopics request expresses
/// that as −1 (KIP-464).
pub(in super::super) fn count_or_broker_default<T>(
    range: RangeInclusive<u64>,
    example: u64,
) -> Leaf<T>
where
    T: TryFrom<u64> + From<i8> + PartialOrd + ToString,
{
    let takes = numbers(&range);
    let take = move |key, from: &mut Section, problems: &mut Problems<'_>| {
        from.count(key, range.clone(), None, problems).and_then(|count| T::try_from(count).ok())
    };
    let print = |value: &T| (*value > T::from(0)).then(|| value.to_string());
    Leaf { example: Some(example.to_string()), ..Leaf::new(takes, take, print) }
}

/// A number of bytes with its unit.
pub(in super::super) fn size(range: RangeInclusive<u64>) -> Leaf<u64> {
    Leaf::new(
        format!("a size from {} to {}", print_size(*range.start()), print_size(*range.end())),
        move |key, from, problems| from.quantity(key, Quantity::Size, range.clone(), problems),
        |value| Some(quoted(&print_size(*value))),
    )
}

/// A time with its unit; the range is in milliseconds.
pub(in super::super) fn duration(range: RangeInclusive<u64>) -> Leaf<Duration> {
    let [least, most] = [range.start(), range.end()].map(|n| Quantity::Duration.print(*n));
    let take = move |key, from: &mut Section, problems: &mut Problems<'_>| {
        let millis = from.quantity(key, Quantity::Duration, range.clone(), problems);
        millis.map(Duration::from_millis)
    };
    Leaf::new(format!("a duration from {least} to {most}"), take, |value| {
        Some(quoted(&print_duration(*value)))
    })
}

/// The same where it need not be set; `unset` says what applies then.
pub(in super::super) fn optional_duration(
    range: RangeInclusive<u64>,
    unset: &'static str,
    example: Duration,
) -> Leaf<Option<Duration>> {
    let Leaf { take, print, takes, secrecy, .. } = duration(range);
    Leaf {
        example: print(&example),
        take: Box::new(move |key, from, problems| take(key, from, problems).map(Some)),
        print: Box::new(move |value| value.as_ref().and_then(&print)),
        takes,
        unset: Some(unset),
        secrecy,
    }
}

/// A connection string, shown without its password.
pub(in super::super) fn connection(
    unset: &'static str,
    example: &str,
) -> Leaf<Option<Secret<String>>> {
    let plain = Leaf::new(
        "a connection string",
        |key, from, problems| from.secret(key, problems).map(Some),
        |value: &Option<Secret<String>>| Some(quoted(&without_password(value.as_ref()?))),
    );
    let example = Some(format!("\"{example}\""));
    Leaf { example, unset: Some(unset), secrecy: Secrecy::Secret, ..plain }
}
