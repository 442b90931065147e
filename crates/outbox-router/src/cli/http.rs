//! One GET request: to the admin endpoint of the router with this configuration, or to Kafka
//! Connect. HTTP/1.0, so that the answer ends where the connection ends and is never chunked. A
//! client library was rejected, because these are single requests for small documents.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::tap::ASKED_BY_COMMAND;

/// Limit of the request: PostgreSQL's answer should not wait for a router that does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of a request to Kafka Connect, which may ask another of its workers, and of one to a
/// router that answers as things happen.
const FOREIGN_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The document is a few kilobytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// An answer in HTTP.
#[derive(Debug)]
pub(super) struct Answer {
    /// Such as 200.
    pub(super) status: u16,
    pub(super) body: String,
}

/// The body of the answer, whatever its status; `None` where nobody answers, or not in HTTP.
pub(super) async fn get(listen: SocketAddr, path: &str) -> Option<String> {
    let address = reachable(listen).to_string();
    let answer = tokio::time::timeout(ANSWER_TIMEOUT, request(&address, path)).await;
    answer.ok()?.ok().map(|answer| answer.body)
}

/// The answer of the router that listens there.
///
/// # Errors
/// Nobody answers, or not in HTTP.
pub(super) async fn get_answer(listen: SocketAddr, path: &str) -> io::Result<Answer> {
    get_from(&reachable(listen).to_string(), path).await
}

/// The answer of a server at `host:port`.
///
/// # Errors
/// Nobody answers, or not in HTTP.
pub(super) async fn get_from(address: &str, path: &str) -> io::Result<Answer> {
    match tokio::time::timeout(FOREIGN_ANSWER_TIMEOUT, request(address, path)).await {
        Ok(answer) => answer,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// The address to connect to: loopback where the router listens on all addresses.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, listen.port())
}

async fn request(address: &str, path: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!("Host: {address}\r\nConnection: close\r\n{ASKED_BY_COMMAND}: 1\r\n");
    let request = format!("GET {path} HTTP/1.0\r\n{head}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    let answer = String::from_utf8(answer).ok();
    answer.as_deref().and_then(parse).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn parse(answer: &str) -> Option<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.")?.split_whitespace().nth(1)?;
    Some(Answer { status: status.parse().ok()?, body: body.to_owned() })
}
