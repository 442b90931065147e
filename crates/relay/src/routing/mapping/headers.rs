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
    headers::RowHeaders,
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

/// The names of W3C's trace context, which are taken from the properties.
const TRACE_CONTEXT: [&str; 3] = ["traceparent", "tracestate", "baggage"];

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
        if TRACE_CONTEXT.contains(&name.as_ref()) {
            headers.push(&name, Some(&value));
        }
    }
    Ok(())
}

/// Adds the headers of an array that holds names and values in turn.
///
/// # Errors
/// What is wrong with the array; never its content.
pub(super) fn pairs(text: &[u8], headers: &mut RowHeaders) -> Result<(), String> {
    let text = str::from_utf8(text).map_err(|_| "they are not UTF-8".to_owned())?;
    let (mut name, mut wrong) = (None::<String>, None);
    let read = array::elements(text, |element| match (name.take(), element) {
        (None, None) => wrong = Some("a header's name is NULL"),
        (None, Some(text)) => name = Some(text.to_owned()),
        (Some(name), value) => {
            if let Err(why) = headers.push_own(&name, value, &[]) {
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
