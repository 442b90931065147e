//! One GET request to the admin endpoint of the router with this configuration. HTTP/1.0, so that
//! the answer ends where the connection ends and is never chunked. A client library was rejected,
//! because this is one request to one server, which belongs to the same program.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Limit of the request: PostgreSQL's answer should not wait for a router that does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The document is a few kilobytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The body of the answer, whatever its status; `None` where nobody answers, or not in HTTP.
pub(super) async fn get(listen: SocketAddr, path: &str) -> Option<String> {
    tokio::time::timeout(ANSWER_TIMEOUT, request(reachable(listen), path)).await.ok()?
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

async fn request(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.").then(|| body.to_owned())
}
