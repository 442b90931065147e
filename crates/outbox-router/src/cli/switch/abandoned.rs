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
        let found = self.left_behind(last).await?;
        let tables = || last.tables.iter().zip(&found);
        for (table, _) in tables().filter(|(_, left)| is_any(left.abandoned)) {
            writeln!(
                terminal.out,
                "note: {} has rows that are abandoned, which the stream never sends, and which \
                 cannot be requeued afterwards: outbox-router dead-letters list",
                table.name()
            )?;
        }
        for (table, _) in tables().filter(|(_, left)| left.filtered == Filtered::Some) {
            writeln!(
                terminal.out,
                "note: {} has pending rows that outbox.where leaves out: an UPDATE makes them \
                 events of workers, and none of the stream, which sends rows as they are inserted",
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

    /// What is to be known of the rows that are older than the slot, now that the pending ones of
    /// them are sent.
    pub(super) async fn older_rows(&self, last: &mut Described) -> Result<OlderRows, TaskError> {
        Ok(left_by(&self.left_behind(last).await?))
    }

    async fn left_behind(&self, last: &mut Described) -> Result<Vec<Left>, TaskError> {
        let mut found = Vec::with_capacity(last.tables.len());
        for (place, table) in last.tables.iter().enumerate() {
            let abandoned = last.database.survey(TableIndex(place)).await?.abandoned;
            let filtered = match table.is_any_filtered() {
                Some(any) if self.books.query_one(&any, &[]).await?.try_get(0)? => Filtered::Some,
                Some(_) | None => Filtered::None,
            };
            found.push(Left { abandoned, filtered });
        }
        Ok(found)
    }
}

/// Rows of a table that neither a worker has sent nor the stream will send.
#[derive(Debug, Clone, Copy)]
struct Left {
    abandoned: RowCount,
    filtered: Filtered,
}

/// Whether rows are pending by their marks, and left out by `where`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filtered {
    Some,
    None,
}

/// A stream's retention knows no marks: what it is told of older rows holds for these, too.
fn left_by(left: &[Left]) -> OlderRows {
    let is_left = |left: &Left| is_any(left.abandoned) || left.filtered == Filtered::Some;
    if left.iter().any(is_left) { OlderRows::Leave } else { OlderRows::Send }
}

fn is_any(rows: RowCount) -> bool {
    rows != RowCount::Exactly(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_rows_count_as_sent_only_where_none_is_abandoned_or_filtered() {
        let left = |abandoned, filtered| Left { abandoned, filtered };
        let none = left(RowCount::Exactly(0), Filtered::None);
        assert_eq!(left_by(&[none; 2]), OlderRows::Send);
        for some in [
            left(RowCount::Exactly(1), Filtered::None),
            left(RowCount::AtLeast(100_000), Filtered::None),
            left(RowCount::Exactly(0), Filtered::Some),
        ] {
            assert_eq!(left_by(&[none, some]), OlderRows::Leave);
        }
    }
}
