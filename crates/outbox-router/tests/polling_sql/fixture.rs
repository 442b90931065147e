//! A server with a polled table, and what polls it.

use std::time::Duration;

use outbox_router::{
    monitor::{Connect, SqlSession},
    polling::sql::{
        Database, LeaseTable, MarkConfig, NoteWork, RowScope, SqlSettings, StreamNames,
        TableConfig,
        setup::{self, Deletes},
    },
    postgres::{ConnInfo, Session, connect_failure, connect_sql_for},
};
use relay::{
    ErrorPolicy, Failure, HoldKeys, OnError, OutboxTable, PgTimestamp, TableName,
    delivered::{RowVersion, ServerSession},
    polling::{
        FailedRow, FetchRequest, Fetched, More, PendingRow, RequestNumber, RowId, RowKey,
        RowOutcome, SettleRequest, ShardSet, TableIndex,
    },
    testing::sent,
};
use testbed::postgres::{DATABASE, DatabaseSession, PostgresOptions, PostgresServer};
use uuid::Uuid;

/// The role that the router runs as.
pub(crate) const ROUTER: &str = "router";

/// The only table.
pub(crate) const TABLE: TableIndex = TableIndex(0);

/// A table of the preset `default`, with the columns that follow.
pub(crate) fn default_table(more: &str) -> String {
    format!(
        "create table outbox (id bigint primary key generated always as identity, \
         aggregate_type text not null default 'order', aggregate_id text, \
         event_type text not null default 'OrderPlaced', payload jsonb, \
         created_at timestamptz not null default now(){more})"
    )
}

/// A server of its own.
pub(crate) struct Fixture {
    pub(crate) server: PostgresServer,
}

impl Fixture {
    /// A server with a table, and what `setup` makes for it but its indexes.
    pub(crate) async fn new(table: &str) -> Self {
        Self::with_settings(&[], table).await
    }

    /// The same, with settings of the server.
    pub(crate) async fn with_settings(settings: &[(&str, &str)], table: &str) -> Self {
        let version = std::env::var("OUTBOX_PG_VERSION").unwrap_or_else(|_| "15".to_owned());
        Self::of_version(version.parse().unwrap(), settings, table).await
    }

    /// The same, on this version of PostgreSQL.
    pub(crate) async fn of_version(version: u16, settings: &[(&str, &str)], table: &str) -> Self {
        let options = PostgresOptions::version(version).set("max_connections", "120");
        let options =
            settings.iter().fold(options, |options, (name, value)| options.set(name, value));
        let server = PostgresServer::start(options).await.unwrap();
        let fixture = Self { server };
        fixture.run(&format!("create role {ROUTER} login; {table}")).await;
        fixture.grant(Deletes::No).await;
        for statement in setup::lease_statements(Some(ROUTER)) {
            fixture.run(&statement.sql).await;
        }
        fixture
    }

    pub(crate) async fn grant(&self, deletes: Deletes) {
        for statement in setup::grant_statements(&name(), ROUTER, deletes) {
            self.run(&statement.sql).await;
        }
    }

    pub(crate) async fn session(&self) -> DatabaseSession {
        self.server.connect().await.unwrap()
    }

    /// Runs statements as the superuser.
    pub(crate) async fn run(&self, sql: &str) {
        self.session().await.batch_execute(sql).await.unwrap();
    }

    /// A value, as text; "null" for NULL.
    pub(crate) async fn value(&self, sql: &str) -> String {
        first_value(&self.session().await, sql).await
    }

    /// The row with this id as it is now, without its columns.
    pub(crate) async fn row(&self, id: &str) -> PendingRow {
        let xmin = self.value(&format!("select xmin from outbox where id = '{id}'")).await;
        PendingRow {
            id: RowId([id.into()].into()),
            version: RowVersion::of_xmin(xmin.parse().unwrap()),
            key: None,
            insert: Vec::new(),
            bytes: 0,
            attempts: 0,
            at: PgTimestamp::from_micros(0),
        }
    }

    pub(crate) fn connector(&self) -> Connector {
        Connector(format!("{}?sslmode=disable", self.server.url(ROUTER, DATABASE)))
    }

    /// A worker that has described the table.
    pub(crate) async fn worker(&self, polling: Polling) -> Worker {
        Worker::on(self.connector(), polling).await
    }

    /// Leases of one whose configuration names the stream `shop`.
    pub(crate) fn leases(&self, worker: Uuid, lease: Duration) -> LeaseTable<Connector> {
        LeaseTable::new(self.connector(), vec![name()], worker, "w".to_owned(), lease)
            .unless_streamed(polling().settings.stream)
    }

    /// Notes and makes what `setup` notes of a table, and the indexes that it makes.
    pub(crate) async fn make_indexes(&self, worker: &Worker) {
        let table = worker.database.table(TABLE).unwrap();
        if let Some(NoteWork { statement, .. }) = table.note_work() {
            self.run(&statement).await;
        }
        for work in table.index_work() {
            for statement in work.statements {
                self.run(&statement).await;
            }
        }
    }
}

/// The first value that a statement returns, as text; "null" for NULL.
pub(crate) async fn first_value(session: &DatabaseSession, sql: &str) -> String {
    for message in session.simple_query(sql).await.unwrap() {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
            return row.get(0).unwrap_or("null").to_owned();
        }
    }
    panic!("no row: {sql}")
}

pub(crate) fn name() -> TableName {
    TableName { schema: "public".to_owned(), name: "outbox".to_owned() }
}

/// How a table is polled.
#[derive(Clone)]
pub(crate) struct Polling {
    pub(crate) config: TableConfig,
    pub(crate) settings: SqlSettings,
}

/// With the defaults, and dead letters where `letters` is so.
pub(crate) fn polling() -> Polling {
    let config = TableConfig {
        outbox: OutboxTable::with_defaults(name()),
        order_by: Vec::new(),
        mark: MarkConfig::default(),
    };
    let settings = SqlSettings {
        worker: Uuid::new_v4(),
        name: "w".to_owned(),
        lease: Duration::from_secs(10),
        hold_keys: HoldKeys::Yes,
        row_bytes: 16 * 1024 * 1024,
        keep_bytes: 32 * 1024 * 1024,
        on_error: ErrorPolicy::default(),
        scope: RowScope::All,
        stream: StreamNames { slot: "shop".to_owned(), publication: "shop".to_owned() },
    };
    Polling { config, settings }
}

impl Polling {
    pub(crate) fn with_letters(mut self) -> Self {
        self.settings.on_error.bad_row = OnError::DeadLetter;
        self
    }

    pub(crate) fn with_lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    pub(crate) fn with_mark(mut self, mark: MarkConfig) -> Self {
        self.config.mark = mark;
        self
    }
}

/// What polls the table.
pub(crate) struct Worker {
    pub(crate) database: Database<Connector>,
    pub(crate) id: Uuid,
}

impl Worker {
    pub(crate) async fn on(connector: Connector, polling: Polling) -> Self {
        let mut worker = Self::new(connector, polling);
        worker.database.describe(TABLE).await.unwrap();
        worker
    }

    pub(crate) fn new(connector: Connector, polling: Polling) -> Self {
        let Polling { config, settings } = polling;
        let id = settings.worker;
        Self { database: Database::new(connector, vec![config], settings), id }
    }

    pub(crate) async fn fetch(&mut self, limit: usize) -> Fetched {
        self.fetch_of(ShardSet::ALL, limit, &[]).await
    }

    /// What ends a reading.
    pub(crate) async fn refused(&mut self, limit: usize) -> Failure {
        let passed_over = relay::polling::PassedOver::Keys(Vec::new());
        let request = FetchRequest { table: TABLE, shards: ShardSet::ALL, limit, passed_over };
        self.database.fetch(&request).await.unwrap_err()
    }

    pub(crate) async fn fetch_of(
        &mut self,
        shards: ShardSet,
        limit: usize,
        passed_over: &[RowKey],
    ) -> Fetched {
        let passed_over = relay::polling::PassedOver::Keys(passed_over.to_vec());
        let request = FetchRequest { table: TABLE, shards, limit, passed_over };
        self.database.fetch(&request).await.unwrap()
    }

    /// Marks rows as published, and returns how many were.
    pub(crate) async fn publish(&mut self, rows: &[PendingRow]) -> usize {
        let published = rows.iter().map(sent).collect();
        self.settle(SettleRequest { published, ..nothing() }).await
    }

    /// A settlement of nothing that this worker has read.
    pub(crate) fn nothing(&self) -> SettleRequest {
        SettleRequest { session: self.database.session(), ..nothing() }
    }

    pub(crate) async fn settle(&mut self, request: SettleRequest) -> usize {
        let request = SettleRequest { session: self.database.session(), ..request };
        self.database.settle(&request).await.unwrap().published
    }

    /// Reads and marks until nothing is pending; the rows in their order.
    pub(crate) async fn drain(&mut self, limit: usize) -> Vec<PendingRow> {
        let mut all = Vec::new();
        loop {
            let fetched = self.fetch(limit).await;
            self.publish(&fetched.rows).await;
            let more = fetched.more;
            all.extend(fetched.rows);
            if more == More::No {
                return all;
            }
        }
    }
}

/// A settlement of nothing.
pub(crate) fn nothing() -> SettleRequest {
    let (published, failed, released) = (Vec::new(), Vec::new(), Vec::new());
    // Without shards nothing has to be held.
    let (shards, as_of) = (ShardSet::NONE, RequestNumber(1));
    let session = ServerSession::default();
    SettleRequest { table: TABLE, shards, as_of, session, published, failed, released }
}

pub(crate) fn failed(row: &PendingRow, attempts: u32, outcome: RowOutcome) -> FailedRow {
    let error = Failure::new(relay::Code::HeadersMalformed, "it's … malformed\\\0");
    FailedRow { id: row.id.clone(), version: row.version, attempts, error, outcome }
}

/// The identities of rows, each as one text.
pub(crate) fn ids(rows: &[PendingRow]) -> Vec<String> {
    rows.iter().map(|row| id(&row.id)).collect()
}

pub(crate) fn id(id: &RowId) -> String {
    id.0.join("/")
}

/// The keys of rows.
pub(crate) fn keys(rows: &[PendingRow]) -> Vec<Option<&str>> {
    rows.iter().map(|row| row.key.as_deref()).collect()
}

/// Connects as the router does.
#[derive(Clone)]
pub(crate) struct Connector(pub(crate) String);

impl Connector {
    pub(crate) fn conninfo(&self) -> ConnInfo {
        ConnInfo::resolve(Some(&self.0), &|_: &str| None).unwrap()
    }
}

impl Connect for Connector {
    async fn connect(&self) -> Result<SqlSession, Failure> {
        let connected = connect_sql_for(Session::Shared, &self.conninfo(), "orders").await;
        let (client, connection) = connected.map_err(connect_failure)?;
        Ok(SqlSession { client, driver: Box::pin(async move { drop(connection.await) }) })
    }
}
