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
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Client};

use super::{oids::oids, setup::channel};
use crate::{
    postgres::{SqlConnection, connect_failure, connect_sql_for, sql_failure},
    shell::Endpoint,
};

/// The wait before another attempt to connect.
const PAUSE: Duration = Duration::from_secs(5);

/// A connection is made again after so long: a table may have been dropped and made anew, and a
/// connection may be dead that no end says so of.
const RENEWED_AFTER: Duration = Duration::from_secs(300);

/// How long connecting may take, with the statements.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

/// Hears of new rows.
pub struct Listener {
    endpoint: Endpoint,
    tables: Vec<TableName>,
    renewed_after: Duration,
    state: State,
    hears: Hears,
}

/// Whether it was said that nothing is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hears {
    Yes,
    No,
}

/// Opens a connection. It is kept, so that nothing is lost when it is not awaited.
type Connecting = Pin<Box<dyn Future<Output = Result<Listening, Failure>> + Send>>;

enum State {
    Connecting(Connecting),
    Listening(Box<Listening>, Next),
    Pausing(Pin<Box<tokio::time::Sleep>>),
}

/// What takes the place of a connection, on which it is heard until the next one is there.
enum Next {
    At(Pin<Box<tokio::time::Sleep>>),
    Connecting(Connecting),
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
        Self::renewed_after(RENEWED_AFTER, endpoint, tables)
    }

    /// With another time after which the connection is made again.
    pub fn renewed_after(
        renewed_after: Duration,
        endpoint: Endpoint,
        tables: Vec<TableName>,
    ) -> Self {
        let state = State::Connecting(connect(endpoint.clone(), tables.clone()));
        Self { endpoint, tables, renewed_after, state, hears: Hears::Yes }
    }

    /// The next table that has new rows. It never fails: without a connection it waits for one.
    /// Cancel-safe. What was announced while there was none is not heard of.
    pub async fn next(&mut self) -> TableIndex {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<TableIndex> {
        loop {
            self.state = match &mut self.state {
                State::Connecting(connecting) => {
                    let answer = ready!(connecting.as_mut().poll(context));
                    self.connected(answer)
                }
                State::Listening(listening, next) => match listening.poll_next(context) {
                    Poll::Ready(Some(table)) => return Poll::Ready(table),
                    Poll::Ready(None) => pause(),
                    Poll::Pending => match next {
                        Next::At(at) => {
                            ready!(at.as_mut().poll(context));
                            let (endpoint, tables) = (self.endpoint.clone(), self.tables.clone());
                            *next = Next::Connecting(connect(endpoint, tables));
                            continue;
                        }
                        Next::Connecting(connecting) => {
                            let Ok(next) = ready!(connecting.as_mut().poll(context)) else {
                                // This one is heard meanwhile.
                                *next = Next::At(Box::pin(sleep(PAUSE)));
                                continue;
                            };
                            self.connected(Ok(next))
                        }
                    },
                },
                State::Pausing(pause) => {
                    ready!(pause.as_mut().poll(context));
                    State::Connecting(connect(self.endpoint.clone(), self.tables.clone()))
                }
            };
        }
    }

    fn connected(&mut self, answer: Result<Listening, Failure>) -> State {
        match answer {
            Ok(listening) => {
                if std::mem::replace(&mut self.hears, Hears::Yes) == Hears::No {
                    tracing::info!("NOTIFY is heard again");
                }
                let next = Next::At(Box::pin(sleep(self.renewed_after)));
                State::Listening(Box::new(listening), next)
            }
            Err(failure) => {
                if std::mem::replace(&mut self.hears, Hears::No) == Hears::Yes {
                    tracing::warn!(
                        code = %failure.code,
                        "no NOTIFY is heard, so tables are read once an interval: {failure:#}"
                    );
                }
                pause()
            }
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

fn connect(endpoint: Endpoint, tables: Vec<TableName>) -> Connecting {
    Box::pin(async move {
        let connecting = tokio::time::timeout(CONNECT_LIMIT, open(&endpoint, &tables)).await;
        connecting.unwrap_or_else(|_| {
            let what = "PostgreSQL did not answer the connection that listens";
            Err(Failure::new(relay::Code::ServerUnreachable, what))
        })
    })
}

async fn open(endpoint: &Endpoint, tables: &[TableName]) -> Result<Listening, Failure> {
    let (client, connection) =
        connect_sql_for(endpoint.session, &endpoint.conninfo, &endpoint.application_name)
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
        // What is announced meanwhile is read by the first fetch, or an interval later.
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
