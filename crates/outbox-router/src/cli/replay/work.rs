//! What the parts of the command share.

use relay::TableName;
use tokio_postgres::Client;

use super::{
    args::ReplayArgs,
    chosen::{Chosen, Unfit},
    report::Plan,
};
use crate::{
    cli::{Exit, decision_args::Decider, republication::OutboxRows, witness::Records},
    config::Config,
    republish::journal::Subject,
};

/// The name of the command in the audit.
pub(super) const COMMAND: &str = "replay";

/// What ends the command before anything is sent.
pub(super) enum Early {
    Unfit(String),
    Exit(Exit),
}

impl From<Unfit> for Early {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit.0)
    }
}

/// What the command works with.
pub(super) struct Replay<'a> {
    pub(super) args: &'a ReplayArgs,
    pub(super) config: &'a Config,
    /// Reads the rows.
    pub(super) reader: &'a Client,
    /// Holds the lock, and writes how far it is.
    pub(super) books: &'a Client,
    pub(super) table: &'a TableName,
    /// That the command connects as.
    pub(super) role: Option<String>,
    pub(super) decider: Decider<'a>,
    pub(super) records: Option<Records>,
}

/// What is sent.
pub(super) struct Selection {
    pub(super) rows: OutboxRows,
    pub(super) chosen: Chosen,
    pub(super) plan: Plan,
}

impl Replay<'_> {
    pub(super) fn subject<'s>(&'s self, selection: &'s str) -> Subject<'s> {
        let (pipeline, slot) = (self.config.name.as_str(), self.config.postgres.slot.as_str());
        Subject { pipeline, slot, command: COMMAND, selection }
    }
}
