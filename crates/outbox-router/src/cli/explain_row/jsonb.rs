//! PostgreSQL's text of a `jsonb` and of a `numeric`, made of a JSON text: what the server would
//! send of a value that was written so.
//!
//! A `jsonb` keeps the last of equal names, orders names by their length and then by their bytes,
//! writes one space after `:` and `,`, and keeps a number's digits but not its exponent (manual,
//! section "JSON Types").

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Greater exponents are refused: a `numeric` has at most 131,072 digits before the point, and an
/// exponent in a row that a person types is smaller still.
const EXPONENT_MAX: i32 = 1_000;

/// The text of a `jsonb`. `json` is valid and not nested deeply: it was read once.
///
/// # Errors
/// A value that no `jsonb` can hold.
pub(super) fn jsonb(json: &str) -> Result<String, String> {
    let mut out = String::with_capacity(json.len());
    write(json, &mut out)?;
    Ok(out)
}

fn write(json: &str, out: &mut String) -> Result<(), String> {
    let malformed = |error: serde_json::Error| error.to_string();
    let json = json.trim();
    match json.as_bytes().first() {
        Some(b'{') => {
            let mut members = members(json).map_err(malformed)?;
            // The sort is stable, so that the last of equal names stays the last.
            members.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
            out.push('{');
            let mut is_first = true;
            let mut members = members.into_iter().peekable();
            while let Some((name, value)) = members.next() {
                if members.peek().is_some_and(|(next, _)| *next == name) {
                    continue;
                }
                out.push_str(if std::mem::take(&mut is_first) { "" } else { ", " });
                out.push_str(&string(&name)?);
                out.push_str(": ");
                write(value.get(), out)?;
            }
            out.push('}');
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(json).map_err(malformed)?;
            out.push('[');
            for (index, element) in elements.into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                write(element.get(), out)?;
            }
            out.push(']');
        }
        Some(b'"') => {
            let text: String = serde_json::from_str(json).map_err(malformed)?;
            out.push_str(&string(&text)?);
        }
        Some(b'-' | b'0'..=b'9') => out.push_str(&numeric(json)?),
        _ => out.push_str(json),
    }
    Ok(())
}

fn string(text: &str) -> Result<String, String> {
    if text.contains('\0') {
        return Err("a text of PostgreSQL holds no \\u0000".to_owned());
    }
    serde_json::to_string(text).map_err(|error| error.to_string())
}

/// The members of an object, in their order, also those of equal names.
pub(super) fn members(json: &str) -> serde_json::Result<Vec<(String, &RawValue)>> {
    struct Members;

    impl<'de> Visitor<'de> for Members {
        type Value = Vec<(String, &'de RawValue)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some(member) = map.next_entry()? {
                members.push(member);
            }
            Ok(members)
        }
    }

    let mut deserializer = serde_json::Deserializer::from_str(json);
    let members = deserializer.deserialize_map(Members)?;
    deserializer.end()?;
    Ok(members)
}

/// The text of a `numeric`: the digits of a number of JSON without its exponent.
///
/// # Errors
/// The exponent is too large.
pub(super) fn numeric(number: &str) -> Result<String, String> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i32 = exponent
        .parse()
        .ok()
        .filter(|exponent: &i32| exponent.abs() <= EXPONENT_MAX)
        .ok_or_else(|| format!("the exponent of {number} is too large"))?;
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut whole = whole.to_owned();
    let mut fraction = fraction.to_owned();
    // Moves the point by one digit at a time.
    for _ in 0..exponent.unsigned_abs() {
        if exponent > 0 {
            whole.push(if fraction.is_empty() { '0' } else { fraction.remove(0) });
        } else {
            fraction.insert(0, whole.pop().unwrap_or('0'));
        }
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let is_zero = whole == "0" && fraction.bytes().all(|digit| digit == b'0');
    let sign = if is_zero { "" } else { sign };
    let point = if fraction.is_empty() { "" } else { "." };
    Ok(format!("{sign}{whole}{point}{fraction}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jsonb_is_written_as_postgresql_writes_it() {
        for (json, text) in [
            (r#"{"total":1.50,"id":7}"#, r#"{"id": 7, "total": 1.50}"#),
            (
                r#"{"b":1,"a":[1,{"y":null,"x":true}],"b":2}"#,
                r#"{"a": [1, {"x": true, "y": null}], "b": 2}"#,
            ),
            (r#" [ ] "#, "[]"),
            ("{}", "{}"),
            (r#""\u00e9\n\"""#, r#""é\n\"""#),
            (r#"{"ü":1,"zz":2,"a":3}"#, r#"{"a": 3, "zz": 2, "ü": 1}"#),
        ] {
            assert_eq!(jsonb(json).as_deref(), Ok(text), "{json}");
        }
        assert!(jsonb(r#"{"a":"\u0000"}"#).is_err());
    }

    #[test]
    fn a_numeric_has_no_exponent_and_keeps_its_digits() {
        for (number, text) in [
            ("1.50", "1.50"),
            ("-7", "-7"),
            ("1e3", "1000"),
            ("1.50e1", "15.0"),
            ("1.5E-3", "0.0015"),
            ("-0", "0"),
            ("-0.00", "0.00"),
            ("0.1e1", "1"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
        ] {
            assert_eq!(numeric(number).as_deref(), Ok(text), "{number}");
        }
        assert!(numeric("1e1001").is_err() && numeric("1e99999999999").is_err());
    }
}
