//! What the table of held events says of one event, for a command that looks for events.

use relay::{Code, Failure};
use serde_json::{Value, json};

use super::{
    args::NamedArgs,
    connected::of_pipeline,
    selection::Selection,
    table::{Decided, Shown, Whole},
};
use crate::{cli::TaskError, config::Config};
use tokio_postgres::Client;

/// An event that is or was held.
#[derive(Debug, Clone)]
pub(in crate::cli) struct HeldEvent {
    /// Its place in WAL.
    pub(in crate::cli) at: String,
    pub(in crate::cli) commit_lsn: String,
    pub(in crate::cli) committed_at: String,
    pub(in crate::cli) table: String,
    pub(in crate::cli) key: Option<Vec<u8>>,
    pub(in crate::cli) held_at: String,
    pub(in crate::cli) closed_at: Option<String>,
    /// Why it is a dead letter; `None` for an event that is held behind one.
    pub(in crate::cli) code: Option<String>,
    pub(in crate::cli) error: Option<String>,
    pub(in crate::cli) is: HeldState,
    /// What a person has decided last.
    pub(in crate::cli) decided: Option<DecidedBy>,
    /// What shows the event.
    pub(in crate::cli) show: String,
}

/// What becomes of a held event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum HeldState {
    /// Nobody has decided about the dead letter.
    Undecided,
    /// It waits for the dead letter at this place; for none where the router delivers it next.
    Behind(Option<String>),
    /// The router is about to deliver it, as a person has decided.
    Requeued,
    /// The router is about to drop it, as a person has decided.
    Dropping,
    /// It was delivered after all.
    Delivered,
    /// It was abandoned.
    Dropped,
}

/// Who decided what about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct DecidedBy {
    pub(in crate::cli) at: String,
    pub(in crate::cli) by: String,
    pub(in crate::cli) reason: Option<String>,
}

impl DecidedBy {
    /// For people: who, when and why.
    pub(in crate::cli) fn text(&self) -> String {
        let reason = self.reason.as_ref().map(|reason| format!(": {reason}"));
        format!("by {} at {}{}", self.by, self.at, reason.unwrap_or_default())
    }

    /// For programs.
    pub(in crate::cli) fn json(&self) -> Value {
        json!({ "at": self.at, "by": self.by, "reason": self.reason })
    }
}

/// What is known of the event with this id in this table, the latest entry of several; `None` where
/// it was never held.
///
/// # Errors
/// This role may not read the table of held events.
pub(in crate::cli) async fn of_event(
    client: &Client,
    config: &Config,
    id: &str,
    table: Option<&str>,
) -> Result<Option<HeldEvent>, TaskError> {
    let held = of_pipeline(client, config);
    let named = NamedArgs::of_id(id);
    let places = match held.places(&Selection::named(&named), Shown::ById).await {
        Ok(places) => places,
        Err(TaskError::Failure(failure)) if is_without_table(&failure) => return Ok(None),
        Err(error) => return Err(error),
    };
    for place in places.into_iter().rev() {
        if let Some(whole) = held.whole(place).await?
            && table.is_none_or(|table| whole.event.table == table)
        {
            return Ok(Some(HeldEvent::of(whole)));
        }
    }
    Ok(None)
}

/// Without the table nothing was ever held.
fn is_without_table(failure: &Failure) -> bool {
    failure.code == Code::HeldTable
}

impl HeldEvent {
    fn of(whole: Whole) -> Self {
        let show = whole.event.command("show");
        let waits_for = whole.waits_for.map(|place| place.to_string());
        let Whole { event, error, held_at, closed_at, decisions, .. } = whole;
        let is = match (event.state.as_str(), &event.code) {
            ("requeued", _) => HeldState::Requeued,
            ("dropping", _) => HeldState::Dropping,
            ("delivered", _) => HeldState::Delivered,
            ("dropped", _) => HeldState::Dropped,
            (_, Some(_)) => HeldState::Undecided,
            (_, None) => HeldState::Behind(waits_for),
        };
        let decided = |Decided { at, by, reason, .. }| DecidedBy { at, by, reason };
        Self {
            at: event.place.to_string(),
            commit_lsn: event.place.commit_lsn.to_string(),
            committed_at: event.committed_at,
            table: event.table,
            key: event.key,
            held_at,
            closed_at,
            code: event.code,
            error,
            is,
            decided: decisions.into_iter().next_back().map(decided),
            show,
        }
    }
}
