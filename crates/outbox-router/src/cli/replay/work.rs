//! What the parts of the command share.

use relay::{Failure, Republish, RepublishSettings, TableName, source::TableOids};
use tokio_postgres::Client;

use super::{
    args::{MARKER, Marker, ReplayArgs},
    chosen::{Chosen, Unfit},
    report::Plan,
};
use crate::{
    cli::{Exit, decision_args::Decider},
    config::Config,
    republish::{journal::Subject, messages, table_row::TableRow},
};

/// The name of the command in the audit.
pub(super) const COMMAND: &str = "replay";

/// Statements of a person's run may take long; what waits for a lock would block writers.
pub(super) const SESSION: &str = "set lock_timeout = '5s'; set statement_timeout = 0; \
     set idle_in_transaction_session_timeout = 0";

/// The rows must be those that were counted, and what a person has typed must write nothing.
pub(super) const BEGIN: &str = "begin transaction isolation level repeatable read, read only";

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
}

/// What is sent.
pub(super) struct Selection {
    pub(super) row: TableRow,
    pub(super) chosen: Chosen,
    pub(super) plan: Plan,
    pub(super) encoding: &'static str,
}

impl Replay<'_> {
    pub(super) fn republish(&self, row: &TableRow) -> Result<Republish, Failure> {
        let marker = (self.args.marker == Marker::Write).then(|| MARKER.to_owned());
        let settings = RepublishSettings { to_topic: self.args.to_topic.clone(), marker };
        let outboxes = self.config.outboxes();
        let mut republish = Republish::new(outboxes, TableOids::default(), settings)?;
        for message in messages::types(row).chain([messages::relation(row)]) {
            republish.describe(&message)?;
        }
        Ok(republish)
    }

    pub(super) fn subject<'s>(&'s self, selection: &'s str) -> Subject<'s> {
        let (pipeline, slot) = (self.config.name.as_str(), self.config.postgres.slot.as_str());
        Subject { pipeline, slot, command: COMMAND, selection }
    }
}
