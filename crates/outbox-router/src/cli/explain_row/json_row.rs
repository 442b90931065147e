//! A row as `to_jsonb(row)` prints it, turned into the texts that the server would send.

use std::str::FromStr;

use relay::timestamptz_in_utc;
use serde_json::value::RawValue;
use tokio_postgres::types::{Kind, Type};

use super::jsonb::{jsonb, members, numeric};
use crate::republish::{sql_type::SqlType, table_row::Column};

/// The row of `--row`: each column and its value, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonRow {
    columns: Vec<(String, String)>,
}

/// A stream has every `timestamptz` in UTC, whatever the time zone of the session that printed the
/// row.
const NO_TIME: &str = "a timestamptz has a date, a time and an offset from UTC; write it as \
     to_jsonb(row) prints it, such as \"2026-01-31T23:59:59+00:00\"";

/// The texts of an array's elements depend on their type.
const NO_ARRAY: &str =
    "write an array of this type as PostgreSQL prints it, such as \"{1.5,NULL}\"";

/// A stream has such a number with an exponent, and `to_jsonb` writes all its digits.
const NO_FLOAT: &str = "write a number of this size as PostgreSQL prints it, such as \"1e+20\"";

/// Types whose elements have the same text in an array as in JSON.
const PLAIN_ELEMENTS: [Type; 4] =
    [Type::INT2_ARRAY, Type::INT4_ARRAY, Type::INT8_ARRAY, Type::UUID_ARRAY];

/// The most columns that a table of PostgreSQL can have.
const COLUMNS_MAX: usize = 1_600;

impl FromStr for JsonRow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // This also refuses what is nested too deeply.
        let _whole: serde_json::Value =
            serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
        let found = members(text).map_err(|_| "it is no object; write '{\"column\": value, …}'")?;
        let mut columns = Vec::<(String, String)>::with_capacity(found.len());
        for (name, value) in found {
            if name.is_empty() || name.contains('\0') {
                return Err("a column has no name, or a NUL in it".to_owned());
            }
            if columns.iter().any(|(known, _)| *known == name) {
                return Err(format!("column {name} is there twice"));
            }
            columns.push((name, value.get().to_owned()));
        }
        if columns.len() > COLUMNS_MAX {
            return Err(format!("a table has at most {COLUMNS_MAX} columns"));
        }
        Ok(Self { columns })
    }
}

impl JsonRow {
    /// The columns with their types and the texts of their values.
    ///
    /// # Errors
    /// A type is of no column, or no value has such a text.
    pub(super) fn columns(&self, types: &[(&str, SqlType)]) -> Result<Vec<Column>, String> {
        if let Some((unknown, _)) =
            types.iter().find(|(name, _)| !self.columns.iter().any(|(known, _)| known == name))
        {
            return Err(format!("--type {unknown}=…: --row has no such column"));
        }
        let column = |(name, json): &(String, String)| {
            let given = types.iter().rev().find(|(column, _)| column == name);
            let sql_type = given.map_or_else(|| usual(json), |(_, sql_type)| *sql_type);
            let value = text(json, sql_type).map_err(|why| format!("column {name}: {why}"))?;
            Ok(Column { name: name.clone(), sql_type, value })
        };
        self.columns.iter().map(column).collect()
    }

    /// The columns whose types are not given, each with the type that is assumed.
    pub(super) fn assumed(&self, types: &[(&str, SqlType)]) -> Vec<(&str, SqlType)> {
        let not_given =
            self.columns.iter().filter(|(name, _)| types.iter().all(|(column, _)| column != name));
        not_given.map(|(name, json)| (name.as_str(), usual(json))).collect()
    }
}

/// The type that JSON tells.
fn usual(json: &str) -> SqlType {
    match json.as_bytes().first() {
        Some(b't' | b'f') => SqlType::BOOLEAN,
        Some(b'{' | b'[') => SqlType::JSONB,
        Some(b'-' | b'0'..=b'9') if json.parse::<i64>().is_ok() => SqlType::INT8,
        Some(b'-' | b'0'..=b'9') => SqlType::NUMERIC,
        _ => SqlType::TEXT,
    }
}

/// The text of a value; `None` is NULL.
fn text(json: &str, sql_type: SqlType) -> Result<Option<String>, String> {
    let first = json.as_bytes().first();
    if json == "null" {
        return Ok(None);
    }
    if sql_type.is(&[Type::JSON]) {
        return Ok(Some(json.to_owned()));
    }
    if sql_type.is(&[Type::JSONB]) {
        return jsonb(json).map(Some);
    }
    let text = match first {
        Some(b't') if sql_type == SqlType::BOOLEAN => "t".to_owned(),
        Some(b'f') if sql_type == SqlType::BOOLEAN => "f".to_owned(),
        Some(b'-' | b'0'..=b'9') if sql_type.is(&[Type::NUMERIC]) => numeric(json)?,
        Some(b'-' | b'0'..=b'9') if sql_type.is(&[Type::FLOAT4]) => float(json, 1e6)?,
        Some(b'-' | b'0'..=b'9') if sql_type.is(&[Type::FLOAT8]) => float(json, 1e15)?,
        Some(b'[') if sql_type.is(&[Type::TEXT_ARRAY, Type::VARCHAR_ARRAY]) => array(json)?,
        Some(b'[') if sql_type.is(&PLAIN_ELEMENTS) => plain_array(json)?,
        Some(b'"') => {
            let text: String = serde_json::from_str(json).map_err(|error| error.to_string())?;
            if text.contains('\0') {
                return Err("a text of PostgreSQL holds no \\u0000".to_owned());
            }
            match sql_type {
                // JSON has a T where the text of a timestamp has a blank.
                _ if sql_type.is(&[Type::TIMESTAMP]) => text.replacen('T', " ", 1),
                _ if sql_type.is(&[Type::TIMESTAMPTZ]) => {
                    timestamptz_in_utc(&text).ok_or(NO_TIME)?
                }
                _ => text,
            }
        }
        Some(b'[') if is_array(sql_type) => return Err(NO_ARRAY.to_owned()),
        _ => json.to_owned(),
    };
    Ok(Some(text))
}

/// The text of an array whose elements need no quotes.
fn plain_array(json: &str) -> Result<String, String> {
    let elements: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| NO_ARRAY)?;
    let texts = elements.into_iter().map(|element| match element.get() {
        "null" => Ok("NULL"),
        nested if nested.starts_with(['[', '{']) => Err(NO_ARRAY.to_owned()),
        plain => Ok(plain.trim_matches('"')),
    });
    Ok(format!("{{{}}}", texts.collect::<Result<Vec<_>, String>>()?.join(",")))
}

/// The text of a floating-point number, which is below `exponent_from` and so has no exponent in
/// either form.
fn float(json: &str, exponent_from: f64) -> Result<String, String> {
    let number: f64 = json.parse().map_err(|_| NO_FLOAT)?;
    let is_plain = number == 0.0 || (1e-4..exponent_from).contains(&number.abs());
    if is_plain && !json.contains(['e', 'E']) {
        Ok(json.to_owned())
    } else {
        Err(NO_FLOAT.to_owned())
    }
}

fn is_array(sql_type: SqlType) -> bool {
    Type::from_oid(sql_type.oid).is_some_and(|of| matches!(of.kind(), Kind::Array(_)))
}

/// The text of an array of texts.
fn array(json: &str) -> Result<String, String> {
    let elements: Vec<Option<String>> =
        serde_json::from_str(json).map_err(|_| "it is no array of texts")?;
    let quoted = elements.into_iter().map(|element| match element {
        None => "NULL".to_owned(),
        Some(text) if is_plain(&text) => text,
        Some(text) => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
    });
    Ok(format!("{{{}}}", quoted.collect::<Vec<_>>().join(",")))
}

/// Whether an element of an array has no quotes around it (`array_out` in arrayfuncs.c).
fn is_plain(element: &str) -> bool {
    let is_quoted = |c: char| matches!(c, '"' | '\\' | '{' | '}' | ',' | ' ' | '\t'..='\r');
    !element.is_empty() && !element.eq_ignore_ascii_case("null") && !element.contains(is_quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(row: &str, types: &[(&str, &str)]) -> Vec<(u32, Option<String>)> {
        let row: JsonRow = row.parse().unwrap();
        let types: Vec<(&str, SqlType)> =
            types.iter().map(|(column, name)| (*column, name.parse().unwrap())).collect();
        let columns = row.columns(&types).unwrap();
        columns.into_iter().map(|column| (column.sql_type.oid, column.value)).collect()
    }

    #[test]
    fn a_value_has_the_type_that_json_tells_and_postgresqls_text() {
        let row =
            r#"{"a":"x","b":true,"c":7,"d":1.50,"e":{"b":1},"f":null,"g":99999999999999999999}"#;
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            columns(row, &[]),
            [
                (25, text("x")),
                (16, text("t")),
                (20, text("7")),
                (1700, text("1.50")),
                (3802, text(r#"{"b": 1}"#)),
                (25, None),
                (1700, text("99999999999999999999")),
            ]
        );
    }

    #[test]
    fn a_given_type_decides_the_text() {
        let one = |json: &str, name: &str| {
            let row = format!("{{\"a\":{json}}}");
            columns(&row, &[("a", name)]).remove(0).1.unwrap()
        };
        assert_eq!(one(r#"{"b":1}"#, "json"), r#"{"b":1}"#);
        assert_eq!(one("\"x\"", "jsonb"), "\"x\"");
        assert_eq!(one("true", "text"), "true");
        assert_eq!(one("\"\\\\x00\"", "bytea"), "\\x00");
        assert_eq!(
            one("\"2026-01-31T23:59:59.5+00:00\"", "timestamptz"),
            "2026-01-31 23:59:59.5+00"
        );
        assert_eq!(one("\"2026-01-31T23:59:00\"", "timestamp"), "2026-01-31 23:59:00");
        assert_eq!(one(r#"["a\"b",null]"#, "text[]"), r#"{"a\"b",NULL}"#);
        assert_eq!(
            one(r#"["a","b c","d,e","{f}","Null","","g\\h","i\u000b","\u00a0"]"#, "text[]"),
            "{a,\"b c\",\"d,e\",\"{f}\",\"Null\",\"\",\"g\\\\h\",\"i\u{b}\",\u{a0}}"
        );
        assert_eq!(one("\"{1,2}\"", "int4[]"), "{1,2}");
        assert_eq!(one("[1, null,-2]", "int4[]"), "{1,NULL,-2}");
        assert_eq!(one("1.5", "float8"), "1.5");
        for (json, name, instead) in [
            ("[1.5]", "float8[]", "{1.5,NULL}"),
            ("[[1]]", "int4[]", "{1.5"),
            ("1e20", "real", "1e+20"),
        ] {
            let row: JsonRow = format!("{{\"a\":{json}}}").parse().unwrap();
            let refused = row.columns(&[("a", name.parse().unwrap())]).unwrap_err();
            assert!(refused.contains(instead), "{refused}");
        }
    }

    #[test]
    fn a_time_with_a_zone_is_told_in_utc_as_the_stream_tells_it() {
        for (json, text) in [
            ("2026-01-31T23:59:59+02:00", "2026-01-31 21:59:59+00"),
            ("2026-01-31T23:59:59.120-05:30", "2026-02-01 05:29:59.12+00"),
            ("2026-01-31 23:59:59.000001+02", "2026-01-31 21:59:59.000001+00"),
            ("0044-03-15T12:00:00+00:00 BC", "0044-03-15 12:00:00+00 BC"),
            ("infinity", "infinity"),
            ("-infinity", "-infinity"),
        ] {
            let row = format!("{{\"a\":\"{json}\"}}");
            let value = columns(&row, &[("a", "timestamptz(3)")]).remove(0).1;
            assert_eq!(value.as_deref(), Some(text), "{json}");
        }
        for json in ["2026-01-31T23:59:59", "2026-01-31", "yesterday", "2026-01-31T23:59:59 CET"] {
            let row: JsonRow = format!("{{\"a\":\"{json}\"}}").parse().unwrap();
            let refused = row.columns(&[("a", "timestamptz".parse().unwrap())]).unwrap_err();
            assert!(refused.contains("column a: ") && refused.contains("+00:00"), "{refused}");
        }
    }

    #[test]
    fn what_is_no_row_is_refused() {
        for (row, why) in [
            ("", "no JSON"),
            ("[1]", "no object"),
            ("{\"a\":1,\"a\":2}", "column a is there twice"),
            ("{\"\":1}", "no name"),
        ] {
            assert!(row.parse::<JsonRow>().unwrap_err().contains(why), "{row}");
        }
        let row: JsonRow = "{\"a\":1}".parse().unwrap();
        assert!(row.columns(&[("b", SqlType::TEXT)]).unwrap_err().contains("no such column"));
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        assert!(deep.parse::<JsonRow>().is_err());
    }
}
