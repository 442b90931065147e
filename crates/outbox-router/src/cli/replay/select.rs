//! Which rows there are to send, and how many.

use std::slice::from_ref;

use relay::{Case, Failure};

use super::{
    chosen::{Chosen, choose, refused},
    ids,
    report::{Plan, WhyHeld},
    work::{Early, Replay, Selection},
};
use crate::{
    cli::{
        TaskError, polled_tables,
        republication::{BEGIN, HeldEvents, OutboxRows},
    },
    postgres::{quote_identifier, quote_table},
    republish::selection::Columns,
};

impl Replay<'_> {
    /// Finds out which rows there are, and counts them.
    pub(super) async fn select(&self) -> Result<Result<Selection, Early>, TaskError> {
        let Self { args, config, reader, table, .. } = *self;
        let rows = OutboxRows::describe(reader, config, table).await?;
        let published = polled_tables::published(reader, config, table).await?;
        let why_held = if published.is_none() {
            WhyHeld::Held
        } else if polled_tables::unpolled_of(reader, config, from_ref(table)).await?.is_empty() {
            WhyHeld::NotPublished
        } else {
            WhyHeld::NotPolled
        };
        let columns = &rows.columns;
        let to = match &args.to_topic {
            Some(topic) => format!("topic {topic}"),
            None => format!("the topics of the rows, {}", rows.topic),
        };
        let named = match ids::named(reader, config, args, &rows).await? {
            Ok(named) => named,
            Err(unfit) => return Ok(Err(unfit.into())),
        };
        reader.batch_execute(BEGIN).await?;
        let mut chosen = match choose(reader, args, &rows, named.as_ref()).await? {
            Ok(chosen) => chosen,
            Err(unfit) => return Ok(Err(unfit.into())),
        };
        let unknown = ids::unknown(reader, args, &rows, &chosen.query, named.as_ref()).await?;
        let unknown_ids = match unknown {
            Ok(unknown_ids) => unknown_ids,
            Err(unfit) => return Ok(Err(unfit.into())),
        };
        let counted = self.count(&mut chosen, columns, published.as_deref()).await?;
        let (count, held) = match counted {
            Ok(counted) => counted,
            Err(early) => return Ok(Err(early)),
        };
        reader.batch_execute("rollback").await?;
        let order = chosen.query.order.iter().map(|column| column.name.clone()).collect();
        let conditions = chosen.shown.clone();
        let table = table.to_string();
        let plan = Plan {
            table,
            conditions,
            order,
            to,
            rows: count,
            held,
            why_held,
            unknown_ids,
            resumed: None,
        };
        Ok(Ok(Selection { rows, chosen, plan }))
    }

    /// How many rows there are to send, and how many are left out from here on: where rows are
    /// polled, those that are not marked as published, and else those that are held.
    pub(super) async fn count(
        &self,
        chosen: &mut Chosen,
        columns: &Columns,
        published: Option<&str>,
    ) -> Result<Result<(u64, u64), Early>, TaskError> {
        let all = match self.count_of(chosen).await? {
            Ok(all) => all,
            Err(early) => return Ok(Err(early)),
        };
        // Another topic has no order that the held events belong to.
        if self.args.to_topic.is_some() {
            return Ok(Ok((all, 0)));
        }
        if let Some(published) = published {
            chosen.query.and(published.to_owned());
            return Ok(self.count_of(chosen).await?.map(|rows| (rows, all.saturating_sub(rows))));
        }
        let Self { config, table, .. } = *self;
        let (pipeline, slot) = (config.name.as_str(), config.postgres.slot.as_str());
        let held = HeldEvents { pipeline, slot, table };
        if held.count(self.reader).await? == 0 {
            return Ok(Ok((all, 0)));
        }
        let Ok(id) = &columns.id else {
            let message = "events of this table are held, and no column is their id, so they \
                 cannot be told from others; decide about them first (outbox-router dead-letters \
                 list), or use --to-topic";
            return Ok(Err(Early::Unfit(message.to_owned())));
        };
        chosen.query.and(held.none_of(&chosen.query, id));
        Ok(self.count_of(chosen).await?.map(|rows| (rows, all.saturating_sub(rows))))
    }

    pub(super) async fn count_of(&self, chosen: &Chosen) -> Result<Result<u64, Early>, TaskError> {
        match self.reader.query_one(&chosen.query.count(), &[]).await {
            Ok(row) => Ok(Ok(row.try_get::<_, i64>(0)?.unsigned_abs())),
            Err(error) => {
                let what = if self.args.condition.is_some() { "--where" } else { "the rows" };
                refused(error, what).map(|unfit| Err(unfit.into()))
            }
        }
    }

    /// The role may not read the rows: the message names the grant, and the hint `--admin-url`.
    pub(super) fn denied(&self, error: TaskError) -> TaskError {
        match error {
            TaskError::Failure(failure)
                if [Some(Case::PermissionDenied), Some(Case::CommandDenied)]
                    .contains(&failure.case) =>
            {
                let said = failure.message_with_causes();
                let role = quote_identifier(self.role.as_deref().unwrap_or("ROLE"));
                let table = quote_table(self.table);
                let what = format!(
                    "{said}; to read the rows, a role needs: grant select on table {table} to \
                     {role}, the same on table outbox_router.held where it exists, and usage on \
                     their schemas"
                );
                Failure::of(Case::CommandDenied, what).into()
            }
            error @ (TaskError::Failure(_) | TaskError::Output(_)) => error,
        }
    }
}
