//! A table whose rows are compared with the topics.

use relay::{
    Case, Code, Failure, Lsn,
    delivered::compared::{HasTime, Outside, Released, Rows, Scope, TimeColumn},
    source::{Gap, History},
};
use tokio_postgres::{Client, types::Type};

use super::{
    args::{IdTrust, RecoverArgs, RecoveredRows, WholeTable},
    seen::SEEN,
    since::{self, Start},
};
use crate::{
    cli::{
        TaskError,
        explain_row::check_privilege,
        republication::{OutboxRows, TimeIndex},
        skip,
    },
    compare::IdHeaders,
    config::Config,
    held,
    postgres::{quote_identifier, quote_literal, quote_table},
    republish::{
        left_out,
        selection::{Columns, OrderColumn, Query},
    },
    retention::{NEXT, precedes_sql},
};

/// Whether an index says that no two rows of a table have one id.
const IS_UNIQUE: &str = "\
    select exists (select from pg_index i join pg_attribute a on a.attrelid = i.indrelid \
        and a.attnum = i.indkey[0] \
      where i.indrelid = $1 and i.indisunique and i.indisvalid and i.indpred is null \
        and i.indexprs is null and i.indnkeyatts = 1 and a.attname = $2)";

/// See the module's header.
pub(super) struct ComparedTable {
    pub(super) rows: OutboxRows,
    /// Its number, by which ids of its topics are told from those of other tables.
    pub(super) number: i16,
    /// Says when a row was made.
    time: Option<OrderColumn>,
    /// Which rows are compared.
    pub(super) scope: Scope,
    /// The condition that a row is that of a released event, or was sent after it had been left
    /// out, where those are compared.
    released: Option<String>,
    ids: Ids,
    pub(super) decided: DecidedRows,
}

/// What becomes of rows whose ids are those of events that are held, or were dropped or skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecidedRows {
    /// They are left out.
    LeftOut,
    /// They are sent: no index says that the event was of this row, and not of another one.
    Sent,
}

/// What the ids of a table tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// A row from all others, whoever writes to its topics.
    Unique,
    /// Rows of the table may have one.
    NotIndexed,
    /// They are no uuid, so other tables, other producers or former rows may have one.
    NoUuid,
    /// An index is of one table alone, and another outbox may write to the same topic.
    Shared,
}

impl ComparedTable {
    /// Checks that the rows can be found, and their ids compared.
    ///
    /// # Errors
    /// What the table lacks, and what helps.
    pub(super) async fn check(
        client: &Client,
        (args, config): (&RecoverArgs, &Config),
        (rows, number): (OutboxRows, i16),
        (from, gaps): (&Start, &[Gap]),
    ) -> Result<Self, TaskError> {
        let table = &rows.row.table;
        check_privilege(client, &rows.row).await?;
        if let (Err(template), RecoveredRows::Missing) = (&rows.columns.id, args.selected) {
            let what = format!(
                "the id of {table} is the text {template}, and no column that topics could be \
                 compared by"
            );
            return Err(Failure::of(Case::RecoverId, what).into());
        }
        let time = rows.columns.time.clone().filter(OrderColumn::is_time);
        if args.whole_table == WholeTable::Refuse && (time.is_none() || from.first.is_none()) {
            // By transactions the table is read as a whole in any case.
            TimeIndex::of(client, &rows).await?.required(&rows)?;
        }
        let has_time = if time.is_some() { HasTime::Yes } else { HasTime::No };
        let Some(scope) = Scope::of((gaps, from.first), from.made.as_ref(), has_time) else {
            return Err(since::unknown(gaps, table).into());
        };
        let (ids, decided) = ids(client, &rows, args.ids).await?;
        let released = match scope.released() {
            Released::Compared => is_released(client, config, &rows).await?,
            Released::AsOthers => None,
        };
        Ok(Self { rows, number, time, scope, released, ids, decided })
    }

    /// Takes ids for none that tell rows apart if one of these rows has a uuid that is neither
    /// random nor of a time (versions 1, 4, 6 and 7 of RFC 9562): it may be made from the row's
    /// content.
    ///
    /// # Errors
    /// The connection breaks.
    pub(super) async fn doubt_made_ids(
        &mut self,
        client: &Client,
        mut rows: Query,
    ) -> Result<(), TaskError> {
        let (Ok(id), false) = (&self.rows.columns.id, self.ids == Ids::NoUuid) else {
            return Ok(());
        };
        let version = format!("get_byte(uuid_send({}), 6) >> 4", rows.column(id));
        rows.and(format!("{version} not in (1, 4, 6, 7)"));
        let exists = format!("select exists ({})", rows.any());
        if client.query_one(&exists, &[]).await?.try_get(0)? {
            self.ids = Ids::NoUuid;
        }
        Ok(())
    }

    /// What its ids tell apart.
    pub(super) const fn ids(&self) -> Ids {
        self.ids
    }

    /// The header that has the ids of its events.
    pub(super) fn id_headers(&self, config: &Config) -> IdHeaders {
        let mut tables = config.tables().filter(|table| table.name == self.rows.row.table);
        IdHeaders::new(tables.next().map(|table| table.headers.id.as_str()))
    }

    /// Whether every record of its topics is read: no row says how old its record may be.
    pub(super) fn is_whole(&self) -> bool {
        self.time.is_none()
    }

    /// The rows of the scope, in the order in which missing ones are sent.
    ///
    /// # Errors
    /// A column of `recover.order_by` is none of the table.
    pub(super) fn in_scope(&self, config: &Config) -> Result<Query, Failure> {
        let mut query = self.rows.all();
        let since = |query: &Query, since: &str| {
            self.time.as_ref().map(|time| made_since(query, time, since))
        };
        let condition = match self.scope.rows() {
            Rows::All => None,
            Rows::Named { since: named } => since(&query, named),
            Rows::Transactions { first, or_since } => {
                let xmin = format!("{}.xmin", quote_table(&self.rows.row.table));
                let later = format!("not {}", precedes_sql(first.xid(), &xmin, NEXT));
                match or_since.as_ref().and_then(|named| since(&query, named)) {
                    Some(made) => Some(format!("{later} or {made}")),
                    None => Some(later),
                }
            }
        };
        if let Some(condition) = condition {
            query.and(match &self.released {
                Some(released) => format!("{condition} or {released}"),
                None => condition,
            });
        }
        let order = &config.recover.order_by;
        if !order.is_empty() {
            query.order = order
                .iter()
                .map(|name| Columns::named(&self.rows.row, name).ok_or_else(|| self.lacks(name)))
                .collect::<Result<_, _>>()?;
        }
        Ok(query)
    }

    /// The time from which on the rows of a query say that they were made, in milliseconds since
    /// 1970, in the zone in which that is earliest; `None` where none says it.
    pub(super) async fn oldest_ms(
        &self,
        client: &Client,
        rows: &Query,
    ) -> Result<Option<i64>, TaskError> {
        let Some(time) = &self.time else { return Ok(None) };
        let column = rows.column(time);
        let oldest = format!(
            "((extract(epoch from min({column}) filter (where isfinite({column}))) - {}) * 1000)::int8",
            kind_of(time).looks_older_by()
        );
        Ok(client.query_one(&rows.aggregate(&oldest), &[]).await?.try_get(0)?)
    }

    /// How many rows of the table are not in the scope, where their times alone say that.
    pub(super) async fn outside(&self, client: &Client, rows: u64) -> Result<u64, TaskError> {
        match self.scope.outside() {
            Outside::Delivered => return Ok(0),
            Outside::Unproved => {}
        }
        Ok(count_of(client, &self.rows.all()).await?.saturating_sub(rows))
    }

    /// The rows among these whose own topic has no record of theirs.
    pub(super) fn missing(&self, rows: &Query) -> Query {
        let mut query = rows.clone();
        if let Ok(id) = &self.rows.columns.id {
            // What an output function writes, as in a record: a cast would cut blanks.
            let condition = format!(
                "not exists (select from {SEEN} s where s.number = {} and s.id = concat({}))",
                self.number,
                query.column(id)
            );
            query.and(condition);
        }
        query
    }

    /// The rows among these but for those with the ids of events that were held, dropped or skipped
    /// in the gaps. `None` where nothing was ever held. A skip that names no table, or not this
    /// cluster, as those of earlier versions, may be that of another row, and leaves nothing out.
    pub(super) async fn without_decided(
        &self,
        client: &Client,
        config: &Config,
        (rows, gaps): (&Query, &[Gap]),
        here: &History,
    ) -> Result<Option<Query>, TaskError> {
        let (Ok(id), true) = (&self.rows.columns.id, is_held_readable(client).await?) else {
            return Ok(None);
        };
        let mut query = rows.clone();
        let id = query.column(id);
        let of_table = of_table(config, &self.rows);
        let begin = decided_since(gaps);
        query.and(format!(
            "not exists (select from outbox_router.held h where {of_table} \
               and h.state <> 'delivered' \
               and h.commit_lsn >= '{begin}' and h.event_id = concat({id}))"
        ));
        if skip::names_rows(client).await? {
            let here = quote_literal(&here.system_id);
            query.and(format!(
                "not exists (select from outbox_router.decision d where {of_table} \
                   and d.action = 'skip' and d.system_id = {here} \
                   and d.commit_lsn >= '{begin}' and d.event_id = concat({id}))"
            ));
        }
        Ok(Some(query))
    }

    /// When the oldest row was made.
    pub(super) async fn oldest(&self, client: &Client) -> Result<Option<String>, TaskError> {
        let Some(time) = &self.time else { return Ok(None) };
        let query = format!(
            "select min({})::timestamptz::text from {}",
            quote_identifier(&time.name),
            quote_table(&self.rows.row.table)
        );
        Ok(client.query_one(&query, &[]).await?.try_get(0)?)
    }

    /// How many ids of records have no row any more. Counted are records since the beginning of
    /// the gaps: the rows of earlier ones may have been made before the rows that are compared.
    pub(super) async fn without_row(
        &self,
        client: &Client,
        (rows, from): (&Query, &Start),
    ) -> Result<u64, TaskError> {
        let (Ok(id), Some(begin)) = (&self.rows.columns.id, &from.begin) else { return Ok(0) };
        let mut of_id = rows.clone();
        of_id.and(format!("concat({}) = s.id", of_id.column(id)));
        let query = format!(
            "select count(distinct s.id) from {SEEN} s where s.number = {} and s.at >= {} and not exists ({})",
            self.number,
            begin.ms,
            of_id.any()
        );
        Ok(client.query_one(&query, &[]).await?.try_get::<_, i64>(0)?.unsigned_abs())
    }

    fn lacks(&self, column: &str) -> Failure {
        let what = format!("{} has no column {column} (recover.order_by)", self.rows.row.table);
        Failure::of(Case::RecoverOrder, what)
    }
}

/// How many rows a query has.
pub(super) async fn count_of(client: &Client, query: &Query) -> Result<u64, TaskError> {
    let row = client.query_one(&query.count(), &[]).await?;
    Ok(row.try_get::<_, i64>(0)?.unsigned_abs())
}

/// Whether ids of rows that are lost may have been given to others: a server that was restored
/// takes numbers again, and content that is written again has the id that is made from it.
pub(super) fn may_be_given_again(gaps: &[Gap]) -> bool {
    gaps.iter().any(|gap| gap.failure.code == Code::HistoryChanged)
}

/// What the ids of a table tell apart. A type of ids alone says nothing: an application may give
/// one uuid to two rows. That no other row has an id now says nothing either: rows are deleted.
async fn ids(
    client: &Client,
    rows: &OutboxRows,
    trust: IdTrust,
) -> Result<(Ids, DecidedRows), TaskError> {
    let Ok(id) = &rows.columns.id else { return Ok((Ids::NoUuid, DecidedRows::Sent)) };
    let is_unique: bool =
        client.query_one(IS_UNIQUE, &[&rows.row.oid, &id.name]).await?.try_get(0)?;
    let ids = match (id.sql_type.is(&[Type::UUID]), is_unique) {
        (false, _) => Ids::NoUuid,
        (true, true) => Ids::Unique,
        (true, false) => Ids::NotIndexed,
    };
    let is_told = is_unique || trust == IdTrust::Unique;
    Ok((ids, if is_told { DecidedRows::LeftOut } else { DecidedRows::Sent }))
}

/// The condition that a row has the id of an event that was delivered out of the table of held
/// events, or of a row that was sent after it had been left out; where no column has the ids, each
/// row may have one. `None`: no row can.
async fn is_released(
    client: &Client,
    config: &Config,
    rows: &OutboxRows,
) -> Result<Option<String>, TaskError> {
    let mut ids = Vec::new();
    if is_held_readable(client).await? {
        ids.push(format!(
            "select h.event_id from outbox_router.held h where {} and h.state = 'delivered'",
            of_table_or_former_name(config, rows)
        ));
    }
    if left_out::exists(client).await? {
        ids.push(left_out::sent_ids(&config.name, rows.row.oid));
    }
    if ids.is_empty() {
        return Ok(None);
    }
    let ids = ids.join(" union all ");
    Ok(Some(match &rows.columns.id {
        Ok(id) => format!(
            "(concat({}) in (select r.id from ({ids}) r (id) where r.id is not null) \
               or exists (select from ({ids}) r (id) where r.id is null))",
            rows.all().column(id)
        ),
        Err(_) => format!("exists ({ids})"),
    }))
}

/// The first position at risk in any of these gaps: events from there on are of the gaps. Where a
/// gap has no beginning, as on another cluster, every event is from before it.
fn decided_since(gaps: &[Gap]) -> Lsn {
    let begins = gaps.iter().map(|gap| gap.interval.from.as_ref().map(|from| from.lsn));
    let known: Option<Vec<Lsn>> = begins.collect();
    let first = known.and_then(|begins| begins.into_iter().min());
    first.unwrap_or(Lsn::from_u64(u64::MAX))
}

/// The condition that an event, or a decision about one, is of this pipeline and of this table.
fn of_table(config: &Config, rows: &OutboxRows) -> String {
    let table = quote_literal(&rows.row.table.to_string());
    format!("{} and table_name = {table}", of_pipeline(config))
}

/// The condition that an event is of this pipeline, and may be of this table: of none that another
/// table of the configuration has the name of. The table may have had that name.
pub(super) fn of_table_or_former_name(config: &Config, rows: &OutboxRows) -> String {
    let configured = config.tables().map(|table| &table.name);
    of_pipeline(config) + &held::not_of_others(&rows.row.table, configured)
}

fn of_pipeline(config: &Config) -> String {
    format!(
        "(pipeline, slot) = ({}, {})",
        quote_literal(&config.name),
        quote_literal(config.postgres.slot.as_str())
    )
}

/// The rows that say that they were made since a time, or do not say when.
fn made_since(query: &Query, time: &OrderColumn, since: &str) -> String {
    let column = query.column(time);
    let since = format!("{}::timestamptz", quote_literal(since));
    let kind = kind_of(time);
    // The zones of the sessions that wrote rows are not known, so it is the earliest.
    let earliest = format!("({since} - interval '{} s') at time zone 'UTC'", kind.looks_older_by());
    let since = match kind {
        TimeColumn::Zoned => since,
        TimeColumn::Unzoned => format!("({earliest})"),
        TimeColumn::Day => format!("({earliest})::date"),
    };
    format!("({column} >= {since} or {column} is null)")
}

fn kind_of(time: &OrderColumn) -> TimeColumn {
    if time.sql_type.is(&[Type::TIMESTAMPTZ]) {
        TimeColumn::Zoned
    } else if time.sql_type.is(&[Type::DATE]) {
        TimeColumn::Day
    } else {
        TimeColumn::Unzoned
    }
}

/// Whether anything can be held. Of rows that are, nothing may be sent, so a role that may not see
/// them is refused.
///
/// # Errors
/// The role may not see them.
pub(super) async fn is_held_readable(client: &Client) -> Result<bool, TaskError> {
    if !held::exists(client, "held").await? {
        return Ok(false);
    }
    if held::is_table_readable(client).await? {
        return Ok(true);
    }
    let what = "the role may not see which events are held or skipped: grant usage on schema \
                outbox_router, and select on outbox_router.held and outbox_router.decision, to it";
    Err(Failure::of(Case::CommandDenied, what).into())
}

#[cfg(test)]
mod tests {
    use relay::source::{Interval, Mark};

    use super::*;

    fn gap(from: Option<u64>) -> Gap {
        let mark = |lsn| Mark { lsn: Lsn::from_u64(lsn), at: None };
        let interval = Interval { from: from.map(mark), to: mark(0) };
        Gap::new(Failure::new(Code::HistoryChanged, "gone"), interval)
    }

    #[test]
    fn a_gap_without_a_beginning_has_no_event_that_was_decided_about() {
        assert_eq!(decided_since(&[gap(Some(7)), gap(Some(5))]), Lsn::from_u64(5));
        for unknown in [&[gap(None)][..], &[gap(Some(5)), gap(None)]] {
            assert_eq!(decided_since(unknown), Lsn::from_u64(u64::MAX));
        }
    }
}
