//! The hand-over of polled tables to the stream, and back, as `outbox-router switch` does it.
//!
//! `outbox_router.switch` has a row for each table that is handed over: `closing` while pending
//! rows are sent by who hands it over, `sent` when they are, `stream` from then on, and `marked` on
//! the way back, when the rows that the stream has delivered are marked. Without a row the table is
//! polled. Workers read it whenever they renew their leases.
//!
//! `outbox_router.switch_row` names the rows that the snapshot of the slot sees: these are still
//! polled, and the others come in the stream.

use std::{fmt, time::Duration};

use relay::{Case, Code, Failure, Name, TableName};
use tokio_postgres::SimpleQueryRow;
use uuid::Uuid;

use super::{
    conditions::{and, interval},
    literals::array,
    shown::Shown,
    table::PolledTable,
};
use crate::{
    held::schema::Statement,
    postgres::{quote_identifier, sql_failure},
};

/// How far a table is handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchState {
    /// Workers give back what they hold, and the rows of the slot's snapshot are sent.
    Closing,
    /// They were sent: the stream may begin.
    Sent,
    /// The table is streamed.
    Stream,
    /// The rows that the stream has delivered are marked: the slot is to be dropped.
    Marked,
}

impl SwitchState {
    /// As the column has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closing => "closing",
            Self::Sent => "sent",
            Self::Stream => "stream",
            Self::Marked => "marked",
        }
    }

    /// The state of this name.
    pub fn of(text: &str) -> Option<Self> {
        let all = [Self::Closing, Self::Sent, Self::Stream, Self::Marked];
        all.into_iter().find(|state| state.as_str() == text)
    }
}

/// Who hands a table over.
pub(super) enum Closed {
    ByThisWorker,
    ByAnother,
}

/// Reads the row of a table, if it has one; `relation` is its number, as SQL.
pub(super) fn state_sql(relation: impl fmt::Display) -> String {
    format!(
        "select s.state, s.holder::text, s.\"by\", s.since::text \
         from outbox_router.switch s where s.relation = {relation}"
    )
}

/// Whether this worker may take nothing of a table.
pub(super) fn closed_sql(oid: u32, worker: Uuid) -> String {
    format!(
        "exists (select from outbox_router.switch s where s.relation = {oid} \
         and (s.state <> 'closing' or s.holder is distinct from '{worker}'))"
    )
}

/// What the row of a table says to a worker.
///
/// # Errors
/// The table is polled no more (P043).
pub(super) fn closed(
    row: &SimpleQueryRow,
    table: &TableName,
    worker: Uuid,
) -> Result<Closed, Failure> {
    let text = |place| row.try_get(place).map_err(sql_failure);
    let (state, holder) = (text(0)?, text(1)?);
    let state = state.and_then(SwitchState::of);
    if state != Some(SwitchState::Closing) {
        if let Some(failure) = switching(table, state) {
            return Err(failure);
        }
        let by = text(2)?.unwrap_or("somebody");
        let since = text(3)?.unwrap_or("an unknown time");
        let what = format!("table {table} was handed to the stream by {by} at {since}");
        return Err(Failure::new(Code::Switched, what).naming(Name::Table, table));
    }
    let is_own = holder.is_some_and(|holder| holder == worker.to_string());
    Ok(if is_own { Closed::ByThisWorker } else { Closed::ByAnother })
}

/// The failure of a table whose switch is not complete.
pub(crate) fn switching(table: &TableName, state: Option<SwitchState>) -> Option<Failure> {
    let (case, what) = match state {
        Some(SwitchState::Stream) => return None,
        Some(SwitchState::Closing | SwitchState::Sent) => {
            (Case::Switching, "is being handed to the stream: rows that are older are sent first")
        }
        Some(SwitchState::Marked) => (Case::SwitchingBack, "is being given back to the workers"),
        None => (Case::SwitchingBack, "is in outbox_router.switch with a state of a later version"),
    };
    Some(Failure::of(case, format!("table {table} {what}")).naming(Name::Table, table))
}

/// The table of the rows that are still polled, while tables are handed over. The router's role
/// needs no right on it.
pub fn row_table() -> Statement {
    Statement {
        purpose: "which rows are older than the slot",
        sql: "create table if not exists \"outbox_router\".\"switch_row\" (
    \"relation\" oid                not null,
    \"id\"       text[] collate \"C\" not null,
    primary key (\"relation\", \"id\")
)"
        .to_owned(),
    }
}

/// Rows of the stream that it has not delivered, for as long as the transaction lasts.
pub const UNDELIVERED: &str = "\
    create temporary table outbox_router_undelivered (\
      relation oid not null, id text[] collate \"C\" not null, primary key (relation, id)) \
    on commit drop";

/// Notes such rows. The last column of an identity stands behind all others.
pub fn note_undelivered<'i>(
    table: &PolledTable,
    ids: impl IntoIterator<Item = &'i [String]>,
) -> String {
    let rows: Vec<String> = ids
        .into_iter()
        .map(|id| format!("({}::text[])", array(id.iter().map(String::as_str))))
        .collect();
    format!(
        "insert into pg_temp.outbox_router_undelivered (relation, id) \
         select {}, i from (values {}) as v (i) on conflict do nothing",
        table.oid(),
        rows.join(", ")
    )
}

impl PolledTable {
    /// The names of the columns by which a row is found again.
    pub fn identity_names(&self) -> Vec<&str> {
        self.identity.iter().map(|column| column.name.as_str()).collect()
    }

    /// What a row is found again by, as one value: the texts that the stream shows of it.
    fn identity_of(&self, alias: &str) -> String {
        let texts = self.identity.iter().map(|column| {
            let shown = self.facts.column(&column.name).map_or(Shown::ByOutput, Shown::of);
            format!("({}) collate \"C\"", shown.sql(alias, &column.name))
        });
        format!("array[{}]", texts.collect::<Vec<_>>().join(", "))
    }

    /// That `outbox_router.switch_row` names the row. `offset 0` keeps this from becoming a join:
    /// nothing is known of a table that was just filled, and a join that is planned for a few rows
    /// compares every row with every other.
    pub(super) fn is_switched(&self, alias: &str) -> String {
        format!(
            "exists (select from outbox_router.switch_row z \
             where z.relation = {} and z.id = {} offset 0)",
            self.oid(),
            self.identity_of(alias)
        )
    }

    /// The pending rows, of all events.
    fn pending(&self) -> String {
        let mut conditions = self.conditions().open("t");
        conditions.extend(self.filter.as_ref().map(|filter| filter.sql("t")));
        format!("from {} t where {}", self.quoted(), and(&conditions))
    }

    /// Names the pending rows in `outbox_router.switch_row`.
    pub fn note_pending(&self) -> String {
        format!(
            "insert into outbox_router.switch_row (relation, id) select {}, {} {}",
            self.oid(),
            self.identity_of("t"),
            self.pending()
        )
    }

    /// Whether one of those rows is pending still.
    pub fn is_any_switched_pending(&self) -> String {
        format!("select exists (select {} and {})", self.pending(), self.is_switched("t"))
    }

    /// How many pending rows are not to be read within this time, and until when the last of them
    /// is not.
    pub fn pending_after(&self, within: Duration) -> String {
        let ready_at = self.conditions().ready_at("t");
        format!(
            "select count(*), max({ready_at})::timestamptz(0)::text {} and {ready_at} > now() + {}",
            self.pending(),
            interval(within)
        )
    }

    /// The same of the rows that `outbox_router.switch_row` names.
    pub fn switched_after(&self, within: Duration) -> String {
        format!("{} and {}", self.pending_after(within), self.is_switched("t"))
    }

    /// Reads the identities of the pending rows that the stream has delivered, through a cursor.
    /// `offset 0` is there for the same reason as in `is_switched`.
    pub fn declare_delivered(&self) -> String {
        let columns = self.identity.iter();
        let columns = columns.map(|column| format!("t.{}::text", quote_identifier(&column.name)));
        format!(
            "declare outbox_router_delivered no scroll cursor for select {} {} \
             and not exists (select from pg_temp.outbox_router_undelivered u \
               where u.relation = {} and u.id = {} offset 0)",
            columns.collect::<Vec<_>>().join(", "),
            self.pending(),
            self.oid(),
            self.identity_of("t")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{super::table::samples, *};

    #[test]
    fn a_state_has_one_name() {
        for name in ["closing", "sent", "stream", "marked"] {
            assert_eq!(SwitchState::of(name).map(SwitchState::as_str), Some(name));
        }
        assert_eq!(SwitchState::of("open"), None);
    }

    #[test]
    fn a_table_is_streamed_when_its_switch_is_complete() {
        let name = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
        let case = |state| switching(&name, state).map(|failure| failure.case);
        assert_eq!(case(Some(SwitchState::Stream)), None);
        for state in [SwitchState::Closing, SwitchState::Sent] {
            assert_eq!(case(Some(state)), Some(Some(Case::Switching)));
        }
        for state in [Some(SwitchState::Marked), None] {
            assert_eq!(case(state), Some(Some(Case::SwitchingBack)));
        }
    }

    #[test]
    fn the_rows_of_a_snapshot_are_those_that_are_pending_in_it() {
        let table = samples::table(samples::time());
        assert_eq!(
            table.note_pending(),
            "insert into outbox_router.switch_row (relation, id) \
             select 77, array[(t.\"id\"::text) collate \"C\"] \
             from \"public\".\"outbox\" t where t.\"published_at\" is null"
        );
        assert!(table.is_any_switched_pending().contains(
            "t.\"published_at\" is null and exists (select from outbox_router.switch_row z \
             where z.relation = 77 and z.id = array[(t.\"id\"::text) collate \"C\"] offset 0)"
        ));
        assert!(table.declare_delivered().contains("and not exists (select from pg_temp."));
    }

    #[test]
    fn identities_cannot_leave_their_quotes() {
        let table = samples::table(samples::time());
        let ids = [vec!["a'b\"c\\".to_owned()]];
        let sql = note_undelivered(&table, ids.iter().map(Vec::as_slice));
        assert!(sql.contains("( E'{\"a''b\\\\\"c\\\\\\\\\"}'::text[])"), "{sql}");
    }
}
