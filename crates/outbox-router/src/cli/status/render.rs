//! One reading and its verdict, as text for people and as JSON for programs.

use std::io;

use serde_json::{Value, json};

use super::{
    blame::BlameLine,
    finding::{Finding, hint_json},
    limit,
    overall::{Overall, overall},
    reading::StatusReading,
    router,
    verdict::Verdict,
};
use crate::{
    cli::open_events::{AllOpen, OpenEvents},
    codes::{Hint, write_parts},
    config::Config,
    wording,
};

/// Below a label.
const INDENT: &str = "          ";

/// The text output: the four answers in their order, then what they are based on.
pub(super) fn text(
    status: &StatusReading,
    verdict: &Verdict,
    config: &Config,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    let slot = status.sample.as_ref().ok().and_then(|sample| sample.slot.as_ref());
    let overall = overall(status, verdict);
    writeln!(out, "verdict   {}{}: {}", overall.title(), overall.held(), overall.sentence)?;
    match slot {
        Some(slot) => writeln!(out, "behind    {}", wording::bytes(slot.bytes_behind))?,
        None => writeln!(out, "behind    unknown")?,
    }
    writeln!(out, "to blame  {}", verdict.blame)?;
    if let Some(slot) = slot {
        writeln!(out, "limit     {}", limit::limit(slot, status.router.as_ref()))?;
    }
    let AllOpen { own, others } = &status.held;
    let counted = own.as_ref().map(OpenEvents::counted);
    let list = |counted: String| format!("{counted}: outbox-router dead-letters list");
    let held = router::held(status.router.as_ref()).or_else(|| counted.map(list));
    if held.is_some() && verdict.all().next().is_none() {
        // The router does not say whether somebody has decided; the list does.
        writeln!(out, "to do     outbox-router dead-letters list")?;
    } else if verdict.all().next().is_none() && verdict.notes.is_empty() {
        writeln!(out, "to do     nothing")?;
    }
    to_do(verdict, &overall, out)?;
    writeln!(out)?;
    if let (Some(slot), Ok(sample)) = (slot, &status.sample) {
        let confirmed = slot.confirmed_flush_lsn.as_deref().unwrap_or("nothing");
        let current = &sample.current_wal_lsn;
        writeln!(
            out,
            "slot      {}: confirmed {confirmed}, WAL at {current}",
            config.postgres.slot
        )?;
        if let Some(retained) = slot.retained_bytes {
            writeln!(out, "on disk   {} of WAL kept for it", wording::bytes(retained))?;
        }
        if let Some(holder) = &slot.holder {
            let application = holder.application.as_deref().unwrap_or("no application name");
            writeln!(out, "read by   pid {}, {application}", holder.pid)?;
        }
    }
    let state = status.router.as_ref().and_then(|router| router.get("state")?.as_str());
    let listen = config.admin.listen;
    match (state, &status.other) {
        (Some(state), _) => writeln!(out, "router    {state}, at http://{listen}")?,
        (None, None) => writeln!(out, "router    does not answer at http://{listen}")?,
        (None, Some(other)) => {
            writeln!(
                out,
                "router    does not answer; at http://{listen} is another: {}",
                other.is
            )?;
        }
    }
    if let Some(held) = held {
        writeln!(out, "held      {held}")?;
    }
    for other in others {
        writeln!(out, "held      {}", other.of_other())?;
    }
    status.record.text(config, &status.switching, out)
}

/// What is to do, and what a person should know.
pub(super) fn to_do(
    verdict: &Verdict,
    overall: &Overall,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    let findings = verdict.all().map(|finding| ("to do     ", finding));
    let notes = verdict.notes.iter().map(|note| ("note      ", note));
    for (label, finding) in findings.chain(notes) {
        let code = finding.code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default();
        if overall.says(finding) {
            to_type(&format!("{label}{code}"), finding.hint.as_ref(), &verdict.blame, out)?;
            continue;
        }
        writeln!(out, "{label}{code}{}", finding.message)?;
        if let Some(hint) = &finding.hint {
            let mut text = String::new();
            // Writing to a string does not fail.
            let _written = write_parts(hint, INDENT, &mut text);
            out.write_all(text.as_bytes())?;
        }
    }
    Ok(())
}

/// What to type about what the sentence has said: in the line of its label where it is short.
fn to_type(
    label: &str,
    hint: Option<&Hint>,
    blame: &BlameLine,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    let Some(hint) = hint else {
        let what = match blame.needs_person {
            true => "remove the cause that the message names; the router tries every 30 s",
            false => "nothing; it goes on by itself",
        };
        return writeln!(out, "{label}{what}");
    };
    let mut text = String::new();
    let _written = write_parts(hint, INDENT, &mut text);
    let text = text.strip_prefix(INDENT).unwrap_or(&text);
    // A command has its own line, also the first one.
    match text.strip_prefix(' ') {
        Some(_) => write!(out, "{}\n{INDENT}{text}", label.trim_end()),
        None => write!(out, "{label}{text}"),
    }
}

/// The JSON output: one object.
pub(super) fn json(status: &StatusReading, verdict: &Verdict, config: &Config) -> Value {
    let sample = status.sample.as_ref().ok();
    let slot = sample.and_then(|sample| sample.slot.as_ref()).map(|slot| {
        let (seconds_to_limit, limited_by) = limit::first(slot, status.router.as_ref());
        json!({
            "name": config.postgres.slot.as_str(),
            "bytes_behind": slot.bytes_behind,
            "retained_bytes": slot.retained_bytes,
            "safe_wal_bytes": slot.safe_wal_bytes,
            "wal_bytes_per_second": slot.wal_rate,
            "seconds_to_limit": seconds_to_limit,
            "limited_by": limited_by,
            "wal_status": slot.wal_status,
            "invalidation_reason": slot.invalidation_reason,
            "confirmed_flush_lsn": slot.confirmed_flush_lsn,
            "active": slot.holder.is_some(),
            "active_pid": slot.holder.as_ref().map(|holder| holder.pid),
            "application_name": slot.holder.as_ref().and_then(|holder| holder.application.clone()),
            "unsent_bytes": slot.holder.as_ref().and_then(|holder| holder.unsent_bytes),
        })
    });
    let others: Vec<Value> = status.held.others.iter().map(OpenEvents::other_json).collect();
    let overall = overall(status, verdict);
    let word = overall.as_str();
    let Overall { sentence, held_for, .. } = overall;
    let findings: Vec<&Finding> = verdict.all().collect();
    let notes: Vec<&Finding> = verdict.notes.iter().collect();
    json!({
        "verdict": word,
        "sentence": sentence,
        "verdict_seconds": held_for.map(|time| time.as_secs()),
        "name": config.name,
        "current_wal_lsn": sample.map(|sample| sample.current_wal_lsn.as_str()),
        "slot": slot,
        "blame": verdict.blame.who.as_str(),
        "needs_person": verdict.blame.needs_person,
        "why": verdict.blame.why,
        "findings": list(&findings),
        "notes": list(&notes),
        "record": status.record.json(),
        "router": status.router,
        "other_router": status.other.as_ref().map(|other| &other.is),
        "held": status.held.own.as_ref().map(OpenEvents::own_json),
        "other_pipelines": others,
    })
}

pub(super) fn list(findings: &[&Finding]) -> Vec<Value> {
    let one = |finding: &&Finding| {
        let Finding { code, message, .. } = finding;
        let (hint, commands) = hint_json(finding.hint.as_ref());
        json!({ "code": code, "message": message, "hint": hint, "commands": commands })
    };
    findings.iter().map(one).collect()
}
