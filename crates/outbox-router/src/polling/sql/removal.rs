//! The statements that remove rows which nobody needs any more: those that are published. No other
//! row is ever removed, whatever its age: an abandoned one leaves when a person has dropped it,
//! which publishes it. Rows that `outbox.where` leaves out are another pipeline's.

use std::time::Duration;

use relay::{Case, EpochUnit, Failure, Name};
use tokio_postgres::types::Type;

use super::{
    conditions::interval,
    facts::ColumnFacts,
    marks::Decides,
    order::written_at,
    table::PolledTable,
    transaction::{Access, COMMIT, Ways, begin_on},
};
use crate::postgres::{quote_identifier, quote_table};

/// More rows are not counted.
const COUNTED: u64 = 1_000_000;

/// What is kept, and how rows are found.
#[derive(Debug, Clone)]
pub struct RemovalRules {
    /// How long a published row stays.
    pub keep: Duration,
    /// The column by which a row has an age; `None`: what suits the table.
    pub time_column: Option<String>,
    /// The most rows that one statement deletes.
    pub batch: u64,
    /// How long a statement waits for a lock.
    pub lock_timeout: Duration,
    /// How rows are found.
    pub scan: Scan,
}

/// How rows are found that may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// By an index: a table without one is refused.
    ByIndex,
    /// By reading the whole table, where there is no index.
    Whole,
}

/// The statements for one table.
#[derive(Debug, Clone)]
pub struct Removal {
    /// `None`: no row of the table is marked as published.
    published: Option<Statements>,
    /// The most rows that one statement deletes.
    batch: u64,
    /// The age of the oldest row, in seconds, as an expression; `None` where no index finds it.
    oldest: Option<String>,
}

#[derive(Debug, Clone)]
struct Statements {
    delete: String,
    count: String,
}

impl Removal {
    /// The statements for this table.
    ///
    /// # Errors
    /// Its rows have no age, or are found by no index, or the role may not delete them (P038).
    pub fn of(table: &PolledTable, rules: &RemovalRules) -> Result<Self, Failure> {
        if !table.facts.is("delete") {
            let role = quote_identifier(&table.facts.role);
            let what = format!("role {} may not delete from {}", table.facts.role, table.name());
            let grant = format!("grant delete on {} to {role}", table.quoted());
            return Err(Failure::of(Case::RetentionForbidden, what).naming(Name::Statements, grant));
        }
        let published = match table.conditions().is_published("t") {
            Some(condition) if table.marks.decides != Decides::Presence => {
                Some(Statements::published(table, rules, &condition)?)
            }
            Some(_) | None => None,
        };
        let oldest = age(table, rules).ok().filter(|column| column.is("leads"));
        let oldest = oldest.map(|column| oldest_row(table, column));
        Ok(Self { published, batch: rules.batch, oldest })
    }

    /// The most rows that one statement deletes: where it has deleted so many, there may be more.
    pub const fn batch(&self) -> u64 {
        self.batch
    }

    pub(super) fn oldest(&self) -> Option<&str> {
        self.oldest.as_deref()
    }

    pub(super) fn delete(&self) -> Option<&str> {
        self.published.as_ref().map(|statements| statements.delete.as_str())
    }

    pub(super) fn count(&self) -> Option<&str> {
        self.published.as_ref().map(|statements| statements.count.as_str())
    }
}

impl Statements {
    fn published(
        table: &PolledTable,
        rules: &RemovalRules,
        condition: &str,
    ) -> Result<Self, Failure> {
        let time = age(table, rules)?;
        let old = |column: &ColumnFacts| {
            format!(
                "t.{} < {}",
                quote_identifier(&column.name),
                ago(column, table.unit, rules.keep)
            )
        };
        let mut all = format!("{condition} and {}", old(time));
        // Of two times the later decides: that of the mark, where an index has only the other.
        if rules.time_column.is_none()
            && let Some(mark) = table.marks.time.as_ref().filter(|mark| **mark != time.name)
            && let Some(mark) = table.facts.column(mark)
        {
            all = format!("{all} and {}", old(mark));
        }
        all += &table.and_filter("t");
        let ways = if time.is("leads") { Ways::Indexes } else { Ways::Any };
        let order = format!(" order by t.{}", quote_identifier(&time.name));
        Ok(Self::of(table, rules, &all, &order, ways))
    }

    /// Rows are locked where the role may do that, so that nobody waits for a row which somebody
    /// else has locked.
    fn of(
        table: &PolledTable,
        rules: &RemovalRules,
        condition: &str,
        order: &str,
        ways: Ways,
    ) -> Self {
        let quoted = table.quoted();
        let identity = table.identity.iter().enumerate();
        let identity: Vec<String> = identity
            .map(|(place, column)| format!("t.{} as p{place}", quote_identifier(&column.name)))
            .collect();
        let may_lock = table.facts.columns.iter().any(|column| column.is("update"));
        let lock = if may_lock { " for update of t skip locked" } else { "" };
        Self {
            delete: format!(
                "{}{}with p as materialized (select {} from {quoted} t where {condition}{order} \
                 limit {}{lock}) delete from {quoted} t using p where {} and {condition}{COMMIT}",
                begin_on(Access::ReadWrite, ways, table.strangers),
                lock_timeout(rules.lock_timeout),
                identity.join(", "),
                rules.batch,
                table.same_row("p", |place| format!("p{place}")),
            ),
            count: format!(
                "{}select count(*) from (select from {quoted} t where {condition} limit {COUNTED}) \
                 s{COMMIT}",
                begin_on(Access::ReadOnly, ways, table.strangers),
            ),
        }
    }
}

fn lock_timeout(limit: Duration) -> String {
    format!("set local lock_timeout = {}; ", limit.as_millis())
}

/// The column by which a published row has an age: what is configured, else the first of the mark's
/// time and the row's own that an index begins with.
fn age<'t>(table: &'t PolledTable, rules: &RemovalRules) -> Result<&'t ColumnFacts, Failure> {
    let refuse = |what: String| Failure::of(Case::RetentionTimeColumn, what);
    let name = table.name();
    let candidates: Vec<&ColumnFacts> = match &rules.time_column {
        Some(column) => {
            let found = table.facts.column(column);
            vec![found.ok_or_else(|| refuse(format!("{name} has no column {column}")))?]
        }
        None => {
            let names = table.marks.time.iter().chain(&table.time);
            names.filter_map(|column| table.facts.column(column)).collect()
        }
    };
    let times = || candidates.iter().copied().filter(|column| is_time(column));
    let Some(first) = times().next() else {
        return Err(refuse(match candidates.first() {
            Some(column) => {
                format!(
                    "{name}: {} is of the type {}, which is no time",
                    column.name, column.sql_type
                )
            }
            None => format!("{name}: no column gives its rows an age"),
        }));
    };
    let Some(indexed) = times().find(|column| column.is("leads")) else {
        if rules.scan == Scan::Whole {
            return Ok(first);
        }
        // That of the row's own time serves other commands, too.
        let column = times().next_back().unwrap_or(first);
        let what = format!(
            "{name} has no index that begins with {}, so every sweep would read the whole table",
            column.name
        );
        let concurrently = if table.facts.is("partitioned") { "" } else { " concurrently" };
        let index = format!(
            "create index{concurrently} on {} ({})",
            quote_table(name),
            quote_identifier(&column.name)
        );
        let failure = Failure::of(Case::RetentionWithoutIndex, what);
        return Err(failure.naming(Name::Statements, index));
    };
    Ok(indexed)
}

fn oldest_row(table: &PolledTable, column: &ColumnFacts) -> String {
    let name = quote_identifier(&column.name);
    format!(
        "(select extract(epoch from now()) - {} / 1000000.0 from {} t where t.{name} is not null \
         order by t.{name} limit 1)",
        written_at(Some(column), table.unit, "t"),
        table.quoted()
    )
}

fn is_time(column: &ColumnFacts) -> bool {
    let types = [Type::TIMESTAMPTZ, Type::TIMESTAMP, Type::DATE, Type::INT8, Type::INT4];
    column.is_of(&types)
}

/// The time this long ago as a value of the column: a constant of the statement, so that an index
/// is used. Times without a zone are UTC, as in routing.
fn ago(column: &ColumnFacts, unit: EpochUnit, keep: Duration) -> String {
    let at = format!("(now() - {})", interval(keep));
    if column.is_of(&[Type::TIMESTAMPTZ]) {
        return at;
    }
    if column.is_of(&[Type::TIMESTAMP]) {
        return format!("({at} at time zone 'UTC')");
    }
    if column.is_of(&[Type::DATE]) {
        return format!("({at} at time zone 'UTC')::date");
    }
    let factor = match unit {
        EpochUnit::Seconds => 1,
        EpochUnit::Milliseconds => 1_000,
        EpochUnit::Microseconds => 1_000_000,
    };
    format!("floor(extract(epoch from {at}) * {factor})::int8")
}

#[cfg(test)]
mod tests {
    use super::{
        super::{settings::MarkConfig, settings::MarkHow, table::samples},
        *,
    };

    fn rules() -> RemovalRules {
        RemovalRules {
            keep: Duration::from_secs(60),
            time_column: None,
            batch: 10,
            lock_timeout: Duration::from_secs(2),
            scan: Scan::Whole,
        }
    }

    #[test]
    fn a_row_that_is_not_published_is_in_no_statement() {
        let removal = Removal::of(&samples::table(samples::time()), &rules()).unwrap();
        let sql = removal.delete().unwrap();
        let old = "t.\"published_at\" is not null \
                   and t.\"published_at\" < (now() - make_interval(secs => 60))";
        assert!(
            sql.contains(&format!("t where {old} order by t.\"published_at\" limit 10")),
            "{sql}"
        );
        assert!(sql.ends_with(&format!("and {old}; commit")), "{sql}");
        let removal = Removal::of(&samples::table(samples::states()), &rules()).unwrap();
        let sql = removal.delete().unwrap();
        assert!(sql.contains("t.\"status\" = 'PUBLISHED' and t.\"created_at\" < "), "{sql}");
        assert!(!sql.contains("ABANDONED"), "{sql}");
    }

    #[test]
    fn a_table_without_an_index_or_a_right_is_refused() {
        let table = samples::table(samples::time());
        let refused = Removal::of(&table, &RemovalRules { scan: Scan::ByIndex, ..rules() });
        assert_eq!(refused.unwrap_err().case, Some(Case::RetentionWithoutIndex));
        let named = RemovalRules { time_column: Some("payload".into()), ..rules() };
        let refused = Removal::of(&table, &named);
        assert_eq!(refused.unwrap_err().case, Some(Case::RetentionTimeColumn));
    }

    #[test]
    fn of_a_table_whose_published_rows_are_deleted_none_is_left() {
        let mark = MarkConfig { how: MarkHow::Delete, ..MarkConfig::default() };
        let table = samples::table_of(Vec::new(), mark).unwrap();
        let removal = Removal::of(&table, &rules()).unwrap();
        assert!(removal.delete().is_none());
    }
}
