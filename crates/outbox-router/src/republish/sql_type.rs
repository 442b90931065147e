//! The built-in types by name, for a row that comes without its table.

use std::{fmt, str::FromStr};

use tokio_postgres::{Client, types::Type};

/// A type, and what it was declared with, as a Relation message has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SqlType {
    pub(crate) oid: u32,
    /// `pg_attribute.atttypmod`; −1 for nothing.
    pub(crate) modifier: i32,
}

impl SqlType {
    pub(crate) const TEXT: Self = Self::of(25);
    pub(crate) const BOOLEAN: Self = Self::of(16);
    pub(crate) const INT8: Self = Self::of(20);
    pub(crate) const NUMERIC: Self = Self::of(1700);
    pub(crate) const JSONB: Self = Self::of(3802);

    const fn of(oid: u32) -> Self {
        Self { oid, modifier: -1 }
    }

    pub(crate) fn is(self, types: &[Type]) -> bool {
        types.iter().any(|of| of.oid() == self.oid)
    }

    /// The type as a cast names it. Without what it was declared with, so that no text is cut.
    pub(crate) async fn cast_name(self, client: &Client) -> Result<String, tokio_postgres::Error> {
        // For NULL instead of -1 it answers `character`, which as a cast means one character.
        let query = "select format_type($1::oid, -1)";
        client.query_one(query, &[&self.oid]).await?.try_get(0)
    }
}

impl fmt::Display for SqlType {
    /// Writes the name in `pg_type`, which [`SqlType::from_str`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Type::from_oid(self.oid) {
            Some(of) => f.write_str(of.name()),
            None => write!(f, "{}", self.oid),
        }
    }
}

/// The names of SQL whose types are called differently in `pg_type`.
const ALIASES: [(&str, &str); 13] = [
    ("boolean", "bool"),
    ("smallint", "int2"),
    ("int", "int4"),
    ("integer", "int4"),
    ("bigint", "int8"),
    ("real", "float4"),
    ("double precision", "float8"),
    ("decimal", "numeric"),
    ("character varying", "varchar"),
    ("character", "bpchar"),
    ("char", "bpchar"),
    ("timestamp without time zone", "timestamp"),
    ("timestamp with time zone", "timestamptz"),
];

/// `FirstNormalObjectId`: types from here on are not built in.
const FIRST_NORMAL: u32 = 16_384;

impl FromStr for SqlType {
    type Err = String;

    /// Reads `uuid`, `timestamp(3)`, `character varying(40)` or `text[]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim().to_ascii_lowercase();
        let (text, prefix) = match text.strip_suffix("[]") {
            Some(element) => (element.to_owned(), "_"),
            None => (text, ""),
        };
        let (name, declared) = match text.split_once('(') {
            None => (text.clone(), None),
            Some((before, after)) => {
                let (inside, behind) = after.split_once(')').ok_or("a ( is never closed")?;
                (format!("{}{behind}", before.trim_end()), Some(inside.to_owned()))
            }
        };
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = format!("{prefix}{}", alias.map_or(name.as_str(), |(_, name)| name));
        let found = (0..FIRST_NORMAL).filter_map(Type::from_oid).find(|of| of.name() == name);
        let found =
            found.ok_or_else(|| format!("{name} is no built-in type; write uuid or text"))?;
        let modifier = match declared {
            Some(declared) => modifier(&found, &declared)?,
            None => NO_MODIFIER,
        };
        Ok(Self { oid: found.oid(), modifier })
    }
}

/// A type without declared precision or length.
const NO_MODIFIER: i32 = -1;

/// `atttypmod` of a type, of what is declared between parentheses. It matters for the precision of
/// times and the scale of numbers alone (`numerictypmodin` in numeric.c).
fn modifier(of: &Type, declared: &str) -> Result<i32, String> {
    let number = |text: &str| {
        let number: Result<u16, _> = text.trim().parse();
        number.map(i32::from).map_err(|_| format!("{declared} is no precision"))
    };
    if [Type::TIMESTAMP, Type::TIMESTAMPTZ].contains(of) {
        return number(declared);
    }
    if [Type::NUMERIC, Type::NUMERIC_ARRAY].contains(of) {
        let (precision, scale) = declared.split_once(',').unwrap_or((declared, "0"));
        return Ok(((number(precision)? << 16) | number(scale)?) + 4);
    }
    Ok(NO_MODIFIER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_in_sql_or_in_the_catalog() {
        let of = |text: &str| text.parse::<SqlType>().map(|of| (of.oid, of.modifier));
        for (text, oid) in [
            ("uuid", 2950),
            ("BYTEA", 17),
            ("bigint", 20),
            ("varchar(40)", 1043),
            ("character varying(40)", 1043),
            ("timestamp with time zone", 1184),
            ("text[]", 1009),
            ("integer[]", 1007),
        ] {
            assert_eq!(of(text), Ok((oid, -1)), "{text}");
        }
        assert_eq!(of("timestamp(3) without time zone"), Ok((1114, 3)));
        assert_eq!(of("timestamptz(0)"), Ok((1184, 0)));
        // As pg_attribute shows them.
        assert_eq!(of("numeric(10,3)"), Ok((1700, 655_367)));
        assert_eq!(of("decimal(10)"), Ok((1700, 655_364)));
        assert!(of("numeric(10,x)").is_err());
        assert!(of("citext").unwrap_err().contains("no built-in type"));
        assert!(of("timestamp(3").is_err() && of("timestamp(x)").is_err());
    }

    #[test]
    fn the_defaults_are_the_types_that_they_are_called() {
        let of = |text: &str| text.parse::<SqlType>();
        assert_eq!(of("text"), Ok(SqlType::TEXT));
        assert_eq!(of("boolean"), Ok(SqlType::BOOLEAN));
        assert_eq!(of("int8"), Ok(SqlType::INT8));
        assert_eq!(of("numeric"), Ok(SqlType::NUMERIC));
        assert_eq!(of("jsonb"), Ok(SqlType::JSONB));
    }
}
