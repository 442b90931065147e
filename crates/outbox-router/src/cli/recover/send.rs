//! Sends the missing rows of a table.

use relay::RepublishSettings;
use serde_json::json;

use super::{
    recovery::{COMMAND, Recovery, names},
    report::OfTable,
    table::Compared,
};
use crate::{
    cli::{
        TaskError, Terminal,
        decision_args::Decider,
        replay::BadRow,
        republication::{Republication, place},
    },
    prepare,
    republish::{
        destination::Cluster,
        journal::{self, Completeness, Run, Subject},
        selection::Query,
        sender::{BadRows, Ended},
    },
};

/// See the module's header.
pub(super) struct Sending<'s> {
    pub(super) recovery: &'s Recovery<'s>,
    pub(super) table: &'s Compared,
    pub(super) query: &'s Query,
    pub(super) decider: &'s Decider<'s>,
}

impl Sending<'_> {
    /// Sends, and notes what became of it.
    pub(super) async fn send(
        &self,
        total: u64,
        of_table: &mut OfTable,
        terminal: &mut Terminal<'_>,
    ) -> Result<Ended, TaskError> {
        let run = self.begin().await?;
        let recovery = self.recovery;
        let republication = Republication {
            config: recovery.config,
            reader: recovery.reader,
            rows: &self.table.rows,
            query: self.query,
            total,
            bad_rows: match recovery.args.bad {
                BadRow::Stop => BadRows::Stop,
                BadRow::Skip => BadRows::LeaveOut,
            },
            rate: recovery.args.rate,
            // The records are those that the stream would have sent.
            different: RepublishSettings { to_topic: None, marker: None },
        };
        let cluster = Cluster::open(&prepare::kafka_settings(recovery.config))?;
        let place = place(terminal.audience, recovery.args.decision.form);
        let sent = republication.send(cluster, Some(run.clone()), (terminal.err, place)).await?;
        sent.note_end(&run).await?;
        Ok(of_table.note(sent))
    }

    /// Notes who does it. An earlier run that was interrupted is over: this one finds in the topics
    /// what it has sent.
    async fn begin(&self) -> Result<Run<'_>, TaskError> {
        let Recovery { config, books, .. } = *self.recovery;
        let table = self.table.rows.row.table.to_string();
        let gaps = names(self.recovery.gaps);
        let selection = json!({"table": table, "gaps": gaps}).to_string();
        let (pipeline, slot) = (config.name.as_str(), config.postgres.slot.as_str());
        let subject = Subject { pipeline, slot, command: COMMAND, selection: &selection };
        for interrupted in journal::unfinished(books, subject).await? {
            if interrupted.selection == selection {
                let run = Run::resume(books, &interrupted);
                run.end("interrupted; another run found what it has sent", Completeness::Complete)
                    .await?;
            }
        }
        let Decider { by, reason } = self.decider;
        Ok(Run::begin(books, subject, by, *reason).await?)
    }
}
