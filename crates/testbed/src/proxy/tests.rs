use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::*;

const SOON: Duration = Duration::from_secs(10);
/// Long enough for a byte to cross the loopback many times over.
const A_WHILE: Duration = Duration::from_millis(150);

/// A server that answers every byte with itself, a proxy before it, and a connection.
async fn echo() -> (JoinSet<()>, Proxy, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let (mut read, mut write) = stream.split();
                drop(tokio::io::copy(&mut read, &mut write).await);
            });
        }
    });
    let proxy = Proxy::start(target).unwrap();
    let client = TcpStream::connect(proxy.address()).await.unwrap();
    (tasks, proxy, client)
}

async fn say(client: &mut TcpStream, text: &str) {
    client.write_all(text.as_bytes()).await.unwrap();
}

async fn hear(client: &mut TcpStream, text: &str) {
    let mut heard = vec![0; text.len()];
    timeout(SOON, client.read_exact(&mut heard)).await.expect("no answer").unwrap();
    assert_eq!(heard, text.as_bytes());
}

async fn hears_nothing(client: &mut TcpStream) {
    assert!(timeout(A_WHILE, client.read_u8()).await.is_err(), "something was heard");
}

async fn is_closed(client: &mut TcpStream) {
    let end = timeout(SOON, client.read_u8()).await.expect("still open");
    assert!(end.is_err(), "something was heard");
}

#[tokio::test]
async fn bytes_are_forwarded_and_counted() {
    let (_server, proxy, mut client) = echo().await;
    say(&mut client, "hello").await;
    hear(&mut client, "hello").await;
    assert_eq!((proxy.request_bytes(), proxy.answer_bytes(), proxy.connections()), (5, 5, 1));
}

#[tokio::test]
async fn paused_bytes_arrive_later_and_completely() {
    let (_server, proxy, mut client) = echo().await;
    for way in [Direction::Requests, Direction::Answers, Direction::Both] {
        proxy.set(ProxyMode::Pause(way)).await.unwrap();
        say(&mut client, "late").await;
        hears_nothing(&mut client).await;
        proxy.set(ProxyMode::Forward).await.unwrap();
        hear(&mut client, "late").await;
    }
}

#[tokio::test]
async fn held_responses_are_read_from_the_server_and_released_in_order() {
    let (_server, proxy, mut client) = echo().await;
    proxy.set(ProxyMode::HoldAnswers).await.unwrap();
    say(&mut client, "one ").await;
    hears_nothing(&mut client).await;
    say(&mut client, "two").await;
    hears_nothing(&mut client).await;
    assert_eq!((proxy.request_bytes(), proxy.answer_bytes()), (7, 0));
    proxy.set(ProxyMode::Forward).await.unwrap();
    hear(&mut client, "one two").await;
}

#[tokio::test]
async fn a_cut_closes_connections_and_new_ones_are_accepted() {
    let (_server, proxy, mut client) = echo().await;
    say(&mut client, "a").await;
    hear(&mut client, "a").await;
    proxy.cut();
    is_closed(&mut client).await;
    let mut again = TcpStream::connect(proxy.address()).await.unwrap();
    say(&mut again, "b").await;
    hear(&mut again, "b").await;
}

#[tokio::test]
async fn refusing_affects_new_connections_only() {
    let (_server, proxy, mut client) = echo().await;
    say(&mut client, "a").await;
    hear(&mut client, "a").await;
    proxy.set(ProxyMode::Refuse).await.unwrap();
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    say(&mut client, "b").await;
    hear(&mut client, "b").await;
    proxy.set(ProxyMode::Forward).await.unwrap();
    TcpStream::connect(proxy.address()).await.unwrap();
}

#[tokio::test]
async fn a_black_hole_discards_bytes_and_closes_the_connections_that_lost_some() {
    let (_server, proxy, mut client) = echo().await;
    say(&mut client, "a").await;
    hear(&mut client, "a").await;
    proxy.set(ProxyMode::BlackHole).await.unwrap();
    let mut late = TcpStream::connect(proxy.address()).await.unwrap();
    say(&mut late, "lost").await;
    say(&mut client, "lost").await;
    hears_nothing(&mut client).await;
    hears_nothing(&mut late).await;
    proxy.set(ProxyMode::Forward).await.unwrap();
    is_closed(&mut client).await;
    is_closed(&mut late).await;
}

#[tokio::test]
async fn a_delay_applies_to_each_direction() {
    let (_server, proxy, mut client) = echo().await;
    proxy.delay(Duration::from_millis(100));
    let sent = Instant::now();
    say(&mut client, "slow").await;
    hear(&mut client, "slow").await;
    assert!(sent.elapsed() >= Duration::from_millis(200));
}
