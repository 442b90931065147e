//! What happens to the witness when the slot is dropped.

use std::io;

use relay::{Code, Failure, witness::Witness};

use crate::{
    cli::{
        OpenGaps, RecordPart, TaskError,
        backlog::{Backlog, Counted},
        connect::Access,
        open_events::OpenEvents,
        witness::{self, Records},
    },
    config::Config,
    prepare,
    shell::SourceReading,
};

/// When the slot was dropped.
pub(super) enum Dropped {
    /// By this command, with this still to send.
    Now(Backlog),
    /// Before this command: the slot did not exist.
    Before,
}

/// The source as it was read before the slot is dropped.
pub(super) enum Retiring {
    /// The witness stays as it is, and why.
    Kept(String),
    /// The source as it was, or why that is not known; and the witness, where it could be read.
    Read(Box<Records>, Box<Result<SourceReading, Failure>>, Option<Box<Witness>>),
}

impl Retiring {
    /// Reads the source. A failure here does not keep the slot from being dropped: a full disk may
    /// be the reason to drop it.
    pub(super) async fn before(part: RecordPart, config: &Config, access: Access<'_>) -> Self {
        if part == RecordPart::Skip {
            return Self::Kept("left as it is".to_owned());
        }
        let records = match Records::of(config, access) {
            Ok(Some(records)) => records,
            Ok(None) => {
                return Self::Kept("none is kept, since kafka.state_topic is empty".to_owned());
            }
            Err(failure) => return Self::Kept(format!("left as it is: {failure:#}")),
        };
        let reading = Box::pin(read_source(config, access, &records)).await;
        let witness = records.read().await.ok().and_then(|stored| stored.witness);
        Self::Read(Box::new(records), Box::new(reading), witness.map(Box::new))
    }

    /// The tables whose rows the slot has to have delivered.
    pub(super) fn counted(&self, config: &Config) -> Counted {
        match self {
            Self::Kept(_) => Counted::of(config, None),
            Self::Read(_, _, witness) => Counted::of(config, witness.as_deref()),
        }
    }

    /// Deletes the witness if nothing is open or held and everything was delivered, or if the
    /// pipeline is given up.
    pub(super) async fn after(
        self,
        dropped: Dropped,
        held: Option<&OpenEvents>,
        gaps: OpenGaps,
        config: &Config,
        out: &mut (dyn io::Write + Send),
    ) -> Result<(), TaskError> {
        let (records, reading) = match self {
            Self::Kept(why) => {
                writeln!(out, "witness: {why}")?;
                return Ok(());
            }
            Self::Read(records, reading, _) => (records, *reading),
        };
        let stored = records.read().await.map_err(still_there)?;
        let Some(witness) = &stored.witness else {
            writeln!(out, "witness: does not exist")?;
            return Ok(());
        };
        let slot = config.postgres.slot.as_str();
        let as_left = match dropped {
            Dropped::Now(backlog) => reading
                .and_then(|reading| {
                    witness::check_as_left(config, witness, &stored.cluster, reading)
                })
                .and_then(|_| backlog.check_delivered(slot)),
            Dropped::Before => {
                witness::check_nothing_open(witness).and_then(|()| Err(delivered_unknown(slot)))
            }
        };
        match (as_left, held, gaps) {
            (Ok(()), None, _) => {
                records.delete(stored).await.map_err(still_there)?;
                writeln!(out, "witness: deleted")?;
            }
            (as_left, held, OpenGaps::Forget) => {
                records.delete(stored).await.map_err(still_there)?;
                let why = why(as_left.err().as_ref(), held);
                writeln!(out, "witness: deleted, and this is forgotten with it: {why}")?;
            }
            (Ok(()), Some(held), OpenGaps::Keep) => {
                let why = why(None, Some(held));
                writeln!(out, "witness: kept, so that this is not forgotten: {why}")?;
                writeln!(
                    out,
                    "  to deliver or drop them: outbox-router setup --apply, outbox-router accept, \
                     outbox-router run; then outbox-router dead-letters list says what to type"
                )?;
                given_up(out)?;
            }
            (Err(failure), _, OpenGaps::Keep) => {
                writeln!(out, "witness: kept, so that this is not forgotten: {failure:#}")?;
                writeln!(
                    out,
                    "  for a new slot: outbox-router setup --apply; then outbox-router recover sends \
                     the missing rows, or outbox-router accept gives them up"
                )?;
                given_up(out)?;
            }
        }
        Ok(())
    }
}

/// What keeps the witness.
fn why(not_as_left: Option<&Failure>, held: Option<&OpenEvents>) -> String {
    let held = held.map(|held| format!("{}, and not delivered", held.are_held()));
    not_as_left
        .map(|failure| format!("{failure:#}"))
        .into_iter()
        .chain(held)
        .collect::<Vec<_>>()
        .join("; ")
}

fn given_up(out: &mut (dyn io::Write + Send)) -> io::Result<()> {
    writeln!(out, "  if the pipeline is given up: outbox-router teardown --apply --forget")
}

async fn read_source(
    config: &Config,
    access: Access<'_>,
    records: &Records,
) -> Result<SourceReading, Failure> {
    let reading = prepare::source(config, access.endpoint("teardown")?).read(None).await?;
    witness::check_same_database(records, &reading)?;
    Ok(reading)
}

/// The slot was dropped before, perhaps by an earlier run of this command.
fn delivered_unknown(slot: &str) -> Failure {
    let message = format!(
        "the slot {slot} did not exist: whether it had delivered every committed row is not known"
    );
    Failure::new(Code::SlotMissing, message)
}

/// The objects in PostgreSQL are dropped, but the witness could not be read or deleted.
fn still_there(failure: Failure) -> Failure {
    Failure::new(
        failure.code,
        "what was in PostgreSQL is dropped, but the witness in Kafka is still there, which does no \
         harm (where the same pipeline is set up again, setup says what is open, and outbox-router \
         accept closes it)",
    )
    .caused_by(failure)
}
