//! Rows of a table that are sent as records, for `replay`, `setup --backfill` and `recover`: each
//! of them decides which rows, and what is said and written down about it.

mod held_events;
mod outbox_rows;
mod progress;
mod time_index;
mod unprintable;

use std::{io, num::NonZeroU32, time::Duration};

pub(super) use held_events::HeldEvents;
pub(super) use outbox_rows::OutboxRows;
pub(super) use progress::{Place, Progress, rate};
use relay::{Failure, Name, RepublishSettings, witness::ProducedTo};
pub(super) use time_index::TimeIndex;
use tokio_postgres::Client;

use super::{Audience, Form, witness::Records};
use crate::{
    blocking::blocking,
    config::Config,
    kafka::StoredOffsets,
    postgres::sql::{DURABLE, NO_TIMEOUTS},
    prepare,
    republish::{
        destination::Destination,
        journal::{Completeness, Run},
        left_out::LeftOut,
        rows::Rows,
        selection::Query,
        sender::{BadRows, Counts, Ended, Sender, Settings},
    },
};

/// The settings of a session for a person's run: statements may take long, and pauses between them
/// too; a statement that waits for a lock would block writers. Rows that are left out count as such
/// by what the session commits.
pub(super) fn session() -> String {
    format!("{DURABLE}; set lock_timeout = '5s'; set statement_timeout = 0; {NO_TIMEOUTS}")
}

/// The rows must be those that were counted, and what a person has typed must write nothing.
pub(super) const BEGIN: &str = "begin transaction isolation level repeatable read, read only";

/// Which rows are sent, and how.
pub(super) struct Republication<'a> {
    pub(super) config: &'a Config,
    /// In a transaction whose snapshot has the rows.
    pub(super) reader: &'a Client,
    pub(super) rows: &'a OutboxRows,
    pub(super) query: &'a Query,
    /// How many rows the query has.
    pub(super) total: u64,
    pub(super) bad_rows: BadRows,
    /// Records a second.
    pub(super) rate: Option<NonZeroU32>,
    /// What is different from the records of the stream.
    pub(super) different: RepublishSettings,
    /// Where the topics are noted that records go to; `None`: no witness is kept.
    pub(super) records: Option<&'a Records>,
}

/// What became of it.
pub(super) struct Sent {
    pub(super) counts: Counts,
    /// Records of each topic.
    pub(super) topics: Vec<(String, u64)>,
    /// For a witness that is to be written first, as far as brokers say the ids of topics.
    pub(super) produced_to: ProducedTo,
    /// Where the records are.
    pub(super) stored: StoredOffsets,
    pub(super) ended: Ended,
    pub(super) took: Duration,
    /// Ids of rows that were left out, the first hundred.
    pub(super) left_out: Vec<String>,
    /// All of them, where each is named.
    pub(super) kept: Vec<LeftOut>,
}

/// Where progress is shown.
pub(super) fn place(audience: Audience, form: Form) -> Place {
    match (audience, form) {
        (Audience::Person, Form::Text) => Place::Line,
        (Audience::Person | Audience::Machine, Form::Text | Form::Json) => Place::Log,
    }
}

impl Republication<'_> {
    /// Sends the rows, and tells how far it is. Notes the topics in the witness, where there is
    /// one: of a topic that is in none, it is not noticed that it was deleted.
    ///
    /// # Errors
    /// The rows cannot be read.
    pub(super) async fn send<D: Destination>(
        self,
        destination: D,
        run: Option<Run<'_>>,
        (err, place): (&mut (dyn io::Write + Send), Place),
    ) -> Result<Sent, Failure> {
        let settings = Settings {
            id_column: self.rows.columns.id.as_ref().ok().map(|id| id.name.clone()),
            bad_rows: self.bad_rows,
            rate: self.rate,
            row_bytes: prepare::size(self.config.limits.row_bytes),
            to_topic: self.different.to_topic.clone(),
            order: self.query.order.iter().map(|column| column.place).collect(),
        };
        // What goes to a topic that a person has named is no delivery.
        let records = self.records.filter(|_| settings.to_topic.is_none());
        let republish = self.rows.republish(self.config, self.different)?;
        let copy = self.query.copy(self.rows.encoding);
        unprintable::prepare(self.reader).await?;
        let rows = Rows::begin(self.reader, &copy, self.rows.row.oid).await?;
        let mut progress = Progress::new(err, place, self.total);
        let mut sender = Sender::new(rows, republish, destination, settings, run);
        let mut ended = sender.send(&mut progress).await;
        if let Ended::Failed(failure) = &mut ended {
            let behind = sender.last_read();
            unprintable::name(self.reader, (self.rows, self.query), behind, failure).await;
        }
        let produced_to = sender.produced_to().clone();
        let stored = sender.take_stored();
        if matches!(ended, Ended::Complete)
            && let Err(failure) = check_kept(&stored, self.config).await
        {
            ended = Ended::Failed(Box::new(failure));
        }
        if let Some(records) = records
            && let Err(failure) = records.note_topics(&produced_to).await
            && matches!(ended, Ended::Complete)
        {
            ended = Ended::Failed(Box::new(failure));
        }
        with_brokers(&mut ended, &self.config.kafka.bootstrap_servers);
        progress.close();
        let (counts, topics, took) = (sender.counts(), sender.topics(), progress.elapsed());
        let (left_out, kept) = (progress.take_left_out(), sender.take_left_out());
        Ok(Sent { counts, topics, produced_to, stored, ended, took, left_out, kept })
    }
}

impl Sent {
    /// How a run ended, as its row in `outbox_router.republication` says it.
    pub(super) fn outcome(&self) -> String {
        let Counts { sent, filtered, left_out, .. } = self.counts;
        let mut figures = format!("sent {sent}, filtered {filtered}, left out {left_out}");
        if !self.left_out.is_empty() {
            // What a person gives up is written down for good.
            figures.push_str(&format!(" ({})", self.left_out.join(", ")));
        }
        let named = |failure: &Failure| format!("{figures}; {failure:#}");
        match &self.ended {
            Ended::Complete => format!("complete: {figures}"),
            Ended::Interrupted => format!("interrupted: {figures}"),
            Ended::AtRow(failure) => format!("stopped at a row: {}", named(failure)),
            Ended::Failed(failure) => format!("failed: {}", named(failure)),
        }
    }

    /// Writes down how a run ended.
    ///
    /// # Errors
    /// It is complete, and cannot be written down.
    pub(super) async fn note_end(&self, run: &Run<'_>) -> Result<(), Failure> {
        let completeness = match self.ended {
            Ended::Complete => Completeness::Complete,
            Ended::Interrupted | Ended::AtRow(_) | Ended::Failed(_) => Completeness::Partial,
        };
        let noted = run.end(&self.outcome(), completeness).await;
        match completeness {
            Completeness::Complete => noted,
            // What has stopped the run may be that PostgreSQL does not answer.
            Completeness::Partial | Completeness::GivenUp => Ok(()),
        }
    }
}

/// Checks that Kafka still has the records of a run, before anything relies on them.
///
/// # Errors
/// It was taken back to an earlier state, or no broker answers.
pub(super) async fn check_kept(stored: &StoredOffsets, config: &Config) -> Result<(), Failure> {
    let (stored, settings) = (stored.clone(), prepare::kafka_settings(config));
    blocking(move || stored.check_kept(&settings)).await
}

/// The core does not know how the cluster is reached.
fn with_brokers(ended: &mut Ended, brokers: &str) {
    if let Ended::AtRow(failure) | Ended::Failed(failure) = ended {
        failure.names.set(Name::Brokers, brokers.to_owned());
    }
}
