//! The partitions of an outbox.

use relay::{Failure, TableName};

use super::{
    bounds::{self, Bounds, End},
    moment::Range,
    root::{Owner, Root},
};
use crate::{
    postgres::{quote_literal, quote_table},
    retention::{
        session::{Session, number, text},
        target::Target,
    },
};

/// The first version with DETACH CONCURRENTLY.
pub(super) const CONCURRENTLY_SINCE: i32 = 14_00_00;

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Partition {
    pub(super) oid: u32,
    pub(super) name: TableName,
    pub(super) kind: Kind,
    /// The rows that it takes; `None` unless they are those of a time.
    pub(super) range: Option<Range>,
    pub(super) attachment: Attachment,
    pub(super) owner: Owner,
}

/// What a partition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Table,
    Default,
    /// A foreign table, or partitioned itself: it stays.
    Other,
}

/// Whether it is a partition, and stays one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attachment {
    Attached,
    /// DETACH CONCURRENTLY has begun, and has not ended: pgoutput leaves out what is still written
    /// to it.
    Pending,
}

impl Partition {
    pub(super) fn quoted(&self) -> String {
        quote_table(&self.name)
    }
}

/// All partitions of the first level.
pub(super) async fn partitions(
    session: Session<'_>,
    target: &Target,
    root: &Root,
) -> Result<Vec<Partition>, Failure> {
    let pending = match session.backend.version {
        CONCURRENTLY_SINCE.. => "i.inhdetachpending",
        _ => "false",
    };
    let rows = session
        .rows(&format!(
            "select c.oid, n.nspname, c.relname, c.relkind, \
               coalesce(pg_get_expr(c.relpartbound, c.oid), ''), {pending}, \
               pg_get_userbyid(c.relowner), pg_has_role(c.relowner, 'usage') \
             from pg_inherits i join pg_class c on c.oid = i.inhrelid \
             join pg_namespace n on n.oid = c.relnamespace where i.inhparent = {} order by c.oid",
            root.oid
        ))
        .await?;
    let mut found = Vec::new();
    let mut all_bounds = Vec::new();
    for row in &rows {
        let bounds = bounds::parse(text(row, 4)?);
        found.push(Partition {
            oid: number(row, 0)?,
            name: TableName { schema: text(row, 1)?.to_owned(), name: text(row, 2)?.to_owned() },
            kind: match (text(row, 3)?, &bounds) {
                (_, Bounds::Default) => Kind::Default,
                ("r", _) => Kind::Table,
                (_, _) => Kind::Other,
            },
            range: None,
            attachment: match text(row, 5)? {
                "t" => Attachment::Pending,
                _ => Attachment::Attached,
            },
            owner: Owner { role: text(row, 6)?.to_owned(), is_ours: text(row, 7)? == "t" },
        });
        all_bounds.push(bounds);
    }
    let ranges = ranges(session, target, &all_bounds).await?;
    for (partition, range) in found.iter_mut().zip(ranges) {
        partition.range = range;
    }
    Ok(found)
}

/// The bounds as times. PostgreSQL reads what it has written.
async fn ranges(
    session: Session<'_>,
    target: &Target,
    all: &[Bounds],
) -> Result<Vec<Option<Range>>, Failure> {
    let mut values = Vec::new();
    for bounds in all {
        let Bounds::Range(from, to) = bounds else { continue };
        for end in [from, to] {
            if let End::At(value) = end {
                values.push(target.time.literal(value));
            }
        }
    }
    let mut moments = moments(session, target, &values).await?.into_iter();
    let mut end = |end: &End, unbounded: i64| match end {
        End::Unbounded => Some(unbounded),
        End::At(_) => moments.next(),
    };
    let range = |bounds: &Bounds| match bounds {
        Bounds::Default | Bounds::Other => None,
        Bounds::Range(from, to) => {
            let (from, to) = (end(from, i64::MIN), end(to, i64::MAX));
            Some(Range { from: from?, to: to? })
        }
    };
    Ok(all.iter().map(range).collect())
}

/// Values of the time column, in microseconds since 1970.
pub(super) async fn moments(
    session: Session<'_>,
    target: &Target,
    values: &[String],
) -> Result<Vec<i64>, Failure> {
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let values: Vec<String> =
        values.iter().enumerate().map(|(at, value)| format!("({at}, {value})")).collect();
    let query = format!(
        "select {} from (values {}) b (at, value) order by at",
        target.time.micros("b.value"),
        values.join(", ")
    );
    session.rows(&query).await?.iter().map(|row| number(row, 0)).collect()
}

/// The tables that earlier versions have detached to drop them: they wrote this comment.
pub(super) async fn left_behind(
    session: Session<'_>,
    root: &Root,
) -> Result<Vec<TableName>, Failure> {
    let mark = format!("outbox_router.retention of {}: ", root.oid);
    let rows = session
        .rows(&format!(
            "select n.nspname, c.relname from pg_description d \
             join pg_class c on c.oid = d.objoid join pg_namespace n on n.oid = c.relnamespace \
             where d.classoid = 'pg_class'::regclass and d.objsubid = 0 \
               and starts_with(d.description, {}) and c.relkind = 'r' and not c.relispartition \
             order by c.oid",
            quote_literal(&mark)
        ))
        .await?;
    let name =
        |row| Ok(TableName { schema: text(row, 0)?.to_owned(), name: text(row, 1)?.to_owned() });
    rows.iter().map(name).collect()
}
