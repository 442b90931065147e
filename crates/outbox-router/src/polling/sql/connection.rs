//! A connection that is opened when it is needed and kept after an answer. After an error, and
//! after a request whose answer was not awaited, it is in an unknown state: then the next request
//! has another one.

use std::{future::poll_fn, task::Poll, time::Duration};

use relay::{Code, Failure};
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use crate::monitor::{
    Connect, SqlSession,
    connection::{Driver, drive_without_limit},
};

/// How long reading and marking may take: past the server's own limit nobody is there.
pub(super) const REQUEST_LIMIT: Duration = Duration::from_secs(75);

/// See the module's header.
pub(super) struct Connection<C> {
    connect: C,
    open: Option<SqlSession>,
}

impl<C: Connect> Connection<C> {
    pub(super) const fn new(connect: C) -> Self {
        Self { connect, open: None }
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
        let mut session = self.take().await?;
        let SqlSession { client, driver } = &mut session;
        let answer = drive(driver, limit, work(client)).await?;
        self.open = Some(session);
        Ok(answer)
    }

    /// The open connection, or another one. After an error it is not kept.
    async fn take(&mut self) -> Result<SqlSession, Failure> {
        if let Some(mut session) = self.open.take()
            && !is_closed(&mut session).await
        {
            return Ok(session);
        }
        self.connect.connect().await
    }
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
