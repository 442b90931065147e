//! A byte stream to the server: TCP, TCP under TLS, or a unix socket, behind one type.
//!
//! The TLS rules of libpq's `sslmode` are enforced here. Encryption is asked for with one
//! SSLRequest; plain text follows only after a clear "no", where the mode allows it, and never
//! after a failed handshake. Exactly one byte is read as the answer, so bytes that an attacker
//! sends behind it cannot be taken for decrypted data: they reach the handshake and break it.

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
use super::{ConnInfo, Host, SslMode, tcp_info, tls};

/// Options of the TCP socket.
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

/// Idle time before the kernel probes a silent peer, and time between probes. With three lost
/// probes, a dead peer is detected after half a minute.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;

/// How many bytes TLS reads from the kernel at once. By default it reads 4 KiB, and every such read
/// acknowledges, so that the server goes on in small packets: 0.6 times the events a second
/// (`docs/performance-log.md`). Pages that are never filled cost nothing.
const READ_AHEAD: usize = 1024 * 1024;

/// The stream.
#[derive(Debug)]
pub enum Transport {
    /// Plain TCP.
    Tcp(TcpStream),
    /// TCP under TLS, and what the handshake showed of the peer.
    Tls(Box<TlsStream<BufReader<TcpStream>>>, tls::Peer),
    /// A socket in the file system.
    Unix(UnixStream),
}

/// Who could read what is sent. A password in clear text is sent only on [`Privacy::Verified`] and
/// [`Privacy::Local`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// The server alone: the connection is encrypted, and the server's certificate was verified.
    Verified,
    /// Only processes of this machine: the connection does not leave it.
    Local,
    /// The peer, which may be an impostor: the connection is encrypted, and no certificate was
    /// verified.
    Unverified,
    /// Everybody on the network path: the connection is not encrypted.
    Exposed,
}

impl Privacy {
    fn of(encryption: Option<tls::Peer>, address: Option<IpAddr>) -> Self {
        let is_local = address.is_some_and(|address| address.to_canonical().is_loopback());
        match encryption {
            Some(tls::Peer::Verified) => Self::Verified,
            // TLS without verification protects at least as well as no TLS.
            Some(tls::Peer::Unverified) | None if is_local => Self::Local,
            Some(tls::Peer::Unverified) => Self::Unverified,
            None => Self::Exposed,
        }
    }
}

impl Transport {
    /// Follows from the address that is connected, not from how the host was written.
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

    /// Whether the connection is under TLS, verified or not.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(..))
    }

    /// How long the socket may stay unread while the server sends, without making the server wait.
    ///
    /// With TCP, the sender's buffer and the receiver's hold megabytes each. A unix socket has the
    /// sender's alone, 208 KiB (`net.core.wmem_default`), of which every message takes some 0.75
    /// KiB however small it is: it is full after half a millisecond.
    #[must_use]
    pub fn max_unread(&self) -> Duration {
        match self {
            Self::Tcp(_) | Self::Tls(..) => Duration::MAX,
            Self::Unix(_) => Duration::from_micros(250),
        }
    }

    /// How many TCP segments with data have arrived; it wraps around. `None` for a unix socket, and
    /// where the kernel does not say.
    pub(super) fn segments_received(&self) -> Option<u32> {
        match self {
            Self::Tcp(stream) => tcp_info::segments_received(stream),
            Self::Tls(stream, _) => tcp_info::segments_received(stream.get_ref().0.get_ref()),
            Self::Unix(_) => None,
        }
    }

    /// `tls-server-end-point` (RFC 5929): the data that bind a SCRAM exchange to this TLS session;
    /// `None` without TLS, or where the certificate has none.
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

    /// Reads what has arrived, from the kernel directly: the runtime learns of new bytes only while
    /// its task waits.
    pub(super) fn read_now(&mut self, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => received(SockRef::from(&*stream), room),
            Self::Unix(stream) => received(SockRef::from(&*stream), room),
            // TLS records have to be decrypted, so they are read through the runtime.
            Self::Tls(stream, _) => {
                Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), room)
            }
        }
    }

    /// Connects and, where the mode says so, encrypts. The caller sets the time limit for the
    /// whole.
    ///
    /// # Errors
    /// The name cannot be resolved, nothing answers, TLS cannot be prepared, is refused or fails,
    /// or the connection breaks.
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
    // An address that does not answer at all must leave time for the next one.
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
    // SO_RCVBUF is left to the kernel, since a buffer of fixed size can be overrun. Linux (6.6 and
    // later) estimates from large segments how much data its memory holds, and offers that much;
    // small messages need more memory. While nobody reads, because Kafka is unreachable, the kernel
    // then drops data for which it had offered room, and everything beyond, even the
    // acknowledgements of the router's own status updates. The walsender backs off, receives
    // nothing from the router, and ends the connection after `wal_sender_timeout`. A buffer that
    // the kernel tunes grows instead, and is emptied as fast (`docs/performance-log.md`).
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
    // Before anything is sent: whether a missing file is reported should not depend on the server's
    // answer.
    let client = tls::client(info).map_err(setup)?;
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    let closed = |source| ConnectError::Closed { target: target(), source: Some(source) };
    stream.write_all(&request).await.map_err(closed)?;
    match stream.read_u8().await.map_err(closed)? {
        b'S' => {}
        b'N' if info.sslmode == SslMode::Prefer => return Ok(Transport::Tcp(stream)),
        b'N' => return Err(ConnectError::TlsRefused { target: target(), mode: info.sslmode }),
        // Also an ErrorResponse, whose text is not shown because it is not authenticated.
        answer => return Err(ConnectError::TlsAnswer { target: target(), answer }),
    }
    client
        .connector
        .connect(client.server_name, BufReader::with_capacity(READ_AHEAD, stream))
        .await
        .map(|stream| Transport::Tls(Box::new(stream), client.peer))
        .map_err(|source| ConnectError::TlsHandshake { target: target(), source })
}

/// Reads from the kernel; the socket is in non-blocking mode.
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
    fn the_privacy_of_a_connection_follows_from_its_certificate_and_the_peers_address() {
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
