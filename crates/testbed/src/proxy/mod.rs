//! A TCP proxy that simulates network faults: it pauses, cuts, refuses, delays and drops, or holds
//! responses back, by command and while it runs.
//!
//! It listens on a loopback port of its own and forwards to a target that may change. A command is
//! in force when its call returns, but for a read or write in progress.

mod link;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::ports::free_port;
use crate::wait::until_ok;

/// Which bytes a fault concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Answers,
    /// Both.
    Both,
}

/// What the proxy does with bytes and with new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyMode {
    /// Everything passes.
    Forward,
    /// Nothing is read in that direction: the sender's TCP window fills, and the sender has to
    /// wait.
    Pause(Direction),
    /// Nothing listens: connecting fails at once. Connections that are open stay.
    Refuse,
    /// Connections are accepted and bytes read, and nothing is forwarded. Connections that lost
    /// bytes are closed when this mode ends.
    BlackHole,
    /// Requests pass. Responses are read from the server and kept, up to some megabytes for each
    /// connection, until another mode lets them pass, in order.
    HoldAnswers,
}

#[derive(Debug, Clone)]
struct ProxyState {
    target: String,
    mode: ProxyMode,
    delay: Duration,
    /// Connections of an earlier epoch are closed.
    epoch: u64,
}

/// Bytes forwarded so far.
#[derive(Debug, Default)]
struct ForwardedBytes {
    requests: AtomicU64,
    answers: AtomicU64,
    connections: AtomicU64,
}

/// A running proxy. Dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    control: watch::Sender<ProxyState>,
    listening: watch::Receiver<Listening>,
    passed: Arc<ForwardedBytes>,
    // Dropping the set ends the task that listens and, with it, every connection.
    _tasks: JoinSet<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listening {
    Yes,
    No,
}

impl Proxy {
    /// Starts a proxy to `target`, a `host:port`, which need not listen yet.
    ///
    /// # Errors
    ///
    /// Fails when no port is free.
    pub fn start(target: impl Into<String>) -> anyhow::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let listener = listen(address)?;
        let (control, state) = watch::channel(ProxyState {
            target: target.into(),
            mode: ProxyMode::Forward,
            delay: Duration::ZERO,
            epoch: 0,
        });
        let (listening_sender, listening) = watch::channel(Listening::Yes);
        let passed = Arc::new(ForwardedBytes::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(address, listener, state, listening_sender, Arc::clone(&passed)));
        Ok(Self { address, control, listening, passed, _tasks: tasks })
    }

    /// `127.0.0.1:PORT`, where clients connect.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The port alone.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Forwards connections that are made from now on to another target.
    pub fn set_target(&self, target: impl Into<String>) {
        self.control.send_modify(|control| control.target = target.into());
    }

    /// Changes what is done with bytes and new connections.
    ///
    /// # Errors
    ///
    /// Fails when the proxy cannot listen on its port any more.
    pub async fn set(&self, mode: ProxyMode) -> anyhow::Result<()> {
        self.control.send_modify(|control| control.mode = mode);
        let wanted = if mode == ProxyMode::Refuse { Listening::No } else { Listening::Yes };
        let mut listening = self.listening.clone();
        listening.wait_for(|now| *now == wanted).await.context("the proxy has ended")?;
        Ok(())
    }

    /// Lets every byte arrive this much later, in both directions.
    pub fn delay(&self, by: Duration) {
        self.control.send_modify(|control| control.delay = by);
    }

    /// Closes every connection now; bytes in the proxy are lost. New connections are accepted.
    pub fn cut(&self) {
        self.control.send_modify(|control| control.epoch += 1);
    }

    /// Bytes that reached the server.
    pub fn request_bytes(&self) -> u64 {
        self.passed.requests.load(Ordering::Relaxed)
    }

    /// Bytes that reached the clients.
    pub fn answer_bytes(&self) -> u64 {
        self.passed.answers.load(Ordering::Relaxed)
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.passed.connections.load(Ordering::Relaxed)
    }
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket.listen(128)?)
}

async fn serve(
    address: SocketAddr,
    listener: TcpListener,
    mut state: watch::Receiver<ProxyState>,
    listening_sender: watch::Sender<Listening>,
    passed: Arc<ForwardedBytes>,
) {
    let mut listener = Some(listener);
    let mut links = JoinSet::new();
    loop {
        let refuse = state.borrow_and_update().mode == ProxyMode::Refuse;
        if refuse {
            listener = None;
        } else if listener.is_none() {
            let again = until_ok(Duration::from_secs(30), "the port of the proxy", || {
                std::future::ready(listen(address))
            });
            listener = again.await.ok();
        }
        listening_sender.send_replace(if listener.is_some() {
            Listening::Yes
        } else {
            Listening::No
        });
        tokio::select! {
            accepted = accept(listener.as_ref()) => if let Some(client) = accepted {
                passed.connections.fetch_add(1, Ordering::Relaxed);
                links.spawn(link::forward(client, state.clone(), Arc::clone(&passed)));
            },
            changed = state.changed() => if changed.is_err() { return },
            Some(_) = links.join_next() => {}
        }
    }
}

/// The next connection; never returns while nothing listens.
async fn accept(listener: Option<&TcpListener>) -> Option<tokio::net::TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.ok().map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
