//! One row of an outbox, as SQL and as a line of COPY, and the note beside it.

use crate::scenario::IdType;
use crate::table::RowTime;
use crate::truth::Kind;

use super::Assignment;

/// The columns that writers fill.
pub(super) const COLUMNS: &str =
    "id, aggregate_type, aggregate_id, event_type, payload, created_at";

const KEYS_OF_A_WRITER: i64 = 5;
/// Above `limits.row_bytes` of rounds with such rows.
const TOO_LARGE: usize = 80 * 1024;
/// Not a topic's name.
const NO_TOPIC: &str = "no such/topic";

/// A row that is not written yet.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) event: String,
    pub(super) key: String,
    pub(super) ordinal: i64,
    pub(super) kind: Kind,
    pub(super) time: RowTime,
    id: String,
    aggregate_type: &'static str,
    payload: String,
}

/// Numbers the rows of one writer.
#[derive(Debug)]
pub(super) struct RowMaker {
    writer: String,
    index: i64,
    id: IdType,
    table: &'static str,
    kind: Kind,
    made: i64,
}

impl RowMaker {
    pub(super) fn new(assignment: &Assignment, index: u32) -> Self {
        Self {
            writer: format!("{}{index}", assignment.name),
            index: assignment.first_index + i64::from(index),
            id: assignment.scenario.id,
            table: assignment.table,
            kind: assignment.kind,
            made: 0,
        }
    }

    /// An event of one of the writer's keys, chosen by a number.
    pub(super) fn event(&mut self, choice: i64, time: RowTime) -> Row {
        let key = format!("{}-{}", self.writer, choice.rem_euclid(KEYS_OF_A_WRITER));
        self.row(key, self.kind, self.table, time, 40)
    }

    /// A row that cannot be delivered, with a key of its own.
    pub(super) fn poison(&mut self, is_large: IsLarge, time: RowTime) -> Row {
        let key = format!("{}-poison-{}", self.writer, self.made);
        match is_large {
            IsLarge::Yes => self.row(key, Kind::Poison, self.table, time, TOO_LARGE),
            IsLarge::No => self.row(key, Kind::Poison, NO_TOPIC, time, 40),
        }
    }

    fn row(
        &mut self,
        key: String,
        kind: Kind,
        aggregate_type: &'static str,
        time: RowTime,
        pad: usize,
    ) -> Row {
        self.made += 1;
        let event = format!("{}:{}", self.writer, self.made);
        let pad = "x".repeat(pad);
        Row {
            payload: format!(r#"{{"event": "{event}", "pad": "{pad}"}}"#),
            id: self.next_id(),
            event,
            key,
            ordinal: self.made,
            kind,
            time,
            aggregate_type,
        }
    }

    fn next_id(&self) -> String {
        let number = self.index * 1_000_000 + self.made;
        match self.id {
            IdType::Uuid => uuid::Uuid::new_v4().to_string(),
            IdType::Bigint => number.to_string(),
            IdType::Text => format!("event {number}"),
            IdType::Char20 => format!("e{number}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IsLarge {
    Yes,
    No,
}

impl Row {
    /// Its values in the order of [`COLUMNS`], each of its column's type.
    pub(super) fn values(&self, assignment: &Assignment) -> String {
        let Self { id, aggregate_type, key, payload, .. } = self;
        let (id_type, time) =
            (assignment.scenario.id_type(), assignment.scenario.time_sql(self.time));
        format!(
            "('{id}'::{id_type}, '{aggregate_type}', '{key}', 'Made', '{payload}'::jsonb, {time})"
        )
    }

    /// Its line in COPY's text format. Nothing in it needs an escape.
    pub(super) fn copy_line(&self, time: &str) -> String {
        let Self { id, aggregate_type, key, payload, .. } = self;
        format!("{id}\t{aggregate_type}\t{key}\tMade\t{payload}\t{time}\n")
    }

    /// The note of it in the table of the truth.
    pub(super) fn note(&self, table: &str, kind: Kind, how: &str) -> String {
        let Self { event, key, ordinal, payload, .. } = self;
        let value = if kind == Kind::Poison {
            "''".to_owned()
        } else {
            format!("('{payload}'::jsonb)::text")
        };
        format!("('{event}', '{table}', '{key}', {ordinal}, '{}', '{how}', {value})", kind.name())
    }

    /// The condition by which it is found.
    pub(super) fn is_row(&self, assignment: &Assignment) -> String {
        format!("id = '{}'::{}", self.id, assignment.scenario.id_type())
    }
}

/// One statement that notes rows in the table of the truth.
pub(super) fn notes(rows: &[Row], table: &str, how: &str) -> String {
    let notes: Vec<String> = rows.iter().map(|row| row.note(table, row.kind, how)).collect();
    format!("insert into judge.committed values {}", notes.join(", "))
}
