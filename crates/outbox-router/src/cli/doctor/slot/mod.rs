//! The router's slot, and what else keeps WAL.

use relay::{
    Case, Code, Failure, Name, Names,
    handover::backfill::{Beginning, unfinished},
    source::{SlotHealth, SlotKind, WalStatus, slot_checks},
};

use super::{
    check::{Check, Judged, either, error, warning},
    facts::{Facts, OtherSlot, ServerFacts, SlotFacts, SlotUse, WitnessFacts},
    finding::{Finding, Severity},
    not_run::NotRun,
};
use crate::{
    codes::Advice,
    monitor::pins::{self, PinHolder, WalPin},
    postgres::quote_literal,
    wording,
};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "the slot exists, is fit and not lost",
        reports: &[
            error(Code::SlotMissing.as_str()),
            error(Code::SlotLost.as_str()),
            error(Code::SlotUnsuitable.as_str()),
        ],
        judge: |facts| Ok(suitable(facts.slots()?)),
    },
    Check {
        name: "no back-fill of the slot is unfinished",
        reports: &[error(Code::SlotUnsuitable.as_str())],
        judge: unfinished_backfill,
    },
    Check {
        name: "a slot is free, where one has to be made",
        reports: &[error(Code::ServerFull.as_str())],
        judge: |facts| Ok(none_free(facts.slots()?, facts.server()?)),
    },
    Check {
        name: "the WAL that the slot needs stays",
        reports: &[error(Advice::SlotUnreserved.as_str())],
        judge: |facts| Ok(unreserved(facts.slots()?)),
    },
    Check {
        name: "nobody else reads the slot",
        reports: &[warning(Advice::SlotReadByOther.as_str())],
        judge: |facts| Ok(other_reader(facts.slots()?)),
    },
    Check {
        name: "a promotion keeps the slot",
        reports: &[either(
            Advice::SlotWithoutFailover.as_str(),
            &[Severity::Warning, Severity::Note],
        )],
        judge: |facts| Ok(failover(facts.slots()?, facts.server()?)),
    },
    Check {
        name: "the standbys that the walsender waits for follow",
        reports: &[error(Advice::StandbySlotMissing.as_str())],
        judge: |facts| Ok(standby_slots(facts.slots()?, facts.server()?)),
    },
    Check {
        name: "no other slot keeps WAL for nobody",
        reports: &[warning(Advice::OtherSlotInactive.as_str())],
        judge: |facts| Ok(others(&facts.slots()?.others)),
    },
    Check {
        name: "no transaction is open for long",
        reports: &[warning(Advice::LongTransaction.as_str())],
        judge: |facts| {
            let pin = facts.postgres()?.pin.as_ref().map_err(NotRun::from)?;
            Ok(long_transaction(pin.as_ref(), facts.slots()?.reading.slot.as_ref()))
        },
    },
];

fn suitable(slots: &SlotFacts) -> Vec<Finding> {
    match slot_checks::suitable(&slots.name, &slots.reading) {
        Ok(_) => Vec::new(),
        Err(failure) => vec![Finding::of(&failure)],
    }
}

/// A router that may not read the runs takes such a slot, and nothing else says that rows from
/// before it are missing.
fn unfinished_backfill(facts: &Facts) -> Judged {
    let postgres = facts.postgres()?;
    let run = postgres.unfinished_backfill.as_ref().map_err(NotRun::from)?;
    let Some(run) = run else { return Ok(Vec::new()) };
    let slots = facts.slots()?;
    let position = slots.reading.slot.as_ref().map(|slot| slot.confirmed_flush_lsn);
    let beginning = match &facts.witness {
        Some(Ok(WitnessFacts { witness: Some(_), .. })) => Beginning::Witnessed,
        _ => Beginning::Unwitnessed,
    };
    Ok(vec![Finding::of(&unfinished(run, &slots.name, position, beginning))])
}

fn none_free(slots: &SlotFacts, server: &ServerFacts) -> Vec<Finding> {
    let used = i64::try_from(slots.others.len()).unwrap_or(i64::MAX);
    if slots.reading.slot.is_some() || used < server.slots_max {
        return Vec::new();
    }
    let what = format!("all {} slots of max_replication_slots are in use", server.slots_max);
    vec![Finding::of(&Failure::of(Case::NoFreeSlot, what))]
}

fn unreserved(slots: &SlotFacts) -> Vec<Finding> {
    let slot = slots.reading.slot.as_ref().filter(|slot| !slot.is_lost());
    if slot.is_none_or(|slot| slot.wal_status != WalStatus::Unreserved) {
        return Vec::new();
    }
    let what = format!("the next checkpoint may remove WAL that slot \"{}\" needs", slots.name);
    vec![Finding::advice(Severity::Error, Advice::SlotUnreserved, what, &Names::default())]
}

/// A router and its standbys have one `application_name`. Where none is shown, the session belongs
/// to a role whose sessions this one may not see.
fn other_reader(slots: &SlotFacts) -> Vec<Finding> {
    let pid = slots.reading.slot.as_ref().and_then(|slot| slot.active_pid);
    let Some(pid) = pid.filter(|_| slots.reader.as_ref() != Some(&slots.own)) else {
        return Vec::new();
    };
    let who = match &slots.reader {
        Some(name) => format!("\"{name}\""),
        None => "a session of another role".to_owned(),
    };
    let mut names = Names::default();
    names.set(Name::Pid, pid.to_string());
    let what = format!("{who} (pid {pid}) reads slot \"{}\"", slots.name);
    vec![Finding::advice(Severity::Warning, Advice::SlotReadByOther, what, &names)]
}

fn failover(slots: &SlotFacts, server: &ServerFacts) -> Vec<Finding> {
    let slot = slots.reading.slot.as_ref();
    if slot.is_none_or(|slot| slot.failover != Some(false)) {
        return Vec::new();
    }
    let has_standby = slots.others.iter().any(|other| other.kind == SlotKind::Physical);
    let severity = if has_standby { Severity::Warning } else { Severity::Note };
    let mut names = Names::default();
    names.set(Name::Slot, slots.name.clone());
    names.set(Name::Database, server.database.clone());
    let what = format!("slot \"{}\" was made without failover", slots.name);
    vec![Finding::advice(severity, Advice::SlotWithoutFailover, what, &names)]
}

/// The walsender of a slot with failover sends only what these slots have received.
fn standby_slots(slots: &SlotFacts, server: &ServerFacts) -> Vec<Finding> {
    if slots.reading.slot.as_ref().is_none_or(|slot| slot.failover != Some(true)) {
        return Vec::new();
    }
    let finding = |name: &String| {
        let known = slots.others.iter().find(|other| other.name == *name);
        let why = match known {
            None => "does not exist",
            Some(other) if other.kind == SlotKind::Logical => "is a logical slot",
            Some(other) if other.used == SlotUse::Lost => "is lost",
            Some(other) if other.used == SlotUse::Inactive => "is read by no standby",
            Some(_) => return None,
        };
        let left: Vec<&str> = server
            .standby_slots
            .iter()
            .filter(|other| *other != name)
            .map(String::as_str)
            .collect();
        let mut names = Names::default();
        let statements = format!(
            "alter system set synchronized_standby_slots = {}; select pg_reload_conf()",
            quote_literal(&left.join(", "))
        );
        names.set(Name::Statements, statements);
        let what = format!("synchronized_standby_slots names \"{name}\", which {why}");
        Some(Finding::advice(Severity::Error, Advice::StandbySlotMissing, what, &names))
    };
    server.standby_slots.iter().filter_map(finding).collect()
}

/// A lost slot keeps nothing any more.
fn others(slots: &[OtherSlot]) -> Vec<Finding> {
    let finding = |slot: &OtherSlot| {
        let kept = slot.kept.filter(|_| slot.used == SlotUse::Inactive)?;
        let mut names = Names::default();
        names.set(Name::Slot, slot.name.clone());
        let what = format!(
            "nobody reads slot \"{}\", and PostgreSQL keeps {} of WAL for it",
            slot.name,
            wording::bytes(kept)
        );
        Some(Finding::advice(Severity::Warning, Advice::OtherSlotInactive, what, &names))
    };
    slots.iter().filter_map(finding).collect()
}

/// Longer than a transaction that serves a request.
const LONG_SECONDS: f64 = 300.0;

fn long_transaction(pin: Option<&WalPin>, slot: Option<&SlotHealth>) -> Vec<Finding> {
    let Some(pin) = pin else { return Vec::new() };
    let holds_wal = slot.is_some_and(pins::is_worth_showing);
    if !holds_wal && pin.seconds.is_none_or(|seconds| seconds < LONG_SECONDS) {
        return Vec::new();
    }
    let (who, end) = match &pin.holder {
        PinHolder::Backend { pid, application } => {
            let application = application.as_ref().map(|name| format!(" of \"{name}\""));
            let who = format!("the transaction{} (pid {pid})", application.unwrap_or_default());
            (who, format!("select pg_terminate_backend({pid})"))
        }
        PinHolder::Prepared { gid } => {
            let gid = quote_literal(gid);
            (format!("the prepared transaction {gid}"), format!("rollback prepared {gid}"))
        }
    };
    let since = pin.seconds.map_or_else(String::new, |seconds| {
        let time = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
        format!(" for {}", wording::roughly(time))
    });
    let kept = match slot.and_then(SlotHealth::retained_bytes).filter(|_| holds_wal) {
        Some(kept) => format!(", and PostgreSQL keeps {} of WAL", wording::bytes(kept)),
        None => String::new(),
    };
    let mut names = Names::default();
    names.set(Name::EndTransactions, end);
    let what = format!("{who} is open{since}{kept}");
    vec![Finding::advice(Severity::Warning, Advice::LongTransaction, what, &names)]
}

#[cfg(test)]
mod tests;
