//! Clients: one that asks properly, and those that do not.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    thread,
    time::Duration,
};

use tokio::time::Instant;

/// What a client does wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hostile {
    Silent,
    Trickles,
    EndlessHeader,
    EndlessLine,
    EndlessBody,
    ReadsNothing,
    Garbage,
    Http2,
    Pipelines,
}

impl Hostile {
    pub(crate) const ALL: [Self; 9] = [
        Self::Silent,
        Self::Trickles,
        Self::EndlessHeader,
        Self::EndlessLine,
        Self::EndlessBody,
        Self::ReadsNothing,
        Self::Garbage,
        Self::Http2,
        Self::Pipelines,
    ];

    /// Connects, and sends the beginning.
    pub(crate) fn connect(self, address: SocketAddr) -> TcpStream {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        // Otherwise the kernel would take an answer for a client that does not read it.
        socket.set_recv_buffer_size(4 << 10).unwrap();
        socket.connect_timeout(&address.into(), Duration::from_secs(30)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut stream = TcpStream::from(socket);
        // A server that has already closed is what is wanted.
        let _closed = stream.write(self.begins());
        stream
    }

    fn begins(self) -> &'static [u8] {
        match self {
            Self::Silent => b"",
            Self::Trickles => b"G",
            Self::EndlessHeader => b"GET /livez HTTP/1.1\r\nhost: ",
            Self::EndlessLine => b"GET /livez?",
            Self::EndlessBody => {
                b"POST /livez HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
            }
            Self::ReadsNothing => b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n",
            Self::Garbage => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\xff\r\n\r\n",
            Self::Http2 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            Self::Pipelines => {
                b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n\
                GET /livez HTTP/1.1\r\nhost: a\r\n\r\nGET /livez HTTP/1.1\r\nhost: a\r\n\r\n"
            }
        }
    }

    /// Sends a little more; `false` once the server has ended the connection.
    pub(crate) fn goes_on(self, stream: &mut TcpStream) -> bool {
        let more: &[u8] = match self {
            Self::Silent | Self::ReadsNothing => return !is_reset(stream),
            Self::Trickles => b"E",
            Self::EndlessHeader | Self::EndlessLine => &[b'a'; 512],
            Self::EndlessBody => b"4\r\nbody\r\n",
            Self::Garbage | Self::Http2 => &[0; 64],
            Self::Pipelines => b"GET /livez HTTP/1.1\r\nhost: a\r\n\r\n",
        };
        is_open(&stream.write(more)) && !is_over(stream)
    }

    /// Everything that the server answers.
    pub(crate) fn answer(self, address: SocketAddr) -> String {
        let mut stream = self.connect(address);
        stream.set_nonblocking(false).unwrap();
        let mut answer = Vec::new();
        // What follows the first request is not read, so the connection may end with a reset.
        let _reset = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }
}

fn is_open<T>(result: &io::Result<T>) -> bool {
    result.as_ref().err().is_none_or(|error| error.kind() == ErrorKind::WouldBlock)
}

/// Whether the server has closed the connection, or reset it. Reads what there is.
fn is_over(stream: &mut TcpStream) -> bool {
    let mut some = [0; 1024];
    let read = stream.read(&mut some);
    !is_open(&read) || matches!(read, Ok(0))
}

/// Whether the connection is over, seen without reading an answer.
fn is_reset(stream: &TcpStream) -> bool {
    let mut one = [0];
    match stream.peek(&mut one) {
        Ok(read) => read == 0 || stream.take_error().unwrap().is_some() || is_closed(stream),
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// A server that has gone answers what is sent with a reset.
fn is_closed(stream: &TcpStream) -> bool {
    let mut stream = stream;
    !is_open(&stream.write(b"a"))
}

/// Asks for `/livez` on a connection of its own; returns how long the answer took.
pub(crate) fn probe(address: SocketAddr, within: Duration) -> io::Result<Duration> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_read_timeout(Some(within))?;
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: admin\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let took = begun.elapsed();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(took < within, "answered after {took:?}");
    Ok(took)
}

/// Reads one path's answer in pieces, for a second or so.
pub(crate) fn read_slowly(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: admin\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let (mut answer, mut some) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut some).unwrap();
        answer.extend_from_slice(some.get(..read).unwrap());
        if read == 0 {
            return String::from_utf8(answer).unwrap();
        }
        thread::sleep(Duration::from_millis(10));
    }
}
