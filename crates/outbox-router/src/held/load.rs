//! What is held when a session begins.

use relay::{
    Failure, Lsn,
    held::{HeldAnswer, HeldEvent, KeyTotals, KnownAs, Loaded},
};
use tokio_postgres::Row;

use super::{
    failure::{held_failure, is_absent},
    pipeline::Pipeline,
    session::Sql,
    stream::HeldStream,
    values::{Timestamptz, code, count, event_id, get, key_hash, lsn},
    version,
};

/// Each key that has open events. The first of a key is looked up by the index `held_open`, which
/// for ten thousand keys takes less than sorting a million events.
///
/// The primary key has the order of a key's events, too, and to read it for each key would take
/// minutes. A server without statistics prefers it, and has none of what was written in the last
/// minute. So look-ups, here and in the other requests, also order by the key, of which they take
/// a range: then only `held_open` has the order, and the connection sorts nothing that an index
/// can give ([`SETTINGS`](super::session)).
const KEYS: &str = "\
    select t.key_hash, t.events, t.bytes, f.commit_lsn, f.event_index, f.committed_at, \
      f.undecided \
    from ( \
      select key_hash, count(*) as events, \
        sum(length(messages)::int8 + coalesce(length(key), 0)::int8 + $3)::int8 as bytes \
      from outbox_router.held \
      where pipeline = $1 and slot = $2 and state in ('held', 'requeued', 'dropping') \
      group by key_hash) t \
    cross join lateral ( \
      select h.commit_lsn, h.event_index, h.committed_at, \
        h.code is not null and h.state = 'held' as undecided \
      from outbox_router.held h \
      where h.pipeline = $1 and h.slot = $2 \
        and h.key_hash between t.key_hash and t.key_hash \
        and h.state in ('held', 'requeued', 'dropping') \
      order by h.key_hash, h.commit_lsn, h.event_index limit 1) f \
    order by t.key_hash";

/// Events that the server may send again: which were delivered, and the code of open dead letters.
const KNOWN: &str = "\
    select commit_lsn, event_index, \
      case when state in ('held', 'requeued', 'dropping') then code end as code, \
      state = 'delivered' as delivered \
    from outbox_router.held where pipeline = $1 and slot = $2 and commit_lsn >= $3 \
    order by commit_lsn, event_index";

/// Reads the table. What people decide between the statements changes no answer's meaning: a
/// decision is read again every second, and a dead letter stays open until it is closed.
pub(super) async fn load(
    mut sql: Sql<'_>,
    pipeline: &Pipeline,
    stream: &HeldStream,
    since: Lsn,
) -> Result<HeldAnswer, Failure> {
    match read(&mut sql, pipeline, since).await {
        Ok((version, keys, known)) => {
            version::check_cluster(version.as_ref(), &stream.history)?;
            loaded(version.as_ref(), &keys, &known)
        }
        Err(error) if is_absent(&error) => Ok(HeldAnswer::Absent),
        Err(error) => Err(held_failure(error, &sql.backend.role)),
    }
}

type Rows = Vec<Row>;

async fn read(
    sql: &mut Sql<'_>,
    pipeline: &Pipeline,
    since: Lsn,
) -> Result<(Option<Row>, Rows, Rows), tokio_postgres::Error> {
    let version = version::read(sql, pipeline).await?;
    let Pipeline { name, slot } = pipeline;
    let overhead = i64::try_from(HeldEvent::OVERHEAD).unwrap_or(i64::MAX);
    let statement = sql.prepared(KEYS).await?;
    let keys = sql.client.query(&statement, &[name, slot, &overhead]).await?;
    let statement = sql.prepared(KNOWN).await?;
    let known = sql.client.query(&statement, &[name, slot, &lsn(since)]).await?;
    Ok((version, keys, known))
}

fn loaded(version: Option<&Row>, keys: &Rows, known: &Rows) -> Result<HeldAnswer, Failure> {
    let mut loaded = Loaded { mark: version::mark_or_none(version)?, ..Loaded::default() };
    for row in keys {
        let (key, Timestamptz(oldest)) = (key_hash(row)?, get(row, "committed_at")?);
        let totals = KeyTotals {
            events: count(row, "events")?,
            bytes: count(row, "bytes")?,
            oldest,
            first: event_id(row)?,
        };
        loaded.keys.push((key, totals));
        if !get::<bool>(row, "undecided")? {
            loaded.leaving.push(key);
        }
    }
    for row in known {
        let known_as = match code(row)? {
            Some(code) => KnownAs::OpenLetter(code),
            None if get(row, "delivered")? => KnownAs::Delivered,
            None => KnownAs::Settled,
        };
        loaded.known.push((event_id(row)?, known_as));
    }
    Ok(HeldAnswer::Loaded(Box::new(loaded)))
}
