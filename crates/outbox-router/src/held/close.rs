//! Events leave the table, or stay in it as dead letters.

use relay::{
    Failure, PgTimestamp,
    held::{Closed, EventId, KeyHash, Leaving, Letter, Outcome, TableVersion},
};
use tokio_postgres::Row;

use super::{
    failure::held_failure,
    insert::error_text,
    pipeline::Pipeline,
    session::Sql,
    values::{Timestamptz, event_id, get, key_hash, lsn},
    version,
};

/// The state of a dead letter that waits for a decision.
const HELD: &str = "held";

/// Joined as the events of a release are ([`super::release`]). That they are open is said in words
/// that no index's condition has: a server without statistics would take `held_open`, and read for
/// each event all those of the pipeline that come before it there.
const CLOSE: &str = "\
    update outbox_router.held h set \
      state = l.state, \
      closed_at = case when l.state = 'held' then null else now() end, \
      decided_at = case when l.state = 'held' then null else h.decided_at end, \
      code = coalesce(l.code, h.code), \
      error = case when l.code is null then h.error else l.error end \
    from (select $1::text as pipeline, $2::text as slot, l.* \
      from unnest($3::pg_lsn[], $4::int8[], $5::text[], $6::text[], $7::text[]) \
        as l (commit_lsn, event_index, state, code, error) offset 0) l \
    where h.pipeline = l.pipeline and h.slot = l.slot \
      and h.commit_lsn = l.commit_lsn and h.event_index = l.event_index \
      and h.state not in ('delivered', 'dropped') \
    returning l.state";

/// Locks the row: a write whose answer was lost may still run.
const VERSION: &str = "\
    select uuid_send(origin) as origin, writes, open from outbox_router.held_version \
    where pipeline = $1 and slot = $2 for update";

/// The row is there: events that leave were inserted.
const WRITTEN: &str = "\
    update outbox_router.held_version set writes = writes + 1, open = greatest(0, open - $3) \
    where pipeline = $1 and slot = $2 \
    returning uuid_send(origin) as origin, writes, open";

/// The first event that is open of each key of these events: one probe of the index `held_open`
/// for each, as in [`super::load`].
const FIRST: &str = "\
    select k.key_hash, f.commit_lsn, f.event_index, f.committed_at \
    from (select distinct h.key_hash from ( \
        select $1::text as pipeline, $2::text as slot, l.* \
        from unnest($3::pg_lsn[], $4::int8[]) as l (commit_lsn, event_index) offset 0) l \
      join outbox_router.held h on h.pipeline = l.pipeline and h.slot = l.slot \
        and h.commit_lsn = l.commit_lsn and h.event_index = l.event_index) as k \
    left join lateral ( \
      select h.commit_lsn, h.event_index, h.committed_at from outbox_router.held h \
      where h.pipeline = $1 and h.slot = $2 \
        and h.key_hash between k.key_hash and k.key_hash \
        and h.state in ('held', 'requeued', 'dropping') \
      order by h.key_hash, h.commit_lsn, h.event_index limit 1) f on true \
    order by k.key_hash";

/// In one transaction, so that the first events are those after these have left.
pub(super) async fn close(
    mut sql: Sql<'_>,
    pipeline: &Pipeline,
    leaving: &[Leaving],
    after: Option<TableVersion>,
) -> Result<Closed, Failure> {
    match update(&mut sql, pipeline, leaving, after).await {
        Ok((version, rows)) => Ok(Closed {
            mark: version::mark_or_none(version.as_ref())?,
            first: rows.iter().map(first).collect::<Result<_, _>>()?,
        }),
        Err(error) => Err(held_failure(error, &sql.backend.role)),
    }
}

async fn update(
    sql: &mut Sql<'_>,
    Pipeline { name, slot }: &Pipeline,
    leaving: &[Leaving],
    after: Option<TableVersion>,
) -> Result<(Option<Row>, Vec<Row>), tokio_postgres::Error> {
    let encoding = sql.backend.encoding;
    let lsns: Vec<_> = leaving.iter().map(|one| lsn(one.id.commit_lsn)).collect();
    let indexes: Vec<_> = leaving.iter().map(|one| i64::from(one.id.index)).collect();
    let states: Vec<_> = leaving.iter().map(|one| state(&one.outcome)).collect();
    let letters = || leaving.iter().map(|one| letter(&one.outcome));
    let codes: Vec<_> = letters().map(|letter| letter.map(|l| l.code.as_str())).collect();
    let errors: Vec<_> = letters().map(|letter| letter.map(|l| error_text(l, encoding))).collect();
    let (version, close) = (sql.prepared(VERSION).await?, sql.prepared(CLOSE).await?);
    let (written, first) = (sql.prepared(WRITTEN).await?, sql.prepared(FIRST).await?);
    let transaction = sql.client.transaction().await?;
    let mut present = transaction.query_opt(&version, &[name, slot]).await?;
    if is_after(present.as_ref(), after) {
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [name, slot, &lsns, &indexes, &states, &codes, &errors];
        let rows = transaction.query(&close, &values).await?;
        let is_closed = |row: &&Row| row.try_get(0).is_ok_and(|state: &str| state != HELD);
        let closed = i64::try_from(rows.iter().filter(is_closed).count()).unwrap_or(i64::MAX);
        present = transaction.query_opt(&written, &[name, slot, &closed]).await?;
    }
    let rows = transaction.query(&first, &[name, slot, &lsns, &indexes]).await?;
    transaction.commit().await?;
    Ok((present, rows))
}

/// Whether no write has followed the one that is known. Another table than the known one is
/// recognised by the answer.
fn is_after(present: Option<&Row>, known: Option<TableVersion>) -> bool {
    let mark = version::mark_or_none(present);
    mark.is_ok_and(|mark| mark.version == known)
}

const fn state(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Delivered => "delivered",
        Outcome::Dropped => "dropped",
        Outcome::Refused(_) => HELD,
    }
}

const fn letter(outcome: &Outcome) -> Option<&Letter> {
    match outcome {
        Outcome::Refused(letter) => Some(letter),
        Outcome::Delivered | Outcome::Dropped => None,
    }
}

fn first(row: &Row) -> Result<(KeyHash, Option<(EventId, PgTimestamp)>), Failure> {
    let committed_at: Option<Timestamptz> = get(row, "committed_at")?;
    let first = match committed_at {
        Some(Timestamptz(at)) => Some((event_id(row)?, at)),
        None => None,
    };
    Ok((key_hash(row)?, first))
}
