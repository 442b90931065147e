//! How much comes twice: what was delivered past the slot's position.

use relay::{
    Lsn,
    source::{Catalog, SlotHealth},
};

use super::{
    connector::{Connector, Status, StoredOffset},
    step::Step,
    waiting::{Delivered, Waiting, count},
};
use crate::{cli::connect::Access, config::Config, wording};

const NAME: &str = "position";

/// The slot's position against what the connector has stored.
pub(super) async fn against_offset(
    config: &Config,
    access: Access<'_>,
    slot: &SlotHealth,
    catalog: &Catalog,
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
    let waiting = count(config, access, slot, catalog, offset.map(Delivered::Offset)).await;
    let at = at(slot);
    let step = match (&waiting, offset) {
        (Ok(waiting), Some(_)) => come_twice(&at, *waiting),
        (Ok(Waiting { all, .. }), None) => {
            Step::ready(NAME, format!("{at}; of {all} waiting events at most all come twice"))
                .detail(unknown_offset(known))
        }
        (Err(why), _) => Step::ready(NAME, at).detail(format!("how many come twice: {why}")),
    };
    let Some(offset) = offset else { return step };
    let commit = offset.commit.map(|commit| format!("after the commit {commit}, "));
    let step = step.detail(format!(
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
        .detail("see that the outbox has no id from between that is missing in the topics")
}

/// The slot's position against what the router has had acknowledged.
pub(super) async fn against_witness(
    config: &Config,
    access: Access<'_>,
    slot: &SlotHealth,
    catalog: &Catalog,
    witness: Option<Lsn>,
) -> Step {
    let acknowledged = witness.map(Delivered::Commit);
    let waiting = count(config, access, slot, catalog, acknowledged).await;
    let at = at(slot);
    match waiting {
        Ok(waiting) => come_twice(&at, waiting),
        Err(why) => Step::ready(NAME, at).detail(format!("how many come twice: {why}")),
    }
}

fn come_twice(at: &str, Waiting { all, delivered }: Waiting) -> Step {
    Step::ready(NAME, format!("{at}; {delivered} of {all} waiting events come twice"))
        .twice(delivered)
}

fn at(slot: &SlotHealth) -> String {
    let position = slot.confirmed_flush_lsn.unwrap_or(Lsn::ZERO);
    format!("the slot is at {position}, {} behind", wording::bytes(slot.bytes_behind()))
}

/// The slot cannot be read.
pub(super) fn unknown() -> Step {
    Step::not_checked(NAME, "the slot is missing or in use")
}
