//! The headers that the table's format writes, which precede the row's own.

use crate::routing::{
    columns::{Event, Value},
    headers::Header,
    table::{Format, OutboxTable, Role},
};

/// How many headers the plain format writes at most.
const MOST: usize = 4;

/// The format's headers of one record. They are kept beside the row and not in
/// [`Routed`](super::Routed), so they are read where they were written.
#[derive(Debug, Default)]
pub(crate) struct FormatHeaders<'a> {
    headers: [Header<'a>; MOST],
    count: usize,
}

impl<'a> FormatHeaders<'a> {
    /// Writes the headers of one row; the list must be empty.
    #[inline]
    pub(super) fn write(&mut self, table: &'a OutboxTable, id: &'a [u8], event: &Event<'a>) {
        self.push(&table.headers.id, Some(id));
        self.write_others(table, event);
    }

    /// Writes those that follow the id.
    #[inline]
    pub(super) fn write_others(&mut self, table: &'a OutboxTable, event: &Event<'a>) {
        let names = &table.headers;
        match table.format {
            Format::Debezium => {}
            Format::Plain => {
                match event.get(Role::EventType) {
                    Value::Some(text, _) => self.push(&names.event_type, Some(text)),
                    Value::Null => self.push(&names.event_type, None),
                    Value::Absent => {}
                }
                // A trace context that is NULL becomes no header.
                if let Value::Some(text, _) = event.get(Role::TraceParent) {
                    self.push("traceparent", Some(text));
                }
                if let Value::Some(text, _) = event.get(Role::TraceState) {
                    self.push("tracestate", Some(text));
                }
            }
        }
    }

    #[inline]
    fn push(&mut self, name: &'a str, value: Option<&'a [u8]>) {
        if let Some(header) = self.headers.get_mut(self.count) {
            *header = Header { name, value };
            self.count += 1;
        }
    }

    /// In the order in which they are written.
    #[inline]
    pub(super) fn as_slice(&self) -> &[Header<'a>] {
        self.headers.get(..self.count).unwrap_or_default()
    }
}
