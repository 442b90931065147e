//! Up to which position everything is delivered, on the server that would remove rows.

use pgoutput::Lsn;

use crate::{
    failure::{Case, Failure},
    source::{History, SlotHealth, slot_checks::check_not_advanced},
    witness::Witness,
};

/// What is known of the pipeline, and of the server that would remove rows.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'e> {
    /// The server, as it identifies itself on the connection that would remove rows.
    pub here: &'e History,
    /// The slot's name.
    pub slot_name: &'e str,
    /// The slot on that server, read after [`Self::acknowledged`].
    pub slot: &'e SlotHealth,
    /// What the brokers have.
    pub acknowledged: Acknowledged<'e>,
    /// The end of WAL when publication and tables were last found as they must be: what the
    /// publication left out is confirmed, and was never sent.
    pub verified: Lsn,
    /// A position before which no transaction has a row that the slot would send, where no process
    /// streams from the slot and it was asked.
    pub nothing_before: Option<Lsn>,
}

/// Up to where everything is acknowledged, and on which server.
#[derive(Debug, Clone, Copy)]
pub struct Acknowledged<'e> {
    /// The server whose positions these are; `None` where that was never known.
    pub history: Option<&'e History>,
    /// Everything before it is acknowledged.
    pub position: Lsn,
    /// Where the last transaction with events before that position was committed, if that is known.
    pub last_commit: Option<Lsn>,
    /// Who says it.
    pub by: Witnessed,
}

/// Who says what is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witnessed {
    /// The router that streams, of this moment.
    ByRouter,
    /// The record in the state topic. A slot that no process holds stands no further.
    ByRecord,
}

impl<'e> From<&'e Witness> for Acknowledged<'e> {
    fn from(witness: &'e Witness) -> Self {
        Self {
            history: witness.history.as_ref(),
            position: witness.position,
            last_commit: witness.last.map(|last| last.commit_lsn),
            by: Witnessed::ByRecord,
        }
    }
}

/// Everything before a position is delivered, on one server. Only evidence makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmed {
    position: Lsn,
}

impl Confirmed {
    /// Compares server, slot and what is acknowledged.
    ///
    /// # Errors
    /// The server is not the one whose events are acknowledged, or was restored to an earlier
    /// state; the slot was moved.
    pub fn by(evidence: Evidence<'_>) -> Result<Self, Failure> {
        let Evidence { slot, acknowledged, .. } = evidence;
        check_server(evidence.here, slot, acknowledged)?;
        if acknowledged.by == Witnessed::ByRecord && !slot.is_active() {
            check_not_advanced(evidence.slot_name, acknowledged.position, slot)?;
        }
        let slot_at = slot.confirmed_flush_lsn.unwrap_or(Lsn::ZERO);
        let sent = match evidence.nothing_before.filter(|_| !slot.is_active()) {
            Some(position) => {
                check_sends_again(evidence.slot_name, slot_at, acknowledged)?;
                position
            }
            None => acknowledged.position.min(slot_at),
        };
        Ok(Self { position: sent.min(evidence.verified) })
    }

    #[cfg(test)]
    pub(super) fn at(position: u64) -> Self {
        Self { position: Lsn::from_u64(position) }
    }

    /// Everything before it is delivered.
    pub const fn position(&self) -> Lsn {
        self.position
    }
}

fn check_server(here: &History, slot: &SlotHealth, known: Acknowledged<'_>) -> Result<(), Failure> {
    let describe = |history: &History| {
        format!("system identifier {}, timeline {}", history.system_id, history.timeline)
    };
    let what = match known.history {
        None => "it is not known which server the acknowledged events come from".to_owned(),
        Some(history) if history != here => format!(
            "the acknowledged events come from another server than this one ({}), or from before a \
             promotion ({})",
            describe(here),
            describe(history)
        ),
        Some(_) if slot.current_wal_lsn < known.position => format!(
            "the server's WAL ends at {}, and events up to {} are acknowledged: it was restored to \
             an earlier state",
            slot.current_wal_lsn, known.position
        ),
        Some(_) => return Ok(()),
    };
    Err(Failure::of(Case::RetentionOpen, what))
}

/// A slot that stands before the last acknowledged transaction sends it again, on the same server
/// in the same state.
fn check_sends_again(
    name: &str,
    slot_at: Lsn,
    acknowledged: Acknowledged<'_>,
) -> Result<(), Failure> {
    match acknowledged.last_commit.filter(|last| *last >= slot_at) {
        None => Ok(()),
        Some(last) => {
            let what = format!(
                "slot {name} stands at {slot_at}, before the last acknowledged transaction ({last}), \
                 and does not send it again: the server was restored to an earlier state"
            );
            Err(Failure::of(Case::RetentionOpen, what))
        }
    }
}
