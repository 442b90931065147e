//! Events leave the table, or stay in it as dead letters.

use relay::{
    Failure, PgTimestamp,
    held::{HeldEvent, KeyHash, KeyTotals, Leaving, Letter, Outcome},
};
use tokio_postgres::Row;

use super::{
    failure::held_failure,
    insert::error_text,
    session::Sql,
    store::Pipeline,
    values::{Timestamptz, count, get, key_hash, lsn},
};

const CLOSE: &str = "\
    update outbox_router.held h set \
      state = l.state, \
      closed_at = case when l.state = 'held' then null else now() end, \
      decided_at = case when l.state = 'held' then null else h.decided_at end, \
      code = coalesce(l.code, h.code), \
      error = case when l.code is null then h.error else l.error end \
    from unnest($3::pg_lsn[], $4::int8[], $5::text[], $6::text[], $7::text[]) \
      as l (commit_lsn, event_index, state, code, error) \
    where h.pipeline = $1 and h.slot = $2 \
      and h.commit_lsn = l.commit_lsn and h.event_index = l.event_index \
    returning h.key_hash";

/// What is open of these keys.
const TOTALS: &str = "\
    select k.key_hash, t.events, t.bytes, f.committed_at \
    from unnest($3::bytea[]) as k (key_hash) \
    cross join lateral ( \
      select count(*) as events, \
        coalesce(sum(length(messages)::int8 + coalesce(length(key), 0)::int8 + $4), 0)::int8 \
          as bytes \
      from outbox_router.held h \
      where h.pipeline = $1 and h.slot = $2 and h.key_hash = k.key_hash \
        and h.state in ('held', 'requeued', 'dropping')) t \
    left join lateral ( \
      select h.committed_at from outbox_router.held h \
      where h.pipeline = $1 and h.slot = $2 and h.key_hash = k.key_hash \
        and h.state in ('held', 'requeued', 'dropping') \
      order by h.commit_lsn, h.event_index limit 1) f on true \
    order by k.key_hash";

/// In one transaction, so that the totals are those after these events have left.
pub(super) async fn close(
    mut sql: Sql<'_>,
    pipeline: &Pipeline,
    leaving: &[Leaving],
) -> Result<Vec<(KeyHash, KeyTotals)>, Failure> {
    match update(&mut sql, pipeline, leaving).await {
        Ok(rows) => rows.iter().map(totals).collect(),
        Err(error) => Err(held_failure(error, &sql.backend.role)),
    }
}

async fn update(
    sql: &mut Sql<'_>,
    Pipeline { name, slot }: &Pipeline,
    leaving: &[Leaving],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let encoding = sql.backend.encoding;
    let overhead = i64::try_from(HeldEvent::OVERHEAD).unwrap_or(i64::MAX);
    let lsns: Vec<_> = leaving.iter().map(|one| lsn(one.id.commit_lsn)).collect();
    let indexes: Vec<_> = leaving.iter().map(|one| i64::from(one.id.index)).collect();
    let states: Vec<_> = leaving.iter().map(|one| state(&one.outcome)).collect();
    let letters = || leaving.iter().map(|one| letter(&one.outcome));
    let codes: Vec<_> = letters().map(|letter| letter.map(|l| l.code.as_str())).collect();
    let errors: Vec<_> = letters().map(|letter| letter.map(|l| error_text(l, encoding))).collect();
    let (close, totals) = (sql.prepared(CLOSE).await?, sql.prepared(TOTALS).await?);
    let transaction = sql.client.transaction().await?;
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
        [name, slot, &lsns, &indexes, &states, &codes, &errors];
    let closed = transaction.query(&close, &values).await?;
    let mut keys: Vec<&[u8]> = closed.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    keys.sort_unstable();
    keys.dedup();
    let rows = transaction.query(&totals, &[name, slot, &keys, &overhead]).await?;
    transaction.commit().await?;
    Ok(rows)
}

const fn state(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Delivered => "delivered",
        Outcome::Dropped => "dropped",
        Outcome::Refused(_) => "held",
    }
}

const fn letter(outcome: &Outcome) -> Option<&Letter> {
    match outcome {
        Outcome::Refused(letter) => Some(letter),
        Outcome::Delivered | Outcome::Dropped => None,
    }
}

fn totals(row: &Row) -> Result<(KeyHash, KeyTotals), Failure> {
    let oldest: Option<Timestamptz> = get(row, "committed_at")?;
    let oldest = oldest.map_or(PgTimestamp::from_micros(0), |Timestamptz(at)| at);
    let totals = KeyTotals { events: count(row, "events")?, bytes: count(row, "bytes")?, oldest };
    Ok((key_hash(row)?, totals))
}
