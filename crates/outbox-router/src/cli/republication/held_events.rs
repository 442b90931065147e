//! Events that are open in `outbox_router.held`: their rows are not sent beside the stream, since
//! they must not pass those before them.

use relay::TableName;
use tokio_postgres::Client;

use crate::{
    cli::TaskError,
    held,
    postgres::quote_literal,
    republish::selection::{OrderColumn, Query},
};

/// The events of a pipeline that are open in `outbox_router.held`.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct HeldEvents<'a> {
    pub(in crate::cli) pipeline: &'a str,
    pub(in crate::cli) slot: &'a str,
    pub(in crate::cli) table: &'a TableName,
}

impl HeldEvents<'_> {
    /// How many there are of the table; none where nothing is ever held.
    pub(in crate::cli) async fn count(self, client: &Client) -> Result<i64, TaskError> {
        if !held::exists(client, "held").await? {
            return Ok(0);
        }
        let query = format!("select count(*) from outbox_router.held h where {}", self.open());
        Ok(client.query_one(&query, &[]).await?.try_get(0)?)
    }

    /// Whether a row is none of them. A cast of the id would cut the blanks of character(n).
    pub(in crate::cli) fn none_of(self, query: &Query, id: &OrderColumn) -> String {
        format!(
            "not exists (select from outbox_router.held h where {} and h.event_id = concat({}))",
            self.open(),
            query.column(id)
        )
    }

    fn open(self) -> String {
        let Self { pipeline, slot, table } = self;
        format!(
            "h.pipeline = {} and h.slot = {} and h.table_name = {} \
             and h.state in ('held', 'requeued', 'dropping')",
            quote_literal(pipeline),
            quote_literal(slot),
            quote_literal(&table.to_string())
        )
    }
}
