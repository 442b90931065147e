//! The headers that a mapping adds.

use pgoutput::TupleColumns;

use super::{
    array,
    column_text::text,
    form::Form,
    render,
    resolved_template::{ResolvedTemplate, Unfilled},
};
use crate::routing::{
    headers::{REPEATED, RowHeaders},
    java_properties::{entries, unescaped},
    table::Format,
};

/// A header from a column, or a text that columns fill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MappedHeader {
    pub(super) name: String,
    pub(super) value: MappedHeaderValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MappedHeaderValue {
    Column(usize, Form),
    Template(ResolvedTemplate),
}

impl MappedHeader {
    /// Adds the header of a row.
    ///
    /// # Errors
    /// What is wrong, with no value of the row.
    #[inline(always)]
    pub(super) fn write(
        &self,
        row: TupleColumns<'_>,
        format: Format,
        headers: &mut RowHeaders,
    ) -> Result<(), String> {
        let wrong = |why: &dyn std::fmt::Display| format!("header {}: {why}", self.name);
        match &self.value {
            MappedHeaderValue::Column(position, form) => match text(row, *position) {
                None => headers.push(&self.name, None),
                Some(value) => headers
                    .push_with(&self.name, |out| render::characters(*form, value, format, out))
                    .map_err(|why| wrong(&why))?,
            },
            MappedHeaderValue::Template(template) => {
                match headers.push_with(&self.name, |out| template.write(row, out)) {
                    Ok(()) => {}
                    Err(Unfilled::Null) => headers.push(&self.name, None),
                    Err(Unfilled::NotJson) => return Err(wrong(&"its column holds no JSON")),
                    Err(Unfilled::Form) => return Err(wrong(&"its column holds no UTF-8")),
                }
            }
        }
        Ok(())
    }
}

/// The headers of W3C's Trace Context (the first two) and Baggage, which are taken from the
/// properties.
const TRACE_HEADERS: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// Adds the trace context that a column holds as the text of a `java.util.Properties`.
///
/// # Errors
/// The text is not that of a `java.util.Properties`.
pub(super) fn trace_context(text: &[u8], headers: &mut RowHeaders) -> Result<(), String> {
    let wrong = || "its trace context is not the text of a java.util.Properties".to_owned();
    let text = str::from_utf8(text).map_err(|_| wrong())?;
    for entry in entries(text) {
        let (name, value) = entry.split();
        let name = unescaped(name).map_err(|_| wrong())?;
        let value = unescaped(value.unwrap_or_default()).map_err(|_| wrong())?;
        if TRACE_HEADERS.contains(&name.as_ref()) {
            headers.push(&name, Some(&value));
        }
    }
    Ok(())
}

/// The name of a header that the format writes, which no header of an array may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TakenName {
    name: String,
    /// It is written only where this column is not NULL.
    column: Option<usize>,
}

impl TakenName {
    pub(crate) fn always(name: &str) -> Self {
        Self { name: name.to_owned(), column: None }
    }

    pub(crate) fn unless_null(name: &str, column: Option<usize>) -> Self {
        Self { name: name.to_owned(), column }
    }

    fn is_written(&self, row: TupleColumns<'_>) -> bool {
        self.column.is_none_or(|column| text(row, column).is_some())
    }
}

/// The column of `Role::Headers`, where it is an array that holds names and values in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pairs {
    pub(super) column: usize,
    pub(super) taken: Vec<TakenName>,
}

impl Pairs {
    /// Adds the headers of a row.
    ///
    /// # Errors
    /// What is wrong with the array; never its content.
    #[inline(always)]
    pub(super) fn write(
        &self,
        row: TupleColumns<'_>,
        headers: &mut RowHeaders,
    ) -> Result<(), String> {
        let Some(array) = text(row, self.column) else { return Ok(()) };
        let is_taken = |name: &str| {
            let mut taken = self.taken.iter();
            taken.any(|header| header.name == name && header.is_written(row))
        };
        add_pairs(array, is_taken, headers)
    }
}

fn add_pairs(
    text: &[u8],
    is_taken: impl Fn(&str) -> bool,
    headers: &mut RowHeaders,
) -> Result<(), String> {
    let text = str::from_utf8(text).map_err(|_| "they are not UTF-8".to_owned())?;
    let (mut name, mut wrong) = (None::<String>, None);
    let read = array::elements(text, |element| match (name.take(), element) {
        (None, None) => wrong = Some("a header's name is NULL"),
        (None, Some(text)) => name = Some(text.to_owned()),
        (Some(name), value) => {
            if is_taken(&name) {
                wrong = Some(REPEATED);
            } else if let Err(why) = headers.push_own(&name, value, &[]) {
                wrong = Some(why);
            }
        }
    });
    match (read, wrong, name) {
        (Err(_), ..) => Err("they are no array".to_owned()),
        (Ok(()), Some(why), _) => Err(why.to_owned()),
        (Ok(()), None, Some(_)) => Err("their number of elements is odd".to_owned()),
        (Ok(()), None, None) => Ok(()),
    }
}
