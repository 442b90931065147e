//! What the parts of the command share.

use std::io;

use relay::{
    Code, TableName,
    delivered::required::Required,
    source::{Catalog, Gap},
    witness::{OpenFinding, Witness},
};
use tokio::time::Instant;
use tokio_postgres::Client;

use super::args::RecoverArgs;
use crate::{
    cli::{connect::Access, witness::Records},
    codes::{REPLAY_ALL, hint_of_open},
    config::Config,
    shell::{Source, SourceReading},
};

/// The name of the command in the audit, and of its connections.
pub(super) const COMMAND: &str = "recover";

/// What the command works with.
pub(super) struct Recovery<'a> {
    pub(super) args: &'a RecoverArgs,
    /// When the command began.
    pub(super) begun: Instant,
    pub(super) config: &'a Config,
    pub(super) access: Access<'a>,
    pub(super) records: &'a Records,
    pub(super) source: &'a Source,
    /// Reads the rows.
    pub(super) reader: &'a Client,
    /// Holds the lock, and writes how far it is.
    pub(super) books: &'a Client,
    pub(super) gaps: &'a [Gap],
    pub(super) witness: &'a Witness,
    /// The server, slot and catalog, as they were read when the command began.
    pub(super) reading: &'a SourceReading,
    pub(super) tables: &'a [TableName],
}

impl Recovery<'_> {
    /// What has to be compared.
    pub(super) fn required(&self, now: &Catalog) -> Required {
        let server = (&self.reading.server.history, now);
        Required::of(self.witness, server, self.tables, &self.args.given_up)
    }
}

/// What else is open.
pub(super) fn others_open(witness: &Witness, gaps: &[Gap]) -> Vec<OpenFinding> {
    let known = names(gaps);
    let open = witness.open_findings().into_iter();
    open.filter(|open| !known.contains(&open.name())).collect()
}

/// Prints what else is open, and what closes that.
pub(super) fn print_others(
    open: &[OpenFinding],
    err: &mut (dyn io::Write + Send),
) -> io::Result<()> {
    for open in open {
        let (name, way_out) = (open.name(), way_out(open));
        writeln!(err, "note: {name} is open, and no comparison of rows closes it: {way_out}")?;
    }
    Ok(())
}

/// What a person types about a gap that this command cannot close.
fn way_out(open: &OpenFinding) -> String {
    if let OpenFinding::Topic(lost) = open
        && let Some(hint) = hint_of_open(&lost.finding(), &open.name())
    {
        return hint;
    }
    let accept = format!("outbox-router accept --gap {}", open.name());
    // The one of these gaps whose rows are in the tables.
    if open.code() != Code::ClusterChanged {
        return accept;
    }
    format!(
        "{accept}; then, unless the events were copied to this Kafka, {REPLAY_ALL} sends the rows \
         that the tables still have"
    )
}

/// How people name them.
pub(super) fn names(gaps: &[Gap]) -> Vec<String> {
    gaps.iter().map(Gap::name).collect()
}
