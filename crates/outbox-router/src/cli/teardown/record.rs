//! What becomes of the record when the slot is dropped.

use std::io;

use relay::{Code, Failure};

use super::backlog::Backlog;
use crate::{
    cli::{
        OpenGaps, RecordPart, Trouble,
        connect::Access,
        record::{self, Records},
    },
    config::Config,
    prepare,
    shell::Seen,
};

/// When the slot went.
pub(super) enum Dropped {
    /// It was there, and this command has dropped it, with this still to send.
    Now(Backlog),
    /// It was gone when this command came.
    Before,
}

/// What is remembered of the source from before the slot is dropped.
pub(super) enum Retiring {
    /// The record is not to be touched, and why.
    Kept(String),
    /// The source as it was, or why that is not known.
    Seen(Box<Records>, Box<Result<Seen, Failure>>),
}

impl Retiring {
    /// Nothing that is wrong here keeps the slot from being dropped: a disk may be full.
    pub(super) async fn before(part: RecordPart, config: &Config, access: Access<'_>) -> Self {
        if part == RecordPart::Skip {
            return Self::Kept("left as it is".to_owned());
        }
        let records = match Records::of(config, access) {
            Ok(Some(records)) => records,
            Ok(None) => {
                return Self::Kept("none is kept, since kafka.state_topic is empty".to_owned());
            }
            Err(failure) => return Self::Kept(format!("left as it is: {failure}")),
        };
        let seen = Box::pin(see(config, access, &records)).await;
        Self::Seen(Box::new(records), Box::new(seen))
    }

    /// Deletes the record of a pipeline that leaves nothing open, or that is given up.
    pub(super) async fn after(
        self,
        dropped: Dropped,
        gaps: OpenGaps,
        config: &Config,
        out: &mut (dyn io::Write + Send),
    ) -> Result<(), Trouble> {
        let (records, seen) = match self {
            Self::Kept(why) => {
                writeln!(out, "record: {why}")?;
                return Ok(());
            }
            Self::Seen(records, seen) => (records, *seen),
        };
        let stored = records.read().await.map_err(|failure| still_there(&failure))?;
        let Some(record) = &stored.record else {
            writeln!(out, "record: not there")?;
            return Ok(());
        };
        let slot = config.postgres.slot.as_str();
        let as_left = match dropped {
            Dropped::Now(backlog) => seen
                .and_then(|seen| record::is_as_left(config, record, &stored.cluster, seen))
                .and_then(|()| backlog.is_delivered(slot)),
            Dropped::Before => {
                record::nothing_open(record).and_then(|()| Err(delivered_unknown(slot)))
            }
        };
        match (as_left, gaps) {
            (Ok(()), _) => {
                records.delete(stored).await.map_err(|failure| still_there(&failure))?;
                writeln!(out, "record: deleted")?;
            }
            (Err(failure), OpenGaps::Forget) => {
                records.delete(stored).await.map_err(|failure| still_there(&failure))?;
                writeln!(out, "record: deleted, and this is forgotten with it: {failure}")?;
            }
            (Err(failure), OpenGaps::Keep) => {
                writeln!(out, "record: kept, so that this is not forgotten: {failure}")?;
                writeln!(
                    out,
                    "  for a new slot: outbox-router setup --apply; publish the missing rows from \
                     the table; then outbox-router accept"
                )?;
                writeln!(
                    out,
                    "  if the pipeline is given up: outbox-router teardown --apply --forget"
                )?;
            }
        }
        Ok(())
    }
}

async fn see(config: &Config, access: Access<'_>, records: &Records) -> Result<Seen, Failure> {
    let seen = prepare::source(config, access.endpoint("teardown")?).see(None).await?;
    record::same_database(records, &seen)?;
    Ok(seen)
}

/// Somebody has dropped it, perhaps this command when it was typed before.
fn delivered_unknown(slot: &str) -> Failure {
    let message = format!(
        "the slot {slot} was not there: whether it had delivered every committed row is not known"
    );
    Failure::new(Code::SlotMissing, message)
}

/// PostgreSQL is done, Kafka is not.
fn still_there(failure: &Failure) -> Failure {
    Failure::new(
        failure.code,
        format!(
            "what was in postgresql is dropped, but the record in kafka is still there: {failure}"
        ),
    )
    .hint(
        "it does no harm; where the same pipeline is set up again, setup says what is open, and \
         outbox-router accept closes it",
    )
}
