//! What is in the partitions, by the reason for which they stay: for the command `cleanup`.

use relay::{Failure, delivered::PartitionRows};

use super::{
    catalog,
    course::{Work, begin_counting},
};
use crate::retention::{
    kept::Counts,
    session::{Session, number},
};

/// Counts rows: those of a partition count as one, by what keeps it.
///
/// # Errors
/// A statement fails.
pub(in crate::retention) async fn counts(
    session: Session<'_>,
    work: &Work<'_>,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut add = |rows: PartitionRows| {
        let kind = match rows {
            PartitionRows { undelivered: 1.., .. } => &mut counts.undelivered,
            PartitionRows { held: 1.., .. } => &mut counts.held,
            PartitionRows { older: 1.., .. } => &mut counts.older,
            PartitionRows { .. } => &mut counts.removable,
        };
        *kind += rows.all;
    };
    let partitions = catalog::partitions(session, work.target, work.root).await?;
    let mut old = Vec::new();
    for partition in work.old(session, partitions).await? {
        add(work.counted(session, &partition).await?);
        old.push(partition.oid.to_string());
    }
    let old = if old.is_empty() { "0".to_owned() } else { old.join(", ") };
    let young =
        format!("select count(*) from {} t where t.tableoid not in ({old})", work.target.quoted());
    session.execute(&begin_counting()).await?;
    let row = session.row_in_time(&young).await;
    session.execute("rollback").await?;
    counts.young = number(&row?, 0)?;
    Ok(counts)
}
