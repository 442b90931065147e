//! One pass over a table, from its oldest row on.

use relay::{Code, Failure, TableName, delivered::DeliveredRows};

use super::{
    partitions::{
        course::{Course, Looks, Work},
        root::Root,
    },
    rows::{Counted, Rule, is_of},
    session::{Session, begin, number, optional},
    settings::RetentionSettings,
    slow::Blocks,
    step::{Rest, Step},
    target::Target,
};
use crate::postgres::{Runs, Touched, locks_against_code, refuse_foreign_code};

/// How many statements in a row may find nothing that is confirmed before the sweep ends: rows are
/// confirmed in about the order of their time, and behind these lies what is not delivered yet. A
/// few may wait for a transaction that has been open for long.
const UNCONFIRMED_MAX: u32 = 3;

/// A pass over one table.
pub(crate) struct Sweep<'a> {
    pub(super) target: &'a Target,
    pub(super) settings: &'a RetentionSettings,
    pub(super) delivered: DeliveredRows,
    order: Order,
    unconfirmed: u32,
    older: u64,
}

/// The order in which rows are looked at.
enum Order {
    /// By time.
    Time(From),
    /// By place.
    Blocks(Blocks),
    /// By partition.
    Partitions(Box<Course>, Root),
}

/// Where the next statement begins. It does not walk again through the dead entries of an index
/// that earlier statements have left.
#[derive(Debug, Clone, PartialEq, Eq)]
enum From {
    Oldest,
    /// At this time.
    At(String),
    /// Behind it: everything at this time was looked at, and stays.
    Behind(String),
}

impl<'a> Sweep<'a> {
    /// A pass over the rows of the proof: by partition, if whole ones are dropped, else in the
    /// order of time.
    pub(crate) fn of(
        target: &'a Target,
        settings: &'a RetentionSettings,
        delivered: DeliveredRows,
    ) -> Self {
        let order = match &target.root {
            Some(root) => Order::Partitions(Box::new(Course::new(Looks::default())), root.clone()),
            None => Order::Time(From::Oldest),
        };
        Self { target, settings, delivered, order, unconfirmed: 0, older: 0 }
    }

    /// Leaves out partitions that a former pass has looked at not long ago.
    pub(super) fn with_looks(mut self, looks: Looks) -> Self {
        if let Order::Partitions(course, _) = &mut self.order {
            **course = Course::new(looks);
        }
        self
    }

    /// For the next pass.
    pub(super) fn into_looks(self) -> Looks {
        match self.order {
            Order::Partitions(course, _) => course.into_looks(),
            Order::Time(_) | Order::Blocks(_) => Looks::default(),
        }
    }

    /// How many rows stay because they were written before the table was an outbox, as far as they
    /// were met: of the oldest rows, or of the partitions that were looked at.
    pub(crate) fn older(&self) -> u64 {
        match &self.order {
            Order::Partitions(course, _) => course.older(),
            Order::Time(_) | Order::Blocks(_) => self.older,
        }
    }

    /// Counts them among the oldest rows, as many as a statement removes.
    async fn count_older(&mut self, session: Session<'_>) -> Result<(), Failure> {
        let rule = self.rule();
        let query = format!(
            "select count(*) filter (where not is_event) from (select {} as is_event from {} t \
             where {} order by t.{} limit {}) r",
            rule.is_event(),
            self.target.quoted(),
            rule.is_old(),
            self.target.time.quoted(),
            self.settings.section.batch
        );
        self.older = number(&session.row(&query).await?, 0)?;
        Ok(())
    }

    /// A pass over the whole table, for one without an index.
    ///
    /// # Errors
    /// The server cannot read ranges of blocks, or the table cannot be measured.
    pub(crate) async fn by_place(
        session: Session<'_>,
        target: &'a Target,
        settings: &'a RetentionSettings,
        delivered: DeliveredRows,
    ) -> Result<Self, Failure> {
        let blocks = Blocks::of(session, target).await?;
        Ok(Self {
            target,
            settings,
            delivered,
            order: Order::Blocks(blocks),
            unconfirmed: 0,
            older: 0,
        })
    }

    /// Removes the next rows.
    ///
    /// # Errors
    /// The statement fails, and has removed nothing.
    pub(crate) async fn step(&mut self, session: Session<'_>) -> Result<Step, Failure> {
        if let Order::Partitions(course, root) = &mut self.order {
            let (target, settings, delivered) = (self.target, self.settings, &self.delivered);
            return course.step(session, &Work { target, root, settings, delivered }).await;
        }
        if let Order::Time(From::Oldest) = &self.order {
            self.count_older(session).await?;
        }
        let limit = self.settings.section.batch;
        let candidates = match &self.order {
            Order::Partitions(..) => return Ok(Step { removed: 0, rest: Rest::None }),
            Order::Time(from) => self.candidates(session, from),
            Order::Blocks(blocks) => match blocks.candidates(session, &self.rule(), limit) {
                Some(candidates) => candidates,
                None => return Ok(Step { removed: 0, rest: Rest::None }),
            },
        };
        let counted = self.remove(session, &candidates).await?;
        let rest = match &mut self.order {
            Order::Partitions(..) => Rest::None,
            Order::Blocks(blocks) => {
                blocks.go_on(&counted, limit);
                Rest::Some
            }
            Order::Time(from) => {
                *from = from.after(&counted);
                self.unconfirmed = if counted.covered == 0 { self.unconfirmed + 1 } else { 0 };
                let is_over = counted.candidates < limit || self.unconfirmed >= UNCONFIRMED_MAX;
                if is_over { Rest::None } else { Rest::Some }
            }
        };
        Ok(Step { removed: counted.removed, rest })
    }

    fn rule(&self) -> Rule<'_> {
        Rule { target: self.target, delivered: &self.delivered, keep: self.settings.section.keep }
    }

    fn candidates(&self, session: Session<'_>, from: &From) -> String {
        let (rule, time) = (self.rule(), &self.target.time);
        let column = time.quoted();
        let from = match from {
            From::Oldest => String::new(),
            From::At(at) => format!(" and t.{column} >= {}", time.literal(at)),
            From::Behind(at) => format!(" and t.{column} > {}", time.literal(at)),
        };
        format!(
            "select t.tableoid as o, t.ctid as c, t.{column} as at, {} as covered from {} t \
             where {}{from} and {} and {} and not {} order by t.{column} limit {}",
            rule.is_covered(),
            self.target.quoted(),
            rule.is_old(),
            is_of(session),
            rule.is_event(),
            rule.is_held(),
            self.settings.section.batch
        )
    }

    /// In a transaction of its own, which is rolled back where the archive does not have all.
    async fn remove(&self, session: Session<'_>, candidates: &str) -> Result<Counted, Failure> {
        session.execute(&begin()).await?;
        let removed = self.remove_within(session, candidates).await;
        let end = if removed.is_ok() { "commit" } else { "rollback" };
        let ended = session.execute(end).await;
        let counted = removed?;
        ended?;
        Ok(counted)
    }

    async fn remove_within(
        &self,
        session: Session<'_>,
        candidates: &str,
    ) -> Result<Counted, Failure> {
        let names: Vec<TableName> =
            self.settings.tables.iter().map(|table| table.name.clone()).collect();
        let locks = locks_against_code(session.client, &self.target.name).await?;
        session.execute(&locks).await?;
        refuse_foreign_code(session.client, Touched::Tables(&names), Runs::Changes).await?;
        let row = session.row(&self.rule().remove(candidates)).await?;
        let (removed, archived): (u64, u64) = (number(&row, 2)?, number(&row, 3)?);
        if removed != archived {
            let what = format!(
                "{}: the archive took {archived} of {removed} rows, so none was removed",
                self.target.name
            );
            return Err(Failure::new(Code::Retention, what));
        }
        if number::<i32>(&row, 5)? != session.backend.pid {
            let what = "another server process answered than the one that took the horizon: \
                        connect to PostgreSQL itself, not to a connection pooler";
            return Err(Failure::new(Code::Retention, what));
        }
        Ok(Counted {
            candidates: number(&row, 0)?,
            covered: number(&row, 1)?,
            removed,
            last: optional(&row, 4)?.map(str::to_owned),
        })
    }
}

impl From {
    fn after(&self, counted: &Counted) -> Self {
        let Some(last) = counted.last.clone() else { return self.clone() };
        let stood_there = match self {
            Self::Oldest => false,
            Self::At(at) | Self::Behind(at) => *at == last,
        };
        if stood_there && counted.removed == 0 { Self::Behind(last) } else { Self::At(last) }
    }
}
