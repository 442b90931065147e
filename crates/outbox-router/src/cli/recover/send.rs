//! Sends the missing rows of a table.

use relay::RepublishSettings;

use super::{recovery::Recovery, report::OfTable, table::Compared};
use crate::{
    cli::{
        TaskError, Terminal,
        republication::{Republication, place},
    },
    prepare,
    republish::{destination::Cluster, selection::Query, sender::Ended},
};

/// See the module's header.
pub(super) struct Sending<'s> {
    pub(super) recovery: &'s Recovery<'s>,
    pub(super) table: &'s Compared,
    pub(super) query: &'s Query,
}

impl Sending<'_> {
    /// Sends, and notes what became of it.
    pub(super) async fn send(
        &self,
        total: u64,
        of_table: &mut OfTable,
        terminal: &mut Terminal<'_>,
    ) -> Result<Ended, TaskError> {
        let recovery = self.recovery;
        let republication = Republication {
            config: recovery.config,
            reader: recovery.reader,
            rows: &self.table.rows,
            query: self.query,
            total,
            bad_rows: recovery.args.bad.into(),
            rate: recovery.args.rate,
            // The records are those that the stream would have sent.
            different: RepublishSettings { to_topic: None, marker: None },
        };
        let cluster = Cluster::open(&prepare::kafka_settings(recovery.config))?;
        let place = place(terminal.audience, recovery.args.decision.form);
        // How far it is, is not noted: another run finds in the topics what this one has sent.
        let sent = republication.send(cluster, None, (terminal.err, place)).await?;
        Ok(of_table.note(sent))
    }
}
