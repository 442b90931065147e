//! What the core asks of PostgreSQL before a stream: each step on the replication connection that will stream, each
//! with its limit. What the answers mean is the core's to say.

use std::{future::Future, time::Duration};

use relay::{
    Code, Failure, Outboxes,
    source::{Catalog, Encoding, Server, SlotLook, TimelineHistory},
    witness::History,
};

use super::ports::Postgres;

use crate::{
    monitor::{self, SqlSession, catalog::Sought, connection::drive, server::ServerSettings},
    postgres::{
        ConnInfo, Options, ReplicationConnection, ReplicationStream, ServerTrouble, TextQuery,
        command_failure, connect_failure, connect_sql, quote_literal, sql_failure,
    },
};

/// How to reach PostgreSQL.
#[derive(Clone)]
pub struct Endpoint {
    /// Where.
    pub conninfo: ConnInfo,
    /// `application_name` of every connection.
    pub application_name: String,
}

/// The server, and what to ask for there.
pub struct Source {
    /// How to reach it.
    pub endpoint: Endpoint,
    /// The slot.
    pub slot: String,
    /// The publication.
    pub publication: String,
    /// The tables.
    pub outboxes: Outboxes,
    /// The largest row that is read whole.
    pub row_bytes: usize,
}

/// A connection between two steps: ready for a command.
pub struct Open {
    connection: ReplicationConnection,
    version: i32,
}

/// How `START_REPLICATION` ended.
pub enum Started {
    /// The server is streaming.
    Streaming(Box<ReplicationStream>),
    /// Another process has the slot: this one, if the server says so.
    Held(Option<i32>),
}

/// How often a standby looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long one step may take.
const PATIENCE: Duration = Duration::from_secs(20);

impl Endpoint {
    /// An SQL connection.
    ///
    /// # Errors
    /// Whatever stands in the way.
    pub async fn sql(&self) -> Result<SqlSession, Failure> {
        let (client, connection) = connect_sql(&self.conninfo, &self.application_name)
            .await
            .map_err(|error| connect_failure(&error))?;
        let driver = Box::pin(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an SQL connection ended");
            }
        });
        Ok(SqlSession { client, driver })
    }

    async fn within<T>(
        &self,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(PATIENCE, step).await {
            Ok(done) => done,
            Err(_) => Err(Failure::new(
                Code::ServerUnreachable,
                format!(
                    "{} did not answer within {} s",
                    self.conninfo.target(),
                    PATIENCE.as_secs()
                ),
            )),
        }
    }
}

impl Source {
    async fn try_open(&self) -> Result<(Open, Server), Failure> {
        let options = Options {
            application_name: self.endpoint.application_name.clone(),
            row_bytes: self.row_bytes,
            ..Options::default()
        };
        let mut connection = ReplicationConnection::connect(&self.endpoint.conninfo, &options)
            .await
            .map_err(|error| connect_failure(&error))?;
        // Statements name system objects without their schema. Rows may be written by the role's own path: see `start`.
        connection.rows("search_path", "set search_path = pg_catalog").await?;
        let ServerSettings { version, encoding } =
            monitor::server::settings(&mut connection).await?;
        if encoding == Encoding::SqlAscii {
            // The server cannot convert what has no known encoding: the first row that is no UTF-8 would end every stream.
            connection.rows("client_encoding", "set client_encoding = 'SQL_ASCII'").await?;
        }
        let identity =
            connection.identify_system().await.map_err(|error| command_failure(&error))?;
        let wal_end = identity.flush_lsn.parse().map_err(|_| {
            Failure::new(Code::Protocol, "the answer to IDENTIFY_SYSTEM has no position")
        })?;
        let history = History { system_id: identity.system_id, timeline: identity.timeline };
        let server = Server { version, encoding, history, wal_end };
        Ok((Open { connection, version }, server))
    }
}

impl Postgres for Source {
    type Open = Open;

    async fn open(&self) -> Result<(Open, Server), Failure> {
        self.endpoint.within(self.try_open()).await
    }

    async fn timelines(
        &self,
        mut open: Open,
        timeline: u32,
    ) -> Result<(Open, TimelineHistory), Failure> {
        let read = async {
            let content = open
                .connection
                .timeline_history(timeline)
                .await
                .map_err(|error| command_failure(&error))?;
            TimelineHistory::parse(&content)
        };
        let timelines = self.endpoint.within(read).await?;
        Ok((open, timelines))
    }

    async fn look(&self, mut open: Open) -> Result<(Open, SlotLook), Failure> {
        let look = monitor::slot::look(&mut open.connection, open.version, &self.slot);
        let look = self.endpoint.within(look).await?;
        Ok((open, look))
    }

    async fn catalog(
        &self,
        mut open: Open,
        remembered: Option<&Catalog>,
    ) -> Result<(Open, Catalog), Failure> {
        let sought =
            Sought { publication: &self.publication, outboxes: &self.outboxes, remembered };
        let look = monitor::catalog::look(&mut open.connection, open.version, sought);
        let catalog = self.endpoint.within(look).await?;
        Ok((open, catalog))
    }

    async fn start(&self, mut open: Open) -> Result<Started, Failure> {
        let start = async {
            // From here on the output functions of types run, and what they write may depend on the path.
            open.connection.rows("search_path", "reset search_path").await?;
            let publications = [self.publication.as_str()];
            match open.connection.start_replication(&self.slot, &publications).await {
                Ok(stream) => Ok(Started::Streaming(Box::new(stream))),
                Err(error) => match error.trouble() {
                    Some(ServerTrouble::SlotInUse { pid }) => {
                        Ok(Started::Held(pid.and_then(|pid| i32::try_from(pid).ok())))
                    }
                    _ => Err(command_failure(&error)),
                },
            }
        };
        self.endpoint.within(start).await
    }

    /// Every look has its limit: a frozen server keeps connections alive that nobody answers on.
    async fn watch_slot(&self) -> Result<(), Failure> {
        let held = format!(
            "select from pg_replication_slots where slot_name = {} and active",
            quote_literal(&self.slot)
        );
        let SqlSession { client, mut driver } = self.endpoint.sql().await?;
        loop {
            let look =
                async { client.query_opt(&held, &[]).await.map_err(|error| sql_failure(&error)) };
            // A slot that is gone is for the core to judge.
            if drive(&mut driver, look).await?.is_none() {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
