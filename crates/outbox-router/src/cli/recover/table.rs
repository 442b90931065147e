//! A table whose rows are compared with the topics.

use relay::{Case, Failure};
use tokio_postgres::{Client, types::Type};

use super::{
    args::{RecoverArgs, RecoveredRows, WholeTable},
    since::Start,
};
use crate::{
    cli::{
        TaskError,
        explain_row::check_privilege,
        republication::{OutboxRows, TimeIndex},
    },
    config::Config,
    held,
    postgres::{quote_identifier, quote_literal, quote_table},
    republish::selection::{Columns, OrderColumn, Query, time_literal},
};

/// See the module's header.
pub(super) struct Compared {
    pub(super) rows: OutboxRows,
    /// Its number, by which ids of its topics are told from those of other tables.
    pub(super) number: i16,
    /// The rows since then; the others are compared, too, where there is no such column.
    time: Option<OrderColumn>,
}

impl Compared {
    /// Checks that the rows can be found, and their ids compared.
    ///
    /// # Errors
    /// What the table lacks, and what helps.
    pub(super) async fn check(
        client: &Client,
        args: &RecoverArgs,
        rows: OutboxRows,
        number: i16,
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
        let time = match args.whole_table {
            WholeTable::Read => rows.columns.time.clone().filter(OrderColumn::is_time),
            WholeTable::Refuse => Some(TimeIndex::of(client, &rows).await?.required(&rows)?),
        };
        Ok(Self { rows, number, time })
    }

    /// Whether an id of this table is the id of nothing else, whoever writes to its topics.
    pub(super) fn has_unique_ids(&self) -> bool {
        self.rows.columns.id.as_ref().is_ok_and(|id| id.sql_type.is(&[Type::UUID]))
    }

    /// Whether the table is compared as a whole.
    pub(super) fn is_whole(&self) -> bool {
        self.time.is_none()
    }

    /// The rows since then, in the order in which missing ones are sent.
    ///
    /// # Errors
    /// A column of `recover.order_by` is none of the table.
    pub(super) fn since(&self, config: &Config, from: &Start) -> Result<Query, Failure> {
        let mut query = self.rows.all();
        if let Some(time) = &self.time {
            let column = query.column(time);
            // Of a row without a time nothing is known.
            query.and(format!(
                "({column} >= {} or {column} is null)",
                time_literal(time, &from.rows)
            ));
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

    /// The rows that no topic has, among these.
    pub(super) fn missing(&self, rows: &Query, seen: &str) -> Query {
        let mut query = rows.clone();
        if let Ok(id) = &self.rows.columns.id {
            // What an output function writes, as in a record: a cast would cut blanks.
            let condition = format!(
                "not exists (select from {seen} s where s.number = {} and s.id = concat({}))",
                self.number,
                query.column(id)
            );
            query.and(condition);
        }
        query
    }

    /// Leaves out the rows that are held or were dropped, and those that a person has skipped since
    /// then. Returns `None` where nothing was ever held.
    pub(super) async fn without_decided(
        &self,
        client: &Client,
        config: &Config,
        (rows, from): (&Query, &Start),
    ) -> Result<Option<Query>, TaskError> {
        let (Ok(id), true) = (&self.rows.columns.id, is_held_readable(client).await?) else {
            return Ok(None);
        };
        let mut query = rows.clone();
        let id = query.column(id);
        let (pipeline, slot) =
            (quote_literal(&config.name), quote_literal(config.postgres.slot.as_str()));
        let table = quote_literal(&self.rows.row.table.to_string());
        query.and(format!(
            "not exists (select from outbox_router.held h where h.pipeline = {pipeline} \
               and h.slot = {slot} and h.table_name = {table} and h.state <> 'delivered' \
               and h.event_id = concat({id}))"
        ));
        query.and(format!(
            "not exists (select from outbox_router.decision d where d.pipeline = {pipeline} \
               and d.slot = {slot} and d.action = 'skip' and d.event_id = concat({id}) \
               and d.decided_at >= {}::timestamptz)",
            quote_literal(&from.rows)
        ));
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
        seen: &str,
    ) -> Result<u64, TaskError> {
        let Ok(id) = &self.rows.columns.id else { return Ok(0) };
        let mut of_id = rows.clone();
        of_id.and(format!("concat({}) = s.id", of_id.column(id)));
        let query = format!(
            "select count(distinct s.id) from {seen} s where s.number = {} and s.at >= {} and not exists ({})",
            self.number,
            from.begin_ms,
            of_id.any()
        );
        Ok(client.query_one(&query, &[]).await?.try_get::<_, i64>(0)?.unsigned_abs())
    }

    fn lacks(&self, column: &str) -> Failure {
        let what = format!("{} has no column {column} (recover.order_by)", self.rows.row.table);
        Failure::of(Case::RecoverOrder, what)
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
