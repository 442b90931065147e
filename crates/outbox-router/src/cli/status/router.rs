//! What the router reports in its `/status.json`: why it does not continue, and what its monitor
//! finds.

use std::time::Duration;

use relay::{Class, Code, State};
use serde_json::Value;

use super::finding::Finding;
use crate::{
    codes::{Advice, Hint},
    status::Word,
    wording,
};

/// Why the router does not continue; `None` unless its state is blocked or failed.
pub(super) fn stuck(router: Option<&Value>) -> Option<Finding> {
    let router = router?;
    let state = state(router)?;
    if ![State::Blocked, State::Failed].iter().any(|stuck| stuck.as_str() == state) {
        return None;
    }
    let reason = router.get("reason").and_then(finding);
    let message = reason.as_ref().map_or("it does not say why", |reason| &reason.message);
    let message = format!("the router is {state}: {message}");
    let (code, hint) = reason.map_or((None, None), |reason| (reason.code, reason.hint));
    Some(Finding { code, message, hint, stops: true })
}

/// What the router says is to do, without what is held, which has a line of its own; `None` where
/// no router with a verdict answers.
pub(super) fn to_do(router: Option<&Value>) -> Option<Vec<Finding>> {
    let verdict = router?.get("verdict")?;
    let stands = verdict
        .get("word")?
        .as_str()
        .and_then(Word::parse)
        .is_some_and(|word| matches!(word, Word::Blocked | Word::Stalled | Word::Failed));
    let of_held = |finding: &Finding| {
        finding.code.is_none() && finding.hint.as_deref() == Some("outbox-router dead-letters list")
    };
    let listed = verdict.get("to_do")?.as_array()?;
    let mut list: Vec<Finding> = listed.iter().filter_map(finding).collect();
    list.retain(|finding| !of_held(finding));
    for finding in &mut list {
        let threatens = Some(Advice::SlotUnreserved.as_str());
        finding.stops = stands && finding.code.as_deref() != threatens;
    }
    Some(list)
}

/// The router's state, with its reason if there is one.
pub(super) fn doing(router: Option<&Value>) -> Option<Finding> {
    let router = router?;
    let state = state(router)?;
    let Some(reason) = router.get("reason").and_then(finding) else {
        return Some(Finding { code: None, message: state.to_owned(), hint: None, stops: true });
    };
    Some(Finding { message: format!("{state}: {}", reason.message), ..reason })
}

/// What the router's monitor finds wrong with slot, publication and tables.
pub(super) fn defects(router: Option<&Value>) -> Vec<Finding> {
    let mut defects = of_monitor(router, "findings");
    defects.retain(|finding| !is_note_only(finding));
    defects
}

/// What the router's monitor finds, and what was altered, without stopping anything.
pub(super) fn notes(router: Option<&Value>) -> Vec<Finding> {
    let mut notes = of_monitor(router, "findings");
    notes.retain(is_note_only);
    notes.extend(of_monitor(router, "alterations"));
    notes
}

/// What the router holds in the table of dead letters; `None` where it holds nothing.
pub(super) fn held(router: Option<&Value>) -> Option<String> {
    let held = router?.get("held")?;
    let number = |key: &str| held.get(key)?.as_u64();
    let (keys, events) = (number("keys")?, number("events")?);
    let oldest = held.get("oldest_seconds")?.as_f64();
    let oldest = oldest.map(|seconds| {
        format!(", the oldest for {}", wording::roughly(Duration::from_secs_f64(seconds)))
    });
    let plural = |count: u64| if count == 1 { "" } else { "s" };
    (events > 0).then(|| {
        format!(
            "{events} event{} of {keys} key{}{}: outbox-router dead-letters list",
            plural(events),
            plural(keys),
            oldest.unwrap_or_default()
        )
    })
}

/// The state, as the router names it.
pub(super) fn state(router: &Value) -> Option<&str> {
    router.get("state")?.as_str()
}

fn of_monitor(router: Option<&Value>, key: &str) -> Vec<Finding> {
    let found = router.and_then(|router| router.get("monitor")?.get(key)?.as_array());
    found.into_iter().flatten().filter_map(finding).collect()
}

fn finding(reason: &Value) -> Option<Finding> {
    let text = |key: &str| Some(reason.get(key)?.as_str()?.to_owned());
    Some(Finding { code: text("code"), message: text("message")?, hint: hint(reason), stops: true })
}

/// The hint of what the router reports; an earlier version does not name the commands in it.
pub(super) fn hint(reported: &Value) -> Option<Hint> {
    let commands = reported.get("commands").and_then(Value::as_array).into_iter().flatten();
    let commands = commands.filter_map(Value::as_str).map(str::to_owned).collect();
    Some(Hint::of(reported.get("hint")?.as_str()?, commands))
}

fn is_note_only(finding: &Finding) -> bool {
    let code = finding.code.as_deref().and_then(Code::parse);
    code.is_some_and(|code| code.class() == Class::Note)
}
