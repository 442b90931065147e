//! What the parts of a back-fill share.

use relay::TableName;

use crate::{
    cli::{connect::Access, setup::args::SetupArgs},
    config::Config,
};

/// What the command works with.
pub(in crate::cli::setup) struct Backfill<'a> {
    pub(in crate::cli::setup) args: &'a SetupArgs,
    pub(in crate::cli::setup) config: &'a Config,
    pub(in crate::cli::setup) access: Access<'a>,
    /// In the order in which their rows are sent.
    pub(in crate::cli::setup) tables: &'a [TableName],
    pub(in crate::cli::setup) version: i32,
}
