//! Turns one reading into an answer: what is wrong, who has to act, and what to type. Plain
//! functions of the reading.

use std::fmt;

use relay::{Code, Failure, Lsn, Name};

use super::{
    finding::Finding,
    reading::StatusReading,
    recorded::{OpenEntry, Recorded},
    router,
    sample::SlotSample,
};
use crate::{config::Config, wording};

/// The answer.
pub(super) struct Verdict {
    /// Who has to act.
    pub(super) blame: BlameLine,
    /// What is wrong; empty when all is well.
    pub(super) findings: Vec<Finding>,
    /// What a person should know, although it stops nothing.
    pub(super) notes: Vec<Finding>,
}

/// Who has to act, and why.
pub(super) struct BlameLine {
    pub(super) who: Who,
    /// The reason, for a message.
    pub(super) why: String,
}

/// Who has to act, in the words of the router's own `/status.json`. That document also has
/// `holder`, which only a standby reports, and it has no `unknown`: a router always has an answer.
#[derive(Clone, Copy)]
pub(super) enum Who {
    Nobody,
    Postgres,
    Router,
    Kafka,
    Unknown,
}

impl Who {
    /// The word in the JSON output.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Postgres => "postgresql",
            Self::Router => "router",
            Self::Kafka => "kafka",
            Self::Unknown => "unknown",
        }
    }

    /// The name in the text output.
    const fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Postgres => "PostgreSQL",
            Self::Router => "the router",
            Self::Kafka => "Kafka",
            Self::Unknown => "unknown",
        }
    }

    fn because(self, why: impl Into<String>) -> BlameLine {
        BlameLine { who: self, why: why.into() }
    }
}

impl fmt::Display for BlameLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who.name(), self.why)
    }
}

/// Makes the verdict on one reading.
pub(super) fn judge(status: &StatusReading, config: &Config) -> Verdict {
    let mut findings = Vec::new();
    let router = status.router.as_ref();
    let stuck = router::stuck(router);
    let moved = moved(status, config);
    let slot_name = &config.postgres.slot;
    let blame = match &status.sample {
        Err(failure) => {
            findings.push(Finding::of(failure));
            Who::Unknown.because("PostgreSQL cannot be asked")
        }
        Ok(sample) => match &sample.slot {
            None => {
                let what = format!("the slot {slot_name} does not exist");
                findings.push(Finding::of(&Failure::new(Code::SlotMissing, what)));
                Who::Unknown.because("there is no slot")
            }
            Some(slot) => {
                // The reason why a router that answers has stopped is added below.
                if slot.holder.is_none() && !is_lost(slot) && stuck.is_none() {
                    findings.push(unread(status, moved.as_ref(), config));
                }
                slot_findings(slot, config, &mut findings);
                blame(slot, stuck.as_ref(), status)
            }
        },
    };
    findings.extend(stuck);
    findings.extend(moved);
    for defect in router::defects(router) {
        if !findings.iter().any(|finding| finding.code == defect.code) {
            findings.push(defect);
        }
    }
    // The entry of the witness replaces such a finding: it names the interval, and what closes it.
    let open = status.record.open();
    findings
        .retain(|finding| !open.iter().any(|open| finding.code.as_deref() == Some(open.code())));
    let findings = open.iter().map(open_finding).chain(findings).collect();
    Verdict { blame, findings, notes: router::notes(router) }
}

/// The finding of an open gap.
fn open_finding(open: &OpenEntry) -> Finding {
    let (code, message) = (Some(open.code().to_owned()), open.message.clone());
    Finding { code, message, hint: open.hint.clone() }
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
         acknowledged: it was re-created, or advanced by somebody else"
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
    let is_gap = |open: &OpenEntry| open.code() != Code::WitnessMissing.as_str();
    let hint = if moved.is_some() || status.record.open().iter().any(is_gap) {
        "outbox-router run; it continues when what is open was recovered or accepted"
    } else if matches!(status.record, Recorded::Unknown(_)) {
        "outbox-router run"
    } else {
        "outbox-router run; or, if it is no longer needed, outbox-router teardown --apply"
    };
    Finding { code: None, message: unread, hint: Some(hint.to_owned()) }
}

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
    if slot.wal_status.as_deref() == Some("unreserved") {
        findings.push(Finding {
            code: None,
            message: format!("PostgreSQL invalidates the slot {name} at its next checkpoint"),
            hint: Some(
                "alter system set max_slot_wal_keep_size = -1; select pg_reload_conf()".to_owned(),
            ),
        });
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
        });
    }
}

/// Whether the slot is lost or invalidated.
pub(super) fn is_lost(slot: &SlotSample) -> bool {
    slot.wal_status.as_deref() == Some("lost") || slot.invalidation_reason.is_some()
}

/// Bytes behind below which the router keeps up: so much is always under way.
pub(super) const KEEPS_UP_BYTES: u64 = 1 << 20;

/// Who has to act, as the router itself reports it.
fn router_blame(status: &StatusReading) -> Option<Who> {
    let word = status.router.as_ref()?.get("blame")?.as_str()?;
    [Who::Postgres, Who::Router, Who::Kafka].into_iter().find(|who| who.as_str() == word)
}

fn blame(slot: &SlotSample, stuck: Option<&Finding>, status: &StatusReading) -> BlameLine {
    let router = router_blame(status);
    if is_lost(slot) {
        return Who::Postgres.because("it removed WAL that the slot needed");
    }
    if let Some(finding) = stuck {
        // A code `K…` concerns Kafka; whatever else stops a router is the router's to report.
        let kafka = finding.code.as_deref().is_some_and(|code| code.starts_with('K'));
        let who = if kafka { Who::Kafka } else { Who::Router };
        return router.unwrap_or(who).because(&finding.message);
    }
    let Some(holder) = &slot.holder else {
        let state = status.router.as_ref().and_then(router::state);
        let why = state.map(|state| format!("it is {state}"));
        return Who::Router.because(
            why.unwrap_or_else(|| "it is not running, or cannot reach PostgreSQL".to_owned()),
        );
    };
    if slot.bytes_behind < KEEPS_UP_BYTES {
        return Who::Nobody.because("it keeps up");
    }
    let Some(unsent) = holder.unsent_bytes else {
        let who = router.unwrap_or(Who::Unknown);
        return who.because("this role may not see how much was sent");
    };
    if unsent.saturating_mul(2) >= slot.bytes_behind {
        // A router whose window is full does not read, and then the walsender cannot send.
        let unsent = wording::bytes(unsent);
        return router.unwrap_or(Who::Postgres).because(format!("{unsent} not yet sent"));
    }
    let sent = wording::bytes(slot.bytes_behind.saturating_sub(unsent));
    let why = format!("{sent} sent and not yet acknowledged by Kafka");
    router.unwrap_or(Who::Unknown).because(why)
}
