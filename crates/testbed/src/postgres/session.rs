//! A SQL session and the task that carries its bytes.

use std::io::Cursor;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use futures_util::SinkExt;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

/// A `tokio_postgres::Client` whose connection ends when this is dropped.
#[derive(Debug)]
pub struct DatabaseSession {
    client: Client,
    // Dropping the set ends its task and with it the connection.
    _connection: JoinSet<()>,
}

impl DatabaseSession {
    /// Opens a session.
    ///
    /// # Errors
    ///
    /// Fails when the server cannot be reached or refuses.
    pub async fn open(url: &str) -> anyhow::Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls)
            .await
            .with_context(|| format!("cannot connect to {url}"))?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // The client reports a broken connection with every later call.
            drop(connection.await);
        });
        Ok(Self { client, _connection: tasks })
    }
}

/// `COPY … FROM STDIN` of lines in the text format, with a pause after each.
///
/// # Errors
///
/// Fails when the server refuses.
pub async fn copy_in(
    client: &Client,
    sql: &str,
    lines: &[String],
    pause: Duration,
) -> anyhow::Result<()> {
    let mut sink = pin!(client.copy_in(sql).await?);
    for line in lines {
        sink.send(Cursor::new(line.clone().into_bytes())).await?;
        if !pause.is_zero() {
            sink.flush().await?;
            sleep(pause).await;
        }
    }
    sink.finish().await?;
    Ok(())
}

impl Deref for DatabaseSession {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for DatabaseSession {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}
