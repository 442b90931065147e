//! One word and one sentence for a reading: those of the router that answers, so that the command
//! and the router never disagree; where none answers, what PostgreSQL shows of the slot.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{
    reading::StatusReading,
    sample::SlotSample,
    verdict::{KEEPS_UP_BYTES, Verdict},
};
use crate::{status::Word, wording};

/// See the module's documentation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overall {
    pub(super) word: Word,
    pub(super) sentence: String,
    /// For how long the verdict has held; `None` where no router answers.
    pub(super) held_for: Option<Duration>,
}

/// Judges a reading.
pub(super) fn overall(status: &StatusReading, verdict: &Verdict) -> Overall {
    of_router(status.router.as_ref()).unwrap_or_else(|| without_router(status, verdict))
}

fn of_router(router: Option<&Value>) -> Option<Overall> {
    let verdict = router?.get("verdict")?;
    let text = |key: &str| verdict.get(key)?.as_str();
    let since = verdict.get("since")?.as_f64().and_then(|at| Duration::try_from_secs_f64(at).ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(Overall {
        word: Word::parse(text("word")?)?,
        sentence: text("sentence")?.to_owned(),
        held_for: since.map(|since| now.saturating_sub(since)),
    })
}

/// Whoever holds the slot is a router that listens elsewhere.
fn without_router(status: &StatusReading, verdict: &Verdict) -> Overall {
    let slot = status.sample.as_ref().ok().and_then(|sample| sample.slot.as_ref());
    let (word, sentence) = match (verdict.findings.first(), slot) {
        (Some(finding), _) => {
            let code = finding.code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
            (Word::Failed, format!("{}{code}", finding.message))
        }
        (None, Some(slot)) => held_by_other(slot),
        (None, None) => (Word::Failed, "nothing is known of the slot".to_owned()),
    };
    Overall { word, sentence, held_for: None }
}

fn held_by_other(slot: &SlotSample) -> (Word, String) {
    let by = slot.holder.as_ref().map_or_else(
        || "nobody reads the slot".to_owned(),
        |holder| format!("pid {} reads the slot", holder.pid),
    );
    let behind = wording::bytes(slot.bytes_behind);
    let word = if slot.bytes_behind < KEEPS_UP_BYTES { Word::Ok } else { Word::CatchingUp };
    (word, format!("{by}, {behind} behind"))
}
