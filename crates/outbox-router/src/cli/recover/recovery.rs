//! What the parts of the command share.

use relay::{TableName, source::Gap, witness::Witness};
use tokio::time::Instant;
use tokio_postgres::Client;

use super::args::RecoverArgs;
use crate::{
    cli::{connect::Access, witness::Records},
    config::Config,
    shell::Source,
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
    pub(super) tables: &'a [TableName],
}

/// What else is open.
pub(super) fn others_open(witness: &Witness, gaps: &[Gap]) -> Vec<String> {
    let known = names(gaps);
    let open = witness.open_findings().into_iter().map(|open| open.name());
    open.filter(|name| !known.contains(name)).collect()
}

/// How people name them.
pub(super) fn names(gaps: &[Gap]) -> Vec<String> {
    gaps.iter().map(Gap::name).collect()
}
