//! `run --dry-run`: what the router would produce, printed instead of produced. It reads a
//! temporary copy of the slot, so the slot stays where it is, even while another process streams
//! from it.
//!
//! Of a row that becomes a dead letter, it says so. What `run` would hold behind it, or behind what
//! is held already, is printed like any other record, since the table is not read.
//!
//! The witness is not read. So events are printed, too, that the slot would send again and that a
//! router would not produce again.

mod args;
mod entry;
mod follow;

use std::io;

use relay::{
    Lsn,
    source::publication::{Watched, compare},
};

pub use args::{DryRunArgs, Production};
use follow::{Counts, Ended, Reading, Until};

use super::{
    Exit, TaskError, Terminal, connect::Access, print_failure::print_failure,
    topic_lookups::TopicLookups,
};
use crate::{
    config::Config,
    prepare,
    shell::{Source, SourceReading},
};

/// Prints every record. A row that `run` could not deliver gives exit code 1, and so does a topic
/// that is missing or refused: `run` would wait for a person there.
pub(super) async fn dry_run(
    args: &DryRunArgs,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let source = prepare::source(config, access.endpoint("dry-run")?);
    let topics = TopicLookups::open(config)?;
    let (stream, found) = source.dry_stream().await?;
    let defects = print_defects(&source, &found, terminal)?;
    let until = match args.records {
        Some(count) => Until::Records(count.get()),
        None => Until::Position(found.server.wal_end),
    };
    let from = stream.begins_at();
    let mut reading = Reading::new(stream, topics, args.form, config);
    let ended = reading.follow(until, terminal).await?;
    terminal.out.flush()?;
    let unusable = reading.unusable;
    let summary = Summary { slot: &source.slot, from, to: reading.stream.passed(), ended };
    summary.write(reading.counts, unusable, terminal.err)?;
    let is_fine = defects == 0 && reading.counts.refused == 0 && unusable == 0;
    Ok(if is_fine { Exit::Done } else { Exit::Failure })
}

/// Prints what keeps rows of the outbox tables from being sent, and returns how many defects there
/// are. Since PostgreSQL 18 a missing publication is no error of the stream: nothing is sent.
fn print_defects(
    source: &Source,
    found: &SourceReading,
    terminal: &mut Terminal<'_>,
) -> io::Result<usize> {
    let watched = Watched { publication: &source.publication, outboxes: &source.outboxes };
    let mut defects = 0;
    for failure in compare(watched, None, &found.catalog).iter().filter(|found| !found.is_note()) {
        print_failure(terminal.err, failure)?;
        defects += 1;
    }
    Ok(defects)
}

/// What is printed at the end.
struct Summary<'s> {
    slot: &'s str,
    from: Lsn,
    to: Lsn,
    ended: Ended,
}

impl Summary<'_> {
    fn write(
        &self,
        counts: Counts,
        unusable: usize,
        out: &mut (dyn io::Write + Send),
    ) -> io::Result<()> {
        let Self { slot, from, to, ended } = self;
        match ended {
            Ended::Complete => {}
            Ended::Silent => writeln!(out, "ended: PostgreSQL has nothing more to send")?,
            Ended::Interrupted => writeln!(out, "interrupted")?,
        }
        let Counts { records, filtered, refused } = counts;
        let to = (*to).max(*from);
        writeln!(
            out,
            "records: {records}, filtered by `where`: {filtered}, refused: {refused}, topics that \
             cannot be used: {unusable}; read from {from} to {to}; nothing was produced, and slot \
             {slot} stays where it is"
        )
    }
}
