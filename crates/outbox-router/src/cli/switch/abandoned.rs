//! Rows that the stream never sends: they are older than the slot, and nobody tries them any more.

use relay::{Case, Code, Failure, HoldKeys, Name, polling::TableIndex};

use super::{Described, Switching};
use crate::{
    cli::{OlderRows, TaskError, Terminal},
    polling::{sql::RowCount, survey::stranded},
};

impl Switching<'_> {
    /// Later rows of their keys wait for abandoned rows, and would never be sent.
    pub(super) async fn refuse_abandoned(&self, last: &mut Described) -> Result<(), TaskError> {
        let Described { database, tables, .. } = last;
        // Nor rows of a table that was polled before, such as a partition that is detached. Before
        // there are tables of workers, none was.
        match database.former().await {
            Ok(former) => former.into_iter().next().map_or(Ok(()), |(_, failure)| Err(failure))?,
            Err(failure) if failure.code == Code::LeaseTable => {}
            Err(failure) => return Err(failure.into()),
        }
        for (place, table) in tables.iter().enumerate() {
            let found = database.survey(TableIndex(place)).await?;
            // A stream would never send them, and nobody would look for them any more.
            if let Some(stranded) = stranded(table.name(), &found) {
                return Err(stranded.into());
            }
            if self.config.dead_letters.hold_key == HoldKeys::No {
                continue;
            }
            let (count, more) = match found.abandoned {
                RowCount::Exactly(0) => continue,
                RowCount::Exactly(count) => (count, ""),
                RowCount::AtLeast(count) => (count, "more than "),
            };
            let what = format!(
                "abandoned rows of {}: {more}{count}; later rows of their keys wait for them, \
                 which the stream would send before",
                table.name()
            );
            return Err(Failure::of(Case::SwitchHeld, what)
                .naming(Name::Table, table.name())
                .into());
        }
        Ok(())
    }

    /// Where later rows do not wait for them, they stop nothing, and a stream never sends them.
    pub(super) async fn say_left_behind(
        &self,
        last: &mut Described,
        terminal: &mut Terminal<'_>,
    ) -> Result<(), TaskError> {
        if self.config.dead_letters.hold_key == HoldKeys::Yes {
            return Ok(());
        }
        let found = abandoned(last).await?;
        for (table, _) in last.tables.iter().zip(&found).filter(|(_, rows)| is_any(**rows)) {
            writeln!(
                terminal.out,
                "note: {} has rows that are abandoned, which the stream never sends, and which \
                 cannot be requeued afterwards: outbox-router dead-letters list",
                table.name()
            )?;
        }
        if left_by(&found) == OlderRows::Leave {
            writeln!(
                terminal.out,
                "note: so [retention] of the stream keeps rows that are older than the slot, until \
                 outbox-router cleanup --older"
            )?;
        }
        Ok(())
    }
}

/// What is to be known of the rows that are older than the slot, now that the pending ones of them
/// are sent.
pub(super) async fn older_rows(last: &mut Described) -> Result<OlderRows, TaskError> {
    Ok(left_by(&abandoned(last).await?))
}

/// The abandoned rows of each table.
async fn abandoned(last: &mut Described) -> Result<Vec<RowCount>, TaskError> {
    let mut found = Vec::with_capacity(last.tables.len());
    for place in (0..last.tables.len()).map(TableIndex) {
        found.push(last.database.survey(place).await?.abandoned);
    }
    Ok(found)
}

/// A stream's retention knows no marks: what it is told of older rows holds for abandoned ones,
/// too.
fn left_by(abandoned: &[RowCount]) -> OlderRows {
    if abandoned.iter().copied().any(is_any) { OlderRows::Leave } else { OlderRows::Send }
}

fn is_any(rows: RowCount) -> bool {
    rows != RowCount::Exactly(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_rows_count_as_sent_only_where_none_is_abandoned() {
        assert_eq!(left_by(&[RowCount::Exactly(0); 2]), OlderRows::Send);
        for abandoned in [RowCount::Exactly(1), RowCount::AtLeast(100_000)] {
            assert_eq!(left_by(&[RowCount::Exactly(0), abandoned]), OlderRows::Leave);
        }
    }
}
