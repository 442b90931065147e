//! By what columns a row is known to be pending, claimed, published, or abandoned: found by their
//! names and types. A pure function of the table's columns and the configuration.
//!
//! The first of status, flag and time that a table has decides whether a row is pending, as its own
//! pollers ask; the others are written beside it.

mod zoneless;

use relay::{Failure, TableName};
use tokio_postgres::types::Type;

use super::{
    facts::{ColumnFacts, Facts},
    failure::{forbidden, unfit, unwritable},
    note::{NotedMarks, Words},
    settings::{MarkConfig, MarkHow},
    words,
};
use crate::postgres::{quote_identifier, quote_table};

/// The columns of a table that say what became of a row. Columns are named by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) decides: Decides,
    pub(super) status: Option<Status>,
    pub(super) flag: Option<Flag>,
    pub(super) time: Option<String>,
    pub(super) abandoned_at: Option<String>,
    /// Whether `abandoned_at` is written when a row is abandoned.
    pub(super) abandons: Writable,
    pub(super) claim: Claim,
    pub(super) available_at: Option<String>,
    /// Whether `available_at` is written when a row is tried again later.
    pub(super) postpones: Writable,
    pub(super) attempts: Option<Attempts>,
    pub(super) last_error: Option<LastError>,
}

/// Whether a column is written. Where it is not, it is respected as others have filled it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Writable {
    Yes,
    #[default]
    No,
}

impl Writable {
    fn if_all<'f>(columns: impl IntoIterator<Item = &'f ColumnFacts>) -> Self {
        if columns.into_iter().all(|column| column.is("update")) { Self::Yes } else { Self::No }
    }
}

/// What says that a row is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decides {
    Status,
    Flag,
    Time,
    /// That it is there: a published row is deleted.
    Presence,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) column: String,
    pub(super) words: Words,
    pub(super) written: Writable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flag {
    pub(super) column: String,
    pub(super) form: FlagForm,
    pub(super) nullable: Nullable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlagForm {
    /// False, then true.
    Boolean,
    /// 0, then 1.
    Number,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nullable {
    Yes,
    No,
}

/// The columns by which a worker says that it has claimed a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Claim {
    /// When the claim ends.
    pub(super) until: Option<String>,
    /// When it began.
    pub(super) since: Option<String>,
    /// Whose it is.
    pub(super) by: Option<String>,
    pub(super) written: Writable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attempts {
    pub(super) column: String,
    /// The largest number that it can have.
    pub(super) max: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LastError {
    pub(super) column: String,
    /// The most characters that it can have.
    pub(super) max: usize,
}

impl Claim {
    /// Whether rows are claimed when they are read. Without a time they are not, since such a claim
    /// would outlive a worker that died.
    pub(super) const fn is_made(&self) -> bool {
        self.ends() && matches!(self.written, Writable::Yes)
    }

    /// Whether a claim, of this worker or of another program, ends by itself.
    pub(super) const fn ends(&self) -> bool {
        self.until.is_some() || self.since.is_some()
    }
}

impl Marks {
    /// Whether an abandoned row can be recorded.
    pub(super) fn records_abandoned(&self) -> bool {
        let word = self.written_status().and_then(|status| status.words.abandoned.as_ref());
        word.is_some() || self.abandons == Writable::Yes
    }

    /// What to type so that an abandoned row can be recorded, where it cannot be.
    pub(super) fn to_record_abandoned(&self, table: &TableName) -> String {
        let column =
            format!("alter table {} add column abandoned_at timestamptz", quote_table(table));
        match self.written_status().and_then(|status| status.words.to_abandon()) {
            Some(words) => format!("{column}; or, without DDL, {words}"),
            None => column,
        }
    }

    /// The status, where it is written.
    pub(super) fn written_status(&self) -> Option<&Status> {
        self.status.as_ref().filter(|status| status.written == Writable::Yes)
    }

    /// The column that decides whether a row is pending; `None` where it is that the row is there.
    pub(super) fn deciding(&self) -> Option<&str> {
        match self.decides {
            Decides::Presence => None,
            Decides::Status => self.status.as_ref().map(|status| status.column.as_str()),
            Decides::Flag => self.flag.as_ref().map(|flag| flag.column.as_str()),
            Decides::Time => self.time.as_deref(),
        }
    }

    /// The flag, where it decides and is a number: it may have another value than 0 and 1.
    pub(super) fn number(&self) -> Option<&Flag> {
        let flag = self.flag.as_ref().filter(|flag| flag.form == FlagForm::Number)?;
        (self.decides == Decides::Flag).then_some(flag)
    }

    /// The column of the next attempt, where it is written.
    pub(super) fn next_attempt(&self) -> Option<&String> {
        self.available_at.as_ref().filter(|_| self.postpones == Writable::Yes)
    }

    /// Whether the table says how often a row was tried, and when it is tried again.
    pub(super) fn keeps_waits(&self) -> bool {
        self.next_attempt().is_some() && self.attempts.is_some()
    }
}

/// The name of a status column.
pub(super) const STATUS: &str = "status";

/// The preset whose status is another library's own.
const SPRING_MODULITH: &str = "spring_modulith";

const TIMES: [&str; 7] = [
    "published_at",
    "delivered_at",
    "processed_at",
    "completed_at",
    "completion_date",
    "sent_at",
    "dispatched_at",
];
const FLAGS: [&str; 6] =
    ["published", "is_published", "processed", "sent", "delivered", "dispatched"];
const UNTIL: [&str; 3] = ["locked_until", "lock_expires_at", "lease_expires_at"];
const SINCE: [&str; 4] = ["processing_at", "processing_started_at", "locked_at", "claimed_at"];
const BY: [&str; 3] = ["locked_by", "lock_owner", "claimed_by"];
const AVAILABLE: [&str; 4] = ["available_at", "next_attempt_at", "next_retry_at", "retry_at"];
const ATTEMPTS: [&str; 5] =
    ["attempts", "attempt_count", "retry_count", "failure_count", "completion_attempts"];
const ERRORS: [&str; 4] = ["last_error", "last_error_message", "error_message", "failure_reason"];

/// More of an error is not kept.
const ERROR_CHARACTERS: usize = 2_000;

/// The length of a worker's name, which is a UUID.
const WORKER_CHARACTERS: i32 = 36;

/// Finds the marks of a table that fits this preset.
///
/// # Errors
/// Nothing says that a row is pending (P041), or the role may not write it (P002).
pub(super) fn marks(
    table: &TableName,
    facts: &Facts,
    config: &MarkConfig,
    preset: &str,
) -> Result<Marks, Failure> {
    let finder = Finder { table, facts, config };
    let status = match config.how {
        MarkHow::Auto | MarkHow::Status | MarkHow::Delete => finder.status(preset)?,
        MarkHow::Timestamp | MarkHow::Flag => None,
    };
    let flag = match config.how {
        MarkHow::Auto | MarkHow::Flag => finder.flag()?,
        MarkHow::Timestamp | MarkHow::Status | MarkHow::Delete => None,
    };
    let time = match config.how {
        MarkHow::Auto | MarkHow::Timestamp | MarkHow::Status => finder.time()?,
        MarkHow::Flag | MarkHow::Delete => None,
    };
    let decides = match (config.how, &status, &flag, &time) {
        (MarkHow::Delete, ..) => Decides::Presence,
        (MarkHow::Auto | MarkHow::Status, Some(_), ..) => Decides::Status,
        (MarkHow::Auto | MarkHow::Flag, _, Some(_), _) => Decides::Flag,
        (MarkHow::Auto | MarkHow::Timestamp, _, _, Some(_)) => Decides::Time,
        (MarkHow::Auto | MarkHow::Timestamp | MarkHow::Flag | MarkHow::Status, ..) => {
            return Err(finder.none(preset));
        }
    };
    let attempts = finder.first(&ATTEMPTS, is_number).map(attempts);
    let abandoned_at = finder.nullable_time(&["abandoned_at"]);
    let available_at = finder.any(&AVAILABLE, is_time);
    let written = status.as_ref().filter(|status| status.written == Writable::Yes);
    let failed = written.and_then(|status| status.words.tried());
    // A row that nothing else shows to have been tried would not hold its key when another worker
    // has it.
    let shows_failed = attempts.is_some() || failed.is_some();
    let marks = Marks {
        decides,
        flag,
        time,
        claim: finder.claim(status.as_ref()),
        abandons: abandoned_at.map_or(Writable::No, |column| Writable::if_all([column])),
        abandoned_at: abandoned_at.map(|column| column.name.clone()),
        postpones: available_at
            .filter(|_| shows_failed)
            .map_or(Writable::No, |column| Writable::if_all([column])),
        available_at: available_at.map(|column| column.name.clone()),
        attempts,
        last_error: finder.first(&ERRORS, is_text).map(last_error),
        status,
    };
    if decides == Decides::Presence && !facts.is("delete") {
        let grant =
            format!("grant delete on {} to {}", quote_table(table), quote_identifier(&facts.role));
        return Err(forbidden(table, &facts.role, "delete from", &grant));
    }
    Ok(marks)
}

struct Finder<'f> {
    table: &'f TableName,
    facts: &'f Facts,
    config: &'f MarkConfig,
}

impl<'f> Finder<'f> {
    fn status(&self, preset: &str) -> Result<Option<Status>, Failure> {
        // Words are those of a status, which has no other use for them.
        let is_asked = self.config.how == MarkHow::Status || self.config.words().next().is_some();
        let name = match (&self.config.column, self.config.how) {
            (Some(name), MarkHow::Status) => name.as_str(),
            _ => STATUS,
        };
        // Its completion_date decides; its status is another library's own.
        if preset == SPRING_MODULITH && !is_asked {
            return Ok(None);
        }
        let noted = self.facts.decided_before();
        // A status that the application adds since says nothing of the rows that are deleted.
        let had_none = |noted: &NotedMarks| noted.words.is_none();
        if self.config.how == MarkHow::Delete && !is_asked && noted.as_ref().is_some_and(had_none) {
            return Ok(None);
        }
        let usual = matches!(preset, "ordering_key" | "stream").then_some("pending");
        let Some(column) = self.facts.column(name).filter(|it| words::is_suitable(it)) else {
            return if is_asked { Err(self.lacks(name, "a text or an enum")) } else { Ok(None) };
        };
        // A row that is deleted when it is published has its words in this column.
        let is_its = |noted: &NotedMarks| noted.column.as_deref().unwrap_or(STATUS) == name;
        let noted = noted.filter(is_its).and_then(|noted| noted.words);
        let Some(words) = words::words(self.table, column, self.config, (usual, noted.as_ref()))?
        else {
            if is_asked {
                let what = format!(
                    "nothing says which words of its column {name} are pending: name them in \
                     outbox.mark.pending"
                );
                return Err(unfit(self.table, &what));
            }
            return Ok(None);
        };
        self.may_update(column)?;
        let written = Writable::if_all([column]);
        Ok(Some(Status { column: column.name.clone(), words, written }))
    }

    fn flag(&self) -> Result<Option<Flag>, Failure> {
        let is_flag = |column: &ColumnFacts| {
            column.is_of(&[Type::BOOL, Type::INT2, Type::INT4, Type::INT8]) && begins_unset(column)
        };
        let column = match (&self.config.column, self.config.how) {
            (Some(name), MarkHow::Flag) => {
                let column = self.facts.column(name).filter(|column| is_flag(column));
                Some(column.ok_or_else(|| {
                    self.lacks(name, "a boolean or an integer whose default is false, 0 or NULL")
                })?)
            }
            _ => self.any(&FLAGS, is_flag),
        };
        let Some(column) = column else { return Ok(None) };
        self.may_update(column)?;
        Ok(Some(Flag {
            column: column.name.clone(),
            form: if column.is_of(&[Type::BOOL]) { FlagForm::Boolean } else { FlagForm::Number },
            nullable: if column.is("not_null") { Nullable::No } else { Nullable::Yes },
        }))
    }

    fn time(&self) -> Result<Option<String>, Failure> {
        let is_mark = |column: &ColumnFacts| {
            is_time(column) && !column.is("not_null") && column.default.is_none()
        };
        let column = match (&self.config.column, self.config.how) {
            (Some(name), MarkHow::Timestamp) => {
                let column = self.facts.column(name).filter(|column| is_mark(column));
                let what = "a timestamp that may be NULL and has no default";
                Some(column.ok_or_else(|| self.lacks(name, what))?)
            }
            _ => self.any(&TIMES, is_mark),
        };
        let Some(column) = column else { return Ok(None) };
        self.may_update(column)?;
        Ok(Some(column.name.clone()))
    }

    fn claim(&self, status: Option<&Status>) -> Claim {
        let (until, since) = (self.nullable_time(&UNTIL), self.nullable_time(&SINCE));
        let is_name = |column: &ColumnFacts| {
            let is_wide = column.modifier < 0 || column.modifier - 4 >= WORKER_CHARACTERS;
            !column.is("not_null")
                && (column.is_of(&[Type::TEXT, Type::UUID])
                    || column.is_of(&[Type::VARCHAR]) && is_wide)
        };
        let by = self.any(&BY, is_name);
        // A time of its own, such as when the row was processed, is no claim without a state.
        let is_claim = until.is_some()
            || status.is_some_and(|status| status.words.processing.is_some())
            || by.is_some();
        if !is_claim {
            return Claim::default();
        }
        // When a lock began counts beside the word alone, where there is one.
        let is_lock =
            |status: &Status| status.words.processing.is_none() || status.written == Writable::Yes;
        let written = if until.is_some() || status.is_none_or(is_lock) {
            Writable::if_all([until, since, by].into_iter().flatten())
        } else {
            Writable::No
        };
        let [until, since, by] =
            [until, since, by].map(|column| column.map(|column| column.name.clone()));
        Claim { until, since, by, written }
    }

    fn nullable_time(&self, names: &[&str]) -> Option<&'f ColumnFacts> {
        self.any(names, |column| is_time(column) && !column.is("not_null"))
    }

    /// The first column of these names that is suitable, and may be written.
    fn first(
        &self,
        names: &[&str],
        is_suitable: impl Fn(&ColumnFacts) -> bool,
    ) -> Option<&'f ColumnFacts> {
        self.any(names, |column| is_suitable(column) && column.is("update"))
    }

    fn any(
        &self,
        names: &[&str],
        is_suitable: impl Fn(&ColumnFacts) -> bool,
    ) -> Option<&'f ColumnFacts> {
        let mut columns = names.iter().filter_map(|name| self.facts.column(name));
        columns.find(|column| is_suitable(column) && !column.is("generated"))
    }

    fn may_update(&self, column: &ColumnFacts) -> Result<(), Failure> {
        if column.is("update") || self.config.how == MarkHow::Delete {
            return Ok(());
        }
        Err(unwritable(self.table, &self.facts.role, &column.name))
    }

    fn lacks(&self, name: &str, what: &str) -> Failure {
        unfit(self.table, &format!("outbox.mark needs a column {name} that is {what}"))
    }

    fn none(&self, preset: &str) -> Failure {
        let quoted = quote_table(self.table);
        // Words make a status of it, where a status is looked for.
        let is_looked_for = self.config.how == MarkHow::Auto && preset != SPRING_MODULITH;
        let status = self.facts.column(STATUS).filter(|it| is_looked_for && words::is_suitable(it));
        let untold = status.map_or_else(String::new, |it| format!("{}; or ", words::untold(it)));
        let what = format!(
            "no column says that a row is published: {untold}alter table {quoted} add column \
             published_at timestamptz, or name the column in outbox.mark, or \
             outbox.mark.how = \"delete\""
        );
        unfit(self.table, &what)
    }
}

/// Whether a row that says nothing of the column is pending by it: so is one without a default.
fn begins_unset(column: &ColumnFacts) -> bool {
    let Some(default) = &column.default else { return true };
    let value = default.split("::").next().unwrap_or_default();
    let value = value.trim_matches(['(', ')', '\'', ' ']);
    ["false", "0", "NULL"].iter().any(|unset| unset.eq_ignore_ascii_case(value))
}

fn is_time(column: &ColumnFacts) -> bool {
    column.is_of(&[Type::TIMESTAMPTZ, Type::TIMESTAMP])
}

fn is_number(column: &ColumnFacts) -> bool {
    column.is_of(&[Type::INT2, Type::INT4, Type::INT8])
}

fn is_text(column: &ColumnFacts) -> bool {
    column.is_of(&[Type::TEXT, Type::VARCHAR])
}

fn attempts(column: &ColumnFacts) -> Attempts {
    let max = if column.is_of(&[Type::INT2]) { i64::from(i16::MAX) } else { i64::from(i32::MAX) };
    Attempts { column: column.name.clone(), max }
}

fn last_error(column: &ColumnFacts) -> LastError {
    // The modifier of varchar(n) is n and the length of a header.
    let declared = usize::try_from(column.modifier - 4).ok().filter(|_| column.modifier >= 4);
    let max = declared.map_or(ERROR_CHARACTERS, |declared| declared.min(ERROR_CHARACTERS));
    LastError { column: column.name.clone(), max }
}

#[cfg(test)]
mod tests;
