//! A connection that is opened when it is needed, and kept for as long as the server answers on it,
//! also with an error. After a request whose answer was not awaited it is in an unknown state: then
//! the next request has another one. A standby's is not kept, either: the next one may lead to the
//! primary.

use std::{future::poll_fn, task::Poll, time::Duration};

use relay::{Case, Code, Failure, delivered::ServerSession};
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use crate::{
    monitor::{
        Connect, SqlSession,
        connection::{Driver, drive_without_limit},
    },
    postgres::sql_failure,
};

/// How long reading and marking may take: past the server's own limit nobody is there.
pub(super) const REQUEST_LIMIT: Duration = Duration::from_secs(75);

/// How long the server may take to end a transaction that has failed.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(5);

/// See the module's header.
pub(super) struct Connection<C> {
    connect: C,
    open: Option<SqlSession>,
    /// The number of the connection that was opened last.
    session: ServerSession,
}

impl<C: Connect> Connection<C> {
    pub(super) fn new(connect: C) -> Self {
        Self { connect, open: None, session: ServerSession::default() }
    }

    /// The number of the connection that was opened last.
    pub(super) const fn session(&self) -> ServerSession {
        self.session
    }

    /// Carries out `work`, for no longer than `limit`.
    ///
    /// # Errors
    /// Those of `work`; there is no connection, it ends, or nobody answers in time (P001).
    pub(super) async fn ask<T>(
        &mut self,
        limit: Duration,
        work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let session = match self.take_open().await {
            Some(session) => session,
            None => {
                let session = self.connect.connect().await?;
                self.session = self.session.next();
                session
            }
        };
        self.carry_out(session, limit, work).await
    }

    /// The same on the connection of this number. `None`: it is lost, and nothing is done.
    ///
    /// # Errors
    /// Those of `work`; the connection ends, or nobody answers in time (P001).
    pub(super) async fn ask_in<T>(
        &mut self,
        number: ServerSession,
        limit: Duration,
        work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        let open = self.take_open().await;
        if self.session != number {
            self.open = open;
            return Ok(None);
        }
        let Some(session) = open else { return Ok(None) };
        self.carry_out(session, limit, work).await.map(Some)
    }

    async fn carry_out<T>(
        &mut self,
        mut session: SqlSession,
        limit: Duration,
        work: impl AsyncFnOnce(&Client) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let SqlSession { client, driver } = &mut session;
        let answer = drive(driver, limit, work(client)).await;
        let is_kept = match &answer {
            Ok(_) => true,
            Err(failure) if failure.case == Some(Case::Standby) => false,
            Err(_) => is_usable(&mut session).await,
        };
        if is_kept {
            self.open = Some(session);
        }
        answer
    }

    /// The open connection, if there is one.
    async fn take_open(&mut self) -> Option<SqlSession> {
        let mut session = self.open.take()?;
        (!is_closed(&mut session).await).then_some(session)
    }
}

/// Whether the server still answers after an error. It ends the transaction that has failed.
async fn is_usable(session: &mut SqlSession) -> bool {
    let SqlSession { client, driver } = session;
    // A driver that has ended must not be polled.
    if client.is_closed() {
        return false;
    }
    let end = async { client.batch_execute("rollback").await.map_err(sql_failure) };
    drive(driver, ROLLBACK_LIMIT, end).await.is_ok()
}

/// Whether the connection has ended, as far as is known without asking the server.
async fn is_closed(session: &mut SqlSession) -> bool {
    let driver = &mut session.driver;
    // What arrived meanwhile is read here; nobody polls the driver between two requests.
    let ended = poll_fn(|context| Poll::Ready(driver.as_mut().poll(context).is_ready())).await;
    ended || session.client.is_closed()
}

/// Runs `work` while polling the connection, for no longer than `limit`.
async fn drive<T>(
    driver: &mut Driver,
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let both = drive_without_limit(driver, work, "the connection of the polling source");
    match tokio::time::timeout(limit, both).await {
        Ok(result) => result,
        Err(_) => {
            let seconds = limit.as_secs();
            let what = format!("PostgreSQL did not answer the polling source within {seconds} s");
            Err(Failure::new(Code::ServerUnreachable, what))
        }
    }
}

/// The answer to one statement.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) rows: Vec<SimpleQueryRow>,
    /// How many rows it has returned or changed.
    pub(super) count: u64,
}

/// Runs statements, and returns the answer to each.
pub(super) async fn run(client: &Client, sql: &str) -> Result<Vec<Answer>, tokio_postgres::Error> {
    let (mut answers, mut present) = (Vec::new(), Answer::default());
    for message in client.simple_query(sql).await? {
        if let SimpleQueryMessage::CommandComplete(count) = message {
            present.count = count;
            answers.push(std::mem::take(&mut present));
        } else if let SimpleQueryMessage::Row(row) = message {
            present.rows.push(row);
        }
    }
    Ok(answers)
}
