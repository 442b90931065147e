//! Where each part of a record comes from. Of headers, the core writes those of the format first,
//! then those of the preset and the configuration, then a trace context, then the row's own.

use relay::{Format, HeaderValue, Mapping, Role, Template};

use crate::republish::table_row::TableRow;

/// The headers that a trace context in properties gives.
const TRACE_CONTEXT: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// A column, or the text that stands in the place of one.
pub(super) fn source(column: &str) -> String {
    match Template::is_one(column) {
        true => format!("text {column}"),
        false => format!("column {column}"),
    }
}

/// The origin of each header, in the order of `names`.
pub(super) fn origins(row: &TableRow, mapping: Mapping<'_>, names: &[&str]) -> Vec<String> {
    let expected = expected(row, mapping);
    let mut expected = expected.iter().peekable();
    let own = mapping.column(Role::Headers);
    let tracing = mapping.column(Role::Tracing).filter(|column| row.value(column).is_some());
    let mut origins = Vec::with_capacity(names.len());
    for name in names {
        // A header whose template names a missing column is not written.
        let mut ahead = expected.clone();
        if let Some((_, origin)) = ahead.find(|(known, _)| known == name) {
            expected = ahead;
            origins.push(origin.clone());
            continue;
        }
        expected = [].iter().peekable();
        origins.push(match (tracing, own) {
            (Some(column), _) if TRACE_CONTEXT.contains(name) => {
                format!("trace context in column {column}")
            }
            (_, Some(column)) => format!("member of column {column}"),
            (_, None) => "the row".to_owned(),
        });
    }
    origins
}

/// The headers of format, preset and configuration, each with its origin.
fn expected(row: &TableRow, mapping: Mapping<'_>) -> Vec<(String, String)> {
    let table = mapping.table();
    let of_format = |name: &str, role: Role| {
        let column = mapping.column(role)?;
        let origin = format!("format, {}", source(column));
        Some((name.to_owned(), origin))
    };
    let mut all: Vec<(String, String)> =
        of_format(&table.headers.id, Role::Id).into_iter().collect();
    if table.format == Format::Plain {
        all.extend(of_format(&table.headers.event_type, Role::EventType));
        // A trace context that is NULL becomes no header.
        for (name, role) in [("traceparent", Role::TraceParent), ("tracestate", Role::TraceState)] {
            let is_there = mapping
                .column(role)
                .is_some_and(|column| Template::is_one(column) || row.value(column).is_some());
            all.extend(of_format(name, role).filter(|_| is_there));
        }
    }
    // Where a column is missing, its header is, too.
    for name in mapping.preset().headers.iter().filter(|name| row.has(name)) {
        all.push(((*name).to_owned(), format!("preset, column {name}")));
    }
    for header in &table.extra_headers {
        let origin = match &header.value {
            HeaderValue::Column(column) if !row.has(column) => continue,
            HeaderValue::Column(column) => format!("column {column}"),
            HeaderValue::Template(template) => match template.to_string() {
                text if Template::is_one(&text) => format!("text {text}"),
                _ => "constant".to_owned(),
            },
        };
        all.push((header.name.clone(), format!("extra_headers, {origin}")));
    }
    all
}
