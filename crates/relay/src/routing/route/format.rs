//! The headers that the table's format writes, before the row's own.

use crate::routing::{
    columns::{Event, Value},
    headers::Header,
    table::{Format, OutboxTable, Role},
};

/// As many as the plain format writes.
const MOST: usize = 4;

/// The headers of one record, kept where they are read from: beside the row, not in what is routed.
#[derive(Debug, Default)]
pub(crate) struct FormatHeaders<'a> {
    headers: [Header<'a>; MOST],
    count: usize,
}

impl<'a> FormatHeaders<'a> {
    /// Writes those of one row into a list that is as it was made.
    #[inline]
    pub(super) fn write(&mut self, table: &'a OutboxTable, id: &'a [u8], event: &Event<'a>) {
        let names = &table.headers;
        self.push(&names.id, Some(id));
        match table.format {
            Format::Debezium => {}
            Format::Plain => {
                match event.get(Role::EventType) {
                    Value::Some(text, _) => self.push(&names.event_type, Some(text)),
                    Value::Null => self.push(&names.event_type, None),
                    Value::Absent => {}
                }
                // A trace context that the application did not set is no header at all.
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
