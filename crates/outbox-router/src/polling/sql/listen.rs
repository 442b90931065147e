//! Hears of new rows by LISTEN, on a connection of its own: behind a pooler in transaction mode
//! nothing is heard, and polling goes on by its interval.

use std::{
    collections::HashMap,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use relay::{Failure, TableName, polling::TableIndex};
use tokio::time::{Instant, sleep};
use tokio_postgres::{AsyncMessage, Client};

use super::{oids::oids, setup::channel};
use crate::{
    postgres::{SqlConnection, connect_failure, connect_sql, sql_failure},
    shell::Endpoint,
};

/// The wait before another attempt to connect.
const PAUSE: Duration = Duration::from_secs(5);

/// A connection on which nothing was heard for so long is made again: a table may have been dropped
/// and made anew, and a connection may be dead that no end says so of.
const QUIET: Duration = Duration::from_secs(300);

/// How long connecting may take, with the statements.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// Hears of new rows.
pub struct Listener {
    endpoint: Endpoint,
    tables: Vec<TableName>,
    quiet: Duration,
    state: State,
    hears: Hears,
}

/// Whether it was said that nothing is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hears {
    Yes,
    No,
}

enum State {
    /// Opens a connection. It is kept here, so that nothing is lost when it is not awaited.
    Connecting(Pin<Box<dyn Future<Output = Result<Listening, Failure>> + Send>>),
    /// And until when it may be quiet.
    Listening(Box<Listening>, Pin<Box<tokio::time::Sleep>>),
    Pausing(Pin<Box<tokio::time::Sleep>>),
}

struct Listening {
    /// Keeps the connection open.
    _client: Client,
    connection: Box<SqlConnection>,
    tables: HashMap<String, TableIndex>,
}

impl Listener {
    /// Opens no connection yet.
    pub fn new(endpoint: Endpoint, tables: Vec<TableName>) -> Self {
        Self::made_again_after(QUIET, endpoint, tables)
    }

    /// With another time after which a connection on which nothing was heard is made again.
    pub fn made_again_after(quiet: Duration, endpoint: Endpoint, tables: Vec<TableName>) -> Self {
        let state = State::Connecting(connect(endpoint.clone(), tables.clone()));
        Self { endpoint, tables, quiet, state, hears: Hears::Yes }
    }

    fn connect(&self) -> State {
        State::Connecting(connect(self.endpoint.clone(), self.tables.clone()))
    }

    /// The next table that has new rows. It never fails: without a connection it waits for one.
    /// Cancel-safe. What was announced while there was none is not heard of.
    pub async fn next(&mut self) -> TableIndex {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<TableIndex> {
        loop {
            self.state = match &mut self.state {
                State::Connecting(connecting) => match ready!(connecting.as_mut().poll(context)) {
                    Ok(listening) => {
                        if std::mem::replace(&mut self.hears, Hears::Yes) == Hears::No {
                            tracing::info!("NOTIFY is heard again");
                        }
                        State::Listening(Box::new(listening), Box::pin(sleep(self.quiet)))
                    }
                    Err(failure) => {
                        if std::mem::replace(&mut self.hears, Hears::No) == Hears::Yes {
                            tracing::warn!(
                                code = %failure.code,
                                "no NOTIFY is heard, so tables are read once an interval: \
                                 {failure:#}"
                            );
                        }
                        pause()
                    }
                },
                State::Listening(listening, until) => match listening.poll_next(context) {
                    Poll::Ready(Some(table)) => {
                        until.as_mut().reset(Instant::now() + self.quiet);
                        return Poll::Ready(table);
                    }
                    Poll::Ready(None) => pause(),
                    Poll::Pending => {
                        ready!(until.as_mut().poll(context));
                        self.connect()
                    }
                },
                State::Pausing(pause) => {
                    ready!(pause.as_mut().poll(context));
                    self.connect()
                }
            };
        }
    }
}

impl Listening {
    /// The table of the next notification; `None` when the connection has ended.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<TableIndex>> {
        loop {
            match ready!(self.connection.poll_message(context)) {
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    if let Some(table) = self.tables.get(notification.channel()) {
                        return Poll::Ready(Some(*table));
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::debug!(%error, "the connection that listens ended");
                    return Poll::Ready(None);
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

fn pause() -> State {
    State::Pausing(Box::pin(sleep(PAUSE)))
}

fn connect(
    endpoint: Endpoint,
    tables: Vec<TableName>,
) -> Pin<Box<dyn Future<Output = Result<Listening, Failure>> + Send>> {
    Box::pin(async move {
        let connecting = tokio::time::timeout(CONNECT_LIMIT, open(&endpoint, &tables)).await;
        connecting.unwrap_or_else(|_| {
            let what = "PostgreSQL did not answer the connection that listens";
            Err(Failure::new(relay::Code::ServerUnreachable, what))
        })
    })
}

async fn open(endpoint: &Endpoint, tables: &[TableName]) -> Result<Listening, Failure> {
    let (client, connection) = connect_sql(&endpoint.conninfo, &endpoint.application_name)
        .await
        .map_err(connect_failure)?;
    let mut connection = Box::new(connection);
    let mut channels = HashMap::new();
    let listen = async {
        let oids = oids(&client, tables).await?;
        for (place, table) in tables.iter().enumerate() {
            let Some(oid) = oids.get(table) else { continue };
            let channel = channel(*oid);
            client.batch_execute(&format!("listen {channel}")).await.map_err(sql_failure)?;
            channels.insert(channel, TableIndex(place));
        }
        Ok(())
    };
    let mut listen = Box::pin(listen);
    poll_fn(|context| {
        // What is announced already is read by the first fetch.
        while let Poll::Ready(message) = connection.poll_message(context) {
            match message {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(sql_failure(error))),
                None => {
                    let what = "the connection that listens was closed";
                    return Poll::Ready(Err(Failure::new(relay::Code::ServerUnreachable, what)));
                }
            }
        }
        listen.as_mut().poll(context)
    })
    .await?;
    drop(listen);
    Ok(Listening { _client: client, connection, tables: channels })
}
