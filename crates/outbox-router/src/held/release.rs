//! What may leave the table.

use std::collections::{BTreeMap, BTreeSet};

use relay::{
    Failure,
    held::{DECIDED_MAX, Decision, EventId, HeldEvent, KeyHash, Letter},
};
use tokio_postgres::{IsolationLevel, Row, Transaction};

use super::{
    failure::{held_failure, unsuitable},
    pipeline::Pipeline,
    session::Sql,
    values::{Timestamptz, code, count, event_id, get, key_hash, lsn},
};

/// In any order, so that a thousand keys that cannot leave yet do not hide the next.
const DECIDED: &str = "\
    select key_hash from ( \
      select distinct key_hash from outbox_router.held \
      where pipeline = $1 and slot = $2 and state in ('requeued', 'dropping')) d \
    order by random() limit $3";

/// The first open events of each key, without their messages; looked up as in [`super::load`].
const FIRST: &str = "\
    select h.* from unnest($3::bytea[]) as k (key_hash) \
    cross join lateral ( \
      select h.key_hash, h.commit_lsn, h.event_index, \
        h.code is not null and h.state = 'held' as undecided, \
        length(h.messages)::int8 + coalesce(length(h.key), 0)::int8 + $4 as bytes \
      from outbox_router.held h \
      where h.pipeline = $1 and h.slot = $2 \
        and h.key_hash between k.key_hash and k.key_hash \
        and h.state in ('held', 'requeued', 'dropping') \
      order by h.key_hash, h.commit_lsn, h.event_index limit $5) h \
    order by h.commit_lsn, h.event_index";

/// These events, in any order. Pipeline and slot are part of the join, and not conditions of their
/// own: a server without statistics would take the pipeline's rows for one, and compare each of
/// them with each of these events.
const EVENTS: &str = "\
    select h.commit_lsn, h.event_index, h.committed_at, h.key, h.key_hash, h.event_id, \
      h.table_name, h.messages, h.code, h.error, h.state \
    from (select $1::text as pipeline, $2::text as slot, i.* \
      from unnest($3::pg_lsn[], $4::int8[]) as i (commit_lsn, event_index) offset 0) i \
    join outbox_router.held h using (pipeline, slot, commit_lsn, event_index)";

/// The most events and bytes of one answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLimits {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

/// Keys about whose dead letters a person has decided.
pub(super) async fn decided(
    mut sql: Sql<'_>,
    Pipeline { name, slot }: &Pipeline,
) -> Result<Vec<KeyHash>, Failure> {
    let most = i64::try_from(DECIDED_MAX).unwrap_or(i64::MAX);
    let read = async {
        let statement = sql.prepared(DECIDED).await?;
        sql.client.query(&statement, &[name, slot, &most]).await
    };
    match read.await {
        Ok(rows) => {
            let keys: BTreeSet<KeyHash> = rows.iter().map(key_hash).collect::<Result<_, _>>()?;
            Ok(keys.into_iter().collect())
        }
        Err(error) => Err(held_failure(error, &sql.backend.role)),
    }
}

/// The first events of these keys that may leave. Which they are is read first, and then their
/// messages, of one snapshot: a thousand keys may have a million events.
pub(super) async fn next(
    mut sql: Sql<'_>,
    pipeline: &Pipeline,
    keys: &[KeyHash],
    limits: BatchLimits,
) -> Result<Vec<(HeldEvent, Decision)>, Failure> {
    let rows = match read(&mut sql, pipeline, keys, limits).await {
        Ok(rows) => rows?,
        Err(error) => return Err(held_failure(error, &sql.backend.role)),
    };
    let mut events = rows.iter().map(held_event).collect::<Result<Vec<_>, _>>()?;
    events.sort_unstable_by_key(|(event, _)| event.id);
    Ok(events)
}

async fn read(
    sql: &mut Sql<'_>,
    Pipeline { name, slot }: &Pipeline,
    keys: &[KeyHash],
    limits: BatchLimits,
) -> Result<Result<Vec<Row>, Failure>, tokio_postgres::Error> {
    let overhead = i64::try_from(HeldEvent::OVERHEAD).unwrap_or(i64::MAX);
    let hashes: Vec<&[u8]> = keys.iter().map(|key| key.0.as_slice()).collect();
    let (first, events) = (sql.prepared(FIRST).await?, sql.prepared(EVENTS).await?);
    let transaction = snapshot(sql).await?;
    let mut per_key = PerKey::first(keys.len(), limits.events);
    let ids = loop {
        let limit = per_key.as_limit();
        let rows = transaction.query(&first, &[name, slot, &hashes, &overhead, &limit]).await?;
        let found = match rows.iter().map(Candidate::of).collect::<Result<Vec<_>, _>>() {
            Ok(found) => found,
            Err(failure) => return Ok(Err(failure)),
        };
        match choose(&found, per_key, limits) {
            Some(ids) => break ids,
            None => per_key = per_key.next(),
        }
    };
    let lsns: Vec<_> = ids.iter().map(|id| lsn(id.commit_lsn)).collect();
    let indexes: Vec<_> = ids.iter().map(|id| i64::from(id.index)).collect();
    let rows = transaction.query(&events, &[name, slot, &lsns, &indexes]).await?;
    transaction.commit().await?;
    Ok(Ok(rows))
}

async fn snapshot<'s>(sql: &'s mut Sql<'_>) -> Result<Transaction<'s>, tokio_postgres::Error> {
    let begin = sql.client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
    begin.read_only(true).start().await
}

/// How many events of each key are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PerKey(usize);

impl PerKey {
    /// Of many keys few events each make a batch; of one, all come from it.
    fn first(keys: usize, events: usize) -> Self {
        const LEAST: usize = 16;
        let share = events.checked_div(keys).unwrap_or_default().saturating_mul(2).max(LEAST);
        // One more than a batch, so that a batch of one key is known to be whole.
        Self(share.min(events.saturating_add(1)))
    }

    const fn next(self) -> Self {
        Self(self.0.saturating_mul(4))
    }

    fn as_limit(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

/// An open event of a key that may have events to leave.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: EventId,
    hash: KeyHash,
    bytes: usize,
    is_undecided: bool,
}

impl Candidate {
    fn of(row: &Row) -> Result<Self, Failure> {
        Ok(Self {
            id: event_id(row)?,
            hash: key_hash(row)?,
            bytes: usize::try_from(count(row, "bytes")?).unwrap_or(usize::MAX),
            is_undecided: get(row, "undecided")?,
        })
    }
}

/// Which of these events leave next; they are in their order. `None` if a key has more events than
/// were looked at, of which some may come before others that are here.
fn choose(found: &[Candidate], per_key: PerKey, limits: BatchLimits) -> Option<Vec<EventId>> {
    let mut seen: BTreeMap<KeyHash, usize> = BTreeMap::new();
    let mut blocked = BTreeSet::new();
    let (mut chosen, mut total) = (Vec::new(), 0_usize);
    for event in found {
        if event.is_undecided {
            blocked.insert(event.hash);
        }
        let of_key = seen.entry(event.hash).or_default();
        *of_key += 1;
        if blocked.contains(&event.hash) {
            continue;
        }
        total = total.saturating_add(event.bytes);
        if chosen.len() == limits.events || (total > limits.bytes && !chosen.is_empty()) {
            return Some(chosen);
        }
        chosen.push(event.id);
        // What follows in this key is not known, so neither is what comes next.
        if *of_key == per_key.0 && chosen.len() < limits.events {
            return None;
        }
    }
    Some(chosen)
}

fn held_event(row: &Row) -> Result<(HeldEvent, Decision), Failure> {
    let (id, code) = (event_id(row)?, code(row)?);
    let error: Option<String> = get(row, "error")?;
    let letter = code.map(|code| Letter { code, message: error.unwrap_or_default() });
    let Timestamptz(committed_at) = get(row, "committed_at")?;
    let decision = match (get::<&str>(row, "state")?, &letter) {
        ("dropping", _) => Decision::Drop,
        ("requeued", _) | ("held", None) => Decision::Deliver,
        (state, _) => return Err(unsuitable(format!("the event {id} is {state}"))),
    };
    let event = HeldEvent {
        id,
        committed_at,
        key: get(row, "key")?,
        hash: key_hash(row)?,
        event_id: get(row, "event_id")?,
        table: get(row, "table_name")?,
        messages: get(row, "messages")?,
        letter,
    };
    Ok((event, decision))
}

#[cfg(test)]
mod tests {
    use relay::Lsn;

    use super::*;

    fn candidate(key: &[u8], at: u32) -> Candidate {
        let id = EventId { commit_lsn: Lsn::from_u64(1), index: at };
        Candidate { id, hash: KeyHash::of_key(key), bytes: 10, is_undecided: false }
    }

    fn chosen(found: &[Candidate], per_key: usize, events: usize) -> Option<Vec<u32>> {
        let limits = BatchLimits { events, bytes: 1_000 };
        let ids = choose(found, PerKey(per_key), limits)?;
        Some(ids.into_iter().map(|id| id.index).collect())
    }

    #[test]
    fn a_key_of_which_more_may_follow_makes_the_batch_incomplete_unless_it_is_full() {
        let found = [candidate(b"a", 0), candidate(b"a", 1), candidate(b"b", 9)];
        assert_eq!(chosen(&found, 2, 3), None, "an event of a may come before that of b");
        assert_eq!(chosen(&found, 3, 3), Some(vec![0, 1, 9]));
        assert_eq!(chosen(&found, 2, 2), Some(vec![0, 1]));
    }

    #[test]
    fn a_batch_ends_at_its_limits_and_has_one_event_at_least() {
        let found = [candidate(b"a", 0), candidate(b"a", 1), candidate(b"a", 2)];
        let limits = |bytes| BatchLimits { events: 10, bytes };
        assert_eq!(choose(&found, PerKey(9), limits(25)).unwrap().len(), 2);
        assert_eq!(choose(&found, PerKey(9), limits(1)).unwrap().len(), 1);
    }

    #[test]
    fn nothing_passes_a_dead_letter_about_which_nobody_has_decided() {
        let undecided = |event: Candidate| Candidate { is_undecided: true, ..event };
        let found = [
            candidate(b"a", 0),
            undecided(candidate(b"a", 1)),
            candidate(b"b", 2),
            candidate(b"a", 3),
        ];
        assert_eq!(chosen(&found, 9, 9), Some(vec![0, 2]));
    }
}
