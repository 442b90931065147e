//! One word and one sentence for the state of the pipeline. Plain functions of [`Facts`].

use std::time::Duration;

use relay::{Class, Code, Failure, Rereads, ServerNotice, State, source::bytes_between};

use super::{Facts, reserve::Reserve, to_do::ToDo};
use crate::{
    codes::{Advice, Hint},
    monitor::{
        Blame, Lag, ObservedSlot,
        watch::figures::{StandbySlot, StandbySlotState},
    },
    wording,
};

/// For how long nothing may move before that is the verdict. A slow answer of a broker takes
/// seconds, and a rebalance of leaders less than half a minute.
pub const STALLED_AFTER: Duration = Duration::from_secs(60);

/// Events older than this, or more WAL than this, and the router has yet to catch up.
const KEEPS_UP: Duration = Duration::from_secs(10);
const KEEPS_UP_BYTES: u64 = 16 << 20;

/// The verdict's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// Rows flow, and there is no backlog.
    Ok,
    /// Rows flow, or are about to, and a backlog is being delivered.
    CatchingUp,
    /// Something outside the router has to come back first, and it goes on by itself then.
    Blocked,
    /// Nothing says what is wrong, and nothing moves.
    Stalled,
    /// Another router holds the slot.
    Standby,
    /// A person is needed.
    Failed,
}

impl Word {
    /// Every word.
    pub const ALL: [Self; 6] =
        [Self::Ok, Self::CatchingUp, Self::Blocked, Self::Stalled, Self::Standby, Self::Failed];

    /// The word in metrics and `/status.json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::CatchingUp => "catching_up",
            Self::Blocked => "blocked",
            Self::Stalled => "stalled",
            Self::Standby => "standby",
            Self::Failed => "failed",
        }
    }

    /// The word with this text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.as_str() == text)
    }

    /// The word for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::CatchingUp => "CATCHING UP",
            Self::Blocked => "BLOCKED",
            Self::Stalled => "STALLED",
            Self::Standby => "STANDBY",
            Self::Failed => "FAILED",
        }
    }
}

/// The verdict on the pipeline at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// One word.
    pub word: Word,
    /// One sentence.
    pub sentence: String,
    /// The code of the reason, where the verdict has one.
    pub code: Option<&'static str>,
    /// At which part of the pipeline it stands.
    pub blame: Blame,
    /// Whether a person has to act before it goes on, rather than that part by itself.
    pub needs_person: bool,
    /// What a person has to do; empty when nothing.
    pub to_do: Vec<ToDo>,
}

impl Verdict {
    /// Judges the facts of one moment; `stands` is for how long nothing has moved although
    /// something is outstanding.
    pub fn of(facts: &Facts<'_>, stands: Duration) -> Self {
        let (word, sentence, reason) = judge(facts, stands);
        let waits = word == Word::Blocked && reason.is_none() && waits_for_standby(facts);
        let code = reason
            .map(|failure| failure.code.as_str())
            .or(waits.then_some(Advice::StandbySlotMissing.as_str()));
        let is_for_good = |slot: &&StandbySlot| slot.state != StandbySlotState::Inactive;
        let needs_person = word == Word::Failed
            || waits && facts.held_by_standbys.iter().any(is_for_good)
            || word != Word::Standby && reason.is_some_and(waits_for_person);
        let to_do = to_do(facts, word, &sentence, reason);
        let blame = if word == Word::Stalled { blame_of_stall(facts) } else { facts.blame };
        Self { word, sentence, code, blame, needs_person, to_do }
    }

    /// Who has to act: `person`, or the part of the pipeline at which it stands.
    pub const fn acts(&self) -> &'static str {
        if self.needs_person { "person" } else { self.blame.as_str() }
    }
}

/// Whether the walsender waits for a standby that is away. One that comes back lets it go on; a
/// slot that is missing, logical or invalidated stays so.
fn waits_for_standby(facts: &Facts<'_>) -> bool {
    !facts.held_by_standbys.is_empty() || facts.warning.is_some_and(ServerNotice::is_of_standby)
}

/// Whether nothing but a person removes the cause.
fn waits_for_person(failure: &Failure) -> bool {
    matches!(failure.class(), Class::Mendable | Class::Gap)
}

fn judge<'a>(facts: &Facts<'a>, stands: Duration) -> (Word, String, Option<&'a Failure>) {
    if let Some(task) = facts.stale_task {
        let sentence = format!("the {task} task has reported nothing for too long");
        return (Word::Failed, sentence, None);
    }
    let of = |word, failure: &'a Failure| (word, named(failure), Some(failure));
    if let Some(gap) = facts.gap {
        return of(Word::Failed, &gap.failure);
    }
    let reason = facts.snapshot.condition.reason.as_ref();
    match (facts.state(), reason) {
        (State::Failed, Some(reason)) => of(Word::Failed, reason),
        (State::Failed, None) => (Word::Failed, "a person is needed".to_owned(), None),
        (State::Blocked, Some(reason)) => of(Word::Blocked, reason),
        (State::Blocked, None) => (Word::Blocked, "nothing is acknowledged".to_owned(), None),
        (State::Standby, _) => standby(facts),
        // It tries again by itself, for as long as it takes.
        (State::Starting, Some(reason)) => of(Word::Blocked, reason),
        (State::Streaming, _) if let Some(first) = facts.held_by_standbys.first() => {
            (Word::Blocked, held_back(first, facts.held_by_standbys.len()), None)
        }
        (State::Streaming, _)
            if let Some(warning) = facts.warning.filter(|w| w.is_of_standby()) =>
        {
            (Word::Blocked, format!("the walsender waits for a standby: {}", warning.message), None)
        }
        (State::Streaming, _) if let Some(rereads) = facts.rereads() => {
            let word = match rereads.lasts >= STALLED_AFTER {
                true => Word::Blocked,
                false => Word::CatchingUp,
            };
            (word, reads_again(rereads, facts), None)
        }
        _ if stands >= STALLED_AFTER => (Word::Stalled, stalled(facts, stands), None),
        (State::Starting, None) => (Word::CatchingUp, "the router connects".to_owned(), None),
        (State::Draining, _) => {
            (Word::CatchingUp, "the router stops, and delivers what it has read".to_owned(), None)
        }
        (State::Streaming, _) => streaming(facts),
    }
}

fn standby<'a>(facts: &Facts<'a>) -> (Word, String, Option<&'a Failure>) {
    if let Some(failure) = facts.foreign_reader() {
        return (Word::Failed, named(failure), Some(failure));
    }
    let holder = facts.snapshot.slot_holder.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    let hindrance = facts
        .snapshot
        .condition
        .reason
        .as_ref()
        .or(facts.monitor.trouble.as_ref())
        .or(facts.defect());
    match hindrance {
        None => (Word::Standby, format!("another router holds the slot{holder}"), None),
        Some(failure) => {
            let what = named(failure);
            let sentence = format!(
                "another router holds the slot{holder}, and this one could not take over: {what}"
            );
            (Word::Standby, sentence, Some(failure))
        }
    }
}

fn streaming<'a>(facts: &Facts<'a>) -> (Word, String, Option<&'a Failure>) {
    let oldest = facts.oldest_unacked.filter(|age| *age >= KEEPS_UP);
    let behind = facts.lag.map(|lag| lag.unread + lag.unacked + lag.unconfirmed);
    let far = behind.filter(|bytes| *bytes >= KEEPS_UP_BYTES.min(facts.limits.thresholds.warning));
    let unseen = facts.monitor.trouble.as_ref();
    let unseen_too = unseen
        .map(|failure| format!("; the monitor cannot read the slot: {}", named(failure)))
        .unwrap_or_default();
    let sentence = match (far, oldest) {
        (None, None) => {
            // Without a number, which would be of the last reading: whoever reads the slot next to
            // this sentence sees another.
            let held = facts.held();
            let held = (held.events > 0).then(|| {
                let (events, keys) = (
                    wording::count(whole(held.events), "event"),
                    wording::count(whole(held.keys), "key"),
                );
                format!("; {events} of {keys} are held")
            });
            let held = held.unwrap_or_default();
            let sentence = format!("rows flow{held}{}{unseen_too}", warned(facts));
            return (Word::Ok, sentence, unseen);
        }
        (Some(bytes), None) => format!("{} behind", wording::bytes(bytes)),
        (None, Some(age)) => format!("the oldest event has waited for {}", wording::roughly(age)),
        (Some(bytes), Some(age)) => format!(
            "{} behind, and the oldest event has waited for {}",
            wording::bytes(bytes),
            wording::roughly(age)
        ),
    };
    (Word::CatchingUp, format!("{sentence}{}{unseen_too}", waits_for(facts.blame)), unseen)
}

fn held_back(slot: &StandbySlot, number: usize) -> String {
    let more = match number.saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!(
        "the walsender sends nothing that the standby of slot {} has not received{more}: the slot \
         is {} (synchronized_standby_slots)",
        slot.name,
        slot.state.as_str()
    )
}

/// PostgreSQL has sent nothing yet.
fn reads_again(Rereads { from, to, lasts }: Rereads, facts: &Facts<'_>) -> String {
    let walsender = facts.holder().map(|holder| {
        let event = holder.wait_event.as_deref().unwrap_or("it works");
        format!(" (pid {}, {event})", holder.pid)
    });
    let walsender = walsender.unwrap_or_default();
    let begins = wording::roughly(lasts);
    match from {
        Some(from) => format!(
            "PostgreSQL has sent nothing since the session began {begins} ago: the \
             walsender{walsender} reads WAL again from {from} (restart_lsn), {} before {to}, where \
             the slot stands",
            wording::bytes(bytes_between(from, to))
        ),
        None => format!(
            "PostgreSQL has sent nothing past {to}, where the slot stands, since the session began \
             {begins} ago: the walsender{walsender} decodes"
        ),
    }
}

fn stalled(facts: &Facts<'_>, stands: Duration) -> String {
    let behind = facts
        .bytes_behind
        .map(|bytes| format!(", {} behind", wording::bytes(bytes)))
        .unwrap_or_default();
    let time = wording::roughly(stands);
    let warned = warned(facts);
    format!("no position has moved for {time}{behind}{}{warned}", waits_for(blame_of_stall(facts)))
}

/// Where everything that was received is confirmed, only PostgreSQL can send more, however little
/// the slot is behind: one event may be in a transaction that takes long to decode.
fn blame_of_stall(facts: &Facts<'_>) -> Blame {
    let is_unsent = |lag: &Lag| lag.unread > 0 && lag.unacked == 0 && lag.unconfirmed == 0;
    let is_unsent = facts.lag.as_ref().is_some_and(is_unsent);
    if facts.blame == Blame::Nobody && is_unsent { Blame::Postgres } else { facts.blame }
}

fn warned(facts: &Facts<'_>) -> String {
    facts
        .warning
        .map(|warning| {
            format!("; PostgreSQL warns: {} [SQLSTATE {}]", warning.message, warning.code)
        })
        .unwrap_or_default()
}

const fn waits_for(blame: Blame) -> &'static str {
    match blame {
        Blame::Nobody => "",
        Blame::Postgres => "; the router waits for PostgreSQL",
        Blame::Router => "; PostgreSQL waits for the router",
        Blame::Kafka => "; the router waits for Kafka",
        Blame::Holder => "; another router holds the slot",
    }
}

/// What is wrong, with its code, by which people find the page that explains it.
pub(crate) fn named(failure: &Failure) -> String {
    format!("{} ({})", failure.message_with_causes(), failure.code)
}

fn to_do(facts: &Facts<'_>, word: Word, sentence: &str, reason: Option<&Failure>) -> Vec<ToDo> {
    let mut list: Vec<ToDo> = Vec::new();
    // A slot that is kept from the tables (P043) is missing on purpose, and so is its publication.
    let is_kept = reason.is_some_and(|failure| failure.code == Code::Switched)
        && facts.monitor.slot == ObservedSlot::Missing;
    let is_on_purpose = |failure: &Failure| is_kept && failure.class() == Class::Gap;
    let defects = facts.monitor.findings.iter();
    let defects = defects.filter(|finding| !finding.is_note() && !is_on_purpose(finding));
    list.extend(unexplained(word, sentence, facts));
    let gap = facts.gap.map(ToDo::of_gap);
    for to_do in gap.into_iter().chain(reason.into_iter().chain(defects).map(ToDo::of)) {
        if !list.iter().any(|known| known.code == to_do.code) {
            list.push(to_do);
        }
    }
    list.extend(facts.snapshot.witness.lost_topics.iter().map(ToDo::of_lost_topic));
    list.extend(facts.held_by_standbys.iter().map(|slot| wait_for_standby(slot)));
    if facts.held_by_standbys.is_empty() && waits_for_standby(facts) {
        list.push(wait_for_named_standby(sentence));
    }
    list.extend(Reserve::of(facts.monitor).and_then(|reserve| reserve.to_do()));
    let held = facts.held();
    if held.events > 0 {
        let keys = wording::count(whole(held.keys), "key");
        list.push(ToDo {
            code: None,
            message: format!("events of {keys} are held behind dead letters"),
            hint: Some(Hint::command("outbox-router dead-letters list")),
        });
    }
    list
}

/// What nothing names a cause of.
fn unexplained(word: Word, sentence: &str, facts: &Facts<'_>) -> Option<ToDo> {
    let hint = match word {
        Word::Failed if facts.stale_task.is_some() => {
            Hint::marked("keep the log, and restart the router")
        }
        Word::Stalled => Hint::command("outbox-router doctor"),
        Word::Ok | Word::CatchingUp | Word::Blocked | Word::Standby | Word::Failed => return None,
    };
    Some(ToDo { code: None, message: sentence.to_owned(), hint: Some(hint) })
}

fn wait_for_standby(slot: &StandbySlot) -> ToDo {
    let (name, state) = (&slot.name, slot.state.as_str());
    ToDo {
        code: Some(Advice::StandbySlotMissing.as_str()),
        message: format!("synchronized_standby_slots names {name}, and that slot is {state}"),
        hint: Some(Hint::marked(&format!(
            "start the standby that streams from {name} again; or, if it is gone for good, take \
             {name} out of synchronized_standby_slots (`alter system set \
             synchronized_standby_slots`), then `select pg_reload_conf()`"
        ))),
    }
}

/// The slots could not be read: PostgreSQL's warning names one of them.
fn wait_for_named_standby(sentence: &str) -> ToDo {
    ToDo {
        code: Some(Advice::StandbySlotMissing.as_str()),
        message: sentence.to_owned(),
        hint: Some(Hint::marked(
            "start the standby that streams from this slot again; or, if it is gone for good, take \
             the slot out of synchronized_standby_slots (`alter system set \
             synchronized_standby_slots`), then `select pg_reload_conf()`",
        )),
    }
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
