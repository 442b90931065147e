//! A row's way through routing, for tests.

use std::num::NonZeroI32;

use pgoutput::{Message, PgTimestamp};

use super::{
    columns::{Columns, Event},
    mapping::{MappedRow, TypeNames},
    route::{FormatHeaders, Scratch, TableRouter},
    table::{OutboxTable, TableName},
    topics::Topics,
};
use crate::{
    failure::Failure,
    testing::{
        ProducedRecord,
        wire::{self, Value},
    },
};

/// The partitions of every topic.
pub(super) const PARTITIONS: NonZeroI32 = NonZeroI32::new(3).unwrap();

/// `public.outbox`, with every default.
pub(super) fn table() -> OutboxTable {
    OutboxTable::with_defaults(TableName { schema: "public".into(), name: "outbox".into() })
}

/// The record of one row and its topic's name; `None` where the row is no event.
pub(super) fn mapped(
    table: &OutboxTable,
    columns: &[(&str, u32)],
    values: &[Value<'_>],
) -> Result<Option<(ProducedRecord, String)>, Failure> {
    let relation = wire::relation_message(1, "outbox", columns);
    let Ok(Message::Relation(relation)) = Message::parse(&relation) else { panic!("a relation") };
    let insert = wire::insert_message(1, values);
    let Ok(Message::Insert(insert)) = Message::parse(&insert) else { panic!("an insert") };
    let columns = Columns::resolve(table, &relation, &TypeNames::default(), None)?;
    let mut event = Event::default();
    columns.read(insert.tuple.iter(), &mut event)?;
    let mut router = TableRouter::new(table.clone(), columns.clone(), None)?;
    let (mut topics, mut scratch) = (Topics::default(), Scratch::default());
    let mut mapped = MappedRow::default();
    let (row, headers) = (insert.tuple.iter(), &mut scratch.headers);
    let Some(mapped) = router.map_row(row, &mut event, &mut mapped, headers)? else {
        return Ok(None);
    };
    let mut format_headers = FormatHeaders::default();
    let routed = router.route(&event, &mut topics, &mut scratch, &mut format_headers)?;
    let committed_at = PgTimestamp::from_micros(1_999);
    let usual = routed.partition_and_time(PARTITIONS, committed_at);
    let partition_and_time = mapped.override_with(usual, PARTITIONS).unwrap();
    let record = routed.record(&format_headers, partition_and_time);
    Ok(Some((ProducedRecord::from(&record), topics.name(record.topic).unwrap().to_string())))
}

/// The record of one row, which is an event, and its topic's name.
pub(super) fn routed(
    table: &OutboxTable,
    columns: &[(&str, u32)],
    values: &[Value<'_>],
) -> Result<(ProducedRecord, String), Failure> {
    mapped(table, columns, values).map(|record| record.expect("an event"))
}
