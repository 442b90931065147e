//! The way through a table that has no index on its time: by blocks, from the first to the last.

use relay::{Case, Failure, Name};

use super::{
    rows::{Counted, Rule, is_of},
    session::{Session, number, text},
    target::Target,
};

/// The first version that reads a range of blocks without the rest of the table.
const RANGES_SINCE: i32 = 14_00_00;

/// How many blocks one statement reads: a megabyte.
const BLOCKS: u64 = 128;

/// Where a pass stands.
pub(super) struct Blocks {
    /// The table or its partitions, quoted, with their blocks; the one at hand is the last.
    left: Vec<(String, u64)>,
    /// The next place is behind this one.
    behind: Place,
}

/// A `ctid`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    block: u64,
    text: String,
}

impl Place {
    fn before(block: u64) -> Self {
        Self { block, text: format!("({block},0)") }
    }
}

impl Blocks {
    /// All of the table.
    ///
    /// # Errors
    /// The server's version cannot read ranges.
    pub(super) async fn of(session: Session<'_>, target: &Target) -> Result<Self, Failure> {
        if session.backend.version < RANGES_SINCE {
            let what = "--slow reads ranges of blocks, which PostgreSQL 13 cannot";
            let statements = match target.check_index() {
                Err(failure) => failure.names.get(Name::Statements).map(str::to_owned),
                Ok(()) => None,
            };
            let failure = Failure::of(Case::RetentionWithoutIndex, what);
            return Err(failure.naming(Name::Statements, statements.unwrap_or_default()));
        }
        let oid = target.oid;
        let rows = session
            .rows(&format!(
                "select r.oid::regclass, pg_relation_size(r.oid) / \
                   current_setting('block_size')::int8 \
                 from (select relid::oid as oid from pg_partition_tree({oid}) where isleaf \
                   union select oid from pg_class where oid = {oid} and relkind = 'r') r \
                 order by 1"
            ))
            .await?;
        let left = rows.iter().map(|row| Ok((text(row, 0)?.to_owned(), number(row, 1)?)));
        Ok(Self { left: left.collect::<Result<_, Failure>>()?, behind: Place::before(0) })
    }

    /// The next candidates; `None` behind the last block.
    pub(super) fn candidates(
        &self,
        session: Session<'_>,
        rule: &Rule<'_>,
        limit: u64,
    ) -> Option<String> {
        let (table, _) = self.left.last()?;
        Some(format!(
            "select t.tableoid as o, t.ctid as c, t.ctid as at, true as covered from only {table} t \
             where t.ctid > '{}' and t.ctid < '({},0)' and {} and {} and {} and {} and not {} \
             limit {limit}",
            self.behind.text,
            self.behind.block + BLOCKS,
            rule.is_old(),
            rule.is_covered(),
            rule.is_event(),
            is_of(session),
            rule.is_held()
        ))
    }

    /// Goes on behind what a statement has looked at.
    pub(super) fn go_on(&mut self, counted: &Counted, limit: u64) {
        let last = counted.last.as_deref().filter(|_| counted.candidates >= limit);
        let block = |place: &str| place.strip_prefix('(')?.split(',').next()?.parse::<u64>().ok();
        self.behind = match last.and_then(|last| Some((block(last)?, last.to_owned()))) {
            Some((block, text)) => Place { block, text },
            None => Place::before(self.behind.block + BLOCKS),
        };
        if self.left.last().is_some_and(|(_, blocks)| self.behind.block >= *blocks) {
            self.left.pop();
            self.behind = Place::before(0);
        }
    }
}
