//! A server with the table, and stores on it.

use std::sync::Arc;

use outbox_router::{
    held::{HeldStore, HeldStream, Keep, Pipeline, schema},
    monitor::{SqlSession, server},
    postgres::{ConnInfo, connect_failure, connect_sql},
};
use relay::{
    Code, Failure, Lsn, PgTimestamp,
    held::{EventId, HeldAnswer, HeldEvent, HeldRequest, KeyHash, Letter, OpenCount},
    source::History,
};
use testbed::postgres::{DATABASE, DatabaseSession, PostgresOptions, PostgresServer, SUPERUSER};

/// The role that the router runs as.
pub(crate) const ROUTER: &str = "router";

/// PostgreSQL 15 comes with the system that the tests of this crate need.
const VERSION: u16 = 15;

/// A server of its own.
pub(crate) struct Fixture {
    pub(crate) server: PostgresServer,
    pub(crate) history: History,
}

impl Fixture {
    /// A server with the role, without the table.
    pub(crate) async fn new() -> Self {
        let server = PostgresServer::start(PostgresOptions::version(VERSION)).await.unwrap();
        let session = server.connect().await.unwrap();
        session.batch_execute(&format!("create role {ROUTER} login")).await.unwrap();
        let mut client: &tokio_postgres::Client = &session;
        let history = server::identity(&mut client).await.unwrap();
        drop(session);
        Self { server, history }
    }

    /// A server with the table as `setup` makes it.
    pub(crate) async fn with_table() -> Self {
        let fixture = Self::new().await;
        fixture.make_table(Some(ROUTER)).await;
        fixture
    }

    pub(crate) async fn make_table(&self, role: Option<&str>) {
        let session = self.session().await;
        for statement in schema::statements(role) {
            session.batch_execute(&statement.sql).await.unwrap();
        }
    }

    pub(crate) async fn session(&self) -> DatabaseSession {
        self.server.connect().await.unwrap()
    }

    pub(crate) async fn run(&self, sql: &str) {
        self.session().await.batch_execute(sql).await.unwrap();
    }

    pub(crate) fn store(&self) -> Store {
        self.store_of(ROUTER, "orders")
    }

    pub(crate) fn admin_store(&self) -> Store {
        self.store_of(SUPERUSER, "orders")
    }

    pub(crate) fn store_of(&self, role: &str, pipeline: &str) -> Store {
        let url = format!("{}?sslmode=disable", self.server.url(role, DATABASE));
        let pipeline = Pipeline { name: pipeline.to_owned(), slot: "s".to_owned() };
        let store = HeldStore::new(Connector(url), pipeline, Keep::Always);
        Store { store, history: self.history.clone(), walsender: None }
    }
}

/// A store, and the server that the stream comes from.
pub(crate) struct Store {
    store: HeldStore<Connector>,
    pub(crate) history: History,
    /// The walsender of the stream; `None`: not known.
    pub(crate) walsender: Option<i32>,
}

impl Store {
    pub(crate) async fn ask(&mut self, request: HeldRequest) -> Result<HeldAnswer, Failure> {
        let stream = HeldStream { history: self.history.clone(), walsender: self.walsender };
        self.store.answer(&request, &stream).await
    }

    pub(crate) async fn load(&mut self) -> Result<HeldAnswer, Failure> {
        self.ask(HeldRequest::Load { since: Lsn::ZERO, open: OpenCount::Recorded }).await
    }

    pub(crate) async fn insert(&mut self, events: Vec<HeldEvent>) -> Result<HeldAnswer, Failure> {
        self.ask(HeldRequest::Insert(Arc::from(events))).await
    }

    pub(crate) async fn fails(&mut self, request: HeldRequest) -> Failure {
        self.ask(request).await.unwrap_err()
    }
}

/// Connects as the router does.
pub(crate) struct Connector(String);

impl outbox_router::monitor::Connect for Connector {
    async fn connect(&self) -> Result<SqlSession, Failure> {
        let info = ConnInfo::resolve(Some(&self.0), &|_: &str| None).unwrap();
        let (client, connection) = connect_sql(&info, "orders").await.map_err(connect_failure)?;
        Ok(SqlSession { client, driver: Box::pin(async move { drop(connection.await) }) })
    }
}

pub(crate) fn id(commit_lsn: u64, index: u32) -> EventId {
    EventId { commit_lsn: Lsn::from_u64(commit_lsn), index }
}

/// An event of a key, held behind a dead letter.
pub(crate) fn event(id: EventId, key: &str) -> HeldEvent {
    HeldEvent {
        id,
        committed_at: PgTimestamp::from_micros(1_000_000 + i64::from(id.index)),
        key: Some(key.as_bytes().to_vec()),
        hash: KeyHash::of_key(key.as_bytes()),
        event_id: Some(format!("event {id}")),
        table: "public.outbox".to_owned(),
        messages: vec![0, 255, b'\\'],
        letter: None,
    }
}

/// A dead letter.
pub(crate) fn letter(id: EventId, key: &str) -> HeldEvent {
    let letter = Letter { code: Code::HeadersMalformed, message: "it's … malformed".to_owned() };
    HeldEvent { letter: Some(letter), ..event(id, key) }
}
