//! Sends the missing rows of a table.

use relay::{Filtering, RepublishSettings};

use super::{args::FilteredChoice, recovery::Recovery, report::OfTable, table::ComparedTable};
use crate::{
    cli::{
        TaskError, Terminal,
        republication::{Republication, place},
    },
    kafka::StoredOffsets,
    prepare,
    republish::{destination::Cluster, journal::Run, selection::Query, sender::Ended},
};

/// See the module's header.
pub(super) struct Sending<'s> {
    pub(super) recovery: &'s Recovery<'s>,
    pub(super) table: &'s ComparedTable,
    pub(super) query: &'s Query,
    pub(super) run: &'s Run<'s>,
}

impl Sending<'_> {
    /// Sends, and notes what became of it.
    pub(super) async fn send(
        &self,
        total: u64,
        (of_table, stored): (&mut OfTable, &mut StoredOffsets),
        terminal: &mut Terminal<'_>,
    ) -> Result<Ended, TaskError> {
        let recovery = self.recovery;
        let filtering = match recovery.args.filtered {
            Some(FilteredChoice::Send) => Filtering::Ignored,
            Some(FilteredChoice::GiveUp) | None => Filtering::Applied,
        };
        let republication = Republication {
            config: recovery.config,
            reader: recovery.reader,
            rows: &self.table.rows,
            query: self.query,
            total,
            bad_rows: recovery.args.bad.keeping(self.table.rows.columns.id.as_ref()),
            rate: recovery.args.rate,
            // The records are those that the stream would have sent.
            different: RepublishSettings { filtering, ..RepublishSettings::default() },
            records: Some(recovery.records),
        };
        let cluster = Cluster::open(&prepare::kafka_settings(recovery.config))?;
        let place = place(terminal.audience, recovery.args.decision.form);
        // How far it is, is not noted: another run finds in the topics what this one has sent.
        let mut sent = republication.send(cluster, None, (terminal.err, place)).await?;
        self.run.note_left_out(self.table.rows.row.oid, &sent.kept).await?;
        stored.follow(std::mem::take(&mut sent.stored))?;
        Ok(of_table.note(sent))
    }
}
