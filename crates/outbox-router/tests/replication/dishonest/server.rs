//! A server that answers by a script, to each of the router's two connections in turn.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;

use outbox_router::postgres::{
    ConnInfo, ConnectError, Options, ReplicationConnection, connect_sql,
};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::cluster::DEADLINE;

pub(crate) const PASSWORD: &str = "canary";

/// AuthenticationOk, a parameter, the key for cancelling, ReadyForQuery.
pub(crate) const SESSION: &[u8] = b"R\0\0\0\x08\0\0\0\0S\0\0\0\x16server_version\x0015\0K\0\0\0\x0c\0\0\0\x07\0\0\0\x09Z\0\0\0\x05I";
/// AuthenticationOk alone.
pub(crate) const OK: &[u8] = b"R\0\0\0\x08\0\0\0\0";
/// AuthenticationCleartextPassword.
pub(crate) const CLEARTEXT: &[u8] = b"R\0\0\0\x08\0\0\0\x03";

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// The server's end of one connection.
pub(crate) struct Conversation {
    stream: Option<Box<dyn Stream>>,
    /// Everything that came, decrypted.
    pub(crate) got: Vec<u8>,
}

impl Conversation {
    fn stream(&mut self) -> &mut dyn Stream {
        self.stream.as_mut().unwrap()
    }

    async fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream().read_exact(&mut bytes).await?;
        self.got.extend(&bytes);
        Ok(bytes)
    }

    async fn body(&mut self) -> io::Result<Vec<u8>> {
        let length = self.take(4).await?.try_into().unwrap();
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap();
        self.take(length - 4).await
    }

    /// Answers the request for TLS and does the handshake.
    pub(crate) async fn tls(&mut self, config: &Arc<ServerConfig>) -> io::Result<()> {
        let request = self.body().await?;
        assert_eq!(request, [4, 210, 22, 47]);
        self.send(b"S").await?;
        let plain = self.stream.take().unwrap();
        let acceptor = TlsAcceptor::from(Arc::clone(config));
        self.stream = Some(Box::new(acceptor.accept(plain).await?));
        Ok(())
    }

    /// The start-up message.
    pub(crate) async fn startup(&mut self) -> io::Result<Vec<u8>> {
        self.body().await
    }

    /// The body of a `p` message.
    pub(crate) async fn answer(&mut self) -> io::Result<Vec<u8>> {
        assert_eq!(self.take(1).await?, b"p");
        self.body().await
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream().write_all(bytes).await?;
        self.stream().flush().await
    }

    /// Reads until the client hangs up, and says nothing.
    pub(crate) async fn listen(&mut self) {
        if self.stream.is_none() {
            return;
        }
        let mut rest = Vec::new();
        // The client may hang up with bytes of ours unread, which resets the connection.
        drop(self.stream().read_to_end(&mut rest).await);
        self.got.extend(rest);
    }

    /// Closes our side; what the client still has to say is read.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        self.stream().shutdown().await
    }

    pub(crate) fn learnt_the_password(&self) -> bool {
        self.got.windows(PASSWORD.len()).any(|window| window == PASSWORD.as_bytes())
    }
}

/// How one connection ended.
pub(crate) struct Outcome {
    /// Which of the two.
    pub(crate) connection: &'static str,
    pub(crate) result: Result<(), ConnectError>,
    pub(crate) server: Conversation,
}

impl Outcome {
    /// The error; the server must not have learnt the password.
    pub(crate) fn refusal(&self, case: &str) -> &ConnectError {
        let connection = self.connection;
        assert!(!self.server.learnt_the_password(), "{connection}, {case}: the password is out");
        let error = self.result.as_ref().expect_err(&format!("{connection}, {case}"));
        assert!(!format!("{error} {error:?}").contains(PASSWORD), "{error:?}");
        error
    }
}

/// Both connections against the script, at an address; `parameters` are those of the connection.
pub(crate) async fn outcomes_at(
    address: IpAddr,
    parameters: &str,
    script: impl AsyncFn(&mut Conversation) -> io::Result<()>,
) -> [Outcome; 2] {
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "host=localhost hostaddr={address} port={port} user=router password={PASSWORD} {parameters}"
    );
    let info = ConnInfo::resolve(Some(&text), &|_| None).unwrap();
    let serve = async || {
        let (stream, _) = listener.accept().await.unwrap();
        let mut server = Conversation { stream: Some(Box::new(stream)), got: Vec::new() };
        // An error is a client that hung up, which the client's own outcome tells.
        drop(script(&mut server).await);
        server.listen().await;
        server
    };
    let options = Options::default();
    let replication = async {
        let connected = ReplicationConnection::connect(&info, &options).await;
        connected.map(drop)
    };
    let sql = async { connect_sql(&info, "test").await.map(drop) };
    let both = async {
        let (result, server) = tokio::join!(replication, serve());
        let first = Outcome { connection: "replication", result, server };
        let (result, server) = tokio::join!(sql, serve());
        [first, Outcome { connection: "SQL", result, server }]
    };
    tokio::time::timeout(DEADLINE, both).await.expect("neither connection hangs")
}

/// The same on loopback.
pub(crate) async fn outcomes(
    parameters: &str,
    script: impl AsyncFn(&mut Conversation) -> io::Result<()>,
) -> [Outcome; 2] {
    outcomes_at([127, 0, 0, 1].into(), parameters, script).await
}

/// An address of this machine that is not loopback, so that a connection to it counts as one over
/// a network.
pub(crate) fn outward_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // No packet is sent: the kernel chooses the address it would send from (192.0.2.0/24 is for
    // documentation).
    socket.connect("192.0.2.1:9").expect("a network interface besides loopback");
    socket.local_addr().unwrap().ip()
}
