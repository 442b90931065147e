//! One reading and its verdict, as text for people and as JSON for programs.

use std::{io, time::Duration};

use serde_json::{Value, json};

use super::{
    finding::Finding,
    overall::{Overall, overall},
    reading::StatusReading,
    router,
    sample::SlotSample,
    verdict::Verdict,
};
use crate::{
    cli::open_events::{AllOpen, OpenEvents},
    config::Config,
    wording,
};

/// The text output: the four answers in their order, then what they are based on.
pub(super) fn text(
    status: &StatusReading,
    verdict: &Verdict,
    config: &Config,
    out: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    let slot = status.sample.as_ref().ok().and_then(|sample| sample.slot.as_ref());
    let Overall { word, sentence, held_for } = overall(status, verdict);
    let held_for = held_for.map(|time| format!(" for {}", wording::roughly(time)));
    writeln!(out, "verdict   {}{}: {sentence}", word.title(), held_for.unwrap_or_default())?;
    match slot {
        Some(slot) => writeln!(out, "behind    {}", wording::bytes(slot.bytes_behind))?,
        None => writeln!(out, "behind    unknown")?,
    }
    writeln!(out, "to blame  {}", verdict.blame)?;
    if let Some(slot) = slot {
        writeln!(out, "limit     {}", limit(slot))?;
    }
    let AllOpen { own, others } = &status.held;
    let counted = own.as_ref().map(OpenEvents::counted);
    let list = |counted: String| format!("{counted}: outbox-router dead-letters list");
    let held = router::held(status.router.as_ref()).or_else(|| counted.map(list));
    if verdict.findings.is_empty() && held.is_some() {
        // The router does not say whether somebody has decided; the list does.
        writeln!(out, "to do     outbox-router dead-letters list")?;
    } else if verdict.findings.is_empty() && verdict.notes.is_empty() {
        writeln!(out, "to do     nothing")?;
    }
    let findings = verdict.findings.iter().map(|finding| ("to do     ", finding));
    let notes = verdict.notes.iter().map(|note| ("note      ", note));
    for (label, finding) in findings.chain(notes) {
        let code = finding.code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default();
        writeln!(out, "{label}{code}{}", finding.message)?;
        if let Some(hint) = &finding.hint {
            writeln!(out, "          {hint}")?;
        }
    }
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
    match state {
        Some(state) => writeln!(out, "router    {state}, at http://{}", config.admin.listen)?,
        None => writeln!(out, "router    does not answer at http://{}", config.admin.listen)?,
    }
    if let Some(held) = held {
        writeln!(out, "held      {held}")?;
    }
    for other in others {
        writeln!(out, "held      {}", other.of_other())?;
    }
    status.record.text(config, out)
}

/// How long until PostgreSQL invalidates the slot.
fn limit(slot: &SlotSample) -> String {
    let Some(safe) = slot.safe_wal_bytes else {
        return "none: max_slot_wal_keep_size is not set, WAL grows until the disk is full"
            .to_owned();
    };
    let room = wording::bytes(safe);
    match seconds_to_limit(slot) {
        Some(seconds) => {
            let time = wording::roughly(Duration::from_secs(seconds));
            format!("{room} of WAL more: in {time} if nothing is confirmed until then")
        }
        None => format!("{room} of WAL more; no WAL is being written"),
    }
}

fn seconds_to_limit(slot: &SlotSample) -> Option<u64> {
    slot.safe_wal_bytes?.checked_div(slot.wal_rate?)
}

/// The JSON output: one object.
pub(super) fn json(status: &StatusReading, verdict: &Verdict, config: &Config) -> Value {
    let sample = status.sample.as_ref().ok();
    let slot = sample.and_then(|sample| sample.slot.as_ref()).map(|slot| {
        json!({
            "name": config.postgres.slot.as_str(),
            "bytes_behind": slot.bytes_behind,
            "retained_bytes": slot.retained_bytes,
            "safe_wal_bytes": slot.safe_wal_bytes,
            "wal_bytes_per_second": slot.wal_rate,
            "seconds_to_limit": seconds_to_limit(slot),
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
    let Overall { word, sentence, held_for } = overall(status, verdict);
    json!({
        "verdict": word.as_str(),
        "sentence": sentence,
        "verdict_seconds": held_for.map(|time| time.as_secs()),
        "name": config.name,
        "current_wal_lsn": sample.map(|sample| sample.current_wal_lsn.as_str()),
        "slot": slot,
        "blame": verdict.blame.who.as_str(),
        "why": verdict.blame.why,
        "findings": list(&verdict.findings),
        "notes": list(&verdict.notes),
        "record": status.record.json(),
        "router": status.router,
        "held": status.held.own.as_ref().map(OpenEvents::own_json),
        "other_pipelines": others,
    })
}

fn list(findings: &[Finding]) -> Vec<Value> {
    let one = |finding: &Finding| json!({ "code": finding.code, "message": finding.message, "hint": finding.hint });
    findings.iter().map(one).collect()
}
