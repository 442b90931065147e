//! The statements of `recover` that compare rows with topics: `cli/recover/{table,topics,
//! own_topics}.rs`.

use std::collections::BTreeSet;

use relay::{
    Code, Lsn,
    delivered::{
        FullXid,
        compared::{Compared, Figures, HasTime, Outside, Rows, Scope, TimeColumn},
    },
    source::Gap,
};

use super::{
    database::{Commit, Database, Held, HeldState, Row, says},
    pipeline::Record,
    site::{Ids, Setup, Shape, seconds},
};

/// What a person types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selected {
    /// Rows that no topic has.
    Missing,
    /// `--ids-unique`: the same, where no table has a unique index on random ids.
    MissingIdsUnique,
    /// `--all`.
    All,
}

/// The table of records that the topics have: topic, id, and which row's it is.
#[derive(Debug, Clone, Default)]
pub struct Seen(BTreeSet<(u8, u64, u64)>);

impl Seen {
    /// Reads the topics. Copies that `replay` has made are no records of the stream.
    pub fn read(records: &[Record]) -> Self {
        let counted = records.iter().filter(|record| !record.is_copy);
        Self(counted.map(|record| (record.topic, record.id, record.row)).collect())
    }

    fn has(&self, id: u64) -> bool {
        self.0.iter().any(|(_, seen, _)| *seen == id)
    }

    fn has_in(&self, topic: u8, id: u64) -> bool {
        self.0.range((topic, id, 0)..=(topic, id, u64::MAX)).next().is_some()
    }

    /// Whether the row's own topic has records of its id, and all are those of other rows.
    fn differs(&self, row: &Row) -> bool {
        self.has_in(row.topic, row.id) && !self.0.contains(&(row.topic, row.id, row.row))
    }

    /// The ids that are in the topics, without those of rows that are in no topic of their own.
    fn of(&self, rows: &[Row]) -> BTreeSet<u64> {
        let is_elsewhere = |row: &&Row| self.has(row.id) && !self.has_in(row.topic, row.id);
        let elsewhere: BTreeSet<u64> = rows.iter().filter(is_elsewhere).map(|row| row.id).collect();
        self.0.iter().map(|(_, id, _)| *id).filter(|id| !elsewhere.contains(id)).collect()
    }
}

/// Whether ids tell rows apart as far as is known.
pub fn tells_apart(setup: &Setup, selected: Selected, gaps: &[Gap]) -> bool {
    let ids = || setup.shapes.iter().map(|shape| shape.ids);
    let is_restored = gaps.iter().any(|gap| gap.failure.code == Code::HistoryChanged);
    match selected {
        Selected::All => true,
        // A type of ids alone says nothing.
        Selected::Missing => ids().all(|ids| ids == Ids::Uuids),
        Selected::MissingIdsUnique => !is_restored || ids().all(|ids| ids != Ids::Numbers),
    }
}

/// Whether a table has a time.
pub const fn has_time(shape: &Shape) -> HasTime {
    if shape.time.is_some() { HasTime::Yes } else { HasTime::No }
}

/// Whether a statement that is written from this scope selects the row. `next` is an id that no
/// transaction has yet.
pub fn is_in_scope(scope: &Scope, row: &Row, shape: &Shape, next: FullXid) -> bool {
    let since = |text: &str| {
        shape.time.is_some_and(|column| is_made_since(row.says, column, seconds(text)))
    };
    match scope.rows() {
        Rows::All => true,
        Rows::Named { since: named } => since(named),
        Rows::Transactions { first, or_since } => {
            let is_later = !first.xid().follows(row.xmin.of_row(), next);
            is_later || or_since.as_deref().is_some_and(since)
        }
    }
}

/// Whether a row says that it was made since a moment, or does not say when.
fn is_made_since(said: Option<i64>, column: TimeColumn, moment: i64) -> bool {
    let earlier = i64::try_from(column.looks_older_by()).expect("some hours");
    said.is_none_or(|said| said >= says(column, moment - earlier, 0))
}

/// A table's rows are compared: what was counted, and the rows that are to be sent; `None` where a
/// record may be that of a former row. `begin` is where the gaps begin.
pub fn compare(
    snapshot: &Database,
    setup: &Setup,
    table: usize,
    (scope, selected, seen, begin): (Scope, Selected, &Seen, Lsn),
) -> Option<(Compared, Vec<Row>)> {
    let next = FullXid::from_u64(snapshot.next_xid);
    let shape = &setup.shapes[table];
    let all: Vec<Row> = snapshot.rows_of(table).copied().collect();
    let (rows, outside): (Vec<Row>, Vec<Row>) =
        all.into_iter().partition(|row| is_in_scope(&scope, row, shape, next));
    if selected == Selected::Missing && rows.iter().any(|row| seen.differs(row)) {
        return None;
    }
    let known = match selected {
        Selected::All => BTreeSet::new(),
        Selected::Missing | Selected::MissingIdsUnique => seen.of(&rows),
    };
    let missing: Vec<Row> = rows.iter().filter(|row| !known.contains(&row.id)).copied().collect();
    // Without a unique index, the event may have been of another row, which is deleted by now.
    let tells = shape.ids != Ids::Requests || selected == Selected::MissingIdsUnique;
    // By the id alone, it may have been of a former row even with one.
    let is_by_id =
        |row: &Row| !is_decided(snapshot, row) && has_id_of_decided(snapshot, row, begin);
    if tells && selected == Selected::Missing && missing.iter().any(is_by_id) {
        return None;
    }
    let trusts = selected == Selected::MissingIdsUnique;
    let is_left_out =
        |row: &Row| is_decided(snapshot, row) || trusts && has_id_of_decided(snapshot, row, begin);
    let to_send: Vec<Row> =
        missing.iter().filter(|row| !(tells && is_left_out(row))).copied().collect();
    let number = |rows: usize| u64::try_from(rows).expect("few rows");
    let is_unproved = scope.outside() == Outside::Unproved;
    let figures = Figures {
        rows: number(rows.len()),
        missing: number(missing.len()),
        decided: number(missing.len() - to_send.len()),
        outside: if is_unproved { number(outside.len()) } else { 0 },
    };
    Some((Compared::by(scope, setup.names[table].clone(), figures), to_send))
}

/// Whether an event is held that has all columns that the row has.
fn is_decided(snapshot: &Database, row: &Row) -> bool {
    let is_open = |held: &Held| held.state != HeldState::Delivered;
    snapshot.held.iter().any(|held| is_open(held) && held.row == *row)
}

/// Whether an event of this id and this table is held, or was skipped, that was committed in the
/// gaps.
fn has_id_of_decided(snapshot: &Database, row: &Row, begin: Lsn) -> bool {
    let is_in_gaps = |event: u64| {
        let has = |commit: &&Commit| commit.sent.iter().any(|sent| sent.row == event);
        snapshot.log.iter().find(has).is_some_and(|commit| Lsn::from_u64(commit.at) >= begin)
    };
    let is_held = snapshot.held.iter().any(|held| {
        held.state != HeldState::Delivered
            && (held.row.table, held.row.id) == (row.table, row.id)
            && is_in_gaps(held.row.row)
    });
    let is_skipped = snapshot
        .skipped
        .iter()
        .any(|(table, id, event)| *table == row.table && *id == row.id && is_in_gaps(*event));
    is_held || is_skipped
}
