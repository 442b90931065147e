//! How much comes twice: what was delivered past the slot's position.

use relay::{Lsn, source::SlotHealth};

use super::{
    connector::{Connector, Status, StoredOffset},
    step::Step,
    tally::Delivered,
    waiting::Waiting,
};
use crate::wording;

pub(super) const NAME: &str = "position";

/// How far a connector has delivered.
pub(super) fn delivered(connector: Option<&Connector>) -> Delivered {
    let offset = connector.and_then(|connector| *connector.offset.as_ref().ok()?);
    offset.map_or(Delivered::Unknown, Delivered::Offset)
}

/// The slot's position against what the connector has stored.
pub(super) fn against_offset(
    slot: &SlotHealth,
    waiting: &Result<Waiting, String>,
    connector: Option<&Connector>,
) -> Step {
    let known = connector.map(|connector| &connector.offset);
    let offset = known.and_then(|offset| *offset.as_ref().ok()?);
    let position = slot.confirmed_flush_lsn.unwrap_or(Lsn::ZERO);
    if let Some(offset) = offset {
        let stored = offset.commit.map_or(offset.lsn, |commit| commit.max(offset.lsn));
        if position > stored {
            return past_offset(position, stored);
        }
    }
    let Some(offset) = offset else {
        let step = match waiting {
            Ok(Waiting { all, .. }) => Step::ready(
                NAME,
                format!("{}; of {all} waiting events at most all come twice", at(slot)),
            ),
            Err(why) => uncounted(slot, why),
        };
        return step.detail(unknown_offset(known));
    };
    let commit = offset.commit.map(|commit| format!("after the commit {commit}, "));
    let step = come_twice(slot, waiting).detail(format!(
        "the connector has stored that it delivered, {}the event {}",
        commit.unwrap_or_default(),
        offset.lsn
    ));
    // Only a connector that is stopped stores all that it has delivered.
    match connector.map(|connector| &connector.status) {
        Some(Status::Stopped) => step,
        Some(Status::Absent | Status::Up(_)) | None => step
            .detail("it was not stopped: it may have sent more than that, which comes twice, too"),
    }
}

/// Why it is not known what the connector has stored.
fn unknown_offset(known: Option<&Result<Option<StoredOffset>, String>>) -> String {
    match known {
        Some(Err(why)) => why.clone(),
        Some(Ok(_)) => "Kafka Connect has no offset of the connector".to_owned(),
        None => "what the connector has stored is not known; --connect-url asks for it".to_owned(),
    }
}

fn past_offset(position: Lsn, stored: Lsn) -> Step {
    Step::failed(NAME, format!("the slot is at {position}, past {stored}, the connector's offset"))
        .detail(
            "what was committed between them is sent by nobody: the slot was moved or made again, or \
             the connector confirms more than it stores (lsn.flush.mode)",
        )
        .detail("check that every row committed between the two positions is in the topics")
}

/// How many events come twice, by what was counted.
pub(super) fn come_twice(slot: &SlotHealth, waiting: &Result<Waiting, String>) -> Step {
    match waiting {
        Ok(Waiting { all, delivered, .. }) => {
            let text = format!("{}; {delivered} of {all} waiting events come twice", at(slot));
            Step::ready(NAME, text).twice(*delivered)
        }
        Err(why) => uncounted(slot, why),
    }
}

fn uncounted(slot: &SlotHealth, why: &str) -> Step {
    Step::ready(NAME, at(slot)).detail(format!("how many come twice: {why}"))
}

fn at(slot: &SlotHealth) -> String {
    let position = slot.confirmed_flush_lsn.unwrap_or(Lsn::ZERO);
    format!("the slot is at {position}, {} behind", wording::bytes(slot.bytes_behind()))
}

/// The slot cannot be read.
pub(super) fn unknown() -> Step {
    Step::not_checked(NAME, "the slot is missing or in use")
}
