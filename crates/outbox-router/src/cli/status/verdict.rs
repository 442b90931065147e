//! Turns one reading into an answer: what is wrong, who has to act, and what to type. Plain
//! functions of the reading.

use relay::{
    Case, Class, Code, Failure, Lsn, Name,
    source::{ReaderOf, slot_checks::PAST_ACKNOWLEDGED},
};

use super::{
    blame::{self, BlameLine, Who},
    finding::Finding,
    reading::StatusReading,
    recorded::{OpenEntry, Recorded, stops_nothing},
    router,
    sample::{SlotSample, is_lost},
};
use crate::{codes::Hint, config::Config, wording};

/// The answer.
pub(super) struct Verdict {
    /// Who has to act.
    pub(super) blame: BlameLine,
    /// Why nothing shows whether rows flow; `None` where a router answers, or a finding says that
    /// they do not.
    pub(super) unanswered: Option<Finding>,
    /// What is wrong; empty when all is well.
    pub(super) findings: Vec<Finding>,
    /// What a person should know, although it stops nothing.
    pub(super) notes: Vec<Finding>,
}

impl Verdict {
    /// What is wrong, and that nobody says whether rows flow.
    pub(super) fn all(&self) -> impl Iterator<Item = &Finding> {
        self.unanswered.iter().chain(&self.findings)
    }
}

/// Makes the verdict on one reading.
pub(super) fn judge(status: &StatusReading, config: &Config) -> Verdict {
    let router = status.router.as_ref();
    let said = router::to_do(router);
    // A router that has a verdict says there why it has stopped.
    let stuck = router::stuck(router).filter(|_| said.is_none());
    let moved = moved(status, config);
    let mut findings = Vec::new();
    let mut unanswered = None;
    let seen = match &status.sample {
        Err(failure) => {
            findings.push(Finding::of(failure));
            Who::Unknown.because("PostgreSQL cannot be asked")
        }
        Ok(sample) => match &sample.slot {
            // What is missing then is missing on purpose.
            None if !status.switching.is_empty() => blame::without_slot(),
            None => {
                let what = format!("the slot {} does not exist", config.postgres.slot);
                findings.push(Finding::of(&no_slot(what, &status.record)));
                blame::without_slot()
            }
            Some(slot) => {
                let is_explained = !status.switching.is_empty()
                    || stuck.is_some()
                    || said.as_ref().is_some_and(|said| !said.is_empty());
                // The reason why a router that answers has stopped is added below.
                if slot.holder.is_none() && !is_lost(slot) && !is_explained {
                    findings.push(unread(status, moved.as_ref(), config));
                }
                slot_findings(slot, config, &mut findings);
                // A router that has a verdict says itself what threatens the slot.
                let threat = slot.reserve().to_do().filter(|_| said.is_none());
                findings.extend(threat.map(Finding::of_threat));
                unanswered = silence(slot, status, config);
                blame::by_slot(slot, stuck.as_ref(), status)
            }
        },
    };
    let blame = blame::of_router(status.router.as_ref()).unwrap_or(seen);
    let defects = match said {
        Some(said) => {
            let own = std::mem::replace(&mut findings, said);
            own.into_iter().chain(moved).collect()
        }
        None => {
            findings.extend(stuck);
            findings.extend(moved);
            router::defects(router)
        }
    };
    for defect in defects {
        let is_known = |finding: &Finding| defect.code.is_some() && finding.code == defect.code;
        if !findings.iter().any(is_known) {
            findings.push(defect);
        }
    }
    // The entry of the witness replaces such a finding: it names the interval, and what closes it.
    let open = status.record.open();
    findings
        .retain(|finding| !open.iter().any(|open| finding.code.as_deref() == Some(open.code())));
    if !status.switching.is_empty() && has_no_slot(status) {
        findings.retain(|finding| !is_for_switch(finding));
    }
    let mut all: Vec<Finding> = status.switching.iter().map(Finding::of).collect();
    // A router that is kept from streaming says the same.
    findings.retain(|finding| !all.iter().any(|kept| kept.message == finding.message));
    all.extend(open.iter().map(open_finding).chain(findings));
    Verdict { blame, unanswered, findings: all, notes: router::notes(router) }
}

fn has_no_slot(status: &StatusReading) -> bool {
    status.sample.as_ref().is_ok_and(|sample| sample.slot.is_none())
}

/// Whether a switch mends what a router finds: slot and publication are missing on purpose then,
/// and a role that polls need not replicate.
fn is_for_switch(finding: &Finding) -> bool {
    let code = finding.code.as_deref().and_then(Code::parse);
    code.is_some_and(|code| code == Code::RoleLacksReplication || code.class() == Class::Gap)
}

/// There is no slot. What closes that depends on whether there was one.
fn no_slot(what: String, record: &Recorded) -> Failure {
    match record {
        Recorded::Absent => Failure::of(Case::SlotNotMade, what),
        Recorded::Known(_) => Failure::of(Case::SlotDropped, what),
        Recorded::Off | Recorded::Unknown(_) => Failure::new(Code::SlotMissing, what),
    }
}

/// The finding that somebody reads the slot, and no router says what becomes of it: whoever reads
/// may throw it away, and a router that hangs holds its slot, too.
fn silence(slot: &SlotSample, status: &StatusReading, config: &Config) -> Option<Finding> {
    let holder = slot.holder.as_ref().filter(|_| status.router.is_none())?;
    let (pid, listen) = (holder.pid, config.admin.listen);
    let answers = match &status.other {
        None => format!("no router answers at http://{listen}"),
        Some(other) => format!("another router answers at http://{listen} ({})", other.is),
    };
    let here = || {
        Hint::marked(
            "`outbox-router status` on the host of the router, or with --set \
             admin.listen=HOST:PORT",
        )
    };
    let is_of_pipeline = |name| ReaderOf::by_name(Some(name), &config.name) == ReaderOf::Pipeline;
    let (who, hint) = match holder.application.as_deref() {
        Some(name) if is_of_pipeline(name) => {
            (format!("pid {pid}, a router by its name ({name})"), here())
        }
        Some(name) => (
            format!("pid {pid}, {name}, which is no router of this pipeline by its name"),
            Hint::marked(&format!(
                "what it confirms is never sent to Kafka: stop that program, then `select \
                 pg_terminate_backend({pid})`"
            )),
        ),
        None => (format!("pid {pid}, whose name this role may not see"), here()),
    };
    let message = format!("{answers}, and {who}, reads the slot {}", config.postgres.slot);
    Some(Finding { code: None, message, hint: Some(hint), stops: false })
}

/// The finding of an open gap.
fn open_finding(open: &OpenEntry) -> Finding {
    let (code, message) = (Some(open.code().to_owned()), open.message.clone());
    Finding { code, message, hint: open.hint.clone(), stops: true }
}

/// The finding that the slot, held by nobody, stands past the witness; a router would find it at
/// its next start.
fn moved(status: &StatusReading, config: &Config) -> Option<Finding> {
    let (Ok(sample), Recorded::Known(record)) = (&status.sample, &status.record) else {
        return None;
    };
    let slot = sample.slot.as_ref().filter(|slot| slot.holder.is_none())?;
    let confirmed: Lsn = slot.confirmed_flush_lsn.as_deref()?.parse().ok()?;
    let position: Lsn = record.position.parse().ok()?;
    if confirmed <= position || !record.open.is_empty() {
        return None;
    }
    let name = &config.postgres.slot;
    let what = format!(
        "the slot {name} stands at {confirmed}, past {position}, up to which everything is \
         acknowledged: {PAST_ACKNOWLEDGED}"
    );
    Some(Finding::of(&Failure::new(Code::SlotMoved, what)))
}

/// The finding that nobody reads the slot, although no router that answers has stopped. Dropping
/// the slot is proposed only where no router answers and where it is known that no rows are at
/// risk.
fn unread(status: &StatusReading, moved: Option<&Finding>, config: &Config) -> Finding {
    let unread =
        format!("nobody reads the slot {}, and PostgreSQL keeps WAL for it", config.postgres.slot);
    if let Some(doing) = router::doing(status.router.as_ref()) {
        let message = format!("{unread}: the router is {}", doing.message);
        return Finding { message, ..doing };
    }
    let is_gap = |open: &OpenEntry| !stops_nothing(open.code());
    let hint = if moved.is_some() || status.record.open().iter().any(is_gap) {
        "`outbox-router run`; it continues when what is open was recovered or accepted"
    } else if matches!(status.record, Recorded::Unknown(_)) {
        "`outbox-router run`"
    } else {
        "`outbox-router run`; or, if it is no longer needed, `outbox-router teardown --apply`"
    };
    Finding { code: None, message: unread, hint: Some(Hint::marked(hint)), stops: true }
}

/// What PostgreSQL shows of the slot.
fn slot_findings(slot: &SlotSample, config: &Config, findings: &mut Vec<Finding>) {
    let name = &config.postgres.slot;
    if is_lost(slot) {
        let why = slot.invalidation_reason.as_deref();
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        let from = slot.confirmed_flush_lsn.as_deref().unwrap_or("the beginning");
        let what = format!("the slot {name} is lost{why}: rows after {from} may be missing");
        let lost = Failure::new(Code::SlotLost, what).naming(Name::Slot, name);
        findings.push(Finding::of(&lost));
        return;
    }
    let limits = &config.monitor.bytes_behind;
    let level = match slot.bytes_behind {
        bytes if bytes >= limits.critical => Some(("critical", limits.critical)),
        bytes if bytes >= limits.warning => Some(("warning", limits.warning)),
        _ => None,
    };
    if let Some((level, limit)) = level {
        let behind = wording::bytes(slot.bytes_behind);
        findings.push(Finding {
            code: None,
            message: format!(
                "{behind} behind: monitor.bytes_behind.{level} is {}",
                wording::bytes(limit)
            ),
            hint: None,
            stops: true,
        });
    }
}
