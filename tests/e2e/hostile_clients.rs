//! Hostile clients of the admin endpoint beside a router at work. What each kind of them meets is
//! shown by `crates/outbox-router/tests/admin_hostile`.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, memory_limit, wait_committed};
use testbed::load::Load;
use testbed::process::peak_data_bytes;
use tokio::time::Instant;

const DEADLINE: Duration = Duration::from_secs(90);

/// How many connections have to be attempted before the test goes on.
const ATTEMPTS_LEAST: u64 = 1_000;

/// A crowd of clients, and what it has done.
#[derive(Default)]
struct Crowd {
    end: AtomicBool,
    attempts: AtomicU64,
}

impl Crowd {
    /// A thousand connections: some are silent, some trickle, some do not read; who is cut off
    /// comes again, a second later where the kernel's queue of connections is full.
    fn disturb(&self, address: SocketAddr) {
        let mut crowd: Vec<TcpStream> = Vec::new();
        while !self.end.load(Ordering::Relaxed) {
            crowd.retain_mut(|stream| match stream.write(b"a") {
                Ok(_) => true,
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            });
            for kind in 0..(1_000 - crowd.len()) {
                let Ok(mut stream) = TcpStream::connect_timeout(&address, SHORT_DEADLINE) else {
                    continue;
                };
                let begin: &[u8] = match kind % 3 {
                    0 => b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n",
                    1 => b"GET /livez HTTP/1.1\r\nhost: ",
                    _ => b"",
                };
                stream.set_nonblocking(true).unwrap();
                // One that is already cut off is seen above.
                let _written = stream.write(begin);
                crowd.push(stream);
                self.attempts.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Relaxed)
    }
}

/// Probes as Kubernetes does: the router has failed when three attempts in a row fail. One alone
/// may, on a machine that leaves this client without a processor for longer than a silent
/// connection stays. Returns how long the last one took.
async fn probe(fixture: &Fixture) -> Duration {
    let mut failed = Vec::new();
    while failed.len() < 3 {
        let asked = Instant::now();
        match fixture.router.get("/livez").await {
            Ok(answer) => {
                assert_eq!(answer.status, 200);
                return asked.elapsed();
            }
            Err(error) => failed.push(format!("after {:?}: {error:#}", asked.elapsed())),
        }
    }
    panic!("three probes in a row have failed: {failed:?}");
}

#[tokio::test]
async fn hostile_clients_of_the_admin_endpoint_disturb_no_delivery_no_probe_and_no_stop() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let load = Load { writers: 4, think: Duration::from_millis(5), ..Load::default() };
    let running = fixture.load(load);
    let address = fixture.router.admin().parse().unwrap();
    let crowd = Arc::new(Crowd::default());
    let disturbing = thread::spawn({
        let crowd = Arc::clone(&crowd);
        move || crowd.disturb(address)
    });

    let mut longest = Duration::ZERO;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) || crowd.attempts() < ATTEMPTS_LEAST {
        assert!(begun.elapsed() < DEADLINE, "only {} connections", crowd.attempts());
        longest = longest.max(probe(&fixture).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("the longest probe took {longest:?}");
    assert!(longest < Duration::from_secs(20), "{longest:?}");
    wait_committed(&running, 500).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    let pid = fixture.router.process().unwrap().pid();
    let memory = peak_data_bytes(pid).unwrap();
    println!("{} KiB", memory >> 10);
    assert!(memory < memory_limit(32 << 20), "{memory} bytes");

    let asked = Instant::now();
    fixture.router.sigterm().unwrap();
    let status = fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    println!("stopped after {:?}", asked.elapsed());
    assert_eq!(status.code(), Some(0));
    crowd.end.store(true, Ordering::Relaxed);
    disturbing.join().unwrap();
    println!("{} connections", crowd.attempts());
    fixture.restart().await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
}
