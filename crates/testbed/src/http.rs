//! A minimal HTTP client for the router's admin endpoint and for Kafka Connect: one request, one
//! response, connection closed.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(10);

/// Status code and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// Such as 200 or 503.
    pub status: u16,
    /// The body, as text.
    pub body: String,
}

/// `GET path` from `address`.
///
/// # Errors
///
/// Fails when it does not answer.
pub async fn get(address: &str, path: &str) -> anyhow::Result<HttpResponse> {
    send(("GET", path), address, None, DEADLINE).await
}

/// Sends a request, a method and a path, to `address`, with a body of JSON where there is one.
///
/// # Errors
///
/// Fails when there is no answer within `deadline`.
pub async fn send(
    (method, path): (&str, &str),
    address: &str,
    body: Option<&str>,
    deadline: Duration,
) -> anyhow::Result<HttpResponse> {
    // With HTTP/1.0 the server closes the connection after the response, and sends no chunks.
    let mut request =
        format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nX-Outbox-Router: 1\r\n");
    if let Some(body) = body {
        let length = body.len();
        request
            .push_str(&format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"));
    }
    request.push_str("\r\n");
    request.push_str(body.unwrap_or_default());
    let text = timeout(deadline, exchange(address, &request))
        .await
        .with_context(|| format!("http://{address}{path} did not answer within {deadline:?}"))?
        .with_context(|| format!("cannot {method} http://{address}{path}"))?;
    parse(&text)
}

async fn exchange(address: &str, request: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8(answer)?)
}

fn parse(text: &str) -> anyhow::Result<HttpResponse> {
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        bail!("not an HTTP answer: {text:?}");
    };
    let status = head.split_whitespace().nth(1).context("an HTTP answer without a status")?;
    Ok(HttpResponse { status: status.parse()?, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_body_are_parsed() {
        let answer =
            parse("HTTP/1.0 503 Service Unavailable\r\nx: y\r\n\r\nnot\r\n\r\nyet").unwrap();
        assert_eq!(answer, HttpResponse { status: 503, body: "not\r\n\r\nyet".to_owned() });
    }

    #[test]
    fn an_incomplete_response_is_an_error() {
        parse("HTTP/1.0 200 OK\r\nx: y\r\n").unwrap_err();
    }
}
