//! The connection of the store.
//!
//! A request that was given up may still run in the server: its connection is closed, but the
//! server notices that when the statement ends. The same is true of a router that was killed, and
//! of one that is frozen. What they write must not come after the next session has read the table.
//! So a connection holds an advisory lock of its pipeline, which ends with it. The holder of the
//! slot, who alone reads the table ([`relay::held::HeldRequest::Load`]), ends earlier connections
//! that hold the lock; every other request only ends the store's own.

use std::{collections::HashMap, future::poll_fn, task::Poll};

use relay::{Case, Code, Failure, source::History};
use sha2::{Digest, Sha256};
use tokio_postgres::{Client, Statement};

use super::pipeline::Pipeline;
use crate::{
    monitor::{
        SqlSession,
        connection::{Driver, drive_without_limit},
        server,
    },
    postgres::{Runs, Touched, refuse_foreign_code, sql::DURABLE, sql_failure},
};

/// Settings that the requests rely on, beside [`DURABLE`]: an event counts as settled when it is in
/// the table. A statement that was given up ends by itself. Look-ups of keys take the index that
/// has their order, whatever the server knows of the table; what has to be sorted is sorted anyway,
/// at a cost that would have every such statement compiled.
const SETTINGS: &str = "\
    set statement_timeout = '20s'; set lock_timeout = '5s'; \
    set default_transaction_read_only = off; set row_security = off; set enable_sort = off; set jit = off";

/// Ends the sessions of this lock, all or one.
const END_HOLDERS: &str = "\
    select pg_terminate_backend(pid) from pg_locks \
      where locktype = 'advisory' and objsubid = 1 \
        and database = (select oid from pg_database where datname = current_database()) \
        and ((classid::int8 << 32) | objid::int8) = $1 \
        and pid <> pg_backend_pid() and ($2::int4 is null or pid = $2)";

/// An open connection that holds the pipeline's lock.
pub(super) struct Session {
    pub(super) client: Client,
    driver: Driver,
    pub(super) backend: Backend,
    statements: HashMap<&'static str, Statement>,
}

/// The server's end of a connection.
#[derive(Debug, Clone)]
pub(super) struct Backend {
    pid: i32,
    /// The role that it runs as.
    pub(super) role: String,
    /// Whether texts may have any character.
    pub(super) encoding: Encoding,
}

/// What the database can store of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Every character.
    Any,
    /// ASCII for certain.
    Narrow,
}

/// Which connections that hold the lock are ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// Every one: the request is the first of a session, so this router holds the slot.
    All,
    /// The one that this store had, if any.
    Own(Option<i32>),
}

impl Session {
    /// Takes an open connection: checks that it leads to the server of the stream, and gets the
    /// lock.
    pub(super) async fn begin(
        open: SqlSession,
        pipeline: &Pipeline,
        stream: &History,
        takes: Takes,
    ) -> Result<Self, Failure> {
        let SqlSession { client, mut driver } = open;
        let begin = async {
            check_server(&client, stream).await?;
            client.batch_execute(&format!("{DURABLE}; {SETTINGS}")).await.map_err(sql_failure)?;
            refuse_foreign_code(&client, Touched::RouterSchema, Runs::Inserts).await?;
            let backend = read_backend(&client).await?;
            lock(&client, lock_key(pipeline), takes).await?;
            Ok(backend)
        };
        let backend = drive(&mut driver, begin).await?;
        Ok(Self { client, driver, backend, statements: HashMap::new() })
    }

    /// Whether the connection has ended, as far as is known without asking the server.
    pub(super) async fn is_closed(&mut self) -> bool {
        let driver = &mut self.driver;
        // What arrived meanwhile is read here; nobody polls the driver between two requests.
        let ended = poll_fn(|cx| Poll::Ready(driver.as_mut().poll(cx).is_ready())).await;
        ended || self.client.is_closed()
    }

    pub(super) fn pid(&self) -> i32 {
        self.backend.pid
    }

    /// The parts that a request uses.
    pub(super) fn parts(&mut self) -> (Sql<'_>, &mut Driver) {
        let Self { client, driver, backend, statements } = self;
        (Sql { client, backend, statements }, driver)
    }
}

/// What a request uses.
pub(super) struct Sql<'s> {
    pub(super) client: &'s mut Client,
    pub(super) backend: &'s Backend,
    statements: &'s mut HashMap<&'static str, Statement>,
}

impl Sql<'_> {
    /// Prepares a statement, once per connection.
    pub(super) async fn prepared(
        &mut self,
        text: &'static str,
    ) -> Result<Statement, tokio_postgres::Error> {
        if let Some(known) = self.statements.get(text) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(text).await?;
        self.statements.insert(text, statement.clone());
        Ok(statement)
    }
}

/// Polls the connection while `work` runs.
pub(super) async fn drive<T>(
    driver: &mut Driver,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let connection = "the connection that reads and writes outbox_router.held";
    drive_without_limit(driver, work, connection).await
}

/// The same address may lead to another server than the stream comes from. The role may lack the
/// right to ask; then the next check, for a standby, is what is left.
async fn check_server(mut client: &Client, stream: &History) -> Result<(), Failure> {
    match server::identity(&mut client).await {
        Ok(here) if here != *stream => {
            let name = |of: &History| {
                format!("system identifier {}, timeline {}", of.system_id, of.timeline)
            };
            let what = format!(
                "held events cannot be read or written: a second connection reaches another server ({}) \
                 than the stream comes from ({})",
                name(&here),
                name(stream)
            );
            return Err(Failure::of(Case::OtherServer, what));
        }
        Ok(_) => {}
        Err(failure) => tracing::debug!(
            code = %failure.code,
            "the server's identity cannot be read: {failure:#}"
        ),
    }
    server::version(&mut client).await.map(drop)
}

async fn read_backend(client: &Client) -> Result<Backend, Failure> {
    let query = "select pg_backend_pid(), current_user::text, current_setting('server_encoding')";
    let row = client.query_one(query, &[]).await.map_err(sql_failure)?;
    let encoding: String = row.try_get(2).map_err(sql_failure)?;
    // SQL_ASCII stores the bytes as they come.
    let encoding = match encoding.as_str() {
        "UTF8" | "SQL_ASCII" => Encoding::Any,
        _ => Encoding::Narrow,
    };
    Ok(Backend {
        pid: row.try_get(0).map_err(sql_failure)?,
        role: row.try_get(1).map_err(sql_failure)?,
        encoding,
    })
}

async fn lock(client: &Client, key: i64, takes: Takes) -> Result<(), Failure> {
    let ends = match takes {
        Takes::All => Some(None),
        Takes::Own(pid) => pid.map(Some),
    };
    if let Some(pid) = ends {
        // Another role's session may not be ended: then the lock is waited for.
        if let Err(error) = client.query(END_HOLDERS, &[&key, &pid]).await {
            tracing::debug!(%error, "an earlier session cannot be ended");
        }
    }
    match client.execute("select pg_advisory_lock($1)", &[&key]).await {
        Ok(_) => Ok(()),
        Err(error)
            if error.code() == Some(&tokio_postgres::error::SqlState::LOCK_NOT_AVAILABLE) =>
        {
            Err(Failure::new(
                Code::ServerUnreachable,
                "another session still works with this pipeline's rows of outbox_router.held",
            ))
        }
        Err(error) => Err(sql_failure(error)),
    }
}

/// The advisory lock of a pipeline. Locks are of one database, as the table is.
fn lock_key(Pipeline { name, slot }: &Pipeline) -> i64 {
    let digest = Sha256::new()
        .chain_update(b"outbox_router.held\0")
        .chain_update(name)
        .chain_update(b"\0")
        .chain_update(slot)
        .finalize();
    let first = digest.first_chunk::<8>().copied().unwrap_or_default();
    i64::from_be_bytes(first)
}
