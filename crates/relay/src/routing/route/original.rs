//! What the record of a row would have been, where the row cannot become one: value, headers and
//! topic, each made by itself, since what is wrong with one says nothing about the others.

use pgoutput::TupleColumns;

use super::{FormatHeaders, Scratch, TableRouter};
use crate::routing::{
    columns::{Columns, Event, Value},
    headers::Headers,
    mapping::MappedRow,
    table::{Format, Role},
};

/// How much of a row has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrived {
    Whole,
    /// The row is larger than `limits.row_bytes`.
    Beginning,
}

impl Arrived {
    /// Whether the columns are there that say which key the row has, if any.
    pub(crate) fn has_key(self, columns: &Columns, row: TupleColumns<'_>) -> bool {
        match self {
            Self::Whole => true,
            Self::Beginning => columns.has_key(row),
        }
    }
}

/// See the module's documentation. The key is not here: the event is held by it.
#[derive(Debug, Default)]
pub(crate) struct Original {
    pub(crate) value: OriginalValue,
    pub(crate) headers: Vec<(String, Option<String>)>,
    pub(crate) topic: Option<String>,
}

/// The value of a record.
#[derive(Debug, Default)]
pub(crate) enum OriginalValue {
    /// It is known; `None` is NULL.
    Known(Option<Vec<u8>>),
    /// It could not be made, or is not shown.
    #[default]
    LeftOut,
}

impl TableRouter {
    /// What the record of a row would have been, as far as it can be made.
    #[cold]
    pub(crate) fn original(
        &self,
        row: TupleColumns<'_>,
        arrived: Arrived,
        mapped: &mut MappedRow,
        scratch: &mut Scratch,
    ) -> Original {
        let mut event = Event::default();
        let read = match arrived {
            Arrived::Whole => self.columns.read(row, &mut event),
            Arrived::Beginning => self.columns.read_partial(row, &mut event),
        };
        if read.is_err() {
            return Original::default();
        }
        scratch.headers.clear();
        let mut unusable = Vec::new();
        if let Some(plan) = self.columns.plan() {
            unusable = match arrived {
                Arrived::Whole => {
                    plan.apply_each(self.columns.names(), row, mapped, &mut scratch.headers)
                }
                // Of what did not arrive, nobody knows if it is NULL.
                Arrived::Beginning => plan.written_roles().collect(),
            };
            let written = matches!(arrived, Arrived::Whole).then_some(&*mapped);
            for (role, text) in written.into_iter().flat_map(MappedRow::values) {
                event.replace(role, text);
            }
            unusable.iter().for_each(|role| event.forget(*role));
        }
        let value = match event.get(Role::Payload) {
            Value::Some(text, encoding) => {
                let value = self.bytes(&event, text, encoding, &mut scratch.value);
                value.map_or(OriginalValue::LeftOut, |v| OriginalValue::Known(Some(v.to_vec())))
            }
            Value::Null => OriginalValue::Known(None),
            Value::Absent if arrived == Arrived::Beginning => OriginalValue::LeftOut,
            Value::Absent if unusable.contains(&Role::Payload) => OriginalValue::LeftOut,
            Value::Absent => OriginalValue::Known(None),
        };
        let headers = self.original_headers(&event, scratch);
        Original { value, headers, topic: self.topic_name(&event) }
    }

    /// The headers that the mapping has written are there; the format's and the row's own are
    /// added.
    fn original_headers(
        &self,
        event: &Event<'_>,
        scratch: &mut Scratch,
    ) -> Vec<(String, Option<String>)> {
        let of_row = &mut scratch.headers;
        let mut of_format = FormatHeaders::default();
        match event.get(Role::Id) {
            Value::Some(id, _) => of_format.write(&self.table, id, event),
            Value::Null | Value::Absent => of_format.write_others(&self.table, event),
        }
        if let (Format::Plain, Value::Some(json, _)) = (self.table.format, event.get(Role::Headers))
        {
            of_row.whole_or_nothing(|headers| headers.read(json, of_format.as_slice()));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = Headers::new(of_format.as_slice(), of_row);
        headers.iter().map(|header| (header.name.to_owned(), header.value.map(text))).collect()
    }

    /// The topic's name, which need not be among those that are in use.
    fn topic_name(&self, event: &Event<'_>) -> Option<String> {
        let routing = String::from_utf8_lossy(self.routing(event).ok()?);
        self.topics.topic(&routing).ok().map(|name| name.to_string())
    }
}
