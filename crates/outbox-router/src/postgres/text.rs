//! SQL over the simple query protocol, whose values are texts. It is the only form that both
//! connections can use: a walsender accepts SQL in that protocol alone (PostgreSQL manual,
//! "Streaming Replication Protocol"). What is checked before a stream starts is read on a
//! replication connection, and the monitor reads the same by the same statements.
//!
//! The simple query protocol has no parameters, so values are written as literals
//! ([`super::quote_literal`]). Both connections set `standard_conforming_strings = on`: without it,
//! a backslash could change where such a literal ends.

use std::{future::Future, str::FromStr};

use relay::{Code, Failure, Lsn};
use serde::de::DeserializeOwned;
use tokio_postgres::SimpleQueryMessage;

use super::{ReplicationConnection, command_failure, sql_failure};

/// A connection that answers statements with texts.
pub trait TextQuery {
    /// Runs one statement. `name` stands for it in errors.
    ///
    /// # Errors
    /// The server refuses it, or the connection breaks.
    fn rows(
        &mut self,
        name: &'static str,
        sql: &str,
    ) -> impl Future<Output = Result<Vec<TextRow>, Failure>> + Send;
}

impl TextQuery for ReplicationConnection {
    async fn rows(&mut self, name: &'static str, sql: &str) -> Result<Vec<TextRow>, Failure> {
        let rows = self.query(name, sql).await.map_err(command_failure)?;
        Ok(rows.into_iter().map(|values| TextRow::new(name, values)).collect())
    }
}

impl TextQuery for &tokio_postgres::Client {
    async fn rows(&mut self, name: &'static str, sql: &str) -> Result<Vec<TextRow>, Failure> {
        let messages = self.simple_query(sql).await.map_err(sql_failure)?;
        let mut rows = Vec::new();
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message {
                let values = (0..row.len()).map(|place| row.get(place).map(str::to_owned));
                rows.push(TextRow::new(name, values.collect()));
            }
        }
        Ok(rows)
    }
}

/// A row, read from left to right.
#[derive(Debug)]
pub struct TextRow {
    name: &'static str,
    values: std::vec::IntoIter<Option<String>>,
}

impl TextRow {
    fn new(name: &'static str, values: Vec<Option<String>>) -> Self {
        Self { name, values: values.into_iter() }
    }

    /// The next value, NULL or not.
    ///
    /// # Errors
    /// [`Code::Protocol`]: the row has no further value.
    pub fn nullable(&mut self) -> Result<Option<String>, Failure> {
        self.values.next().ok_or_else(|| self.malformed("has too few columns"))
    }

    /// The next value.
    ///
    /// # Errors
    /// [`Code::Protocol`]: the value is NULL, or the row has no further value.
    pub fn text(&mut self) -> Result<String, Failure> {
        self.nullable()?.ok_or_else(|| self.malformed("has a NULL where a value must be"))
    }

    /// The next value, parsed from its text, such as a number or an LSN.
    ///
    /// # Errors
    /// [`Code::Protocol`]: the value is NULL or of another type, or the row has no further value.
    pub fn parsed<T: FromStr>(&mut self) -> Result<T, Failure> {
        let text = self.text()?;
        text.parse().map_err(|_| self.malformed("has a value of another type than expected"))
    }

    /// As [`Self::parsed`], where NULL is allowed.
    ///
    /// # Errors
    /// [`Code::Protocol`]: the value is of another type, or the row has no further value.
    pub fn parsed_nullable<T: FromStr>(&mut self) -> Result<Option<T>, Failure> {
        let Some(text) = self.nullable()? else { return Ok(None) };
        let value = text.parse();
        value.map(Some).map_err(|_| self.malformed("has a value of another type than expected"))
    }

    /// The next value as a WAL position; `None` is NULL.
    ///
    /// # Errors
    /// [`Code::Protocol`]: the value is of another type, or the row has no further value.
    pub fn lsn(&mut self) -> Result<Option<Lsn>, Failure> {
        self.parsed_nullable()
    }

    /// The next value as a boolean, which PostgreSQL writes `t` or `f`.
    ///
    /// # Errors
    /// [`Code::Protocol`]: the value is NULL or of another type, or the row has no further value.
    pub fn boolean(&mut self) -> Result<bool, Failure> {
        self.boolean_nullable()?.ok_or_else(|| self.malformed("has a NULL where a value must be"))
    }

    /// As [`Self::boolean`], where NULL is allowed.
    ///
    /// # Errors
    /// [`Code::Protocol`]: the value is of another type, or the row has no further value.
    pub fn boolean_nullable(&mut self) -> Result<Option<bool>, Failure> {
        match self.nullable()?.as_deref() {
            None => Ok(None),
            Some("t") => Ok(Some(true)),
            Some("f") => Ok(Some(false)),
            Some(_) => Err(self.malformed("has a value of another type than expected")),
        }
    }

    /// The next value as JSON: how a statement returns an array.
    ///
    /// # Errors
    /// [`Code::Protocol`]: the value is NULL or of another type, or the row has no further value.
    pub fn json<T: DeserializeOwned>(&mut self) -> Result<T, Failure> {
        let text = self.text()?;
        serde_json::from_str(&text)
            .map_err(|_| self.malformed("has a value of another type than expected"))
    }

    fn malformed(&self, what: &str) -> Failure {
        Failure::new(Code::Protocol, format!("the answer to \"{}\" {what}", self.name))
    }
}

/// The one row of a statement that always returns one.
///
/// # Errors
/// The statement fails; [`Code::Protocol`] when it returned another number of rows.
pub async fn one_row(
    sql: &mut impl TextQuery,
    name: &'static str,
    statement: &str,
) -> Result<TextRow, Failure> {
    let mut rows = sql.rows(name, statement).await?;
    match (rows.pop(), rows.is_empty()) {
        (Some(row), true) => Ok(row),
        _ => Err(Failure::new(Code::Protocol, format!("the answer to \"{name}\" is not one row"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[Option<&str>]) -> TextRow {
        TextRow::new("test", values.iter().map(|value| value.map(str::to_owned)).collect())
    }

    #[test]
    fn values_are_read_from_left_to_right() {
        let mut row = row(&[
            Some("x"),
            None,
            Some("0/1A"),
            Some("t"),
            None,
            Some("7"),
            Some("[\"a\",\"b\"]"),
        ]);
        assert_eq!(row.text().unwrap(), "x");
        assert_eq!(row.nullable().unwrap(), None);
        assert_eq!(row.lsn().unwrap(), Some(Lsn::from_u64(26)));
        assert!(row.boolean().unwrap());
        assert_eq!(row.boolean_nullable().unwrap(), None);
        assert_eq!(row.parsed::<u32>().unwrap(), 7);
        assert_eq!(row.json::<Vec<String>>().unwrap(), ["a", "b"]);
        assert_eq!(row.nullable().unwrap_err().code, Code::Protocol);
    }

    #[test]
    fn a_value_of_another_type_is_an_error_that_does_not_show_it() {
        for failure in [
            row(&[Some("secret")]).lsn().unwrap_err(),
            row(&[Some("secret")]).boolean().unwrap_err(),
            row(&[Some("secret")]).parsed::<i32>().unwrap_err(),
            row(&[Some("secret")]).json::<Vec<String>>().unwrap_err(),
            row(&[None]).text().unwrap_err(),
        ] {
            assert!(!failure.to_string().contains("secret"), "{failure}");
        }
    }
}
