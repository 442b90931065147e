//! What the marks of a polled row mean, where its record was not found.

use relay::Code;

use super::answer::{State, Verdict, named, unread};
use crate::{
    cli::{
        explain_row::Placement,
        where_is::{
            evidence::{Event, Mark},
            times,
        },
    },
    polling::sql::{RowMarks, RowState, Stuck},
    wording::count,
};

/// How the last error of a row begins that `dead-letters drop` has marked as published.
const DROPPED: &str = "dropped by ";

/// The answer; `None` where the row counts as published, so that the topic has to say more.
pub(super) fn marked(event: &Event, mark: &Mark) -> Option<Verdict> {
    let lost = "its record was not found";
    match mark {
        Mark::Row(marks) => of_row(event, marks),
        Mark::Gone => {
            let gone = || {
                let reason = format!("{lost}, and its row was deleted while this command ran");
                Verdict { hint: Some("run it again".to_owned()), ..State::Unknown.because(reason) }
            };
            Some(unread(event).unwrap_or_else(gone))
        }
        Mark::Unpolled(failure) => {
            let why = failure.message_with_causes();
            let reason = format!("{lost}, its row is not marked as published, and {why}");
            Some(State::Waiting.because(reason).of_failure(failure))
        }
        Mark::Unreadable(failure) => {
            let why = failure.message_with_causes();
            let reason = format!("{lost}, and its marks cannot be read: {why}");
            Some(State::Unknown.because(reason).of_failure(failure))
        }
    }
}

fn of_row(event: &Event, marks: &RowMarks) -> Option<Verdict> {
    Some(match marks.state {
        RowState::Published => return dropped(marks),
        RowState::Stranded => Verdict {
            hint: list(Stuck::Abandoned),
            code: Some(Code::StatusUnknown.to_string()),
            ..State::Waiting.because(
                "not published: it has a status of which outbox.mark knows nothing, so a worker \
                 leaves it alone, and the later rows of its key",
            )
        },
        RowState::Abandoned => {
            let show = format!("outbox-router dead-letters show --id {}", named(event));
            Verdict { hint: Some(show), ..failed(State::DeadLettered, "abandoned", marks) }
        }
        RowState::Retried => {
            let at = marks.available_ms.map(|millis| format!(" at {}", times::utc(millis)));
            let what = format!("pending: to be tried again{}", at.unwrap_or_default());
            Verdict { hint: list(Stuck::Waiting), ..failed(State::Waiting, &what, marks) }
        }
        RowState::Claimed => {
            open("pending: a worker has claimed it, and has not sent it yet", marks)
        }
        RowState::Behind(which) => {
            let is = match which {
                Stuck::Abandoned => "is abandoned",
                Stuck::Waiting => "waits for another attempt",
            };
            let what = format!("pending: behind a row of its key that {is}");
            Verdict { hint: list(which), ..open(&what, marks) }
        }
        RowState::Pending => pending(event, marks),
        RowState::Later => match marks.available_ms {
            Some(at) => open(&format!("pending: not to be sent before {}", times::utc(at)), marks),
            None => open("pending: its time never comes", marks),
        },
        RowState::Other => State::Unknown.because(
            "its marks are neither those of a pending row, nor of one that is published or \
             abandoned: a worker leaves it alone",
        ),
    })
}

/// The row is marked as published because a person has given it up.
fn dropped(marks: &RowMarks) -> Option<Verdict> {
    let error = marks.error.as_ref().filter(|error| error.starts_with(DROPPED))?;
    Some(State::Dropped.because(format!("abandoned, and marked as published: {error}")))
}

/// Nothing but time, or the router, is between the row and its topic.
fn pending(event: &Event, marks: &RowMarks) -> Verdict {
    let what = "pending: a worker has not sent it yet";
    let verdict = match &event.placement {
        Some(Placement::Refused(failure) | Placement::NoTopic(_, Some(failure)))
            if !was_tried(marks) =>
        {
            let message = failure.message_with_causes();
            State::Waiting.because(format!("{what}; {message}")).of_failure(failure)
        }
        Some(
            Placement::Record(_)
            | Placement::NoTopic(..)
            | Placement::Filtered(_)
            | Placement::Refused(_),
        )
        | None => open(what, marks),
    };
    let hint = verdict.hint.clone().or_else(|| Some("outbox-router status".to_owned()));
    Verdict { hint, ..verdict }
}

/// An open row. The error of one that was requeued is no longer what keeps it.
fn open(what: &str, marks: &RowMarks) -> Verdict {
    if was_tried(marks) {
        failed(State::Waiting, what, marks)
    } else {
        State::Waiting.because(what)
    }
}

/// With how often the row was tried, and why in vain.
fn failed(state: State, what: &str, marks: &RowMarks) -> Verdict {
    let attempts = marks.attempts.filter(|attempts| *attempts > 0);
    let attempts = attempts.map(|attempts| format!(", after {}", count(attempts, "attempt")));
    let error = marks.error.as_ref().map(|error| format!(": {error}"));
    let reason = format!("{what}{}{}", attempts.unwrap_or_default(), error.unwrap_or_default());
    Verdict { code: code(marks).map(|code| code.to_string()), ..state.because(reason) }
}

fn was_tried(marks: &RowMarks) -> bool {
    marks.attempts.is_some_and(|attempts| attempts > 0)
}

/// The code with which the last error begins.
fn code(marks: &RowMarks) -> Option<Code> {
    Code::parse(marks.error.as_deref()?.split(':').next()?)
}

/// What lists the rows that are so.
fn list(which: Stuck) -> Option<String> {
    let flag = match which {
        Stuck::Abandoned => "",
        Stuck::Waiting => " --waiting",
    };
    Some(format!("outbox-router dead-letters list{flag}"))
}
