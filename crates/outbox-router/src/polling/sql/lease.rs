//! Who works at which keys: the shards of each table, in `outbox_router.lease`, and the workers
//! that share it, in `outbox_router.worker`. All times are those of the server.

use std::{collections::HashMap, time::Duration};

use relay::{
    Code, Failure, Moment, TableName,
    polling::{LeaseRequest, Leases, RequestNumber, SHARDS, ShardSet, Share, TableLeases},
    source::Oid,
};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{
    conditions::interval,
    connection::{Answer, Connection, run},
    failure::{malformed, of_lease},
    fence::is_still,
    holders::polled_by_other,
    kept_from_stream::is_among,
    kept_from_workers::kept_from_workers,
    literals::literal,
    oids::oids,
    settings::StreamNames,
    setup::{NEVER_HELD, PARTITION, is_of_other},
    switch,
    transaction::{Access, BEGINS, COMMIT, Ways, begin},
};
use crate::{monitor::Connect, polling::clock::LeaseClock};

/// For how long workers of this pipeline remember one of theirs that is not heard of. Those of
/// another pipeline stay: their rows say that it has marks of its own on the table.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// The leases of one worker, on a connection of their own: they are renewed while rows are read.
pub struct LeaseTable<C> {
    connection: Connection<C>,
    tables: Vec<TableName>,
    worker: Worker,
    stream: Option<StreamNames>,
    /// When this worker has held something of a table last.
    held: HashMap<TableName, Moment>,
    clock: LeaseClock,
}

/// This worker.
struct Worker {
    id: Uuid,
    name: String,
    lease: Duration,
    /// How many requests it has made. The server carries out none after a later one: what was
    /// given up, since no answer came, may still be under way.
    requests: RequestNumber,
}

impl<C: Connect> LeaseTable<C> {
    /// Opens no connection yet.
    pub fn new(
        connect: C,
        tables: Vec<TableName>,
        worker: Uuid,
        name: String,
        lease: Duration,
    ) -> Self {
        let worker = Worker { id: worker, name, lease, requests: RequestNumber(0) };
        let (connection, held) = (Connection::new(connect), HashMap::new());
        Self { connection, tables, worker, stream: None, held, clock: LeaseClock::start() }
    }

    /// Takes no table that this stream has, unless a switch says that workers may.
    #[must_use]
    pub fn unless_streamed(self, stream: StreamNames) -> Self {
        Self { stream: Some(stream), ..self }
    }

    /// Renews what this worker holds, takes what is free, and gives back what is more than wanted;
    /// or gives back everything. After an error what is held may be less than before, and not more.
    ///
    /// # Errors
    /// The tables are missing, or may not be used (P042); every polled table is streamed, and this
    /// worker has nothing to give back (P043); the connection fails.
    pub async fn answer(&mut self, request: &LeaseRequest) -> Result<Leases, Failure> {
        self.worker.requests = self.worker.requests.next();
        // An answer that comes later than this is of no use.
        let limit = self.worker.lease.max(Duration::from_secs(1));
        let began = self.clock.now().at;
        let unheld = match request {
            LeaseRequest::Hold { .. } => self.unheld(began),
            LeaseRequest::Release => Vec::new(),
        };
        let (stream, of) = (self.stream.as_ref(), (self.tables.as_slice(), &self.worker));
        let work = async |mut client: &Client| {
            let streamed = match stream {
                Some(stream) => kept_from_workers(&mut client, stream, &unheld).await?,
                None => Vec::new(),
            };
            answer(client, of, request, &streamed).await
        };
        let leases = self.connection.ask(limit, work).await?;
        for (table, leases) in self.tables.iter().zip(&leases.tables) {
            if !leases.held.is_empty() {
                self.held.insert(table.clone(), began);
            }
        }
        Ok(leases)
    }

    /// The tables of which this worker has held nothing for a lease, so that a slot may stream
    /// them: a stream that is made meanwhile finds leases of the others.
    fn unheld(&self, now: Moment) -> Vec<TableName> {
        let is_held = |table: &&TableName| {
            let held = self.held.get(*table);
            held.is_some_and(|at| now.since(*at) < self.worker.lease)
        };
        self.tables.iter().filter(|table| !is_held(table)).cloned().collect()
    }
}

fn kept(streamed: &[(TableName, Failure)], table: &TableName) -> Option<Failure> {
    streamed.iter().find(|(name, _)| name == table).map(|(_, failure)| failure.clone())
}

async fn answer(
    client: &Client,
    (tables, worker): (&[TableName], &Worker),
    request: &LeaseRequest,
    streamed: &[(TableName, Failure)],
) -> Result<Leases, Failure> {
    let oids = oids(client, tables).await?;
    let mut of_tables = Vec::with_capacity(tables.len());
    let mut handed = Vec::new();
    for (place, table) in tables.iter().enumerate() {
        let granted = match (request, oids.get(table)) {
            (LeaseRequest::Hold { wanted }, Some(oid)) => {
                let wanted = wanted.get(place).copied().unwrap_or(0).min(SHARDS);
                match kept(streamed, table) {
                    Some(failure) => TableAnswer::Handed(TableLeases::nothing(0), failure),
                    None => hold(client, (table, *oid), worker, wanted).await?,
                }
            }
            (LeaseRequest::Release, Some(oid)) => {
                TableAnswer::Of(release(client, *oid, worker).await?)
            }
            // Nobody can hold a shard of what is gone. Whoever describes the table says that it
            // is; the others are polled meanwhile.
            (LeaseRequest::Hold { .. } | LeaseRequest::Release, None) => {
                TableAnswer::Of(TableLeases::nothing(0))
            }
        };
        of_tables.push(match granted {
            TableAnswer::Of(leases) => leases,
            TableAnswer::Handed(leases, failure) => {
                handed.push(failure);
                leases
            }
        });
    }
    // Others are polled on, or wait until this worker has given them back, which it does by an
    // answer alone: the survey says of each which it is (`holders`).
    let is_all = handed.len() == tables.len() && of_tables.iter().all(|it| it.held.is_empty());
    match handed.pop() {
        Some(failure) if is_all => Err(failure),
        Some(_) | None => Ok(Leases { tables: of_tables, request: worker.requests }),
    }
}

/// What a worker is granted of one table.
enum TableAnswer {
    Of(TableLeases),
    /// The table is streamed, or polled by another pipeline (P043).
    Handed(TableLeases, Failure),
}

async fn hold(
    client: &Client,
    (table, oid): (&TableName, u32),
    worker: &Worker,
    wanted: u32,
) -> Result<TableAnswer, Failure> {
    let answers = run(client, &hold_sql(oid, worker, wanted)).await.map_err(of_lease)?;
    let answer = |place: usize| answers.get(BEGINS + place);
    let other = answer(1).and_then(|answer| answer.rows.first()?.try_get(0).ok()?);
    let other = other.map(|other| polled_by_other(table, other));
    let closed = answer(0).and_then(|answer| answer.rows.first());
    let closed = closed.map(|row| switch::closed(row, table, worker.id));
    let rows = answer(5).into_iter().flat_map(|answer| &answer.rows);
    let shard = |row: &tokio_postgres::SimpleQueryRow| {
        let shard = row.try_get(0).ok().flatten()?;
        shard.parse::<u32>().ok()
    };
    let held: ShardSet = rows.filter_map(shard).collect();
    let (workers, next_end) = (workers(answer(6))?, next_end(answer(6)));
    let relation = Some(Oid::from_u32(oid));
    let none = TableLeases { relation, held, workers, share: Share::None, next_end };
    match closed {
        None => Ok(match other {
            Some(failure) if held.is_empty() => TableAnswer::Handed(none, failure),
            // Nothing of it may be in flight when it is given back.
            Some(_) => TableAnswer::Of(none),
            None => TableAnswer::Of(TableLeases { share: Share::Equal, ..none }),
        }),
        // Nobody else may take what this worker does not.
        Some(Ok(switch::Closed::ByThisWorker)) => {
            Ok(TableAnswer::Of(TableLeases { workers: 1, share: Share::Equal, ..none }))
        }
        Some(Ok(switch::Closed::ByAnother)) => Ok(TableAnswer::Of(none)),
        Some(Err(failure)) if failure.code == Code::Switched => {
            Ok(TableAnswer::Handed(none, failure))
        }
        Some(Err(failure)) => Err(failure),
    }
}

async fn release(client: &Client, oid: u32, worker: &Worker) -> Result<TableLeases, Failure> {
    let answers = run(client, &release_sql(oid, worker)).await.map_err(of_lease)?;
    Ok(TableLeases::nothing(workers(answers.get(BEGINS + 2))?))
}

fn workers(answer: Option<&Answer>) -> Result<u32, Failure> {
    let row = answer.and_then(|answer| answer.rows.first());
    let count = row.and_then(|row| row.try_get(0).ok().flatten());
    let count = count.and_then(|count| count.parse().ok());
    count.ok_or_else(|| malformed("does not count the workers"))
}

/// When the first lease of another worker ends.
fn next_end(answer: Option<&Answer>) -> Option<Duration> {
    let seconds = answer?.rows.first()?.try_get(1).ok()??;
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

fn count_workers(oid: u32, worker: &Worker) -> String {
    format!(
        "select count(*), extract(epoch from min(seen_until) filter (where holder <> '{}') - now()) \
         from outbox_router.worker where relation = {oid} and seen_until > now() and name = {}",
        worker.id,
        literal(&worker.name)
    )
}

/// The name of a pipeline whose workers hold keys of the same rows, so that this worker may have
/// none: those of the table, where the name is another one, since rows that its `where` leaves out
/// would be pending for ever where it holds their keys; and, under any name, those of a partition
/// or a parent. Two that began at the same time both hold some, and the one whose name comes first
/// goes on.
fn other_sql(oid: u32, worker: &Worker) -> String {
    let (id, name, is_other) =
        (worker.id, literal(&worker.name), is_of_other("w.name", &worker.name));
    let has_its_rows = is_among("l.relation", &oid.to_string());
    format!(
        "select min(w.name) from (select distinct relation, holder from outbox_router.lease \
           where expires_at > now()) l \
         join outbox_router.worker w on w.relation = l.relation and w.holder = l.holder \
         where case l.relation when {oid} then {is_other} else {has_its_rows} end \
           and ((w.name, l.relation) < ({name}, {oid}) \
             or not exists (select from outbox_router.lease o \
               where o.relation = {oid} and o.holder = '{id}' and o.expires_at > now()))"
    )
}

/// Notes this worker, and that it makes this request; the row is locked until the end. `until` says
/// for how long it counts as a worker.
fn note_sql(oid: u32, worker: &Worker, until: &str) -> String {
    let Worker { id, name, requests: RequestNumber(request), .. } = worker;
    let name = literal(name);
    format!(
        "insert into outbox_router.worker as w (relation, holder, name, seen_until, request) \
           values ({oid}, '{id}', {name}, {until}, {request}) on conflict (relation, holder) \
           do update set name = excluded.name, \
             seen_until = case when excluded.seen_until = {NEVER_HELD} \
               then least(w.seen_until, now()) else excluded.seen_until end, \
             request = excluded.request where w.request < excluded.request"
    )
}

/// Notes the partitions of a table, once each: rows of one that is detached are pending still,
/// unless the table is handed over. No partition is locked for it, by which a lease would wait for
/// those who alter the table.
fn note_partitions_sql(oid: u32, worker: &Worker, closed: &str) -> String {
    let name = literal(&worker.name);
    format!(
        "with recursive part (oid) as ( \
           select inhrelid from pg_inherits where inhparent = {oid} \
           union all select i.inhrelid from part join pg_inherits i on i.inhparent = part.oid) \
         insert into outbox_router.worker (relation, holder, name, seen_until, request) \
           select c.oid, '{PARTITION}', {name}, now(), 0 \
           from part join pg_class c on c.oid = part.oid and c.relispartition \
           where not ({closed}) and not exists (select from outbox_router.worker w \
             where w.relation = c.oid and w.holder = '{PARTITION}' and w.name = {name}) \
           on conflict (relation, holder) do update set name = excluded.name"
    )
}

/// The condition that this worker has made no later request.
fn is_latest(oid: u32, worker: &Worker) -> String {
    let Worker { id, requests: RequestNumber(request), .. } = worker;
    format!(
        "exists (select from outbox_router.worker where relation = {oid} and holder = '{id}' \
           and request = {request})"
    )
}

/// Gives back all shards. The worker stays noted for a while, and with it the number of the
/// request, which an earlier one must find.
fn release_sql(oid: u32, worker: &Worker) -> String {
    format!(
        "{}{}; \
         update outbox_router.lease set holder = null, expires_at = null \
           where relation = {oid} and holder = '{}' and {}; \
         {}{COMMIT}",
        begin(Access::ReadWrite, Ways::Any),
        note_sql(oid, worker, "now()"),
        worker.id,
        is_latest(oid, worker),
        count_workers(oid, worker)
    )
}

/// Makes the shards of a table that has none. They stay, and say that the table was polled last
/// where no switch has handed it over since.
pub(crate) fn make_shards(oid: u32) -> String {
    let last = SHARDS - 1;
    format!(
        "insert into outbox_router.lease (relation, shard) \
         select {oid}, s from generate_series(0, {last}) s \
         where (select count(*) from outbox_router.lease where relation = {oid}) < {SHARDS} \
         on conflict do nothing"
    )
}

/// Makes the shards of a table that is new, notes this worker, forgets those that are long gone,
/// and renews, takes and gives back shards.
///
/// `mine` and `free` lock what they find and leave out what another worker has locked, so that
/// nobody waits, and nobody gets what another is about to get. A lease of one's own that has ended
/// is renewed: nobody else has had it in between. One that is taken bears the number of the
/// request, by which marks of rows that were read before are refused (`fence`).
///
/// Nothing is renewed, taken or given back after a later request of this worker.
///
/// While the table is handed over, nobody takes anything but who hands it over. Reading that comes
/// first, and locks the table that says so until the end: so whoever says it waits for everybody
/// who has not read it.
fn hold_sql(oid: u32, worker: &Worker, wanted: u32) -> String {
    let Worker { id, name, lease, requests: RequestNumber(request) } = worker;
    let is_other = is_of_other("name", name);
    let until = format!("now() + {}", interval(*lease));
    // Who wants nothing shares the table with nobody.
    let seen_until = if wanted == 0 { "now()" } else { until.as_str() };
    let state = switch::state_sql(oid);
    let (closed, is_latest) = (switch::closed_sql(oid, *id), is_latest(oid, worker));
    let other = other_sql(oid, worker);
    // A refused worker counts for no share; it gives back its shards once they are drained.
    let seen_until = format!("case when ({other}) is null then {seen_until} else {NEVER_HELD} end");
    format!(
        "{}{state}; {other}; {}; {}; \
         delete from outbox_router.worker where (relation, holder) in ( \
           select relation, holder from outbox_router.worker w \
           where (relation = {oid} and (not ({is_other}) or seen_until = {NEVER_HELD}) \
               and seen_until < now() - {}) \
             or (holder = '{PARTITION}' \
               and not exists (select from pg_class c where c.oid = w.relation)) \
           for update skip locked); \
         with mine as materialized ( \
             select shard, row_number() over () as n from ( \
               select shard from outbox_router.lease where relation = {oid} and holder = '{id}' \
                 and {is_latest} order by shard for update skip locked) m), \
           free as materialized ( \
             select shard from outbox_router.lease \
             where relation = {oid} and holder is distinct from '{id}' and {is_latest} \
               and (holder is null or ((expires_at is null or expires_at < now()) and {})) \
             order by shard limit case when {closed} or ({other}) is not null then 0 \
               else greatest({wanted} - (select count(*) from mine), 0) end \
             for update skip locked), \
           given as (update outbox_router.lease l set holder = null, expires_at = null \
             from mine where l.relation = {oid} and l.shard = mine.shard and mine.n > {wanted}) \
         update outbox_router.lease l set holder = '{id}', expires_at = {until}, \
             request = coalesce(k.taken_by, l.request) \
           from (select shard, null::bigint as taken_by from mine where n <= {wanted} \
             union all select shard, {request} from free) k \
           where l.relation = {oid} and l.shard = k.shard returning l.shard; \
         {}; {}{COMMIT}",
        begin(Access::ReadWrite, Ways::Any),
        make_shards(oid),
        note_sql(oid, worker, &seen_until),
        interval(REMEMBERED),
        is_still(oid, "holder"),
        count_workers(oid, worker),
        note_partitions_sql(oid, worker, &format!("{closed} or ({other}) is not null"))
    )
}
