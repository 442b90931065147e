//! Who has to act: as the router says, where one answers; else by what PostgreSQL shows.

use std::fmt;

use serde_json::Value;

use super::{
    finding::Finding,
    reading::StatusReading,
    router,
    sample::{SlotSample, is_lost},
};
use crate::{codes::Advice, monitor::Blame, status::Word, wording};

/// Bytes behind below which the router keeps up: so much is always under way.
const KEEPS_UP_BYTES: u64 = 1 << 20;

/// Who has to act, and why.
pub(super) struct BlameLine {
    pub(super) who: Who,
    /// Whether it goes on only when a person has acted.
    pub(super) needs_person: bool,
    /// The reason, for a message; empty where the verdict says it.
    pub(super) why: String,
}

/// At which part of the pipeline it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// At this one, in the words of the router's own `/status.json`.
    Part(Blame),
    /// A router always has an answer; what PostgreSQL shows may not be enough for one.
    Unknown,
}

impl Who {
    /// The word in the JSON output.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Part(blame) => blame.as_str(),
            Self::Unknown => "unknown",
        }
    }

    /// The part that the router names.
    fn of_router(word: &str) -> Option<Self> {
        Blame::parse(word).map(Self::Part)
    }

    /// The name in the text output.
    const fn name(self) -> &'static str {
        match self {
            Self::Part(Blame::Nobody) => "nobody",
            Self::Part(Blame::Postgres) => "PostgreSQL",
            Self::Part(Blame::Router) => "the router",
            Self::Part(Blame::Kafka) => "Kafka",
            Self::Part(Blame::Holder) => "the other router",
            Self::Unknown => "unknown",
        }
    }

    pub(super) fn because(self, why: impl Into<String>) -> BlameLine {
        BlameLine { who: self, needs_person: false, why: why.into() }
    }
}

impl BlameLine {
    fn of_person(mut self) -> Self {
        self.needs_person = true;
        self
    }
}

impl fmt::Display for BlameLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.needs_person { "a person" } else { self.who.name() };
        match self.why.as_str() {
            "" => f.write_str(who),
            why => write!(f, "{who}: {why}"),
        }
    }
}

/// What a router that has a verdict says; `None` where none answers.
pub(super) fn of_router(router: Option<&Value>) -> Option<BlameLine> {
    let verdict = router?.get("verdict")?;
    let text = |key: &str| verdict.get(key)?.as_str();
    let who = Who::of_router(text("blame")?)?;
    let standby = awaited_standby(router?);
    let is_for_standby = text("code") == Some(Advice::StandbySlotMissing.as_str());
    let standby = standby.filter(|_| is_for_standby);
    if text("acts") == Some("person") {
        let why = standby.unwrap_or_else(|| "it does not go on by itself".to_owned());
        return Some(who.because(why).of_person());
    }
    if let Some(why) = standby {
        return Some(who.because(why));
    }
    let is_ok = text("word") == Some(Word::Ok.as_str());
    let why = if who == Who::Part(Blame::Nobody) && is_ok { "it keeps up" } else { "" };
    Some(who.because(why))
}

/// The standby for which the walsender waits.
fn awaited_standby(router: &Value) -> Option<String> {
    let slots = router.get("server")?.get("waits_for_standbys")?.as_array()?;
    let slot = slots.first()?.as_str()?;
    Some(format!("the walsender waits for the standby of slot {slot}"))
}

/// Where there is no slot.
pub(super) fn without_slot() -> BlameLine {
    Who::Unknown.because("there is no slot").of_person()
}

/// By what PostgreSQL shows, and what a router without a verdict says.
pub(super) fn by_slot(
    slot: &SlotSample,
    stuck: Option<&Finding>,
    status: &StatusReading,
) -> BlameLine {
    let word = status.router.as_ref().and_then(|router| router.get("blame")?.as_str());
    let router = word.and_then(Who::of_router).filter(|who| *who != Who::Part(Blame::Nobody));
    if is_lost(slot) {
        return Who::Part(Blame::Postgres)
            .because("PostgreSQL has invalidated the slot")
            .of_person();
    }
    if let Some(finding) = stuck {
        // A code `K…` concerns Kafka; whatever else stops a router is the router's to report.
        let kafka = finding.code.as_deref().is_some_and(|code| code.starts_with('K'));
        let who = if kafka { Who::Part(Blame::Kafka) } else { Who::Part(Blame::Router) };
        return router.unwrap_or(who).because("");
    }
    let Some(holder) = &slot.holder else {
        let state = status.router.as_ref().and_then(router::state);
        let why = state.map(|state| format!("it is {state}"));
        return Who::Part(Blame::Router).because(
            why.unwrap_or_else(|| "it is not running, or cannot reach PostgreSQL".to_owned()),
        );
    };
    if status.router.is_none() {
        return Who::Unknown.because("no router answers");
    }
    if slot.bytes_behind < KEEPS_UP_BYTES {
        return Who::Part(Blame::Nobody).because("it keeps up");
    }
    let Some(unsent) = holder.unsent_bytes else {
        let who = router.unwrap_or(Who::Unknown);
        return who.because("this role may not see how much was sent");
    };
    if unsent.saturating_mul(2) >= slot.bytes_behind {
        // A router whose window is full does not read, and then the walsender cannot send.
        let unsent = wording::bytes(unsent);
        return router
            .unwrap_or(Who::Part(Blame::Postgres))
            .because(format!("{unsent} not yet sent"));
    }
    let sent = wording::bytes(slot.bytes_behind.saturating_sub(unsent));
    let why = format!("{sent} sent and not yet acknowledged by Kafka");
    router.unwrap_or(Who::Unknown).because(why)
}
