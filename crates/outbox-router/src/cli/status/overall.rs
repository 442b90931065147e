//! One word and one sentence for a reading: those of the router that answers, so that the command
//! and the router never disagree; where none answers, what PostgreSQL shows of the slot. That never
//! is OK: a reader of the slot may throw away what it reads.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use relay::Code;
use serde_json::Value;

use super::{finding::Finding, reading::StatusReading, sample::is_lost, verdict::Verdict};
use crate::{status::Word, wording};

/// See the module's documentation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overall {
    /// `None`: nobody says whether rows flow.
    word: Option<Word>,
    pub(super) sentence: String,
    /// For how long the verdict has held; `None` where no router answers.
    pub(super) held_for: Option<Duration>,
}

impl Overall {
    /// Where no router says what holds.
    pub(super) fn without_router(word: Option<Word>, sentence: String) -> Self {
        Self { word, sentence, held_for: None }
    }

    /// For how long it has held, as people read it behind the word.
    pub(super) fn held(&self) -> String {
        let held_for = self.held_for.filter(|time| *time >= Duration::from_secs(1));
        held_for.map(|time| format!(" for {}", wording::roughly(time))).unwrap_or_default()
    }

    /// The word for people.
    pub(super) fn title(&self) -> &'static str {
        self.word.map_or("UNKNOWN", Word::title)
    }

    /// The word in the JSON output.
    pub(super) fn as_str(&self) -> &'static str {
        self.word.map_or("unknown", Word::as_str)
    }

    /// Whether nobody has to do anything.
    pub(super) fn is_well(&self) -> bool {
        matches!(self.word, Some(Word::Ok | Word::CatchingUp | Word::Standby))
    }

    /// Whether the sentence says what the finding does.
    pub(super) fn says(&self, finding: &Finding) -> bool {
        self.held_for.is_some() && self.sentence.contains(&finding.message)
    }
}

/// Judges a reading.
pub(super) fn overall(status: &StatusReading, verdict: &Verdict) -> Overall {
    let Some(mut overall) = of_router(status.router.as_ref()) else {
        return without_verdict(status, verdict);
    };
    let code = status.router.as_ref().and_then(|router| router.pointer("/verdict/code")?.as_str());
    if code == Some(Code::SlotMissing.as_str()) {
        overall.sentence.push_str(made_again(status));
    }
    overall
}

/// What the router says; `None` where none with a verdict answers.
pub(super) fn of_router(router: Option<&Value>) -> Option<Overall> {
    let verdict = router?.get("verdict")?;
    let text = |key: &str| verdict.get(key)?.as_str();
    let since = verdict.get("since")?.as_f64().and_then(|at| Duration::try_from_secs_f64(at).ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Overall {
        word: Some(Word::parse(text("word")?)?),
        sentence: text("sentence")?.to_owned(),
        held_for: since.map(|since| now.saturating_sub(since)),
    })
}

/// The router's sentence is of its last look.
fn made_again(status: &StatusReading) -> &'static str {
    let slot = status.sample.as_ref().ok().and_then(|sample| sample.slot.as_ref());
    match slot {
        Some(slot) if !is_lost(slot) && status.record.open().is_empty() => {
            "; PostgreSQL has one now, and the router looks again within 30 s"
        }
        Some(_) => "; the one of this name that PostgreSQL has now was made later",
        None => "",
    }
}

/// A router without a verdict says why it has stopped, and then that is a finding.
fn without_verdict(status: &StatusReading, verdict: &Verdict) -> Overall {
    let named = |finding: &Finding| {
        let code = finding.code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
        format!("{}{code}", finding.message)
    };
    let slot = status.sample.as_ref().ok().and_then(|sample| sample.slot.as_ref());
    let state = status.router.as_ref().and_then(router_state);
    let (word, sentence) = match (verdict.findings.first(), &verdict.unanswered, slot, state) {
        (Some(finding), ..) => (Some(Word::Failed), named(finding)),
        (None, Some(silence), ..) => (None, silence.message.clone()),
        (None, None, Some(_), Some(state)) => (Some(Word::Ok), format!("the router is {state}")),
        (None, None, ..) => (None, "nothing is known of the slot".to_owned()),
    };
    Overall { word, sentence, held_for: None }
}

fn router_state(router: &Value) -> Option<&str> {
    router.get("state")?.as_str()
}
