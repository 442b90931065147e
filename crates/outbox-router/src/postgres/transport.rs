//! A byte stream to the server: TCP, TCP under TLS, or a unix socket, behind one type.
//!
//! The TLS rules of libpq's `sslmode` live here: encryption is asked for with one SSLRequest; plain
//! text follows only a clear "no" and only where the mode allows it, never a failed handshake.
//! Exactly one byte is read as the answer, so nothing an attacker slips in behind it can be taken
//! for decrypted data: it would reach the handshake and break it.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use super::errors::ConnectError;
use super::{ConnInfo, Host, SslMode, tls};

/// What to ask of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SocketOptions {
    /// How long sent data may stay unacknowledged by the peer's kernel before the connection counts
    /// as dead.
    pub user_timeout: Duration,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self { user_timeout: Duration::from_secs(30) }
    }
}

/// Idle time before the kernel probes a silent peer, and between probes. Together with three lost
/// probes: half a minute.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;

/// What TLS takes from the kernel in one go. By itself it asks for 4 KiB, and every such read
/// acknowledges, so that the server sends on in small packets: 0.6 times the events a second
/// (`docs/performance-log.md`). Pages that are never filled cost nothing.
const READ_AHEAD: usize = 1024 * 1024;

/// The stream.
#[derive(Debug)]
pub enum Transport {
    /// Plain TCP.
    Tcp(TcpStream),
    /// TCP under TLS, and whether the certificate was checked.
    Tls(Box<TlsStream<BufReader<TcpStream>>>, tls::Peer),
    /// A socket in the file system.
    Unix(UnixStream),
}

/// Who could read what is sent. Only the first two are fit for a password in clear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// The server alone: it is encrypted, and the server's certificate was checked.
    Verified,
    /// Nobody else: it does not leave this machine.
    Local,
    /// Whoever answered, and that may be somebody on the way: it is encrypted, and no certificate
    /// was checked.
    Unverified,
    /// Anybody on the way.
    Exposed,
}

impl Privacy {
    fn of(encryption: Option<tls::Peer>, address: Option<IpAddr>) -> Self {
        let is_local = address.is_some_and(|address| address.to_canonical().is_loopback());
        match encryption {
            Some(tls::Peer::Verified) => Self::Verified,
            // TLS that verifies nothing is no worse than none.
            Some(tls::Peer::Unverified) | None if is_local => Self::Local,
            Some(tls::Peer::Unverified) => Self::Unverified,
            None => Self::Exposed,
        }
    }
}

impl Transport {
    /// Decided by what was really connected, not by how the host was written.
    #[must_use]
    pub fn privacy(&self) -> Privacy {
        let address = |stream: &TcpStream| stream.peer_addr().ok().map(|address| address.ip());
        match self {
            Self::Unix(_) => Privacy::Local,
            Self::Tcp(stream) => Privacy::of(None, address(stream)),
            Self::Tls(stream, peer) => {
                Privacy::of(Some(*peer), address(stream.get_ref().0.get_ref()))
            }
        }
    }

    /// Whether TLS protects it, whoever the other end may be.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(..))
    }

    /// How long the socket may be left alone while the server sends, without making the server
    /// wait.
    ///
    /// TCP has the sender's buffer and ours, megabytes each. A unix socket has the sender's alone,
    /// 208 KiB (`net.core.wmem_default`), of which every message takes some 0.75 KiB however small
    /// it is: half a millisecond's worth.
    #[must_use]
    pub fn rest(&self) -> Duration {
        match self {
            Self::Tcp(_) | Self::Tls(..) => Duration::MAX,
            Self::Unix(_) => Duration::from_micros(250),
        }
    }

    /// `tls-server-end-point` (RFC 5929): what ties a SCRAM exchange to this very TLS session.
    #[must_use]
    pub fn channel_binding(&self) -> Option<Vec<u8>> {
        match self {
            Self::Tls(stream, _) => {
                let (_, session) = stream.get_ref();
                let certificate = session.peer_certificates()?.first()?;
                tls::server_end_point(certificate)
            }
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// Reads what is there without asking the runtime, which learns of it only while its task
    /// waits.
    pub(super) fn read_now(&mut self, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => received(SockRef::from(&*stream), room),
            Self::Unix(stream) => received(SockRef::from(&*stream), room),
            // Behind the runtime's back its records could not be decrypted.
            Self::Tls(stream, _) => {
                Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), room)
            }
        }
    }

    /// Connects and, where the mode wants it, encrypts. The caller sets the time limit for the
    /// whole.
    pub(super) async fn connect(
        info: &ConnInfo,
        options: &SocketOptions,
    ) -> Result<Self, ConnectError> {
        let stream = match &info.host {
            Host::Unix(_) => {
                let path = info.socket_path();
                let stream = UnixStream::connect(&path).await;
                // As in libpq, sslmode says nothing about a unix socket.
                return stream.map(Self::Unix).map_err(|source| unreachable(info, source));
            }
            Host::Tcp(name) => connect_tcp(info, name, options).await?,
        };
        match info.sslmode {
            SslMode::Disable => Ok(Self::Tcp(stream)),
            SslMode::Prefer | SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
                encrypt(info, stream).await
            }
        }
    }
}

fn unreachable(info: &ConnInfo, source: io::Error) -> ConnectError {
    ConnectError::Unreachable { target: info.target(), source }
}

async fn connect_tcp(
    info: &ConnInfo,
    name: &str,
    options: &SocketOptions,
) -> Result<TcpStream, ConnectError> {
    let addresses: Vec<SocketAddr> = match info.hostaddr {
        Some(address) => vec![SocketAddr::new(address, info.port)],
        None => tokio::net::lookup_host((name, info.port))
            .await
            .map_err(|source| ConnectError::Resolve { target: info.target(), source })?
            .collect(),
    };
    // One address that swallows packets must leave time for the next.
    let share = info.connect_timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let attempt = tokio::time::timeout(share, connect_address(address, options)).await;
        match attempt.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(unreachable(info, last))
}

async fn connect_address(address: SocketAddr, options: &SocketOptions) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    let raw = SockRef::from(&socket);
    // SO_RCVBUF is left to the kernel, since a fixed buffer can be overrun. Linux (6.6 and later)
    // judges by large segments how much data its memory holds, and offers that much; small messages
    // need more. While nobody reads, because Kafka is away, it then drops what it had offered room
    // for, and all that lies beyond, even the acknowledgements of our own status updates. The
    // walsender backs off, hears nothing of us, and ends the connection after `wal_sender_timeout`.
    // A buffer that the kernel tunes grows instead, and drains as fast (`docs/performance-log.md`).
    raw.set_tcp_nodelay(true)?;
    raw.set_tcp_user_timeout(Some(options.user_timeout))?;
    raw.set_tcp_keepalive(
        &TcpKeepalive::new()
            .with_time(KEEPALIVE_IDLE)
            .with_interval(KEEPALIVE_INTERVAL)
            .with_retries(KEEPALIVE_PROBES),
    )?;
    socket.connect(address).await
}

async fn encrypt(info: &ConnInfo, mut stream: TcpStream) -> Result<Transport, ConnectError> {
    let target = || info.target();
    let setup = |source| ConnectError::TlsSetup { target: target(), source };
    // Before a word is sent: a missing file should not depend on what the server answers.
    let client = tls::client(info).map_err(setup)?;
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    let closed = |source| ConnectError::Closed { target: target(), source: Some(source) };
    stream.write_all(&request).await.map_err(closed)?;
    match stream.read_u8().await.map_err(closed)? {
        b'S' => {}
        b'N' if info.sslmode == SslMode::Prefer => return Ok(Transport::Tcp(stream)),
        b'N' => return Err(ConnectError::TlsRefused { target: target(), mode: info.sslmode }),
        // Also an ErrorResponse: it is unauthenticated, so its text is not worth showing.
        answer => return Err(ConnectError::TlsAnswer { target: target(), answer }),
    }
    client
        .connector
        .connect(client.server_name, BufReader::with_capacity(READ_AHEAD, stream))
        .await
        .map(|stream| Transport::Tls(Box::new(stream), client.peer))
        .map_err(|source| ConnectError::TlsHandshake { target: target(), source })
}

/// Straight from the kernel; the socket is in non-blocking mode.
fn received(socket: SockRef<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    match (&*socket).read(room.initialize_unfilled()) {
        Ok(count) => {
            room.advance(count);
            Poll::Ready(Ok(()))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        Err(error) => Poll::Ready(Err(error)),
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream, _) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream, _) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream, _) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream, _) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_read_along_follows_from_the_certificate_and_from_where_the_peer_is() {
        let (here, mapped) = ("127.0.0.9".parse().ok(), "::ffff:127.0.0.1".parse().ok());
        let elsewhere = "192.0.2.7".parse().ok();
        let (verified, unverified) = (Some(tls::Peer::Verified), Some(tls::Peer::Unverified));
        for (encryption, address, expected) in [
            (None, here, Privacy::Local),
            (None, mapped, Privacy::Local),
            (None, elsewhere, Privacy::Exposed),
            // A connection that is already gone has no address.
            (None, None, Privacy::Exposed),
            (unverified, here, Privacy::Local),
            (unverified, elsewhere, Privacy::Unverified),
            (unverified, None, Privacy::Unverified),
            (verified, here, Privacy::Verified),
            (verified, elsewhere, Privacy::Verified),
        ] {
            let found = Privacy::of(encryption, address);
            assert_eq!(found, expected, "{encryption:?} {address:?}");
        }
    }
}
