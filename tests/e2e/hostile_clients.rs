//! Hostile clients of the admin endpoint beside a router at work. What each kind of them meets is
//! shown by `crates/outbox-router/tests/admin_hostile`.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, memory_limit, wait_committed};
use testbed::load::Load;
use testbed::process::resident_bytes;
use tokio::time::Instant;

const DEADLINE: Duration = Duration::from_secs(90);

/// A thousand connections: some are silent, some trickle, some do not read; who is cut off comes
/// again.
fn disturb(address: SocketAddr, end: &AtomicBool) -> u64 {
    let mut crowd: Vec<TcpStream> = Vec::new();
    let mut attempts = 0;
    while !end.load(Ordering::Relaxed) {
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
            attempts += 1;
        }
    }
    attempts
}

#[tokio::test]
async fn hostile_clients_of_the_admin_endpoint_disturb_no_delivery_no_probe_and_no_stop() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let load = Load { writers: 4, think: Duration::from_millis(5), ..Load::default() };
    let running = fixture.load(load);
    let address = fixture.router.admin().parse().unwrap();
    let end = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&end);
    let crowd = thread::spawn(move || disturb(address, &seen));

    let mut longest = Duration::ZERO;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        let asked = Instant::now();
        assert_eq!(fixture.router.get("/livez").await.unwrap().status, 200);
        longest = longest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("the longest probe took {longest:?}");
    assert!(longest < Duration::from_secs(20), "{longest:?}");
    wait_committed(&running, 500).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(DEADLINE).await.unwrap();
    let pid = fixture.router.process().unwrap().pid();
    let memory = resident_bytes(pid).unwrap();
    println!("{} KiB", memory >> 10);
    assert!(memory < memory_limit(32 << 20), "{memory} bytes");

    let asked = Instant::now();
    fixture.router.sigterm().unwrap();
    let status = fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    println!("stopped after {:?}", asked.elapsed());
    assert_eq!(status.code(), Some(0));
    end.store(true, Ordering::Relaxed);
    let attempts = crowd.join().unwrap();
    println!("{attempts} connections");
    assert!(attempts > 1_000, "{attempts}");
    fixture.restart().await.unwrap();
    fixture.check().await.unwrap().clean().unwrap();
}
