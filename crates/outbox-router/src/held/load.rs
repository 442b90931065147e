//! What is held when a session begins.

use relay::{
    Failure, Lsn,
    held::{HeldAnswer, HeldEvent, KeyTotals, KnownAs, Loaded, OpenCount},
};
use tokio_postgres::{IsolationLevel, Row};

use super::{
    failure::{held_failure, is_absent, unsuitable},
    pipeline::Pipeline,
    session::Sql,
    stream::HeldStream,
    values::{Timestamptz, code, count, event_id, get, key_hash, lsn},
    version,
};

/// How many open events each key has. A session has to begin within some seconds of getting the
/// slot, so a million of them are read in the order of the table ([`BY_TABLE`]): in that of the
/// index `held_open`, which a server without statistics prefers, nearly every event is on another
/// page than the one before, and a table that is in no cache takes minutes.
const KEYS: &str = "\
    select key_hash, count(*) as events, \
      sum(length(messages)::int8 + coalesce(length(key), 0)::int8 + $3)::int8 as bytes \
    from outbox_router.held \
    where pipeline = $1 and slot = $2 and state in ('held', 'requeued', 'dropping') \
    group by key_hash";

const BY_TABLE: &str = "\
    set local enable_indexscan = off; set local enable_indexonlyscan = off";

/// The first event of each of these keys, looked up by the index `held_open`.
///
/// The primary key has the order of a key's events, too, and to read it for each key would take
/// minutes. A server without statistics prefers it, and has none of what was written in the last
/// minute. So look-ups, here and in the other requests, also order by the key, of which they take
/// a range: then only `held_open` has the order, and the connection sorts nothing that an index
/// can give ([`SETTINGS`](super::session)).
const FIRST: &str = "\
    select f.* from unnest($3::bytea[]) as k (key_hash) cross join lateral ( \
      select h.key_hash, h.commit_lsn, h.event_index, h.committed_at, \
        h.code is not null and h.state = 'held' as undecided \
      from outbox_router.held h \
      where h.pipeline = $1 and h.slot = $2 \
        and h.key_hash between k.key_hash and k.key_hash \
        and h.state in ('held', 'requeued', 'dropping') \
      order by h.key_hash, h.commit_lsn, h.event_index limit 1) f";

const BY_INDEX: &str = "\
    set local enable_indexscan = on; set local enable_indexonlyscan = on";

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
    (since, open): (Lsn, OpenCount),
) -> Result<HeldAnswer, Failure> {
    match read(&mut sql, pipeline, (since, open)).await {
        Ok(read) => {
            version::check_cluster(read.version.as_ref(), &stream.history)?;
            read.loaded()
        }
        Err(error) => match is_absent(sql.client, "held", &error).await {
            Ok(true) => Ok(HeldAnswer::Absent),
            Ok(false) | Err(_) => Err(held_failure(error, &sql.backend.role)),
        },
    }
}

/// The rows of each statement.
struct Read {
    version: Option<Row>,
    /// Of [`KEYS`], in the order of the keys.
    keys: Vec<Row>,
    /// Of [`FIRST`], one of each key, in the same order.
    first: Vec<Row>,
    known: Vec<Row>,
}

async fn read(
    sql: &mut Sql<'_>,
    pipeline: &Pipeline,
    (since, open): (Lsn, OpenCount),
) -> Result<Read, tokio_postgres::Error> {
    let version = version::read(sql, pipeline, open).await?;
    let Pipeline { name, slot } = pipeline;
    let overhead = i64::try_from(HeldEvent::OVERHEAD).unwrap_or(i64::MAX);
    let (count, look_up) = (sql.prepared(KEYS).await?, sql.prepared(FIRST).await?);
    let known = sql.prepared(KNOWN).await?;
    // The same keys are counted and looked up.
    let begin = sql.client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
    let transaction = begin.read_only(true).start().await?;
    transaction.batch_execute(BY_TABLE).await?;
    let mut keys = transaction.query(&count, &[name, slot, &overhead]).await?;
    transaction.batch_execute(BY_INDEX).await?;
    keys.sort_unstable_by(|a, b| hash(a).cmp(hash(b)));
    let hashes: Vec<&[u8]> = keys.iter().map(hash).collect();
    let mut first = transaction.query(&look_up, &[name, slot, &hashes]).await?;
    first.sort_unstable_by(|a, b| hash(a).cmp(hash(b)));
    let known = transaction.query(&known, &[name, slot, &lsn(since)]).await?;
    transaction.commit().await?;
    Ok(Read { version, keys, first, known })
}

/// What is no hash is refused when the row is read.
fn hash(row: &Row) -> &[u8] {
    row.try_get("key_hash").unwrap_or_default()
}

impl Read {
    fn loaded(&self) -> Result<HeldAnswer, Failure> {
        let mark = version::mark_or_none(self.version.as_ref())?;
        let mut loaded = Loaded { mark, ..Loaded::default() };
        if self.keys.len() != self.first.len() {
            return Err(unsuitable("a key has open events and no first one".to_owned()));
        }
        for (row, first) in self.keys.iter().zip(&self.first) {
            let (key, Timestamptz(oldest)) = (key_hash(row)?, get(first, "committed_at")?);
            let totals = KeyTotals {
                events: count(row, "events")?,
                bytes: count(row, "bytes")?,
                oldest,
                first: event_id(first)?,
            };
            loaded.keys.push((key, totals));
            if !get::<bool>(first, "undecided")? {
                loaded.leaving.push(key);
            }
        }
        for row in &self.known {
            let known_as = match code(row)? {
                Some(code) => KnownAs::OpenLetter(code),
                None if get(row, "delivered")? => KnownAs::Delivered,
                None => KnownAs::Settled,
            };
            loaded.known.push((event_id(row)?, known_as));
        }
        Ok(HeldAnswer::Loaded(Box::new(loaded)))
    }
}
