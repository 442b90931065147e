//! One `[[outbox]]`: how the rows of a table are routed, which is [`relay::OutboxTable`], and in
//! which order they are read and how they are marked, where they are polled.
//!
//! Both are read from the same table of the file. They are two values, because the core's routing
//! does not know by which source a row came, and its type must not hold what only SQL needs. They
//! stand in one value, and not in two lists, because two lists can have different lengths.

use relay::{OutboxTable, TableName};

use super::{
    entry::KeyEntry,
    error::{ConfigCode, ConfigError, Rejection},
    kinds::{Kind, Named, choice, group, optional_text, optional_texts},
    names::{identifier, unquote},
    places::Places,
    print::Lines,
    read::{Problems, Section},
    table::{DeclaredTable, tables},
};
use crate::polling::sql::{
    Direction, MarkConfig, MarkHow, Nulls, OrderColumn, TableConfig, same_word,
};

/// One outbox table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbox {
    /// How its rows are routed.
    pub table: OutboxTable,
    /// How its rows are polled.
    pub polled: PolledTable,
}

impl Outbox {
    /// A table with every default.
    pub fn with_defaults(name: TableName) -> Self {
        Self { table: OutboxTable::with_defaults(name), polled: PolledTable::default() }
    }

    /// For the polling source.
    pub(super) fn polled_table(&self) -> TableConfig {
        let Self { table, polled: PolledTable { order_by, mark } } = self;
        TableConfig { outbox: table.clone(), order_by: order_by.clone(), mark: mark.clone() }
    }
}

impl DeclaredTable for Outbox {
    fn defaults() -> Self {
        Self { table: OutboxTable::defaults(), polled: PolledTable::defaults() }
    }

    fn read_keys(section: &mut Section, problems: &mut Problems<'_>) -> Self {
        Self {
            table: OutboxTable::read_keys(section, problems),
            polled: PolledTable::read_keys(section, problems),
        }
    }

    fn write(&self, prefix: &str, lines: &mut Lines) {
        self.table.write(prefix, lines);
        self.polled.write(prefix, lines);
    }

    fn describe(prefix: &str, entries: &mut Vec<KeyEntry>) {
        OutboxTable::describe(prefix, entries);
        PolledTable::describe(prefix, entries);
    }
}

const HOW: &[(&str, MarkHow)] = &[
    ("auto", MarkHow::Auto),
    ("timestamp", MarkHow::Timestamp),
    ("flag", MarkHow::Flag),
    ("status", MarkHow::Status),
    ("delete", MarkHow::Delete),
];

const WORD: &str = "a word of the status column";
const BY_DEFAULT: &str = "by the default of the status column, where the table has one";

tables! {
    /// How the rows of a table are polled.
    pub struct PolledTable {
        /// The columns by which pending rows are put in order, each with `asc` or `desc` and `nulls
        /// first` or `nulls last` behind it, as in SQL. What is before in it is delivered before
        /// within a key. A name with a space in it stands in double quotes.
        order_by: Vec<OrderColumn> = Vec::new(), optional_texts(
            "a list of columns, each as in ORDER BY",
            parse_order,
            print_order,
            "hlc nulls last, the time column, the primary key; without hlc, a sequence alone",
            "[\"hlc nulls last\", \"created_at\", \"id\"]"
        );
        /// How a row shows whether it is pending, and what becomes of it.
        mark: MarkConfig = MarkConfig::default(), group();
    }

    impl MarkConfig {
        /// auto: by the columns of known names that the table has, all of them; timestamp: by a
        /// time that is NULL while the row is pending; flag: by a boolean, or 0 and 1; status: by a
        /// word; delete: a delivered row is deleted (docs/polling.md).
        how: MarkHow = MarkHow::Auto, choice(HOW);
        /// The column; with how = "timestamp", "flag" or "status".
        column: Option<String> = None, optional_text(
            "a column's name", parse_name, String::clone,
            "the column of a known name that the table has", "status"
        );
        /// The words of rows that are to be delivered.
        pending: Vec<String> = Vec::new(), optional_texts(
            "a list of words of the status column",
            parse_word, String::clone, BY_DEFAULT, "[\"PENDING\"]"
        );
        /// The word of rows that a worker has claimed.
        processing: Option<String> = None,
            optional_text(WORD, parse_word, String::clone, BY_DEFAULT, "PROCESSING");
        /// The word of rows that are delivered.
        published: Option<String> = None,
            optional_text(WORD, parse_word, String::clone, BY_DEFAULT, "PUBLISHED");
        /// The word of rows that could not be delivered, and are tried again. It may be one of
        /// pending.
        failed: Option<String> = None,
            optional_text(WORD, parse_word, String::clone, BY_DEFAULT, "FAILED");
        /// The word of abandoned rows.
        abandoned: Option<String> = None,
            optional_text(WORD, parse_word, String::clone, BY_DEFAULT, "ABANDONED");
    }
}

fn parse_name(text: &str) -> Result<String, Rejection> {
    identifier(text).map(str::to_owned)
}

fn parse_word(text: &str) -> Result<String, Rejection> {
    if text.is_empty() { Err(Rejection::value("is empty")) } else { Ok(text.to_owned()) }
}

const ORDER: &str =
    "write \"created_at\", \"created_at desc\", \"hlc nulls last\", or '\"Created At\" desc'";

/// Reads a column as in ORDER BY. A name without quotes is taken as it is: letters are not folded,
/// as in the keys of `columns`.
fn parse_order(text: &str) -> Result<OrderColumn, Rejection> {
    let malformed = || Rejection::value("is no column of an ORDER BY").hint(ORDER);
    let text = text.trim();
    let (name, rest) = match text.strip_prefix('"') {
        Some(quoted) => unquote(quoted).ok_or_else(malformed)?,
        None => {
            let end = text.find(char::is_whitespace).unwrap_or(text.len());
            let (name, rest) = text.split_at_checked(end).ok_or_else(malformed)?;
            if name.contains(',') {
                return Err(Rejection::value("is more than one column")
                    .hint("write a list: [\"created_at\", \"id\"]"));
            }
            if name.contains('"') {
                return Err(malformed());
            }
            (name.to_owned(), rest)
        }
    };
    identifier(&name)?;
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return Err(malformed());
    }
    let words: Vec<String> = rest.split_whitespace().map(str::to_ascii_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (direction, nulls) = match words.as_slice() {
        ["asc", nulls @ ..] => (Direction::Asc, nulls),
        ["desc", nulls @ ..] => (Direction::Desc, nulls),
        nulls => (Direction::Asc, nulls),
    };
    let nulls = match nulls {
        [] => Nulls::Default,
        ["nulls", "first"] => Nulls::First,
        ["nulls", "last"] => Nulls::Last,
        _ => return Err(malformed()),
    };
    Ok(OrderColumn { name, direction, nulls })
}

/// Writes the column as [`parse_order`] reads it.
fn print_order(column: &OrderColumn) -> String {
    let OrderColumn { name, direction, nulls } = column;
    let is_plain = !name.contains(|c: char| c.is_whitespace() || matches!(c, '"' | ','));
    let name = if is_plain { name.clone() } else { format!("\"{}\"", name.replace('"', "\"\"")) };
    let direction = match direction {
        Direction::Asc => "",
        Direction::Desc => " desc",
    };
    let nulls = match nulls {
        Nulls::Default => "",
        Nulls::First => " nulls first",
        Nulls::Last => " nulls last",
    };
    format!("{name}{direction}{nulls}")
}

/// Checks the keys of one table against each other. `place` is its name in messages.
pub(super) fn validate_polled(
    place: &str,
    polled: &PolledTable,
    places: &Places,
    problems: &mut Problems<'_>,
) {
    let order = format!("{place}.order_by");
    for (index, column) in polled.order_by.iter().enumerate() {
        if polled.order_by.iter().take(index).any(|before| before.name == column.name) {
            let message = format!("{order} names the column {} twice", column.name);
            let at = places.find_first(&[&format!("{order}[{index}]"), &order]);
            problems.push(ConfigError::new(ConfigCode::Contradiction, message).at(at));
        }
    }
    if let Some((key, message, hint)) = mark_contradiction(&polled.mark) {
        let at =
            places.find_first(&[&format!("{place}.mark.{key}"), &format!("{place}.mark.{key}[0]")]);
        let message = format!("{place}.mark.{message}");
        problems.push(ConfigError::new(ConfigCode::Contradiction, message).at(at).hint(hint));
    }
}

/// What contradicts itself in the marks: the key, the message from the key on, and what to do.
fn mark_contradiction(mark: &MarkConfig) -> Option<(&'static str, String, &'static str)> {
    let words: Vec<_> = mark.words().collect();
    let how = HOW.iter().find(|(_, how)| *how == mark.how).map_or("", |(word, _)| word);
    if let (MarkHow::Auto | MarkHow::Delete, Some(column)) = (mark.how, &mark.column) {
        let message = format!("column (\"{column}\") has no effect: mark.how is \"{how}\"");
        let hint = "set mark.how to what the column is: timestamp, flag or status";
        return Some(("column", message, hint));
    }
    // With "delete", rows that wait or are claimed have words.
    let has_words = matches!(mark.how, MarkHow::Auto | MarkHow::Status | MarkHow::Delete);
    if let (false, Some((key, _))) = (has_words, words.first()) {
        let message = format!("{key} has no effect: mark.how is \"{how}\"");
        return Some((key, message, "set mark.how = \"status\", or leave it out"));
    }
    let (key, other, word) = same_word(&words)?;
    if key == other {
        return Some((key, format!("{key} has the word \"{word}\" twice"), "name it once"));
    }
    let message = format!("{key} is \"{word}\", and so is mark.{other}");
    let hint = if (key, other) == ("abandoned", "failed") {
        "set mark.failed to the word of pending rows, as in mark.failed = \"PENDING\": a row that \
         waits for another attempt is then pending"
    } else {
        "each state of a row needs a word of its own"
    };
    Some((key, message, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_an_order_is_read_as_in_sql_and_printed_as_it_is_read() {
        let column =
            |name: &str, direction, nulls| OrderColumn { name: name.to_owned(), direction, nulls };
        for (text, expected, printed) in [
            ("id", column("id", Direction::Asc, Nulls::Default), "id"),
            (" id  ASC ", column("id", Direction::Asc, Nulls::Default), "id"),
            ("At desc", column("At", Direction::Desc, Nulls::Default), "At desc"),
            ("hlc nulls last", column("hlc", Direction::Asc, Nulls::Last), "hlc nulls last"),
            (
                "hlc desc NULLS  FIRST",
                column("hlc", Direction::Desc, Nulls::First),
                "hlc desc nulls first",
            ),
            (
                "\"a \"\"b\"\"\" desc",
                column("a \"b\"", Direction::Desc, Nulls::Default),
                "\"a \"\"b\"\"\" desc",
            ),
            ("\"id\"", column("id", Direction::Asc, Nulls::Default), "id"),
            (
                "\"nulls\" nulls last",
                column("nulls", Direction::Asc, Nulls::Last),
                "nulls nulls last",
            ),
        ] {
            assert_eq!(parse_order(text).as_ref(), Ok(&expected), "{text}");
            assert_eq!(print_order(&expected), printed);
            assert_eq!(parse_order(printed), Ok(expected), "{printed}");
        }
    }

    #[test]
    fn what_is_no_column_of_an_order_is_refused() {
        for (text, why) in [
            ("", "is empty"),
            ("id ascending", "is no column of an ORDER BY"),
            ("id nulls", "is no column of an ORDER BY"),
            ("id nulls last desc", "is no column of an ORDER BY"),
            ("\"id", "is no column of an ORDER BY"),
            ("\"id\"desc", "is no column of an ORDER BY"),
            ("i\"d", "is no column of an ORDER BY"),
            ("created_at, id", "is more than one column"),
            ("a,b", "is more than one column"),
            (&"x".repeat(64), "is longer than 63 bytes"),
        ] {
            assert_eq!(parse_order(text).map_err(|why| why.message), Err(why.to_owned()), "{text}");
        }
    }
}
