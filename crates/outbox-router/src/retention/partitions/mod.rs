//! Partitions of an outbox that is partitioned by RANGE of its time: they are made ahead, and
//! dropped when they are old and every row of them is delivered.
//!
//! The proof is the same as for rows ([`relay::delivered`]): each row of the partition is
//! delivered, and no event of it is open. It is given twice. The first look takes no lock, and sees
//! most partitions that have to stay. The second one counts: it holds a lock that keeps writers out
//! until the partition is dropped, in the same transaction.
//!
//! Read in this order: `root` (the table), `catalog` and `bounds` (its partitions), `moment` and
//! `naming`, `ahead` (making), `check` and `course` (dropping), `counts`.

mod ahead;
mod bounds;
mod catalog;
mod check;
pub(super) mod counts;
pub(super) mod course;
pub(crate) mod moment;
pub(crate) mod naming;
pub(super) mod root;

use relay::Failure;

use super::{session::Session, settings::RetentionSettings, target::Target};

/// Makes the partitions of a table that are missing for what is to come, and returns how many;
/// none where partitions are not dropped.
///
/// # Errors
/// One cannot be made.
pub(crate) async fn make_ahead(
    session: Session<'_>,
    settings: &RetentionSettings,
    target: &Target,
) -> Result<u64, Failure> {
    match &target.root {
        Some(root) => ahead::make(session, settings, target, root).await,
        None => Ok(0),
    }
}
