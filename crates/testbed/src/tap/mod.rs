//! Reads the status updates of a replication client off the wire: the positions that it confirms,
//! as they leave the client.
//!
//! The slot shows what the server has *processed*. A walsender that is busy sending processes a
//! client's status updates late, and those of a client that dies meanwhile not at all; so only the
//! wire shows what was confirmed. A tap listens on a port of its own, forwards everything both
//! ways, and notes the highest flush position of all standby status updates.

mod updates;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_postgres::types::PgLsn;

use self::updates::Updates;
use crate::wait::eventually;

/// A running tap. Dropping it closes everything.
#[derive(Debug)]
pub struct Tap {
    port: u16,
    state: Arc<TapState>,
    // Dropping the set ends the task that listens and, with it, every connection.
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct TapState {
    flush: AtomicU64,
    open: AtomicUsize,
}

impl Tap {
    /// Starts a tap before `target`, a `host:port`, which need not listen yet and must not speak
    /// TLS.
    ///
    /// # Errors
    ///
    /// Fails when no port is free.
    pub async fn start(target: String) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(TapState::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, target, Arc::clone(&state)));
        Ok(Self { port, state, _tasks: tasks })
    }

    /// The port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The highest position that was confirmed since
    /// [`take_highest_flush`](Self::take_highest_flush).
    pub fn highest_flush(&self) -> PgLsn {
        PgLsn::from(self.state.flush.load(Ordering::Acquire))
    }

    /// Returns [`highest_flush`](Self::highest_flush), and resets it.
    pub fn take_highest_flush(&self) -> PgLsn {
        PgLsn::from(self.state.flush.swap(0, Ordering::AcqRel))
    }

    /// Waits until every connection is closed and everything that was sent on it is noted.
    ///
    /// # Errors
    ///
    /// Fails when one is still open after `deadline`.
    pub async fn closed(&self, deadline: Duration) -> anyhow::Result<()> {
        eventually(deadline, "the end of all tapped connections", async || {
            Ok((self.state.open.load(Ordering::Acquire) == 0).then_some(()))
        })
        .await
    }
}

async fn serve(listener: TcpListener, target: String, state: Arc<TapState>) {
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((client, _)) = accepted {
                state.open.fetch_add(1, Ordering::AcqRel);
                let (target, state) = (target.clone(), Arc::clone(&state));
                links.spawn(async move {
                    forward(client, &target, &state).await;
                    state.open.fetch_sub(1, Ordering::AcqRel);
                });
            },
            Some(_) = links.join_next() => {}
        }
    }
}

/// Carries one connection until one side is gone. Nothing is held back, so that the other side
/// learns of the end as it would without the tap.
async fn forward(client: TcpStream, target: &str, state: &TapState) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    if client.set_nodelay(true).is_err() || server.set_nodelay(true).is_err() {
        return;
    }
    let (from_client, mut to_client) = client.into_split();
    let (mut from_server, to_server) = server.into_split();
    let up = forward_requests(from_client, to_server, state);
    let down = async {
        drop(tokio::io::copy(&mut from_server, &mut to_client).await);
        // The client learns that the server is gone, and closes its side; a dead client does not.
        drop(to_client.shutdown().await);
    };
    tokio::pin!(up, down);
    tokio::select! {
        () = &mut up => {}
        // What the client sent before still has to be read.
        () = &mut down => up.await,
    }
}

/// Forwards what the client sends, until it closes its side or the server is gone.
async fn forward_requests(mut client: OwnedReadHalf, mut server: OwnedWriteHalf, state: &TapState) {
    let mut updates = Updates::default();
    let mut note = |bytes: &[u8]| {
        if let Some(flush) = updates.read(bytes) {
            state.flush.fetch_max(flush, Ordering::AcqRel);
        }
    };
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = client.read(&mut chunk).await {
        let bytes = chunk.get(..length).unwrap_or_default();
        note(bytes);
        // A client that does not read learns from the response to its write that the other end is
        // gone.
        let written = server.write_all(bytes).await;
        if written.is_err() || !matches!(server.as_ref().take_error(), Ok(None)) {
            break;
        }
    }
    while let Ok(length @ 1..) = client.try_read(&mut chunk) {
        note(chunk.get(..length).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
