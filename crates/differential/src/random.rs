//! Rows of random values, from a seed: the same ones on every machine.

use std::collections::BTreeMap;

use serde::Deserialize;
use simulation::random::Random;

use crate::case::Row;

/// Rows of random values.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomRows {
    /// What the values follow from.
    seed: u64,
    /// How many rows.
    rows: usize,
    /// Columns, and what is in them.
    columns: BTreeMap<String, Kind>,
}

/// What values a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// A key: never NULL.
    Key,
    /// A part of a topic's name.
    Route,
    Text,
    /// JSON of any shape.
    Json,
    /// An object that Debezium expands without changing it.
    ExpandableJson,
    Int2,
    Int4,
    Int8,
    Bool,
    Bytea,
    Date,
    Timestamp,
    Timestamptz,
    Uuid,
    Float8,
    Numeric,
    Time,
    Interval,
    TextArray,
    IntArray,
}

/// Characters that converters, JSON and SQL treat in different ways.
const CHARACTERS: [&str; 24] = [
    "a", "Z", "0", " ", "\t", "\n", "\r", "\"", "'", "\\", "/", "{", "}", "[", ",", ":", "\u{1}",
    "\u{7f}", "é", "ß", "\u{2028}", "\u{feff}", "漢", "😀",
];

/// How deep arrays and objects of random JSON lie within each other.
const DEPTH_MAX: u8 = 3;

impl RandomRows {
    /// Rows of the same kinds from another seed.
    pub(crate) fn with_seed(&self, seed: u64) -> Self {
        Self { seed, ..self.clone() }
    }

    /// The rows.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut values = Values(Random::new(self.seed));
        let row = |_| {
            let columns = self.columns.iter();
            let values = columns.map(|(name, kind)| (name.clone(), values.sql(*kind))).collect();
            Row { differs: None, values }
        };
        (0..self.rows).map(row).collect()
    }
}

struct Values(Random);

impl Values {
    fn sql(&mut self, kind: Kind) -> String {
        let may_be_null = !matches!(kind, Kind::Key | Kind::Route);
        if may_be_null && self.0.one_in(6) {
            return "NULL".to_owned();
        }
        match kind {
            Kind::Int2 => self.number(16),
            Kind::Int4 => self.number(32),
            Kind::Int8 => self.number(64),
            Kind::Bool => self.0.one_in(2).to_string(),
            Kind::Route => quoted(&format!("r{}", self.0.below(4))),
            Kind::Key | Kind::Text => quoted(&self.text(12)),
            Kind::Json => quoted(&self.json(0)),
            Kind::ExpandableJson => quoted(&self.object(0)),
            Kind::Bytea => quoted(&format!("\\x{}", self.digits(20))),
            Kind::Date => quoted(&self.date()),
            Kind::Timestamp => quoted(&self.timestamp()),
            Kind::Timestamptz => {
                let (time, hours) = (self.timestamp(), self.0.below(24));
                quoted(&format!("{time}{:+03}", i64::try_from(hours).unwrap_or(0) - 12))
            }
            Kind::Uuid => quoted(&format!("{:016x}{:016x}", self.bits(64), self.bits(64))),
            Kind::Float8 => {
                let (number, power) = (self.number(40), self.0.below(40));
                quoted(&format!("{number}e{}", i64::try_from(power).unwrap_or(0) - 25))
            }
            Kind::Numeric => {
                let (number, digits) = (self.number(50), 1 + self.0.below(8));
                format!(
                    "{number}.{:0width$}",
                    self.bits(8),
                    width = usize::try_from(digits).unwrap_or(1)
                )
            }
            Kind::Time => quoted(&self.clock()),
            Kind::Interval => {
                let [years, months, days] = [self.number(8), self.number(6), self.number(9)];
                let sign = if self.0.one_in(2) { "-" } else { "" };
                quoted(&format!("{years} years {months} mons {days} days {sign}{}", self.clock()))
            }
            Kind::TextArray => {
                let count = self.0.below(4);
                let elements = (0..count).map(|_| quoted(&self.text(5)));
                let elements: Vec<_> = elements.collect();
                format!("array[{}]::text[]", elements.join(","))
            }
            Kind::IntArray => {
                let count = self.0.below(4);
                let elements: Vec<_> = (0..count).map(|_| self.number(32)).collect();
                quoted(&format!("{{{}}}", elements.join(",")))
            }
        }
    }

    fn one_of(&mut self, texts: &[&'static str]) -> &'static str {
        texts.get(self.0.index(texts.len())).copied().unwrap_or_default()
    }

    fn bits(&mut self, count: u32) -> u64 {
        self.0.next_number() >> (64 - count)
    }

    /// A number of at most so many bits, small ones as often as large ones.
    fn number(&mut self, bits: u32) -> String {
        let digits = 1 + u32::try_from(self.0.below(u64::from(bits) - 1)).unwrap_or(0);
        let magnitude = self.bits(digits);
        // Not beyond the type's range.
        let magnitude = i64::try_from(magnitude).unwrap_or(i64::MAX);
        if magnitude > 0 && self.0.one_in(2) {
            format!("-{magnitude}")
        } else {
            magnitude.to_string()
        }
    }

    /// Hexadecimal digits of at most so many bytes.
    fn digits(&mut self, most: u64) -> String {
        (0..self.0.below(most + 1)).map(|_| format!("{:02x}", self.bits(8))).collect()
    }

    fn text(&mut self, most: u64) -> String {
        let length = self.0.below(most + 1);
        (0..length).map(|_| self.one_of(&CHARACTERS)).collect()
    }

    fn date(&mut self) -> String {
        let (year, month) = (1 + self.0.below(9_999), 1 + self.0.below(12));
        format!("{year:04}-{month:02}-{:02}", 1 + self.0.below(28))
    }

    fn clock(&mut self) -> String {
        let (hour, minute, second) = (self.0.below(24), self.0.below(60), self.0.below(60));
        let digits = self.0.index(7);
        let fraction = format!("{:06}", self.0.below(1_000_000));
        let fraction = fraction.get(..digits).filter(|digits| !digits.is_empty());
        let fraction = fraction.map(|digits| format!(".{digits}")).unwrap_or_default();
        format!("{hour:02}:{minute:02}:{second:02}{fraction}")
    }

    fn timestamp(&mut self) -> String {
        let clock = self.clock();
        format!("{} {clock}", self.date())
    }

    fn json_text(&mut self) -> String {
        serde_json::Value::from(self.text(6)).to_string()
    }

    /// Spaces, which JSON allows between its parts.
    fn space(&mut self) -> &'static str {
        self.one_of(&["", "", " ", "\n "])
    }

    fn json(&mut self, depth: u8) -> String {
        let kinds = if depth < DEPTH_MAX { 7 } else { 5 };
        let (before, after) = (self.space(), self.space());
        let value = match self.0.below(kinds) {
            0 => "null".to_owned(),
            1 => self.0.one_in(2).to_string(),
            2 => self.number(64),
            3 => format!("{}.{}e{}", self.bits(8), self.bits(20), self.0.below(30)),
            4 => self.json_text(),
            5 => {
                let elements: Vec<_> = (0..self.0.below(4)).map(|_| self.json(depth + 1)).collect();
                format!("[{}]", elements.join(","))
            }
            _ => {
                let count = self.0.below(4);
                let member = |_| format!("{}:{}", self.json_text(), self.json(depth + 1));
                let members: Vec<_> = (0..count).map(member).collect();
                format!("{{{}}}", members.join(","))
            }
        };
        format!("{before}{value}{after}")
    }

    /// Members whose names differ, of values that keep their text in Java; in an array one kind.
    fn object(&mut self, depth: u8) -> String {
        let count = 1 + self.0.below(4);
        let members = (0..count).map(|number| format!("\"m{number}\":{}", self.member(depth)));
        let members: Vec<String> = members.collect();
        format!("{{{}}}", members.join(","))
    }

    fn member(&mut self, depth: u8) -> String {
        let kinds = if depth < DEPTH_MAX { 7 } else { 5 };
        match self.0.below(kinds) {
            0 => self.0.one_in(2).to_string(),
            1 => self.number(31),
            2 => self.number(64),
            3 => format!("{}.5", self.bits(20)),
            4 => format!("\"{}\"", self.digits(4)),
            5 => {
                let elements: Vec<_> = (0..=self.0.below(3)).map(|_| self.number(31)).collect();
                format!("[{}]", elements.join(","))
            }
            _ => self.object(depth + 1),
        }
    }
}

/// A text as SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_rows() {
        let columns = [("a", Kind::Json), ("b", Kind::Text)];
        let columns = columns.map(|(name, kind)| (name.to_owned(), kind)).into();
        let random = RandomRows { seed: 7, rows: 20, columns };
        let values = |random: &RandomRows| -> Vec<_> {
            random.rows().into_iter().map(|row| row.values).collect()
        };
        assert_eq!(values(&random), values(&random));
        assert_ne!(values(&random), values(&RandomRows { seed: 8, ..random.clone() }));
    }
}
