//! The steps from connecting to a stream, as the core asks for them: each on a replication
//! connection, each with a time limit. What the answers mean, the core decides.

use std::{future::Future, time::Duration};

use relay::{
    BacklogFrom, Case, Code, Failure, Lsn, Name, Outboxes,
    handover::backfill::{Beginning, unfinished},
    held::TableFound,
    source::{Catalog, History, Server, ServerEncoding, SlotReading, TimelineHistory},
};
use tokio_postgres::Client;

use super::ports::{Postgres, Started};

use crate::{
    filter_labels::check_filters,
    held::{HeldStore, Pipeline, note_writes, read_table},
    monitor::{
        self, Connect, SqlSession, catalog::Sought, connection::drive, server::ServerSettings,
    },
    polling::sql::{kept_from_slot, kept_from_stream, switches_under_way},
    postgres::{
        ClientEncoding, ConnInfo, Options, ReplicationConnection, ServerErrorKind, Session,
        SocketOptions, TextQuery, WAL_SENDER_TIMEOUT, command_failure, connect_failure,
        connect_sql_for, quote_identifier, quote_literal, sql_failure,
    },
    republish::journal::unfinished_backfill,
};

/// How to connect to PostgreSQL.
#[derive(Clone)]
pub struct Endpoint {
    /// Host, port, database, role, password and TLS.
    pub conninfo: ConnInfo,
    /// `application_name` of every connection.
    pub application_name: String,
    /// What sessions are used for.
    pub session: Session,
}

/// The server, and the names of what to read there.
pub struct Source {
    /// How to connect.
    pub endpoint: Endpoint,
    /// Whose events the table of held events has.
    pub pipeline: Pipeline,
    /// The slot's name.
    pub slot: String,
    /// The publication's name.
    pub publication: String,
    /// The outbox tables of the configuration.
    pub outboxes: Outboxes,
    /// `limits.row_bytes`: a larger frame is discarded while it streams in.
    pub row_bytes: usize,
}

/// Everything that is checked before a stream starts, read on one connection.
pub(crate) struct SourceReading {
    /// The server.
    pub(crate) server: Server,
    /// Its timelines.
    pub(crate) timelines: TimelineHistory,
    /// The slot.
    pub(crate) slot_reading: SlotReading,
    /// Publication and tables.
    pub(crate) catalog: Catalog,
    /// The table of held events.
    pub(crate) held: TableFound,
}

/// A connection between two steps, ready for a command.
pub struct OpenConnection {
    connection: ReplicationConnection,
    version: i32,
    encoding: ClientEncoding,
    history: History,
    pids: Pids,
}

/// Whether the process ids in `BackendKeyData` are those of the server's backends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pids {
    Real,
    /// They are made up by a connection pooler in between.
    OfPooler,
}

fn pid_of(pid: Option<u32>) -> Option<i32> {
    pid.and_then(|pid| i32::try_from(pid).ok())
}

/// How often a router on standby reads whether the slot is free.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long one step may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);

impl Endpoint {
    /// Opens an ordinary SQL connection.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the connection.
    pub async fn sql(&self) -> Result<SqlSession, Failure> {
        let (client, connection) =
            connect_sql_for(self.session, &self.conninfo, &self.application_name)
                .await
                .map_err(connect_failure)?;
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
        match tokio::time::timeout(STEP_TIMEOUT, step).await {
            // The grant on a view is of use only with the role.
            Ok(done) => done.map_err(|failure| match failure.case {
                Some(Case::CatalogDenied) => {
                    failure.naming(Name::Role, quote_identifier(&self.conninfo.user))
                }
                _ => failure,
            }),
            Err(_) => Err(Failure::new(
                Code::ServerUnreachable,
                format!(
                    "{} did not answer within {} s",
                    self.conninfo.target(),
                    STEP_TIMEOUT.as_secs()
                ),
            )),
        }
    }
}

impl Connect for Endpoint {
    async fn connect(&self) -> Result<SqlSession, Failure> {
        self.sql().await
    }
}

impl Source {
    /// Reads everything that is checked, for commands, and disconnects. Tables of `remembered`, an
    /// earlier catalog, are found by their OIDs.
    pub(crate) async fn read(
        &self,
        remembered: Option<&Catalog>,
    ) -> Result<SourceReading, Failure> {
        let (mut open, server) = self.open().await?;
        let mut timelines = TimelineHistory::default();
        // The first timeline has no history file.
        if server.history.timeline > 1 {
            (open, timelines) = self.timelines(open, server.history.timeline).await?;
        }
        let (mut open, reading) = self.read_slot(open).await?;
        let catalog = self.endpoint.within(self.read_catalog(&mut open, remembered)).await?;
        let held = read_table(&mut open.connection, &self.pipeline).await?;
        Ok(SourceReading { server, timelines, slot_reading: reading, catalog, held })
    }

    /// Connects as a router does, and disconnects: a pooler that passes no replication on refuses
    /// that, and would keep what a command has locked before on a connection of its own.
    ///
    /// # Errors
    /// The connection is refused.
    pub(crate) async fn check_replication(&self) -> Result<(), Failure> {
        self.open().await.map(drop)
    }

    /// Publication and tables alone, whatever became of the slot; as [`read`](Self::read).
    pub(crate) async fn catalog(&self, remembered: Option<&Catalog>) -> Result<Catalog, Failure> {
        let (mut open, _) = self.open().await?;
        self.endpoint.within(self.read_catalog(&mut open, remembered)).await
    }

    async fn read_catalog(
        &self,
        open: &mut OpenConnection,
        remembered: Option<&Catalog>,
    ) -> Result<Catalog, Failure> {
        let sought =
            Sought { publication: &self.publication, outboxes: &self.outboxes, remembered };
        monitor::catalog::read(&mut open.connection, open.version, sought).await
    }

    /// # Errors
    /// A switch of these tables is not complete (P043), or the server cannot be asked.
    pub(crate) async fn refuse_switching(&self) -> Result<(), Failure> {
        let asking = async {
            let SqlSession { client, mut driver } = self.endpoint.sql().await?;
            drive(&mut driver, switches_under_way(&mut &client, &self.outboxes, &self.publication))
                .await
        };
        let under_way = self.endpoint.within(asking).await?;
        under_way.into_iter().next().map_or(Ok(()), Err)
    }

    /// Somebody may have changed `postgres.source` while workers of the old configuration run on,
    /// or before a switch was complete.
    async fn refuse_polled(
        &self,
        open: &mut OpenConnection,
        catalog: &Catalog,
    ) -> Result<(), Failure> {
        let (sql, pipeline) = (&mut open.connection, &self.pipeline.name);
        let kept = kept_from_stream(sql, pipeline, catalog, &self.outboxes).await?;
        kept.into_iter().next().map_or(Ok(()), Err)
    }

    /// Before there is a witness, a router that took the slot of an interrupted back-fill would
    /// move it, and then nothing divides the rows any more. A process that holds the slot, as the
    /// back-fill itself does, keeps the router from it as ever.
    async fn refuse_unfinished(&self, open: &mut OpenConnection) -> Result<(), Failure> {
        let (sql, pipeline) = (&mut open.connection, &self.pipeline.name);
        let Some(run) = unfinished_backfill(sql, pipeline, &self.slot).await? else {
            return Ok(());
        };
        let reading = monitor::slot::read(sql, open.version, &self.slot).await?;
        let free = reading.slot.filter(|slot| slot.active_pid.is_none());
        let Some(slot) = free else { return Ok(()) };
        let position = Some(slot.confirmed_flush_lsn);
        let failure = unfinished(&run, &self.slot, position, Beginning::Unwitnessed);
        match failure.case {
            Some(Case::BackfillUnfinished) => Err(failure),
            _ => Ok(()),
        }
    }

    /// A role that polls need not replicate. Whoever gives it that right where a switch is to be
    /// typed gets the slot by hand next, and that passes over the pending rows. A failure to look
    /// must not hide that the role may not replicate.
    async fn kept_without_replication(&self) -> Option<Failure> {
        let asking = async {
            let SqlSession { client, mut driver } = self.endpoint.sql().await?;
            drive(&mut driver, self.kept_from_missing_slot(&client)).await
        };
        self.endpoint.within(asking).await.unwrap_or_else(|failure| {
            tracing::debug!(
                code = %failure.code,
                "it cannot be read whether the tables were polled last: {failure:#}"
            );
            None
        })
    }

    async fn kept_from_missing_slot(&self, client: &Client) -> Result<Option<Failure>, Failure> {
        let mut sql = client;
        let slot = quote_literal(&self.slot);
        let exists = format!("select from pg_replication_slots where slot_name = {slot}");
        if !sql.rows("pg_replication_slots", &exists).await?.is_empty() {
            return Ok(None);
        }
        let (pipeline, publication) = (&self.pipeline.name, &self.publication);
        let kept = kept_from_slot(&mut sql, pipeline, &self.outboxes, publication).await?;
        Ok(kept.into_iter().next())
    }

    async fn try_open(&self) -> Result<(OpenConnection, Server), Failure> {
        let mut connection = self.connect(self.options(ClientEncoding::Utf8)).await?;
        // Statements name system objects without their schema.
        connection.rows("search_path", "set search_path = pg_catalog").await?;
        let ServerSettings { version, encoding, backend_pid } =
            monitor::server::settings(&mut connection).await?;
        let pids = match pid_of(connection.backend_pid()) == Some(backend_pid) {
            true => Pids::Real,
            false => Pids::OfPooler,
        };
        let (history, wal_end) = identify(&mut connection).await?;
        let note_writes = note_writes(&mut connection, &self.pipeline.name).await?;
        let server = Server { version, encoding, history: history.clone(), wal_end, note_writes };
        let encoding = client_encoding(&server);
        Ok((OpenConnection { connection, version, encoding, history, pids }, server))
    }

    /// Connects once more to the server that was checked.
    pub(super) async fn connect_again(
        &self,
        options: Options,
        history: &History,
    ) -> Result<ReplicationConnection, Failure> {
        let mut connection = self.connect(options).await?;
        if identify(&mut connection).await?.0 != *history {
            let what = "another server answers than a moment ago, or it was promoted";
            return Err(Failure::new(Code::ServerUnreachable, what));
        }
        Ok(connection)
    }

    pub(super) fn options(&self, client_encoding: ClientEncoding) -> Options {
        Options {
            application_name: self.endpoint.application_name.clone(),
            client_encoding,
            row_bytes: self.row_bytes,
            // A walsender that takes no status update for so long has given the slot to another.
            socket: SocketOptions { user_timeout: WAL_SENDER_TIMEOUT },
            ..Options::default()
        }
    }

    pub(super) async fn connect(&self, options: Options) -> Result<ReplicationConnection, Failure> {
        let conninfo = &self.endpoint.conninfo;
        ReplicationConnection::connect(conninfo, &options).await.map_err(|error| {
            let failure = connect_failure(error);
            // The server refuses a role without REPLICATION before any query can be sent.
            if failure.code == Code::RoleLacksReplication {
                monitor::server::may_not_replicate(&conninfo.user)
            } else {
                failure
            }
        })
    }
}

impl Postgres for Source {
    type Connection = OpenConnection;
    type HeldTable = HeldStore<Endpoint>;

    async fn open(&self) -> Result<(OpenConnection, Server), Failure> {
        match self.endpoint.within(self.try_open()).await {
            Err(failure) if failure.code == Code::RoleLacksReplication => {
                Err(self.kept_without_replication().await.unwrap_or(failure))
            }
            opened => opened,
        }
    }

    async fn timelines(
        &self,
        mut open: OpenConnection,
        timeline: u32,
    ) -> Result<(OpenConnection, TimelineHistory), Failure> {
        let read = async {
            let content =
                open.connection.timeline_history(timeline).await.map_err(command_failure)?;
            TimelineHistory::parse(&content)
        };
        let timelines = self.endpoint.within(read).await?;
        Ok((open, timelines))
    }

    async fn read_slot(
        &self,
        mut open: OpenConnection,
    ) -> Result<(OpenConnection, SlotReading), Failure> {
        let reading = async {
            let sql = &mut open.connection;
            let reading = monitor::slot::read(sql, open.version, &self.slot).await?;
            if reading.slot.is_none() {
                // A switch has not made it yet, has dropped it, or was never typed: that is no gap.
                let (pipeline, publication) = (&self.pipeline.name, &self.publication);
                let kept = kept_from_slot(sql, pipeline, &self.outboxes, publication).await?;
                kept.into_iter().next().map_or(Ok(()), Err)?;
            }
            Ok(reading)
        };
        let reading = self.endpoint.within(reading).await?;
        Ok((open, reading))
    }

    /// By SQL, because a second replication connection may exceed `max_wal_senders`. The same
    /// address may now lead to another server, without the slot or with another of the same name,
    /// so the server's identity is compared first.
    async fn read_slot_beside(&self, history: &History) -> Result<SlotReading, Failure> {
        let reading = async {
            let SqlSession { client, mut driver } = self.endpoint.sql().await?;
            let mut sql = &client;
            let reading = async {
                // The role may lack the right to ask. Any other failure occurs again in the next
                // query.
                match monitor::server::identity(&mut sql).await {
                    Ok(here) if here != *history => {
                        return Err(other_server_failure(&here, history));
                    }
                    Ok(_) => {}
                    Err(failure) => tracing::debug!(
                        code = %failure.code,
                        "the server's identity cannot be read: {failure:#}"
                    ),
                }
                let version = monitor::server::settings(&mut sql).await?.version;
                monitor::slot::read(&mut sql, version, &self.slot).await
            };
            drive(&mut driver, reading).await
        };
        self.endpoint.within(reading).await
    }

    async fn catalog(
        &self,
        mut open: OpenConnection,
        remembered: Option<&Catalog>,
    ) -> Result<(OpenConnection, Catalog), Failure> {
        let reading = async {
            let mut catalog = self.read_catalog(&mut open, remembered).await?;
            self.refuse_polled(&mut open, &catalog).await?;
            if remembered.is_none() {
                self.refuse_unfinished(&mut open).await?;
            }
            catalog.labels = check_filters(&mut open.connection, &self.outboxes).await?;
            Ok(catalog)
        };
        let catalog = self.endpoint.within(reading).await?;
        Ok((open, catalog))
    }

    /// Streams on a connection that has run no SQL. A walsender decodes by its relation cache, and
    /// SQL fills that cache with the tables as they are now: rows from before a rename, or before a
    /// column was dropped, would be sent with the present name and columns (seen on 15 and 18). The
    /// connection is new, so the server's identity is read and compared again.
    async fn start(
        &self,
        checked: OpenConnection,
        backlog: BacklogFrom,
    ) -> Result<Started, Failure> {
        let OpenConnection { connection, version, encoding, history, pids } = checked;
        drop(connection);
        let start = async {
            let backlog = match backlog {
                BacklogFrom::Stream => None,
                BacklogFrom::Sql => self.backlog(version, encoding, &history).await,
            };
            let connection = self.connect_again(self.options(encoding), &history).await?;
            let publications = [self.publication.as_str()];
            let started = match backlog {
                None => connection.start_replication(&self.slot, &publications).await,
                Some(backlog) => {
                    connection.start_replication_after(backlog, &self.slot, &publications).await
                }
            };
            match started {
                Ok(stream) => {
                    let real = Some(pids).filter(|pids| *pids == Pids::Real);
                    let walsender = real.and_then(|_| pid_of(stream.backend_pid()));
                    Ok(Started::Streaming(Box::new(stream), walsender))
                }
                Err(error) => match error.kind() {
                    Some(ServerErrorKind::SlotInUse { pid }) => {
                        Ok(Started::Held(pid.and_then(|pid| i32::try_from(pid).ok())))
                    }
                    _ => Err(command_failure(error)),
                },
            }
        };
        self.endpoint.within(start).await
    }

    /// Every query has a time limit, because a frozen server keeps connections open without
    /// answering.
    async fn watch_slot(&self) -> Result<(), Failure> {
        let held = format!(
            "select from pg_replication_slots where slot_name = {} and active",
            quote_literal(&self.slot)
        );
        let SqlSession { client, mut driver } = self.endpoint.sql().await?;
        loop {
            let reading = async { client.query_opt(&held, &[]).await.map_err(sql_failure) };
            // A slot that is gone counts as free here: the core checks it when everything is read
            // again.
            if drive(&mut driver, reading).await?.is_none() {
                return Ok(());
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// The failure when a second connection reaches another server than the stream comes from.
fn other_server_failure(here: &History, stream: &History) -> Failure {
    let name = |history: &History| {
        format!("system identifier {}, timeline {}", history.system_id, history.timeline)
    };
    Failure::of(
        Case::OtherServer,
        format!(
            "the slot cannot be read beside the stream: a second connection reaches another server ({}) than the \
             stream comes from ({})",
            name(here),
            name(stream)
        ),
    )
}

pub(super) fn client_encoding(server: &Server) -> ClientEncoding {
    match server.encoding {
        // The server cannot convert from SQL_ASCII: the first row that is not UTF-8 would end every
        // stream.
        ServerEncoding::SqlAscii => ClientEncoding::SqlAscii,
        ServerEncoding::Known(_) => ClientEncoding::Utf8,
    }
}

pub(super) async fn identify(
    connection: &mut ReplicationConnection,
) -> Result<(History, Lsn), Failure> {
    let identity = connection.identify_system().await.map_err(command_failure)?;
    let wal_end = identity.flush_lsn.parse().map_err(|_| {
        Failure::new(Code::Protocol, "the answer to IDENTIFY_SYSTEM has no position")
    })?;
    Ok((History { system_id: identity.system_id, timeline: identity.timeline }, wal_end))
}
