//! What is in the partitions, by the reason for which they stay: for the command `cleanup`.

use relay::Failure;

use super::{
    catalog,
    check::{Origin, Rows},
    course::{BEGIN, Work},
};
use crate::retention::{
    kept::Counts,
    session::{Session, number},
};

/// Counts rows: those of a partition count as one, by what keeps it. The tables that wait to be
/// dropped count, too.
///
/// # Errors
/// A statement fails.
pub(in crate::retention) async fn counts(
    session: Session<'_>,
    work: &Work<'_>,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut add = |rows: Rows| {
        let kind = match rows {
            Rows { undelivered: 1.., .. } | Rows { strange: 1.., .. } => &mut counts.undelivered,
            Rows { held: 1.., .. } => &mut counts.held,
            Rows { .. } => &mut counts.removable,
        };
        *kind += rows.all;
    };
    for detached in catalog::detached(session, work.root).await? {
        let rows = work.counted(session, detached.oid, &detached.name, Origin::Detached).await?;
        add(rows);
    }
    let partitions = catalog::partitions(session, work.target, work.root).await?;
    let mut old = Vec::new();
    for partition in work.old(session, partitions).await? {
        add(work.counted(session, partition.oid, &partition.name, Origin::Partition).await?);
        old.push(partition.oid.to_string());
    }
    let old = if old.is_empty() { "0".to_owned() } else { old.join(", ") };
    let young =
        format!("select count(*) from {} t where t.tableoid not in ({old})", work.target.quoted());
    session.execute(BEGIN).await?;
    let row = session.row_in_time(&young).await;
    session.execute("rollback").await?;
    counts.young = number(&row?, 0)?;
    Ok(counts)
}
