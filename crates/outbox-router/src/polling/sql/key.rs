//! The key of a row in SQL: what stands for the record's key, as the text by which rows belong
//! together.
//!
//! It is not the record's key. Two rows with one record key have one key here, which is all that
//! the order needs; the reverse is not always true, because SQL writes some values in another way.
//!
//! A text within JSON may have escapes that no text of PostgreSQL can have: `\u0000`, and half of
//! a surrogate pair. `json` takes them, as `jsonb` does not, and every reading of such a value ends
//! the statement, wherever in it they stand. The core delivers it, unless half a pair is in the key
//! itself. So another character is read in their place ([`readable`]), and the key of such a row
//! is that of the others with its record's key.

use relay::{Failure, JsonPointer, TableName, Template, TemplatePart, polling::ShardSet};
use tokio_postgres::types::Type;

use super::{
    facts::{ColumnFacts, Facts},
    failure::unfit,
    literals::{array, literal},
    shown::Shown,
};
use crate::postgres::quote_identifier;

/// The key of a row, as an expression of its columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The first that is not NULL.
    First(Vec<Value>),
}

/// A column, or a value within it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Value {
    column: String,
    shown: Shown,
    within: Option<Within>,
}

/// A value within a column.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Within {
    /// Its path, as a literal.
    path: String,
    form: JsonForm,
}

/// How a column holds JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonForm {
    /// Every value can be read.
    Jsonb,
    Json,
    /// A text that is JSON in every row, or an error.
    Text,
    /// A text that need not be JSON, where the server can tell.
    AnyText,
}

/// The first version with `pg_input_is_valid`.
const TELLS_JSON: i32 = 160_000;

impl Key {
    /// Of a column's name, or a template, as the mapping of the table has it.
    ///
    /// # Errors
    /// SQL has no expression for it.
    pub(super) fn of(table: &TableName, facts: &Facts, source: &str) -> Result<Self, Failure> {
        if !Template::is_one(source) {
            let column = facts.column(source);
            let column = column.ok_or_else(|| unfit(table, &format!("no column {source}")))?;
            return Ok(Self { parts: vec![Part::First(vec![Value::whole(column)])] });
        }
        let template = Template::parse(source)
            .map_err(|error| unfit(table, &format!("the key {source}: {error}")))?;
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => Ok(Part::Text(text.clone())),
            TemplatePart::Placeholder(alternatives) => {
                let found = alternatives.iter().filter_map(|alternative| {
                    let column = facts.column(&alternative.column)?;
                    Some(value(table, facts.version, column, alternative.pointer.as_ref()))
                });
                Ok(Part::First(found.collect::<Result<_, Failure>>()?))
            }
        };
        Ok(Self { parts: template.parts().iter().map(part).collect::<Result<_, Failure>>()? })
    }

    /// The key, of a row that the statement calls `alias`. Equal keys are equal bytes, whatever the
    /// column's collation holds for equal.
    pub(super) fn sql(&self, alias: &str) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| part.sql(alias)).collect();
        let all = if parts.is_empty() { "''::text".to_owned() } else { parts.join(" || ") };
        format!("({all}) collate \"C\"")
    }

    /// The key as a text that is never NULL.
    pub(super) fn never_null(&self, alias: &str) -> String {
        format!("coalesce('k' || {}, 'n')", self.sql(alias))
    }

    /// The shard of a row's key.
    pub(super) fn shard(&self, alias: &str) -> ShardOf {
        let key = self.sql(alias);
        ShardOf(format!("get_byte(sha256(convert_to(coalesce({key}, ''), 'UTF8')), 0) & 63"))
    }
}

/// See [`Key::shard`].
#[derive(Debug, Clone)]
pub(super) struct ShardOf(String);

impl ShardOf {
    /// The condition that it is one of these; `None` where these are all there are.
    pub(super) fn among(&self, shards: ShardSet) -> Option<String> {
        let numbers: Vec<String> = shards.iter().map(|shard| shard.to_string()).collect();
        (shards != ShardSet::ALL).then(|| format!("({}) in ({})", self.0, numbers.join(", ")))
    }
}

/// A key as [`Key::never_null`] has it.
pub(super) fn never_null(key: Option<&str>) -> String {
    key.map_or_else(|| "n".to_owned(), |key| format!("k{key}"))
}

impl Part {
    fn sql(&self, alias: &str) -> String {
        match self {
            Self::Text(text) => format!("{}::text", literal(text)),
            Self::First(values) => match values.as_slice() {
                [one] => one.sql(alias),
                several => {
                    let several: Vec<String> =
                        several.iter().map(|value| value.sql(alias)).collect();
                    format!("coalesce({})", several.join(", "))
                }
            },
        }
    }
}

impl Value {
    fn whole(column: &ColumnFacts) -> Self {
        Self { column: column.name.clone(), shown: Shown::of_own(column), within: None }
    }

    fn sql(&self, alias: &str) -> String {
        let Some(Within { path, form }) = &self.within else {
            return self.shown.sql(alias, &self.column);
        };
        let column = format!("{alias}.{}", quote_identifier(&self.column));
        let within = |json: &str| format!("{json} #>> {path}::text[]");
        match form {
            JsonForm::Jsonb => format!("({})", within(&column)),
            JsonForm::Json | JsonForm::Text => format!("({})", within(&readable(&column))),
            JsonForm::AnyText => format!(
                "(case when pg_input_is_valid({column}::text, 'json') then {} end)",
                within(&readable(&column))
            ),
        }
    }
}

/// What a JSON text is made of where every escape can be read: other characters, other escapes,
/// those of a character but `\u0000`, and whole surrogate pairs.
const IS_READABLE: &str = concat!(
    r"^(?:[^\\]|\\[^u]",
    r"|\\u(?:[^0dD]|0(?:[^0]|0(?:[^0]|0[^0]))|[dD][^89a-fA-F])",
    r"|\\u[dD][89abAB]..\\u[dD][c-fC-F])*$"
);
/// A whole surrogate pair.
const PAIR: &str = r"\\u([dD][89abAB]..)\\u([dD][c-fC-F]..)";
/// An escape that cannot be read, where there are no whole pairs.
const UNREADABLE: &str = r"\\u(?:0000|[dD][89a-fA-F]..)";
/// The escape that is read in its place, of a character that every encoding has.
const SUBSTITUTE: &str = r"\\u001a";

/// The JSON of a column with a text that can be read, whatever escapes it has.
///
/// Few texts have an escape at all, and fewer one that cannot be read, so this is looked at first.
/// In those that have, the backslashes that begin no such escape (`\\`, pairs) stand aside while it
/// is replaced: as characters that JSON refuses, so no such text has them.
fn readable(column: &str) -> String {
    // A collation for which different characters are equal has no patterns.
    let text = format!("({column}::text collate \"C\")");
    let (slash, pair) = ("\u{1}", "\u{2}");
    let replaced = |text: &str, pattern: &str, with: &str| {
        format!("regexp_replace({text}, {}, {}, 'g')", literal(pattern), literal(with))
    };
    let mended = format!("replace({text}, {}, '{slash}')", literal(r"\\"));
    let mended = replaced(&mended, PAIR, &format!(r"{pair}\1{pair}\2"));
    let mended = replaced(&mended, UNREADABLE, SUBSTITUTE);
    let mended = format!("replace({mended}, '{pair}', {})", literal(r"\u"));
    let mended = format!("replace({mended}, '{slash}', {})", literal(r"\\"));
    format!(
        "(case when strpos({text}, {}) = 0 or {text} ~ {} then {text} else {mended} end)::json",
        literal(r"\u"),
        literal(IS_READABLE)
    )
}

fn value(
    table: &TableName,
    version: i32,
    column: &ColumnFacts,
    pointer: Option<&JsonPointer>,
) -> Result<Value, Failure> {
    let whole = Value::whole(column);
    let Some(pointer) = pointer else { return Ok(whole) };
    let name = &column.name;
    let form = if column.is_of(&[Type::JSONB]) {
        JsonForm::Jsonb
    } else if column.is_of(&[Type::JSON]) {
        JsonForm::Json
    } else if !column.is_of(&[Type::TEXT, Type::VARCHAR]) {
        let what = format!(
            "its key reads column {name} as JSON, whose type is {}: it must be json, jsonb or text",
            column.sql_type
        );
        return Err(unfit(table, &what));
    } else if version >= TELLS_JSON {
        JsonForm::AnyText
    } else {
        JsonForm::Text
    };
    let tokens: Vec<&str> = pointer.tokens().collect();
    if let Some(token) = tokens.iter().find(|token| is_other_index(token)) {
        let what = format!(
            "its key names {token} within column {name}, which SQL takes for another place of an \
             array"
        );
        return Err(unfit(table, &what));
    }
    Ok(Value { within: Some(Within { path: array(tokens), form }), ..whole })
}

/// Whether SQL takes a name for an index that JSON Pointer has not: `01`, `-1`, ` 1`.
fn is_other_index(token: &str) -> bool {
    token.trim().parse::<i64>().is_ok_and(|index| index < 0 || index.to_string() != token)
}

#[cfg(test)]
mod tests {
    use super::{super::facts::samples, *};

    fn facts() -> Facts {
        samples::table(vec![
            samples::column("id", &Type::UUID, &[]),
            samples::column("it's \"k\"", &Type::BYTEA, &[]),
            samples::column("doc", &Type::JSONB, &[]),
            samples::column("headers", &Type::TEXT, &[]),
        ])
    }

    fn sql_of(facts: &Facts, source: &str) -> Result<String, Failure> {
        let table = TableName { schema: "public".into(), name: "outbox".into() };
        Key::of(&table, facts, source).map(|key| key.sql("t"))
    }

    #[test]
    fn a_column_is_its_text() {
        let sql = sql_of(&facts(), "it's \"k\"").unwrap();
        assert_eq!(sql, r#"(t."it's ""k"""::text) collate "C""#);
        assert!(sql_of(&facts(), "other").is_err());
    }

    #[test]
    fn a_template_is_an_expression_of_the_columns_that_the_table_has() {
        let sql = |source| sql_of(&facts(), source).unwrap();
        assert_eq!(
            sql("a'${other|id}-${doc#/a~1b/0|id}"),
            "('a'''::text || t.\"id\"::text || '-'::text || \
             coalesce((t.\"doc\" #>> '{\"a/b\",\"0\"}'::text[]), t.\"id\"::text)) collate \"C\""
        );
        let of_text = sql("${headers#/k}");
        let end = "end)::json #>> '{\"k\"}'::text[])) collate \"C\"";
        assert!(of_text.starts_with("(((case when strpos((t.\"headers\"::text"), "{of_text}");
        assert!(of_text.ends_with(end), "{of_text}");
        let mut newer = facts();
        newer.version = 160_000;
        assert!(sql_of(&newer, "${headers#/k}").unwrap().contains("pg_input_is_valid"));
    }

    #[test]
    fn what_sql_means_in_another_way_is_refused() {
        for source in ["${id#/a}", "${doc#/01}", "${doc#/-1}", "${doc#/a/ 1}", "${doc#/+1}"] {
            let failure = sql_of(&facts(), source).unwrap_err();
            assert_eq!(failure.code, relay::Code::Polling, "{source}");
        }
        assert!(sql_of(&facts(), "${doc#/a1/1}").is_ok());
    }

    #[test]
    fn null_is_no_text_that_a_key_can_have() {
        assert_eq!((never_null(None), never_null(Some("n"))), ("n".to_owned(), "kn".to_owned()));
    }
}
