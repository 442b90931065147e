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

use relay::{Case, Code, Failure, Name, TableName, handover::switch::SwitchState};
use tokio_postgres::SimpleQueryRow;
use uuid::Uuid;

use super::{
    conditions::{and, interval},
    filter::Filter,
    literals::{array, literal},
    shown::Shown,
    table::PolledTable,
};
use crate::{
    held::schema::Statement,
    postgres::{content_sql, sql_failure},
    republish::left_out::{self, Searched},
};

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
    \"relation\" regclass           not null,
    \"id\"       text[] collate \"C\" not null,
    primary key (\"relation\", \"id\")
)"
        .to_owned(),
    }
}

/// Rows of the stream that it has not delivered, for as long as the transaction lasts.
pub const UNDELIVERED: &str = "\
    create temporary table outbox_router_undelivered (\
      relation oid not null, id text[] collate \"C\" not null, rows bigint not null, \
      is_event boolean not null, xid text not null, content text, primary key (relation, id)) \
    on commit drop";

/// One of them.
#[derive(Debug)]
pub struct Undelivered {
    /// The texts that it is found again by, as [`PolledTable::identity_names`] says. The last
    /// column stands behind all others.
    pub id: Vec<String>,
    /// Whether it has to be pending in its table: `where` took it when it was inserted, and the
    /// reader sees it.
    pub is_event: bool,
    /// Its transaction.
    pub xid: u32,
    /// A hash of the columns that an INSERT writes; `None` where it lacks one that the table has.
    pub content: Option<String>,
}

/// Notes such rows, and how many have one identity.
pub fn note_undelivered(table: &PolledTable, rows: &[Undelivered]) -> String {
    let rows: Vec<String> = rows
        .iter()
        .map(|Undelivered { id, is_event, xid, content }| {
            let content = content.as_deref().map_or_else(|| "null".to_owned(), literal);
            let id = array(id.iter().map(String::as_str));
            format!("({id}::text[], {is_event}, '{xid}', {content})")
        })
        .collect();
    format!(
        "insert into pg_temp.outbox_router_undelivered as u \
           (relation, id, rows, is_event, xid, content) \
         select {}, i, count(*), bool_or(e), max(x), max(c) \
         from (values {}) as v (i, e, x, c) group by i \
         on conflict (relation, id) do update \
         set rows = u.rows + excluded.rows, is_event = u.is_event or excluded.is_event",
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

    /// Whether a row is pending by its marks, and left out by `where`: a worker would send it once
    /// an UPDATE has made it an event. `None`: the table has no `where`.
    pub fn is_any_filtered(&self) -> Option<String> {
        let mut conditions = self.conditions().open("t");
        conditions.push(format!("({}) is not true", self.filter.as_ref()?.sql("t")));
        let any = format!("from {} t where {}", self.quoted(), and(&conditions));
        Some(format!("select exists (select {any})"))
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

    /// Until the transaction ends, no TRUNCATE of the table or of a partition.
    pub fn lock_against_truncate(&self) -> String {
        format!("lock table {} in access share mode", self.quoted())
    }

    /// The columns that an INSERT writes.
    pub fn column_names(&self) -> Vec<String> {
        self.facts.written().map(|column| column.name.clone()).collect()
    }

    /// The column of `where`.
    pub fn filtered_by(&self) -> Option<&str> {
        self.filter.as_ref().map(Filter::column)
    }

    /// Whether a row is an event of which the stream shows this in that column.
    pub fn takes(&self, text: Option<&str>) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.takes(text))
    }

    /// Those of the noted events that are not pending under their identity, or not all that have
    /// it: how many identities, and some of them. One that an UPDATE has made no event since is
    /// among them: no worker would send it.
    pub fn undelivered_gone(&self) -> String {
        let noted = format!("pg_temp.outbox_router_undelivered where relation = {}", self.oid());
        some_of(&format!(
            "select id from {noted} and rows > 1 union \
             (select id from {noted} and is_event except select {} {})",
            self.identity_of("t"),
            self.pending()
        ))
    }

    /// Whether one of the noted events is not pending as its transaction has written it, by the
    /// transaction or, since a savepoint gives rows an id of its own, by its columns: it was
    /// written again since, or another row has its identity now.
    pub fn undelivered_rewritten(&self) -> String {
        let columns = self.facts.written();
        let texts: Vec<String> =
            columns.map(|column| Shown::of(column).sql("t", &column.name)).collect();
        format!(
            "select exists (select id from pg_temp.outbox_router_undelivered \
               where relation = {oid} and is_event \
               except select u.id from (select {identity} as id, t.xmin::text as xid, \
                   {content} as content {pending}) t \
                 join pg_temp.outbox_router_undelivered u on u.relation = {oid} and u.id = t.id \
                 where u.xid = t.xid or u.content = t.content)",
            oid = self.oid(),
            identity = self.identity_of("t"),
            content = content_sql(texts.iter().map(String::as_str)),
            pending = self.pending()
        )
    }

    /// Pending rows that are not noted as events: how many, and some of them.
    pub fn pending_unnoted(&self) -> String {
        some_of(&format!(
            "select {} {} except \
             select id from pg_temp.outbox_router_undelivered where relation = {} and is_event",
            self.identity_of("t"),
            self.pending(),
            self.oid()
        ))
    }

    /// The condition that a row `t` was left out of what the stream was sent: only where
    /// `outbox_router.left_out` is there. `None`: no column has the event's id.
    pub fn is_left_out(&self) -> Option<String> {
        self.id.as_ref()?;
        let of_own = left_out::is_of(&self.settings.name, self.oid());
        Some(left_out::is_left_out(&of_own, &left_out::texts(self.columns())))
    }

    /// How many rows were left out that are not found by their ids, as
    /// `left_out::count_unfound` counts them.
    pub fn count_unfound_left_out(&self) -> [String; 2] {
        let table = Searched { oid: self.oid(), name: &self.name, id: self.id.as_deref() };
        let ids = left_out::ids(&self.settings.name, table.oid);
        left_out::count_unfound(&ids, table, self.columns())
    }

    fn columns(&self) -> impl Iterator<Item = &str> {
        self.facts.columns.iter().map(|column| column.name.as_str())
    }

    /// How many pending rows there are of which this holds.
    pub fn count_pending(&self, condition: &str) -> String {
        format!("select count(*) {} and {condition}", self.pending())
    }

    /// How many pending rows there are that are in no stream, apart from those that were left out.
    pub fn count_older(&self, is_event: &str, left_out: Option<&str>) -> String {
        self.count_pending(&format!("({is_event}) is not true{}", but_for(left_out)))
    }

    /// Reads the identities of the pending rows that the stream has delivered, and then the version
    /// of each, through a cursor. Those that were left out stay pending.
    /// `offset 0` is there for the same reason as in `is_switched`.
    pub fn declare_delivered(&self, is_event: &str, left_out: Option<&str>) -> String {
        let kept = format!(" and ({is_event}){}", but_for(left_out));
        format!(
            "declare outbox_router_delivered no scroll cursor for select {}, t.xmin {} \
             and not exists (select from pg_temp.outbox_router_undelivered u \
               where u.relation = {} and u.id = {} offset 0){kept}",
            self.identity_texts().join(", "),
            self.pending(),
            self.oid(),
            self.identity_of("t")
        )
    }
}

/// How many identities a query returns, and some of them as one text.
fn some_of(ids: &str) -> String {
    format!(
        "select count(*), array_to_string((array_agg(array_to_string(id, ' ')))[1:5], ', ') \
         from ({ids}) as i (id)"
    )
}

fn but_for(left_out: Option<&str>) -> String {
    left_out.map(|left_out| format!(" and not {left_out}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{super::table::samples, *};

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
        let declared = table.declare_delivered("event", Some("left"));
        assert!(declared.contains("and not exists (select from pg_temp."));
        assert!(declared.ends_with(" offset 0) and (event) and not left"), "{declared}");
        let older = table.count_older("event", Some("left"));
        assert!(older.ends_with(" and (event) is not true and not left"), "{older}");
    }

    #[test]
    fn identities_cannot_leave_their_quotes() {
        let table = samples::table(samples::time());
        let rows = [Undelivered {
            id: vec!["a'b\"c\\".to_owned()],
            is_event: true,
            xid: 7,
            content: None,
        }];
        let sql = note_undelivered(&table, &rows);
        assert!(sql.contains("( E'{\"a''b\\\\\"c\\\\\\\\\"}'::text[], true, '7', null)"), "{sql}");
    }
}
