//! A table, as the commands that send its rows see it.

use relay::{
    Failure, Republish, RepublishSettings, TableName, Timestamp,
    source::{Oid, TableOids},
};
use sha2::{Digest as _, Sha256};
use tokio_postgres::Client;

use crate::{
    cli::{
        TaskError,
        explain_row::{dry_run_of, why_none_fits},
        row_security,
    },
    config::{Config, SourceKind},
    prepare,
    republish::{
        messages,
        selection::{Columns, CommitTimes, Query},
        table_row::TableRow,
    },
};

/// See the module's header.
pub(in crate::cli) struct OutboxRows {
    pub(in crate::cli) row: TableRow,
    pub(in crate::cli) columns: Columns,
    /// The template of its topics.
    pub(in crate::cli) topic: String,
    /// `server_encoding` as COPY is asked for it.
    pub(super) encoding: &'static str,
    timestamp: Timestamp,
    commit_times: CommitTimes,
    read_as: String,
}

impl OutboxRows {
    /// Reads the table's columns.
    ///
    /// # Errors
    /// There is no such table, or the configuration does not fit it.
    pub(in crate::cli) async fn describe(
        client: &Client,
        config: &Config,
        table: &TableName,
    ) -> Result<Self, TaskError> {
        let row = TableRow::describe(client, table).await?;
        row_security::check(client, &row).await?;
        let (mut commit_times, encoding) = server(client).await?;
        if config.postgres.source == SourceKind::Polling {
            // A record of a row that is polled never has that time.
            commit_times = CommitTimes::NotKept;
        }
        let outboxes = config.outboxes();
        let row_bytes = prepare::size(config.limits.row_bytes);
        let run = dry_run_of(&row, &outboxes, row_bytes)?;
        let Some(mapping) = run.mapping(Oid::from_u32(row.oid)) else {
            return Err(why_none_fits(&row, &outboxes, row_bytes)?.into());
        };
        let columns = Columns::of(&row, mapping);
        let order: Vec<String> = columns.order().into_iter().map(|column| column.name).collect();
        let read_as = format!("{:?}", (row.oid, order, mapping.table()));
        let (topic, timestamp) = (mapping.topic().to_string(), mapping.table().timestamp);
        Ok(Self { columns, topic, encoding, timestamp, commit_times, read_as, row })
    }

    /// In which order rows are read, which of them are events, and what becomes of them: in one
    /// form for the same. A place in the order means nothing where another one was meant.
    pub(in crate::cli) fn read_as<'r>(tables: impl IntoIterator<Item = &'r Self>) -> String {
        let mut hash = Sha256::new();
        for rows in tables {
            hash.update(rows.read_as.as_bytes());
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// All rows of the table.
    pub(in crate::cli) fn all(&self) -> Query {
        Query::all(&self.row, &self.columns, self.timestamp, self.commit_times)
    }

    /// `server_encoding`, as COPY is asked for it.
    pub(in crate::cli) const fn encoding(&self) -> &'static str {
        self.encoding
    }

    /// The routing, which knows the table.
    ///
    /// # Errors
    /// The configuration does not fit the table.
    pub(in crate::cli) fn republish(
        &self,
        config: &Config,
        settings: RepublishSettings,
    ) -> Result<Republish, Failure> {
        let mut republish = Republish::new(config.outboxes(), TableOids::default(), settings)?;
        for message in messages::types(&self.row).chain([messages::relation(&self.row)]) {
            republish.describe(&message)?;
        }
        Ok(republish)
    }
}

/// How the server keeps times, and how COPY is to encode values.
async fn server(client: &Client) -> Result<(CommitTimes, &'static str), TaskError> {
    let query = "select current_setting('track_commit_timestamp') = 'on', \
         current_setting('server_encoding') = 'SQL_ASCII'";
    let row = client.query_one(query, &[]).await?;
    let commit_times = if row.try_get(0)? { CommitTimes::Kept } else { CommitTimes::NotKept };
    // Bytes of no known encoding are sent as they are, as in a stream.
    Ok((commit_times, if row.try_get(1)? { "SQL_ASCII" } else { "UTF8" }))
}
