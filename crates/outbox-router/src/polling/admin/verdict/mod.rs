//! One word and one sentence for the state of a polled pipeline, who has to act, and what to type.
//! A function of [`Facts`], and the only place where they are judged.

mod polling;

use relay::{Class, Failure, polling::PollState};

use super::{
    facts::{Facts, counted},
    waiting::lies_in_row,
};
use crate::{
    codes::Hint,
    status::{
        ToDo, Verdict, Word,
        verdict::{STALLED_AFTER, named},
    },
    wording,
};

/// The verdict on the facts of one moment.
pub(super) fn judge(facts: &Facts<'_>) -> Verdict {
    let (word, sentence, reason) = word(facts);
    let needs_person = word == Word::Failed
        || word != Word::Standby
            && reason.is_some_and(|failure| failure.class() == Class::Mendable);
    Verdict {
        word,
        code: reason.map(|failure| failure.code.as_str()),
        blame: facts.blame,
        needs_person,
        to_do: to_do(facts, word, &sentence, reason),
        sentence,
    }
}

fn word<'a>(facts: &Facts<'a>) -> (Word, String, Option<&'a Failure>) {
    if let Some(task) = facts.stale_task {
        let sentence = format!("the {task} task has reported nothing for too long");
        return (Word::Failed, sentence, None);
    }
    let of = |word, failure: &'a Failure| (word, named(failure), Some(failure));
    // Whatever the worker holds still, it is given nothing more.
    if let (PollState::Standby | PollState::Polling, None, Some(handed)) =
        (facts.state, facts.reason, facts.handed)
    {
        return of(Word::Blocked, handed);
    }
    if let (PollState::Polling, Some(stranded)) = (facts.state, facts.stranded) {
        let sentence = format!("{}; other keys go on", named(stranded));
        return (Word::Failed, sentence, Some(stranded));
    }
    match (facts.state, facts.reason) {
        (PollState::Failed, Some(reason)) if facts.waiting.rows > 0 && lies_in_row(reason) => {
            (Word::Failed, polling::halted(facts, reason), Some(reason))
        }
        (PollState::Failed, Some(reason)) => of(Word::Failed, reason),
        (PollState::Failed, None) => (Word::Failed, "a person is needed".to_owned(), None),
        (PollState::Blocked, Some(reason)) => of(Word::Blocked, reason),
        (PollState::Blocked, None) => (Word::Blocked, "nothing is acknowledged".to_owned(), None),
        // It tries again by itself, for as long as it takes.
        (PollState::Starting, Some(reason)) => of(Word::Blocked, reason),
        // Nobody polls: the tables are being handed over.
        (PollState::Standby, Some(reason)) => of(Word::Blocked, reason),
        (PollState::Standby, None) => standby(facts),
        _ if facts.still >= STALLED_AFTER => (Word::Stalled, stalled(facts), None),
        (PollState::Starting, None) => (Word::CatchingUp, "the worker connects".to_owned(), None),
        (PollState::Draining, _) => {
            (Word::CatchingUp, "the worker stops, and delivers what it has read".to_owned(), None)
        }
        (PollState::Polling, _) => polling::judge(facts),
    }
}

fn standby<'a>(facts: &Facts<'a>) -> (Word, String, Option<&'a Failure>) {
    let held = "other workers have every shard";
    match facts.survey_failure() {
        None => (Word::Standby, held.to_owned(), None),
        Some(failure) => {
            let what = named(failure);
            let sentence = format!("{held}, and this one could not take over: {what}");
            (Word::Standby, sentence, Some(failure))
        }
    }
}

fn stalled(facts: &Facts<'_>) -> String {
    let time = wording::roughly(facts.still);
    format!("no row was published for {time}{}{}", behind(facts), polling::waits_for(facts.blame))
}

/// What is pending, for a sentence that says something else.
fn behind(facts: &Facts<'_>) -> String {
    match facts.rows {
        Some(rows) if rows.pending.rows() > 0 => {
            format!(", {} pending{}", counted(rows.pending), polling::of_which(facts))
        }
        Some(_) | None => String::new(),
    }
}

fn to_do(facts: &Facts<'_>, word: Word, sentence: &str, reason: Option<&Failure>) -> Vec<ToDo> {
    let mut list: Vec<ToDo> = unexplained(facts, word, sentence).into_iter().collect();
    list.extend(reason.map(ToDo::of));
    // Several tables may have one code, each with a cause of its own.
    let of_tables = facts.report.tables.iter().filter_map(|table| table.failure.as_ref());
    for to_do in of_tables.map(ToDo::of) {
        if !list.contains(&to_do) {
            list.push(to_do);
        }
    }
    let of_leases = facts.survey.tables.iter().filter_map(|table| table.holders.as_ref().err());
    let others = facts
        .handed
        .into_iter()
        .chain(facts.stranded)
        .chain(facts.survey_failure())
        .chain(of_leases);
    for to_do in others.map(ToDo::of) {
        if !list.iter().any(|known| known.code == to_do.code) {
            list.push(to_do);
        }
    }
    let abandoned = facts.abandoned();
    if abandoned > 0 {
        list.push(ToDo {
            code: None,
            message: format!("{} abandoned", wording::rows_are(abandoned)),
            hint: Some(Hint::command("outbox-router dead-letters list")),
        });
    }
    list
}

/// What nothing names a cause of.
fn unexplained(facts: &Facts<'_>, word: Word, sentence: &str) -> Option<ToDo> {
    let hint = match word {
        Word::Failed if facts.stale_task.is_some() => {
            Hint::marked("keep the log, and restart the router")
        }
        Word::Stalled => Hint::command("outbox-router doctor"),
        Word::Ok | Word::CatchingUp | Word::Blocked | Word::Standby | Word::Failed => return None,
    };
    Some(ToDo { code: None, message: sentence.to_owned(), hint: Some(hint) })
}

#[cfg(test)]
mod tests;
