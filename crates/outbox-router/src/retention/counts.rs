//! What is in a table, by the reason for which it stays: for the command `cleanup`.

use relay::{Failure, delivered::DeliveredRows};

pub(crate) use super::kept::Counts;
use super::{
    partitions::{self, course::Work},
    rows::Rule,
    session::{Session, number},
    settings::RetentionSettings,
    target::Target,
};

impl Counts {
    /// Reads the whole table once.
    ///
    /// # Errors
    /// The statement fails.
    pub(crate) async fn of(
        session: Session<'_>,
        target: &Target,
        settings: &RetentionSettings,
        delivered: &DeliveredRows,
    ) -> Result<Self, Failure> {
        if let Some(root) = &target.root {
            let work = Work { target, root, settings, delivered };
            return partitions::counts::counts(session, &work).await;
        }
        let rule = Rule { target, delivered, keep: settings.section.keep };
        // It reads all rows, so an index is no help.
        session
            .execute("begin; set local enable_seqscan = on; set local statement_timeout = 0")
            .await?;
        let row = session
            .row(&format!(
                "select count(*) filter (where not is_old), \
                   count(*) filter (where is_old and is_held), \
                   count(*) filter (where is_old and not is_held and is_event and not is_covered), \
                   count(*) filter (where is_old and not is_held and not is_event), \
                   count(*) filter (where is_old and not is_held and is_event and is_covered) \
                 from (select coalesce({}, false) as is_old, coalesce({}, false) as is_held, \
                   {} as is_covered, {} as is_event from {} t) r",
                rule.is_old(),
                rule.is_held(),
                rule.is_covered(),
                rule.is_event(),
                target.quoted()
            ))
            .await;
        session.execute("rollback").await?;
        let row = row?;
        Ok(Self {
            young: number(&row, 0)?,
            held: number(&row, 1)?,
            undelivered: number(&row, 2)?,
            older: number(&row, 3)?,
            removable: number(&row, 4)?,
        })
    }
}
