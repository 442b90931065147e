//! Which rows are pending, free, waiting: what marks mean, as conditions.
//!
//! Those that an index may have do not depend on the time. A statement repeats them word for word,
//! so that the server sees that the index has its rows.

use std::time::Duration;

use uuid::Uuid;

use super::{
    literals::{list, literal},
    marks::{Decides, FlagForm, Marks, Nullable, Status},
};
use crate::postgres::quote_identifier;

/// The conditions of a table, as this worker asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conditions<'m> {
    pub(super) marks: &'m Marks,
    pub(super) worker: Uuid,
    pub(super) lease: Duration,
}

/// All of them.
pub(super) fn and(conditions: &[String]) -> String {
    if conditions.is_empty() { "true".to_owned() } else { conditions.join(" and ") }
}

/// One of them.
pub(super) fn or(conditions: &[String]) -> String {
    format!("({})", conditions.join(" or "))
}

fn column(alias: &str, name: &str) -> String {
    format!("{alias}.{}", quote_identifier(name))
}

/// So many seconds, as an interval.
pub(super) fn interval(duration: Duration) -> String {
    format!("make_interval(secs => {})", duration.as_secs_f64())
}

impl Conditions<'_> {
    /// The row is neither published nor abandoned. An index may have this condition.
    pub(super) fn open(&self, alias: &str) -> Vec<String> {
        let mut all = self.unmarked(alias);
        if let Some(words) = self.open_words()
            && let Some(status) = &self.marks.status
        {
            all.push(format!("{} in ({})", column(alias, &status.column), list(words)));
        }
        if let Some(abandoned) = &self.marks.abandoned_at {
            all.push(format!("{} is null", column(alias, abandoned)));
        }
        all
    }

    /// Flag and time say that the row is not published, where they decide.
    fn unmarked(&self, alias: &str) -> Vec<String> {
        match (self.marks.decides, &self.marks.flag, &self.marks.time) {
            (Decides::Flag, Some(flag), _) => {
                let column = column(alias, &flag.column);
                vec![match (flag.form, flag.nullable) {
                    (FlagForm::Boolean, Nullable::No) => format!("not {column}"),
                    (FlagForm::Boolean, Nullable::Yes) => format!("({column} is not true)"),
                    (FlagForm::Number, Nullable::No) => format!("{column} = 0"),
                    (FlagForm::Number, Nullable::Yes) => {
                        format!("({column} = 0 or {column} is null)")
                    }
                }]
            }
            (Decides::Time, _, Some(time)) => vec![format!("{} is null", column(alias, time))],
            _ => Vec::new(),
        }
    }

    /// The words of a row that is neither published nor abandoned.
    fn open_words(&self) -> Option<Vec<&str>> {
        let words = &self.marks.status.as_ref()?.words;
        let failed = words.tried().filter(|_| self.marks.available_at.is_some());
        let processing = words.processing.as_ref().filter(|_| self.marks.claim.ends());
        let all = words.pending.iter().chain(failed).chain(processing);
        Some(all.map(String::as_str).collect())
    }

    /// The row is open, and nothing says that it is to be read later.
    pub(super) fn ready(&self, alias: &str) -> Vec<String> {
        let mut all = self.due(alias);
        all.extend(self.free(alias));
        all
    }

    /// The row is open, and its time has come.
    pub(super) fn due(&self, alias: &str) -> Vec<String> {
        let mut all = self.open(alias);
        if let Some(available) = &self.marks.available_at {
            let available = column(alias, available);
            all.push(format!("({available} is null or {available} <= now())"));
        }
        all
    }

    /// From when on an open row may be read: NULL or past where that is now.
    pub(super) fn ready_at(&self, alias: &str) -> String {
        let claim = &self.marks.claim;
        let taken = match (&claim.until, &claim.since) {
            (Some(until), _) => Some(format!("{}::timestamptz", column(alias, until))),
            (None, Some(since)) => {
                let since = column(alias, since);
                Some(format!("{since}::timestamptz + {}", interval(self.lease)))
            }
            (None, None) => None,
        };
        let available = self.marks.available_at.as_ref();
        let available = available.map(|it| format!("{}::timestamptz", column(alias, it)));
        let times: Vec<String> = available.into_iter().chain(taken).collect();
        if times.is_empty() {
            "null::timestamptz".to_owned()
        } else {
            format!("greatest({})", times.join(", "))
        }
    }

    /// Nobody else has claimed the row, or too long ago. What this worker has claimed it may claim
    /// again: it reads nothing while it has rows in flight.
    fn free(&self, alias: &str) -> Option<String> {
        let claim = &self.marks.claim;
        let lock = claim.until.as_ref().or(claim.since.as_ref())?;
        let mut any = vec![format!("{} is null", column(alias, lock))];
        any.extend(self.is_expired(alias));
        if claim.until.is_none() {
            any.extend(self.is_processing(alias).map(|is| format!("not ({is})")));
        }
        any.extend(self.is_ours(alias));
        Some(or(&any))
    }

    fn is_processing(&self, alias: &str) -> Option<String> {
        let status = self.marks.status.as_ref()?;
        let word = status.words.processing.as_ref()?;
        Some(format!("{} = {}", column(alias, &status.column), literal(word)))
    }

    fn is_ours(&self, alias: &str) -> Option<String> {
        let by = self.marks.claim.by.as_ref()?;
        Some(format!("{} = '{}'", column(alias, by), self.worker))
    }

    /// The row may still be marked by this worker: it is open, and nobody else has claimed it, or
    /// too long ago.
    pub(super) fn markable(&self, alias: &str) -> Vec<String> {
        let mut all = self.open(alias);
        if let (true, Some(by), Some(ours)) =
            (self.marks.claim.is_made(), &self.marks.claim.by, self.is_ours(alias))
        {
            let mut any = vec![format!("{} is null", column(alias, by)), ours];
            any.extend(self.is_expired(alias));
            all.push(or(&any));
        }
        all
    }

    /// Whoever has claimed the row has it no more.
    fn is_expired(&self, alias: &str) -> Option<String> {
        let claim = &self.marks.claim;
        if let Some(until) = &claim.until {
            return Some(format!("{} < now()", column(alias, until)));
        }
        let since = column(alias, claim.since.as_ref()?);
        Some(format!("{since} < now() - {}", interval(self.lease)))
    }

    /// The row may be one for which later rows of its key wait. An index may have this condition;
    /// `None`: no row of such a table can be.
    pub(super) fn may_hold(&self, alias: &str) -> Option<String> {
        let Marks { status, claim, available_at, attempts, .. } = self.marks;
        let mut any = Vec::new();
        if let Some(Status { column: name, words, .. }) = status {
            // Any other word, and none.
            let free = words.pending.iter().chain([&words.published]).map(String::as_str);
            any.push(format!("({} in ({})) is not true", column(alias, name), list(free)));
        }
        any.extend(self.is_other_number(alias));
        let mut open = Vec::new();
        if let (Some(_), Some(attempts)) = (available_at, attempts) {
            open.push(format!("{} > 0", column(alias, &attempts.column)));
        }
        let by_time = claim.until.as_ref().or(claim.since.as_ref());
        open.extend(by_time.map(|time| format!("{} is not null", column(alias, time))));
        if !open.is_empty() {
            any.push(format!("({} and {})", and(&self.open(alias)), or(&open)));
        }
        any.extend(self.is_abandoned_at(alias));
        (!any.is_empty()).then(|| or(&any))
    }

    /// Later rows of this row's key wait for it: it is tried again later, or abandoned, or somebody
    /// else has claimed it, or nothing is known of its status. `None`: no row of such a table can
    /// be.
    pub(super) fn holds(&self, alias: &str) -> Option<String> {
        let may = self.may_hold(alias)?;
        let any = [
            self.is_retried(alias),
            self.is_claimed_by_another(alias),
            self.is_abandoned(alias),
            self.is_stranded(alias),
        ];
        let any: Vec<String> = any.into_iter().flatten().collect();
        (!any.is_empty()).then(|| format!("{may} and {}", or(&any)))
    }

    /// The row was tried, and waits for another attempt.
    pub(super) fn is_retried(&self, alias: &str) -> Option<String> {
        let available = column(alias, self.marks.available_at.as_ref()?);
        let mut tried = Vec::new();
        if let Some(status) = &self.marks.status
            && let Some(failed) = status.words.tried()
        {
            tried.push(format!("{} = {}", column(alias, &status.column), literal(failed)));
        }
        if let Some(attempts) = &self.marks.attempts {
            tried.push(format!("{} > 0", column(alias, &attempts.column)));
        }
        if tried.is_empty() {
            return None;
        }
        let open = and(&self.open(alias));
        Some(format!("({open} and {available} > now() and {})", or(&tried)))
    }

    /// The row was tried, and is open, in a table that has no time of its next attempt to say that
    /// it waits. Somebody may be at it at this moment, and another program may have left its
    /// attempts: so this is shown to people, and no row of its key waits for it. `None`: the table
    /// has the time, or does not count.
    pub(super) fn is_tried(&self, alias: &str) -> Option<String> {
        let attempts = self.marks.attempts.as_ref().filter(|_| !self.marks.keeps_waits())?;
        let open = and(&self.open(alias));
        Some(format!("({open} and {} > 0)", column(alias, &attempts.column)))
    }

    /// Somebody has claimed the row, and not too long ago: not this worker, where that can be told.
    fn is_claimed_by_another(&self, alias: &str) -> Option<String> {
        let free = self.free(alias)?;
        Some(format!("({} and not coalesce({free}, false))", and(&self.open(alias))))
    }

    /// Somebody works at the row, this worker or another one.
    pub(super) fn is_claimed(&self, alias: &str) -> Option<String> {
        let claim = &self.marks.claim;
        let open = and(&self.open(alias));
        if let Some(until) = &claim.until {
            return Some(format!("{open} and {} >= now()", column(alias, until)));
        }
        let since = column(alias, claim.since.as_ref()?);
        let recent = format!("{open} and {since} >= now() - {}", interval(self.lease));
        Some(match self.is_processing(alias) {
            Some(processing) => format!("{recent} and {processing}"),
            None => recent,
        })
    }

    /// The row is marked as published. `None`: such a row is deleted, so there is none.
    pub(super) fn is_published(&self, alias: &str) -> Option<String> {
        match (self.marks.decides, &self.marks.status, &self.marks.flag, &self.marks.time) {
            (Decides::Status, Some(status), ..) => {
                let word = literal(&status.words.published);
                Some(format!("{} = {word}", column(alias, &status.column)))
            }
            (Decides::Flag, _, Some(flag), _) => {
                let column = column(alias, &flag.column);
                Some(match flag.form {
                    FlagForm::Boolean => column,
                    FlagForm::Number => format!("{column} = 1"),
                })
            }
            (Decides::Time, _, _, Some(time)) => {
                Some(format!("{} is not null", column(alias, time)))
            }
            _ => None,
        }
    }

    /// The row is abandoned: by its word or its time, whoever has written them.
    pub(super) fn is_abandoned(&self, alias: &str) -> Option<String> {
        match (self.is_abandoned_by_word(alias), self.is_abandoned_at(alias)) {
            (Some(word), Some(at)) => Some(or(&[word, at])),
            (word, at) => word.or(at),
        }
    }

    /// The row has a status or a flag of which nothing is known, or its status is NULL: it is
    /// neither open, nor published, nor abandoned. That of a word for failed is not known where no
    /// column has the time of the next attempt, nor that of one for processing where no lock of it
    /// ends.
    pub(super) fn is_stranded(&self, alias: &str) -> Option<String> {
        let Some(Status { column: name, words, .. }) = self.marks.status.as_ref() else {
            return self.is_other_number(alias);
        };
        let other = words.abandoned.iter().chain([&words.published]).map(String::as_str);
        let known = self.open_words().into_iter().flatten().chain(other);
        let unknown = format!("({} in ({})) is not true", column(alias, name), list(known));
        Some(match self.is_abandoned_at(alias) {
            Some(at) => format!("({unknown} and {at} is not true)"),
            None => format!("({unknown})"),
        })
    }

    /// The flag says neither that the row is published, nor that it is not.
    fn is_other_number(&self, alias: &str) -> Option<String> {
        let flag = self.marks.number()?;
        Some(format!("{} not in (0, 1)", column(alias, &flag.column)))
    }

    /// The row is abandoned by its word.
    pub(super) fn is_abandoned_by_word(&self, alias: &str) -> Option<String> {
        let status = self.marks.status.as_ref()?;
        let word = status.words.abandoned.as_ref()?;
        Some(format!("{} = {}", column(alias, &status.column), literal(word)))
    }

    /// The row is abandoned by its time.
    pub(super) fn is_abandoned_at(&self, alias: &str) -> Option<String> {
        let abandoned = self.marks.abandoned_at.as_ref()?;
        let mut all = self.unmarked(alias);
        if let Some(status) = &self.marks.status {
            // Published by a person after it was abandoned.
            let published = literal(&status.words.published);
            all.push(format!("{} <> {published}", column(alias, &status.column)));
        }
        all.push(format!("{} is not null", column(alias, abandoned)));
        Some(format!("({})", and(&all)))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            marks::{Attempts, Claim, Flag, Writable},
            note::Words,
        },
        *,
    };

    fn nothing(decides: Decides) -> Marks {
        Marks {
            decides,
            status: None,
            flag: None,
            time: None,
            abandoned_at: None,
            abandons: Writable::No,
            claim: Claim::default(),
            available_at: None,
            postpones: Writable::No,
            attempts: None,
            last_error: None,
        }
    }

    fn written() -> Claim {
        Claim { written: Writable::Yes, ..Claim::default() }
    }

    fn of(marks: &Marks) -> Conditions<'_> {
        Conditions { marks, worker: Uuid::nil(), lease: Duration::from_secs(10) }
    }

    #[test]
    fn a_time_alone_is_all() {
        let marks = Marks { time: Some("published_at".into()), ..nothing(Decides::Time) };
        assert_eq!(of(&marks).ready("t"), ["t.\"published_at\" is null"]);
        assert_eq!(of(&marks).markable("t"), ["t.\"published_at\" is null"]);
        assert_eq!((of(&marks).may_hold("t"), of(&marks).holds("t")), (None, None));
    }

    #[test]
    fn a_flag_that_may_be_null_is_pending_then() {
        let with = |form, nullable| {
            let flag = Some(Flag { column: "p".into(), form, nullable });
            of(&Marks { flag, ..nothing(Decides::Flag) }).open("t").join("")
        };
        assert_eq!(with(FlagForm::Boolean, Nullable::No), "not t.\"p\"");
        assert_eq!(with(FlagForm::Boolean, Nullable::Yes), "(t.\"p\" is not true)");
        assert_eq!(with(FlagForm::Number, Nullable::No), "t.\"p\" = 0");
        assert_eq!(with(FlagForm::Number, Nullable::Yes), "(t.\"p\" = 0 or t.\"p\" is null)");
    }

    #[test]
    fn a_number_that_is_no_flag_is_stranded() {
        let with = |form| {
            let flag = Some(Flag { column: "p".into(), form, nullable: Nullable::Yes });
            let marks = Marks { flag, ..nothing(Decides::Flag) };
            (of(&marks).is_stranded("t"), of(&marks).holds("t"))
        };
        assert_eq!(with(FlagForm::Boolean), (None, None));
        let other = "t.\"p\" not in (0, 1)";
        let holds = format!("({other}) and ({other})");
        assert_eq!(with(FlagForm::Number), (Some(other.to_owned()), Some(holds)));
    }

    fn full() -> Marks {
        let word = |word: &str| Some(word.to_owned());
        let words = Words {
            pending: vec!["PENDING".into()],
            processing: word("PROCESSING"),
            published: "PUBLISHED".into(),
            failed: word("FAILED"),
            abandoned: word("ABANDONED"),
        };
        Marks {
            status: Some(Status { column: "status".into(), words, written: Writable::Yes }),
            claim: Claim { since: word("processing_at"), ..written() },
            available_at: word("available_at"),
            postpones: Writable::Yes,
            attempts: Some(Attempts { column: "attempts".into(), max: 9 }),
            ..nothing(Decides::Status)
        }
    }

    #[test]
    fn a_status_is_pending_failed_or_claimed() {
        let marks = full();
        let open = "t.\"status\" in ('PENDING', 'FAILED', 'PROCESSING')";
        assert_eq!(of(&marks).open("t"), [open]);
        assert_eq!(
            of(&marks).ready("t")[1..],
            [
                "(t.\"available_at\" is null or t.\"available_at\" <= now())",
                "(t.\"processing_at\" is null or \
                 t.\"processing_at\" < now() - make_interval(secs => 10) or \
                 not (t.\"status\" = 'PROCESSING'))",
            ]
        );
        let may = of(&marks).may_hold("h").unwrap();
        assert!(
            may.starts_with("((h.\"status\" in ('PENDING', 'PUBLISHED')) is not true or "),
            "{may}"
        );
        assert!(of(&marks).holds("h").unwrap().starts_with(&may));
        // Without a time of the next attempt, another poller's failed rows are left to it.
        let marks = Marks { available_at: None, claim: Claim::default(), ..full() };
        assert_eq!(of(&marks).open("t"), ["t.\"status\" in ('PENDING')"]);
        let stranded = "((t.\"status\" in ('PENDING', 'ABANDONED', 'PUBLISHED')) is not true)";
        assert_eq!(of(&marks).is_stranded("t").as_deref(), Some(stranded));
    }

    /// Otherwise a row that is not due would hold its key, and count as failed.
    #[test]
    fn a_word_for_failed_that_pending_rows_have_shows_nothing() {
        let mut marks = full();
        if let Some(status) = &mut marks.status {
            status.words.failed = Some("PENDING".into());
        }
        assert_eq!(of(&marks).open("t"), ["t.\"status\" in ('PENDING', 'PROCESSING')"]);
        let may = of(&marks).may_hold("h").unwrap();
        assert!(may.starts_with("((h.\"status\" in ('PENDING', 'PUBLISHED')) is not"), "{may}");
        let retried = of(&marks).is_retried("t").unwrap();
        assert!(retried.ends_with(" and (t.\"attempts\" > 0))"), "{retried}");
        let marks = Marks { attempts: None, ..marks };
        assert_eq!(of(&marks).is_retried("t"), None);
    }

    /// Where the next attempt is in the memory of a worker alone, the attempts are all there is.
    #[test]
    fn a_row_was_tried_by_its_attempts_where_no_time_of_the_next_one_is_kept() {
        let marks = Marks { available_at: None, postpones: Writable::No, ..full() };
        let tried = "(t.\"status\" in ('PENDING', 'PROCESSING') and t.\"attempts\" > 0)";
        assert_eq!(of(&marks).is_tried("t").as_deref(), Some(tried));
        assert_eq!(of(&marks).is_retried("t"), None);
        let read_only = Marks { postpones: Writable::No, ..full() };
        assert!(of(&read_only).is_tried("t").is_some(), "others fill the time");
        assert_eq!(of(&full()).is_tried("t"), None);
        assert_eq!(of(&Marks { attempts: None, ..marks }).is_tried("t"), None);
    }

    /// A person may take back one of the two.
    #[test]
    fn a_row_is_abandoned_by_its_word_or_by_its_time() {
        let marks = Marks { abandoned_at: Some("abandoned_at".into()), ..full() };
        assert_eq!(
            of(&marks).is_abandoned("t").unwrap(),
            "(t.\"status\" = 'ABANDONED' or \
             (t.\"status\" <> 'PUBLISHED' and t.\"abandoned_at\" is not null))"
        );
    }

    #[test]
    fn a_lock_of_this_worker_is_none_for_it() {
        let claim = Claim { until: Some("u".into()), by: Some("b".into()), ..written() };
        let marks = Marks { claim, ..full() };
        let own = format!("t.\"b\" = '{}'", Uuid::nil());
        let free = format!("(t.\"u\" is null or t.\"u\" < now() or {own})");
        assert_eq!(of(&marks).ready("t").last(), Some(&free));
        let markable = format!("(t.\"b\" is null or {own} or t.\"u\" < now())");
        assert_eq!(of(&marks).markable("t").last(), Some(&markable));
    }
}
