//! The words of a filter as the stream writes values of the column: a boolean is `t` there, a
//! number has no zero before it. A word that no value is written as is refused: a list with it
//! would leave out rows, or let them through, and nothing would say so. The blanks of a `char(4)`
//! and the last zeros of a `numeric(6, 2)` are compared on neither side, as in SQL: of a domain the
//! stream does not say how many there are.

use std::{cmp::Ordering, net::IpAddr, str::FromStr};

use pgoutput::Lsn;
use serde::de::IgnoredAny;

use super::filter::ComparedText;
use crate::routing::{
    table::{RowFilter, TableName},
    timestamp::Timepoint,
};

/// A built-in type, or that of a domain: its OID, and what it was declared with, −1 where that is
/// nothing or not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueType {
    /// In `pg_type`; of a type that is not built in, any other number.
    pub oid: u32,
    /// As in `pg_attribute.atttypmod`.
    pub modifier: i32,
}

impl ValueType {
    /// Of a domain, by the name of its base type, which may be an enum.
    pub(super) fn of_domain(base: &[u8]) -> Self {
        let found = NAMES.iter().find(|(_, name, _)| name.as_bytes() == base);
        Self { oid: found.map_or(u32::MAX, |(oid, ..)| *oid), modifier: -1 }
    }

    /// The part that is compared of a value's text, as the stream writes it.
    pub const fn compared(self) -> ComparedText {
        match self.oid {
            1042 => ComparedText::WithoutBlanks,
            1700 => ComparedText::WithoutLastZeros,
            _ => ComparedText::Whole,
        }
    }
}

/// Types whose words are read, by their names in `pg_type` and in SQL.
const NAMES: [(u32, &str, &str); 27] = [
    (16, "bool", "boolean"),
    (17, "bytea", "bytea"),
    (18, "char", "\"char\""),
    (19, "name", "name"),
    (20, "int8", "bigint"),
    (21, "int2", "smallint"),
    (23, "int4", "integer"),
    (26, "oid", "oid"),
    (700, "float4", "real"),
    (701, "float8", "double precision"),
    (869, "inet", "inet"),
    (1042, "bpchar", "character"),
    (1043, "varchar", "character varying"),
    (114, "json", "json"),
    (142, "xml", "xml"),
    (650, "cidr", "cidr"),
    (829, "macaddr", "macaddr"),
    (1082, "date", "date"),
    (1083, "time", "time"),
    (1114, "timestamp", "timestamp"),
    (1184, "timestamptz", "timestamptz"),
    (1560, "bit", "bit"),
    (1562, "varbit", "bit varying"),
    (1700, "numeric", "numeric"),
    (2950, "uuid", "uuid"),
    (3220, "pg_lsn", "pg_lsn"),
    (3802, "jsonb", "jsonb"),
];

/// `FirstNormalObjectId`: the types that are built in, none of which is an enum, have lower OIDs.
pub(crate) const FIRST_OF_USERS: u32 = 16_384;

/// `VARHDRSZ`, which the modifier of texts and numbers contains.
const MODIFIER_OFFSET: i32 = 4;
/// The longest `name` (`NAMEDATALEN`), and a zero byte.
const NAME_BYTES: usize = 64;

impl RowFilter {
    /// The words as the stream writes such values; those of other types as they are.
    ///
    /// # Errors
    /// The first word that no value of the column is written as, in a message about it.
    pub fn written(&self, table: &TableName, of: ValueType) -> Result<Vec<String>, String> {
        let written = |word: &String| {
            written(word, of).ok_or_else(|| {
                let name = NAMES.iter().find(|(oid, ..)| *oid == of.oid);
                let name = name.map_or_else(
                    || format!("the type with the OID {}, which no where reads", of.oid),
                    |(_, _, name)| (*name).to_owned(),
                );
                format!(
                    "where of {table} has the word {word:?}, and no value of column {} ({name}) is \
                     written so",
                    self.column
                )
            })
        };
        self.values.iter().map(written).collect()
    }
}

/// `None`: it is no value of the type, or has digits that the type has no place for.
fn written(word: &str, ValueType { oid, modifier }: ValueType) -> Option<String> {
    match oid {
        16 => boolean(word),
        17 => bytea(word),
        18 => (word.chars().count() <= 1 || word.starts_with('\\')).then(|| word.to_owned()),
        19 => (word.len() < NAME_BYTES).then(|| word.to_owned()),
        20 => integer::<i64>(word),
        21 => integer::<i16>(word),
        23 => integer::<i32>(word),
        26 => integer::<u32>(word),
        700 => float::<f32>(word, 1e6),
        701 => float::<f64>(word, 1e15),
        1042 => without_blanks(word, modifier),
        1043 => fits(word, modifier).then(|| word.to_owned()),
        1082 | 1114 | 1184 => time(word, oid, modifier),
        1700 => numeric(word, modifier),
        2950 => uuid(word),
        114 => serde_json::from_str::<IgnoredAny>(word).is_ok().then(|| word.to_owned()),
        3802 => jsonb(word),
        650 => cidr(word),
        829 => mac_address(word),
        869 => inet(word),
        1083 => time_of_day(word, modifier),
        1560 | 1562 => bits(word, oid, modifier),
        3220 => word.parse::<Lsn>().ok().map(|lsn| lsn.to_string()),
        25 | 142 | FIRST_OF_USERS.. => Some(word.to_owned()),
        // How such values are written is not known here: rows would be left out in silence.
        _ => None,
    }
}

/// A text, a number, or a constant, as the server writes it: a number keeps its digits, and has no
/// exponent.
fn jsonb(word: &str) -> Option<String> {
    let read: serde_json::Value = serde_json::from_str(word).ok()?;
    let is_written = match &read {
        serde_json::Value::Number(_) => {
            let is_zero = !word.contains(|digit| ('1'..='9').contains(&digit));
            let is_negative = word.starts_with('-');
            !(word.contains(['e', 'E']) || is_zero && is_negative)
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::String(_) => {
            serde_json::to_string(&read).is_ok_and(|written| written == word)
        }
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => false,
    };
    is_written.then(|| word.to_owned())
}

/// A network, which always has the length of its prefix, and no bit behind it.
fn cidr(word: &str) -> Option<String> {
    let (address, prefix) = word.split_once('/')?;
    let (address, prefix): (IpAddr, u32) = (address.parse().ok()?, prefix.parse().ok()?);
    let host = match address {
        IpAddr::V4(it) => it.to_bits().checked_shl(prefix).unwrap_or(0) == 0 && prefix <= 32,
        IpAddr::V6(it) => it.to_bits().checked_shl(prefix).unwrap_or(0) == 0 && prefix <= 128,
    };
    host.then(|| format!("{address}/{prefix}"))
}

fn mac_address(word: &str) -> Option<String> {
    let is_byte = |pair: &str| pair.len() == 2 && pair.bytes().all(|it| it.is_ascii_hexdigit());
    let is_one = word.split(':').count() == 6 && word.split(':').all(is_byte);
    is_one.then(|| word.to_ascii_lowercase())
}

/// `bit(n)` has n of them, `bit varying(n)` as many at most.
fn bits(word: &str, oid: u32, modifier: i32) -> Option<String> {
    let fits = match usize::try_from(modifier) {
        Ok(length) if oid == 1560 => word.len() == length,
        Ok(length) => word.len() <= length,
        Err(_) => true,
    };
    (fits && word.bytes().all(|bit| matches!(bit, b'0' | b'1'))).then(|| word.to_owned())
}

fn time_of_day(word: &str, modifier: i32) -> Option<String> {
    if word == "24:00:00" {
        return Some(word.to_owned());
    }
    let written = time(&format!("2000-01-01 {word}"), 1114, modifier)?;
    written.strip_prefix("2000-01-01 ").map(str::to_owned)
}

/// An address, and the length of its prefix unless that is the whole of it.
fn inet(word: &str) -> Option<String> {
    let (address, prefix) =
        word.split_once('/').map_or((word, None), |(it, prefix)| (it, Some(prefix)));
    let address: IpAddr = address.parse().ok()?;
    let whole = if address.is_ipv4() { 32 } else { 128 };
    let prefix: u8 = prefix.map_or(Ok(whole), str::parse).ok()?;
    match prefix.cmp(&whole) {
        Ordering::Less => Some(format!("{address}/{prefix}")),
        Ordering::Equal => Some(address.to_string()),
        Ordering::Greater => None,
    }
}

fn boolean(word: &str) -> Option<String> {
    match word.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => Some("t".to_owned()),
        "f" | "false" | "n" | "no" | "off" | "0" => Some("f".to_owned()),
        _ => None,
    }
}

fn integer<T: FromStr + ToString>(word: &str) -> Option<String> {
    word.parse::<T>().ok().map(|number| number.to_string())
}

/// Numbers that PostgreSQL writes without an exponent: below `exponent`, and not below 0.0001. The
/// words of others stay.
fn float<T: FromStr + ToString + Into<f64>>(word: &str, exponent: f64) -> Option<String> {
    let of_name = ["NaN", "Infinity", "-Infinity"].iter().find(|name| **name == word);
    if let Some(name) = of_name {
        return Some((*name).to_owned());
    }
    let number: T = word.parse().ok()?;
    let shown = number.to_string();
    let size: f64 = number.into().abs();
    // Rust reads names in other forms, such as `inf`.
    if !size.is_finite() {
        return None;
    }
    let is_plain = size == 0.0 || (1e-4..exponent).contains(&size);
    Some(if is_plain { shown } else { word.to_owned() })
}

fn declared(modifier: i32) -> Option<usize> {
    usize::try_from(modifier.checked_sub(MODIFIER_OFFSET)?).ok()
}

fn fits(word: &str, modifier: i32) -> bool {
    declared(modifier).is_none_or(|length| word.chars().count() <= length)
}

fn without_blanks(word: &str, modifier: i32) -> Option<String> {
    let word = word.trim_end_matches(' ');
    let fits = declared(modifier).is_none_or(|length| word.chars().count() <= length);
    fits.then(|| word.to_owned())
}

fn uuid(word: &str) -> Option<String> {
    let inner = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(word);
    let digits: String = inner.chars().filter(|digit| *digit != '-').collect();
    let is_one = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let digits = is_one.then(|| digits.to_ascii_lowercase())?;
    let (a, rest) = digits.split_at_checked(8)?;
    let (b, rest) = rest.split_at_checked(4)?;
    let (c, rest) = rest.split_at_checked(4)?;
    let (d, e) = rest.split_at_checked(4)?;
    Some(format!("{a}-{b}-{c}-{d}-{e}"))
}

fn bytea(word: &str) -> Option<String> {
    let digits = word.strip_prefix("\\x")?;
    let is_hex = digits.len() % 2 == 0 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| format!("\\x{}", digits.to_ascii_lowercase()))
}

/// A decimal number; one without a declared scale keeps the zeros that it was written with.
fn numeric(word: &str, modifier: i32) -> Option<String> {
    if matches!(word, "NaN" | "Infinity" | "-Infinity") {
        return Some(word.to_owned());
    }
    let (sign, number) = match word.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let are_digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    if let Some(declared) = declared(modifier) {
        let (precision, scale) = (declared >> 16, declared & 0x7ff);
        // A scale has eleven bits. Where it is negative, the digits stay as they are.
        let is_too_long =
            fraction.len() > scale || (scale <= precision && whole.len() > precision - scale);
        if scale < 0x400 && is_too_long {
            return None;
        }
    }
    let is_zero = whole.is_empty() && fraction.is_empty();
    let sign = if is_zero { "" } else { sign };
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}"))
}

fn time(word: &str, oid: u32, modifier: i32) -> Option<String> {
    if matches!(word, "infinity" | "-infinity") {
        return Some(word.to_owned());
    }
    let written = Timepoint::read(word).ok()?.in_utc();
    let (clock, era) = written.split_once("+00")?;
    let (date, of_day) = clock.split_once(' ')?;
    let digits = of_day.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    if usize::try_from(modifier).is_ok_and(|declared| digits > declared) {
        return None;
    }
    match oid {
        1082 => (of_day == "00:00:00").then(|| format!("{date}{era}")),
        1114 => Some(format!("{clock}{era}")),
        _ => Some(written.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(oid: u32, modifier: i32, word: &str) -> Option<String> {
        written(word, ValueType { oid, modifier })
    }

    #[test]
    fn words_are_what_the_type_writes() {
        let uuid = "0198c3f2-7d1a-7c3e-8b4f-00000000000a";
        let numeric_6_2 = (6 << 16) + 2 + 4;
        for (oid, modifier, word, expected) in [
            (16, -1, "false", "f"),
            (16, -1, "TRUE", "t"),
            (16, -1, "off", "f"),
            (16, -1, "1", "t"),
            (23, -1, "01", "1"),
            (23, -1, "+7", "7"),
            (21, -1, "-0", "0"),
            (2950, -1, "0198C3F2-7D1A-7C3E-8B4F-00000000000A", uuid),
            (2950, -1, "{0198c3f27d1a7c3e8b4f00000000000a}", uuid),
            (1042, 9, "abc", "abc"),
            (1042, 9, "abc      ", "abc"),
            (1042, -1, "abc ", "abc"),
            (1042, -1, "abc", "abc"),
            (1043, 9, "abc", "abc"),
            (1700, numeric_6_2, "1", "1"),
            (1700, numeric_6_2, "007.5000", "7.5"),
            (1700, numeric_6_2, "-0", "0"),
            (1700, -1, "100", "100"),
            (1700, -1, "01.50", "1.5"),
            (1700, -1, ".5", "0.5"),
            (701, -1, "1.0", "1"),
            (701, -1, "1e3", "1000"),
            (701, -1, "1e+20", "1e+20"),
            (700, -1, "0.10", "0.1"),
            (701, -1, "-Infinity", "-Infinity"),
            (1082, -1, "2026-01-31", "2026-01-31"),
            (1114, -1, "2026-01-31 10:00:00.500", "2026-01-31 10:00:00.5"),
            (1184, -1, "2026-01-31 10:00:00+02", "2026-01-31 08:00:00+00"),
            (17, -1, "\\xAB", "\\xab"),
            (3802, -1, "\"pending\"", "\"pending\""),
            (114, -1, "true", "true"),
            (114, -1, "{\"a\": 1.0}", "{\"a\": 1.0}"),
            (3802, -1, "1.10", "1.10"),
            (3802, -1, "12345678901234567890123", "12345678901234567890123"),
            (142, -1, "<a/>", "<a/>"),
            (650, -1, "10.0.0.0/8", "10.0.0.0/8"),
            (650, -1, "2001:DB8::/32", "2001:db8::/32"),
            (650, -1, "0.0.0.0/0", "0.0.0.0/0"),
            (829, -1, "08:00:2B:01:02:03", "08:00:2b:01:02:03"),
            (1083, -1, "09:30:00.50", "09:30:00.5"),
            (1083, -1, "24:00:00", "24:00:00"),
            (1560, 3, "101", "101"),
            (1562, 3, "10", "10"),
            (3220, -1, "0/0016B374", "0/16B374"),
            (869, -1, "10.0.0.1/32", "10.0.0.1"),
            (869, -1, "10.0.0.0/8", "10.0.0.0/8"),
            (869, -1, "2001:DB8:0::1", "2001:db8::1"),
            // Any text.
            (25, -1, "Anything", "Anything"),
            (16_500, -1, "of a type that is not built in", "of a type that is not built in"),
        ] {
            let found = of(oid, modifier, word);
            assert_eq!(found.as_deref(), Some(expected), "{oid} {word}");
            // What is written so is a word that stays.
            assert_eq!(of(oid, modifier, expected).as_deref(), Some(expected), "{oid}");
        }
    }

    #[test]
    fn blanks_of_char_and_last_zeros_of_numeric_are_not_compared() {
        for (oid, text, expected) in [
            (1042, "abc  ", "abc"),
            (1042, "   ", ""),
            (1042, "a b", "a b"),
            (1700, "1.50", "1.5"),
            (1700, "1.00", "1"),
            (1700, "100", "100"),
            (1700, "-0.0100", "-0.01"),
            (1700, "NaN", "NaN"),
            (25, "abc ", "abc "),
            (25, "1.50", "1.50"),
        ] {
            let compared = ValueType { oid, modifier: -1 }.compared();
            assert_eq!(compared.of_text(text.as_bytes()), expected.as_bytes(), "{oid} {text:?}");
        }
    }

    #[test]
    fn words_that_no_value_has_are_refused() {
        let numeric_6_2 = (6 << 16) + 2 + 4;
        for (oid, modifier, word) in [
            (16, -1, "ja"),
            (16, -1, ""),
            (21, -1, "40000"),
            (23, -1, "1.0"),
            (23, -1, "order"),
            (2950, -1, "e-1"),
            (1042, 9, "abcdef"),
            (1043, 9, "abcdef"),
            (1700, numeric_6_2, "1.005"),
            (1700, numeric_6_2, "12345"),
            (1700, -1, "1e3"),
            (1700, -1, "."),
            (701, -1, "inf"),
            (1082, -1, "2026-01-31 10:00:00"),
            (1114, 0, "2026-01-31 10:00:00.5"),
            (1184, -1, "yesterday"),
            (17, -1, "ab"),
            // A text that became JSON, an array, or an interval is written in another way.
            (3802, -1, "pending"),
            (3802, -1, "{\"a\": 1}"),
            (3802, -1, "-0.0"),
            (3802, -1, "1e3"),
            (114, -1, "pending"),
            (650, -1, "10.0.0.1/8"),
            (650, -1, "10.0.0.0"),
            (829, -1, "08-00-2b-01-02-03"),
            (1083, -1, "noon"),
            (1560, 3, "10"),
            (1562, 3, "1010"),
            (3220, -1, "16B374"),
            (1009, -1, "pending"),
            (1186, -1, "01:00"),
            (869, -1, "10.0.0.0/33"),
        ] {
            assert_eq!(of(oid, modifier, word), None, "{oid} {word}");
        }
    }
}
