//! What the parts of the command share.

use relay::{
    Code, TableName,
    source::Gap,
    witness::{OpenFinding, Witness},
};
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

/// The gaps of a witness that are open, and that rows of the tables can close. Events that were
/// held are no such rows, Kafka's records cannot be compared with those of another cluster, and a
/// slot that has rows of two tables has to send them.
pub(super) fn open_gaps(witness: &Witness) -> Vec<Gap> {
    let gap = |open| match open {
        OpenFinding::Gap(gap) => Some(gap),
        OpenFinding::Beginning(_) => None,
    };
    let is_of_rows = |gap: &Gap| {
        !matches!(
            gap.failure.code,
            Code::HeldTableBehind | Code::ClusterChanged | Code::TableReplaced
        )
    };
    witness.open_findings().into_iter().filter_map(gap).filter(is_of_rows).collect()
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
