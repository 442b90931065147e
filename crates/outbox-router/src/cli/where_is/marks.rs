//! What polled rows' own marks say, of those whose records were not found.

use std::slice::from_ref;

use relay::{Code, Failure};
use tokio_postgres::Client;

use super::{
    evidence::{Event, Mark},
    verdict::needs_topic,
};
use crate::{
    cli::{TaskError, connect, polled_tables},
    config::Config,
    polling::sql::{PolledTable, RowState, row_marks},
};

/// Reads them.
///
/// # Errors
/// PostgreSQL does not answer.
pub(super) async fn read(
    client: &Client,
    config: &Config,
    events: &mut [Event],
) -> Result<(), TaskError> {
    let settings = polled_tables::settings(config);
    for table in config.polled_tables() {
        let is_sought = |event: &&mut Event| {
            let is_of_table = event.table.as_ref() == Some(&table.outbox.name);
            is_of_table && event.row.is_some() && needs_topic(event)
        };
        let mut sought = events.iter_mut().filter(is_sought).peekable();
        if sought.peek().is_none() {
            continue;
        }
        let described = PolledTable::read(client, &table, &settings).await;
        let unpolled =
            polled_tables::unpolled_of(client, config, from_ref(&table.outbox.name)).await?;
        for event in sought {
            let mark = match &described {
                Ok(table) => mark(client, table, event).await,
                Err(failure) => Err(failure.clone()),
            };
            let mark = mark.map(|mark| match (unpolled.first(), mark) {
                (Some(why), Mark::Row(marks)) if is_for_worker(marks.state) => {
                    Mark::Unpolled(Box::new(why.clone()))
                }
                (_, mark) => mark,
            });
            event.mark = Some(mark.or_else(unreadable)?);
        }
    }
    Ok(())
}

async fn mark(client: &Client, table: &PolledTable, event: &Event) -> Result<Mark, Failure> {
    let row = event.row.as_ref().and_then(|row| table.row_id(|column| row.value(column)));
    let Some(row) = row else { return Ok(Mark::Gone) };
    let marks = row_marks(client, table, &row).await?;
    Ok(marks.map_or(Mark::Gone, Mark::Row))
}

/// Whether a worker would take the row, now or later.
fn is_for_worker(state: RowState) -> bool {
    match state {
        RowState::Pending
        | RowState::Claimed
        | RowState::Retried
        | RowState::Behind(_)
        | RowState::Later => true,
        RowState::Published | RowState::Stranded | RowState::Abandoned | RowState::Other => false,
    }
}

/// That the table or this role does not fit is an answer about the row; that nobody answers is
/// none.
fn unreadable(failure: Failure) -> Result<Mark, TaskError> {
    let failure = connect::denied(failure);
    if failure.code == Code::ServerUnreachable {
        return Err(failure.into());
    }
    Ok(Mark::Unreadable(Box::new(failure)))
}
