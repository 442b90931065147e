//! The statements that write what became of rows. Rows are found by their identity, all of one kind
//! in one statement, and only at the version that was read or claimed ([`relay::delivered`]): a row
//! that somebody has changed, marked or claimed meanwhile stays as it is. The statement waits for
//! whoever changes a row at this moment, and looks at the version that is there then.
//!
//! What became of rows is written only if this worker has had their shards since it read them
//! (`fence`); what it gives back, it gives back in any case.

use relay::{
    Failure,
    delivered::{RowAt, SentVersion},
    polling::{FailedRow, RowId, RowOutcome, SettleRequest},
};
use tokio_postgres::error::SqlState;

use super::{
    conditions::and,
    failure::unfit,
    fence::Fence,
    literals::{array, literal, numbers},
    marks::{Decides, FlagForm, Writable},
    table::PolledTable,
    transaction::{Access, COMMIT, Ways, begin_on},
};
use crate::postgres::quote_identifier;

/// The statements of a table, but for the rows of a request.
#[derive(Debug, Clone)]
pub(super) struct SettleText {
    begin: String,
    published: Change,
    retried: Change,
    abandoned: Change,
    released: Change,
    types: Vec<String>,
    error: usize,
    encoding: Encoding,
}

/// A statement around the arrays of its rows; `None`: there is nothing to write.
#[derive(Debug, Clone)]
struct Change(Option<(String, String)>);

/// What the database can store of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// Every character.
    Any,
    /// ASCII for certain.
    Narrow,
}

/// Statements, and what they concern.
pub(super) struct SettleSql {
    pub(super) sql: String,
    /// Which of them says whether the shards are this worker's.
    pub(super) fence: usize,
    /// Which of them marks rows as published.
    pub(super) published: Option<usize>,
}

/// What is no number, and ends a transaction by the error that names it.
const UNDONE: &str = "marks are undone";

/// That a row is the version of it that was read or claimed.
const SAME_VERSION: &str = "= x.v";

/// What the version of a row is that this transaction has written.
const OWN_VERSION: &str = "pg_current_xact_id()::xid";

/// Whether a transaction has ended since rows are pending still that it had marked.
pub(super) fn are_marks_undone(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        *error.code() == SqlState::INVALID_TEXT_REPRESENTATION && error.message().contains(UNDONE)
    })
}

/// Whether to look if rows are pending still after the statement that marks them: a rule or a
/// trigger may undo what it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Yes,
    No,
}

impl SettleText {
    pub(super) fn of(table: &PolledTable) -> Self {
        let of = |set: Vec<(String, String)>, arrays: &str| Change::update(table, &set, arrays);
        Self {
            begin: begin_on(Access::ReadWrite, Ways::Indexes, table.strangers),
            published: match table.marks.decides {
                Decides::Presence => Change::delete(table),
                Decides::Status | Decides::Flag | Decides::Time => of(published(table), ""),
            },
            retried: of(retried(table), ", a, e, d"),
            abandoned: of(abandoned(table), ", a, e"),
            released: of(released(table), ""),
            types: table.element_types().map(str::to_owned).collect(),
            error: table.marks.last_error.as_ref().map_or(0, |error| error.max),
            encoding: match table.facts.encoding.as_str() {
                // SQL_ASCII stores the bytes as they come.
                "UTF8" | "SQL_ASCII" => Encoding::Any,
                _ => Encoding::Narrow,
            },
        }
    }

    /// The statements of a request; `None` where there is nothing to write.
    ///
    /// # Errors
    /// A row is abandoned, and the table has no column to record that (P041).
    pub(super) fn sql(
        &self,
        table: &PolledTable,
        request: &SettleRequest,
        look: Look,
    ) -> Result<Option<SettleSql>, Failure> {
        let is_abandoned = |row: &&FailedRow| row.outcome == RowOutcome::Abandon;
        let (abandoned, retried): (Vec<_>, Vec<_>) = request.failed.iter().partition(is_abandoned);
        if !abandoned.is_empty() && !table.marks.records_abandoned() {
            let what = format!(
                "it has no column in which an abandoned row is recorded: {}",
                table.marks.to_record_abandoned(table.name())
            );
            return Err(unfit(table.name(), &what));
        }
        let fence = Fence { relation: table.facts.oid, worker: table.settings.worker };
        let shards = fence.holds(request.shards, request.as_of);
        let held = and(&shards.into_iter().chain([table.is_the_one_named()]).collect::<Vec<_>>());
        let mut statements = Vec::new();
        let sent = |rows: &[SentVersion]| self.rows_at(rows.iter().map(SentVersion::row));
        statements.extend(self.published.sql(&request.published, sent));
        let published = (!statements.is_empty()).then_some(Fence::STATEMENTS);
        statements.extend(self.retried.sql(&retried, |rows| {
            let delays = rows.iter().map(|row| match row.outcome {
                RowOutcome::Retry(after) => after.as_secs_f64(),
                RowOutcome::Abandon => 0.0,
            });
            format!("{}, {}::float8[]", self.failed(rows), numbers(delays))
        }));
        statements.extend(self.abandoned.sql(&abandoned, |rows| self.failed(rows)));
        statements.iter_mut().for_each(|statement| *statement += &format!(" and {held}"));
        let released = self.released.sql(&request.released, |rows| self.rows_at(rows.iter()));
        statements.extend(released.map(|statement| match table.marks.claim.by {
            Some(_) => format!("{statement} and {}", table.is_the_one_named()),
            // The claim could be that of the worker that has the shard now.
            None => format!("{statement} and {held}"),
        }));
        if statements.is_empty() {
            return Ok(None);
        }
        if published.is_some() && (look == Look::Yes || table.facts.is("rewritten")) {
            statements.push(self.refuse_pending(table, request, &held));
        }
        let (begin, lock) = (&self.begin, fence.lock());
        let sql = format!("{begin}{lock}; select {held}; {}{COMMIT}", statements.join("; "));
        Ok(Some(SettleSql { sql, fence: Fence::STATEMENTS - 1, published }))
    }

    /// Two statements, of which the second one fails where rows that a request has marked as
    /// published are pending still: so nothing of it is committed, and all of it can be written
    /// again. A trigger that is deferred to the end of the transaction acts before. A row that is
    /// neither as it was read nor as this transaction has written it was changed by somebody.
    fn refuse_pending(&self, table: &PolledTable, request: &SettleRequest, held: &str) -> String {
        let rows = self.rows_at(request.published.iter().map(SentVersion::row));
        let (quoted, filter) = (table.quoted(), table.and_filter("t"));
        let pending = Change::tail(table, "", &format!("in (x.v, {OWN_VERSION})"));
        format!(
            "set constraints all immediate; select (case when exists (select from {quoted} t, \
             unnest({rows}{pending}{filter} and {held}) then '{UNDONE}' else '0' end)::int"
        )
    }

    /// Identities and versions, an array each.
    fn rows_at<'r>(&self, rows: impl Iterator<Item = &'r RowAt> + Clone) -> String {
        let ids = self.ids(rows.clone().map(|row| &row.id));
        format!("{ids}, {}::xid[]", numbers(rows.map(|row| row.version)))
    }

    fn ids<'r>(&self, rows: impl Iterator<Item = &'r RowId> + Clone) -> String {
        identities(self.types.iter().map(String::as_str), rows)
    }

    fn failed(&self, rows: &[&FailedRow]) -> String {
        let attempts = numbers(rows.iter().map(|row| row.attempts));
        let errors: Vec<String> = rows.iter().map(|row| self.error_text(&row.error)).collect();
        let errors = array(errors.iter().map(String::as_str));
        let ids = self.ids(rows.iter().map(|row| &row.id));
        let versions = numbers(rows.iter().map(|row| row.version));
        format!("{ids}, {versions}::xid[], {attempts}::int8[], {errors}::text[]")
    }

    /// An error as its column can have it.
    fn error_text(&self, error: &Failure) -> String {
        let text = format!("{error:#}");
        let storable = text.chars().map(|character| match (character, self.encoding) {
            ('\0', _) => '?',
            (other, Encoding::Narrow) if !other.is_ascii() => '?',
            (other, _) => other,
        });
        storable.take(self.error).collect()
    }
}

impl Change {
    fn update(table: &PolledTable, set: &[(String, String)], arrays: &str) -> Self {
        if set.is_empty() {
            return Self(None);
        }
        let set: Vec<String> = set
            .iter()
            .map(|(name, value)| format!("{} = {value}", quote_identifier(name)))
            .collect();
        let head = format!("update {} t set {} from unnest(", table.quoted(), set.join(", "));
        Self(Some((head, Self::tail(table, arrays, SAME_VERSION))))
    }

    fn delete(table: &PolledTable) -> Self {
        let head = format!("delete from {} t using unnest(", table.quoted());
        Self(Some((head, Self::tail(table, "", SAME_VERSION))))
    }

    /// `version`: what the version of a row has to be.
    fn tail(table: &PolledTable, arrays: &str, version: &str) -> String {
        let names: Vec<String> =
            (0..table.identity.len()).map(|index| format!("k{index}")).collect();
        let mut conditions = vec![table.same_row("x", |index| format!("k{index}"))];
        conditions.push(format!("t.xmin {version}"));
        conditions.extend(table.conditions().markable("t"));
        format!(") as x ({}, v{arrays}) where {}", names.join(", "), and(&conditions))
    }

    fn sql<R>(&self, rows: &[R], arrays: impl FnOnce(&[R]) -> String) -> Option<String> {
        let (head, tail) = self.0.as_ref()?;
        (!rows.is_empty()).then(|| format!("{head}{}{tail}", arrays(rows)))
    }
}

/// The identities of rows, one array for each of their columns, with elements of these types.
pub(super) fn identities<'t, 'r>(
    types: impl Iterator<Item = &'t str>,
    rows: impl Iterator<Item = &'r RowId> + Clone,
) -> String {
    let arrays = types.enumerate().map(|(place, sql_type)| {
        let texts = rows.clone().filter_map(|row| row.0.get(place)).map(|text| &**text);
        format!("{}::{sql_type}[]", array(texts))
    });
    arrays.collect::<Vec<_>>().join(", ")
}

/// Columns, and what they become.
pub(super) type Set = Vec<(String, String)>;

fn null() -> String {
    "null".to_owned()
}

/// Nobody has the row any more.
pub(super) fn unlock(table: &PolledTable) -> Set {
    let claim = &table.marks.claim;
    if !claim.is_made() {
        return Vec::new();
    }
    let columns = claim.until.iter().chain(&claim.by);
    columns.map(|column| (column.clone(), null())).collect()
}

/// The row is published, and nobody has it any more.
pub(super) fn published(table: &PolledTable) -> Set {
    let marks = &table.marks;
    let mut set = Vec::new();
    if let Some(status) = marks.written_status() {
        set.push((status.column.clone(), literal(&status.words.published)));
    }
    if let Some(flag) = &marks.flag {
        let value = match flag.form {
            FlagForm::Boolean => "true",
            FlagForm::Number => "1",
        };
        set.push((flag.column.clone(), value.to_owned()));
    }
    set.extend(marks.time.iter().map(|time| (time.clone(), "now()".to_owned())));
    set.extend(unlock(table));
    set
}

/// `a`, `e`: the attempts and the error of each row.
fn failed(table: &PolledTable) -> Set {
    let marks = &table.marks;
    let mut set = unlock(table);
    if let Some(attempts) = &marks.attempts {
        set.push((attempts.column.clone(), format!("least(x.a, {})", attempts.max)));
    }
    if let Some(error) = &marks.last_error {
        set.push((error.column.clone(), "x.e".to_owned()));
    }
    set
}

/// The row's claim began, and is over.
pub(super) fn forget_claim(table: &PolledTable) -> Option<(String, String)> {
    let claim = &table.marks.claim;
    claim.since.as_ref().filter(|_| claim.is_made()).map(|since| (since.clone(), null()))
}

/// `d`: the time to the next attempt of each row, in seconds.
fn retried(table: &PolledTable) -> Set {
    let marks = &table.marks;
    let mut set = failed(table);
    let next = marks.next_attempt();
    set.extend(next.map(|next| (next.clone(), "now() + make_interval(secs => x.d)".to_owned())));
    if let Some(status) = marks.written_status() {
        let words = &status.words;
        let failed = words.failed.as_ref().filter(|_| next.is_some());
        let takes = words.processing.as_ref().filter(|_| marks.claim.is_made());
        // Without a time of the next attempt the row is pending, and this worker passes it over.
        if let Some(word) = failed.or(words.pending.first().filter(|_| takes.is_some())) {
            set.push((status.column.clone(), literal(word)));
        }
    }
    set.extend(forget_claim(table));
    set
}

fn abandoned(table: &PolledTable) -> Set {
    let marks = &table.marks;
    let mut set = failed(table);
    if let Some(status) = marks.written_status() {
        let words = &status.words;
        let takes = words.processing.as_ref().filter(|_| marks.claim.is_made());
        if let Some(word) =
            words.abandoned.as_ref().or(words.pending.first().filter(|_| takes.is_some()))
        {
            set.push((status.column.clone(), literal(word)));
        }
    }
    let at = marks.abandoned_at.iter().filter(|_| marks.abandons == Writable::Yes);
    set.extend(at.map(|at| (at.clone(), "now()".to_owned())));
    set
}

fn released(table: &PolledTable) -> Set {
    if !table.marks.claim.is_made() {
        return Vec::new();
    }
    let mut set = unlock(table);
    if let Some(status) = table.marks.written_status()
        && status.words.processing.is_some()
        && let Some(word) = status.words.pending.first()
    {
        set.push((status.column.clone(), literal(word)));
    }
    set.extend(forget_claim(table));
    set
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use relay::{
        Code, PgTimestamp,
        delivered::{RowVersion, ServerSession},
        polling::{PendingRow, RequestNumber, ShardSet, TableIndex},
        testing::sent,
    };

    use super::{
        super::{
            settings::{MarkConfig, MarkHow},
            table::samples,
        },
        *,
    };

    fn row(text: &str, xmin: u32) -> PendingRow {
        PendingRow {
            id: RowId(Box::new([text.into()])),
            version: RowVersion::of_xmin(xmin),
            key: None,
            insert: Vec::new(),
            bytes: 0,
            attempts: 0,
            at: PgTimestamp::from_micros(0),
        }
    }

    fn failed(outcome: RowOutcome) -> FailedRow {
        let error = Failure::new(Code::NotJson, "it's");
        let RowAt { id, version } = row("3", 703).row_at();
        FailedRow { id, version, attempts: 2, error, outcome }
    }

    fn request() -> SettleRequest {
        let published = [row("1", 701), row("2", 702)].iter().map(sent).collect();
        let (table, shards) = (TableIndex(0), ShardSet::NONE);
        let (as_of, released) = (RequestNumber::default(), vec![row("9", 709).row_at()]);
        let session = ServerSession::default();
        SettleRequest { table, shards, as_of, session, published, failed: vec![], released }
    }

    fn sql(table: &PolledTable, request: &SettleRequest) -> String {
        SettleText::of(table).sql(table, request, Look::No).unwrap().unwrap().sql
    }

    const NAMED: &str = r#"to_regclass('"public"."outbox"')::oid = 77"#;
    const FOUND: &str =
        "as x (k0, v) where t.\"id\" operator(\"pg_catalog\".=) x.k0 and t.xmin = x.v and ";

    #[test]
    fn rows_are_found_by_their_identity_and_marked_while_they_are_pending() {
        let sql = sql(&samples::table(samples::time()), &request());
        let expected = format!(
            "; update \"public\".\"outbox\" t set \"published_at\" = now() \
             from unnest('{{\"1\",\"2\"}}'::int8[], '{{701,702}}'::xid[]) {FOUND}t.\"published_at\" is null and {NAMED}; \
             commit"
        );
        assert!(sql.ends_with(&expected), "{sql}");
    }

    #[test]
    fn what_cannot_be_written_is_not_and_an_abandoned_row_is_refused() {
        let table = samples::table(samples::time());
        let retry = failed(RowOutcome::Retry(Duration::from_secs(1)));
        let mut request =
            SettleRequest { published: vec![], failed: vec![retry], released: vec![], ..request() };
        let text = SettleText::of(&table);
        assert!(text.sql(&table, &request, Look::No).unwrap().is_none());
        request.failed = vec![failed(RowOutcome::Abandon)];
        let Err(failure) = text.sql(&table, &request, Look::No) else { panic!("it has no column") };
        assert_eq!(failure.code, Code::Polling);
        assert!(failure.message.contains("add column abandoned_at timestamptz"), "{failure}");
    }

    #[test]
    fn each_outcome_has_its_statement() {
        let table = samples::table(samples::states());
        let retry = failed(RowOutcome::Retry(Duration::from_millis(1_500)));
        let request =
            SettleRequest { failed: vec![retry, failed(RowOutcome::Abandon)], ..request() };
        let sql = sql(&table, &request);
        let unlock = "\"locked_until\" = null, \"locked_by\" = null";
        let because = "\"attempts\" = least(x.a, 32767), \"last_error\" = x.e";
        for expected in [
            format!("set \"status\" = 'PUBLISHED', {unlock} from"),
            format!(
                "set {unlock}, {because}, \"available_at\" = now() + make_interval(secs => x.d), \
                 \"status\" = 'FAILED' from unnest('{{\"3\"}}'::int8[], '{{703}}'::xid[], \
                 '{{2}}'::int8[], '{{\"R014: it''s\"}}'::text[], '{{1.5}}'::float8[]) \
                 as x (k0, v, a, e, d) where"
            ),
            format!("set {unlock}, {because}, \"status\" = 'ABANDONED' from"),
            format!("set {unlock}, \"status\" = 'PENDING' from unnest('{{\"9\"}}'::int8[], "),
        ] {
            assert!(sql.contains(&expected), "{expected}\n{sql}");
        }
        assert_eq!(sql.matches("(t.\"locked_by\" is null or t.\"locked_by\" = '").count(), 4);
    }

    #[test]
    fn a_published_row_may_be_deleted() {
        let mark = MarkConfig { how: MarkHow::Delete, ..MarkConfig::default() };
        let table = samples::table_of(Vec::new(), mark).unwrap();
        let sql = sql(&table, &request());
        assert!(sql.contains("; delete from \"public\".\"outbox\" t using unnest("), "{sql}");
        assert!(sql.ends_with(&format!("x.k0 and t.xmin = x.v and {NAMED}; commit")), "{sql}");
    }
}
