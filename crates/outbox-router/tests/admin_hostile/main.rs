//! Clients of the admin endpoint that are broken or hostile, on real sockets: whatever they do, a
//! probe is answered, and what they cost has a limit. The server runs on a thread of its own, as
//! the router's main thread does; the clients have no buffers, so the memory is the server's.

#![expect(clippy::unwrap_used, reason = "in the helpers of a test, too, what is missing fails it")]
#![expect(clippy::print_stdout, reason = "the helpers of a test tell what they measured")]

#[allow(dead_code, reason = "the figures are for the endpoint's own tests")]
#[path = "../admin_fixture/mod.rs"]
mod admin_fixture;
mod client;
mod process;
mod server;

use std::{
    net::TcpStream,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use client::{Hostile, probe};
use server::Server;
use tokio::time::Instant;

/// What a probe may take on a machine that does other things, too. Kubernetes gives it a second
/// by default, and asks three times; measured alone, none takes 0.6 s.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// Within this, so many connections are attempted as a test asks for.
const ATTEMPTED_WITHIN: Duration = Duration::from_secs(120);

/// The server's own limits: two seconds for a request, ten for an answer.
const ENDED_WITHIN: Duration = Duration::from_secs(20);

/// Buffers of 128 connections, and the answers of those who do not read.
const GROWTH_MAX: u64 = 24 << 20;

/// The server's own limit.
const CONNECTIONS_MAX: usize = 128;

/// Asks again and again until `done`; returns how long each answer took.
fn probe_until(server: &Server, done: &AtomicBool) -> Vec<Duration> {
    let mut took = Vec::new();
    while !done.load(Ordering::Relaxed) {
        took.push(probe(server.address, ANSWERED_WITHIN).unwrap());
        thread::sleep(Duration::from_millis(50));
    }
    took.sort();
    println!(
        "{} probes, median {:?}, longest {:?}",
        took.len(),
        took.get(took.len() / 2),
        took.last()
    );
    took
}

/// A few hundred of one kind, four times as many as there are places for.
fn many(kind: Hostile) {
    let server = Server::start();
    probe(server.address, ANSWERED_WITHIN).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let crowd = scope.spawn(|| {
            let mut crowd: Vec<_> = (0..512).map(|_| kind.connect(server.address)).collect();
            let deadline = Instant::now() + ENDED_WITHIN;
            while !crowd.is_empty() {
                assert!(Instant::now() < deadline, "{kind:?}: {} live on", crowd.len());
                crowd.retain_mut(|stream| kind.goes_on(stream));
                thread::sleep(Duration::from_millis(20));
            }
            done.store(true, Ordering::Relaxed);
        });
        let took = probe_until(&server, &done);
        crowd.join().unwrap();
        assert!(!took.is_empty());
    });
}

#[test]
fn silent_connections_are_ended_while_probes_are_answered() {
    many(Hostile::Silent);
}

#[test]
fn a_request_that_trickles_is_ended_while_probes_are_answered() {
    many(Hostile::Trickles);
}

#[test]
fn a_header_without_end_is_refused() {
    many(Hostile::EndlessHeader);
}

#[test]
fn a_request_line_without_end_is_refused() {
    many(Hostile::EndlessLine);
}

#[test]
fn a_body_without_end_is_not_read() {
    many(Hostile::EndlessBody);
}

#[test]
fn clients_that_read_nothing_are_ended_while_probes_are_answered() {
    many(Hostile::ReadsNothing);
}

#[test]
fn garbage_is_refused() {
    many(Hostile::Garbage);
}

#[test]
fn http_2_is_refused() {
    many(Hostile::Http2);
}

#[test]
fn of_pipelined_requests_one_is_answered() {
    many(Hostile::Pipelines);
    let server = Server::start();
    let answer = Hostile::Pipelines.answer(server.address);
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
}

/// All kinds together: five thousand connections are attempted, and what was ended is attempted
/// again. Meanwhile every probe is answered, and a page of metrics can be read.
#[test]
fn five_thousand_hostile_connections_cost_no_probe_and_little_memory() {
    const CLIENTS: usize = 5_000;
    process::allow_files(2 * CLIENTS);
    let server = Server::start();
    for _ in 0..20 {
        probe(server.address, ANSWERED_WITHIN).unwrap();
    }
    let (files, memory) = (process::files(), process::memory());
    let (done, ready) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let crowd = scope.spawn(|| {
            let kinds = Hostile::ALL.iter().cycle().copied();
            let mut crowd: Vec<(Hostile, TcpStream)> = Vec::new();
            let begun = Instant::now();
            let mut attempts = 0;
            for kind in kinds.take(CLIENTS) {
                crowd.push((kind, kind.connect(server.address)));
                attempts += 1;
            }
            println!("{attempts} connections after {:?}", begun.elapsed());
            ready.store(true, Ordering::Relaxed);
            let mut files_most = 0;
            // On a busy machine, so many attempts take longer.
            let is_over = |attempts| {
                let took = begun.elapsed();
                took > ATTEMPTED_WITHIN
                    || (attempts > 2 * CLIENTS && took > Duration::from_secs(12))
            };
            while !is_over(attempts) {
                for (kind, stream) in &mut crowd {
                    if !kind.goes_on(stream) {
                        *stream = kind.connect(server.address);
                        attempts += 1;
                    }
                }
                files_most = files_most.max(process::files() - files - crowd.len());
            }
            println!("{attempts} connections, the server has had {files_most} of them at a time");
            assert!(attempts > 2 * CLIENTS, "only {attempts} attempts");
            assert!(files_most <= CONNECTIONS_MAX + 8, "{files_most} files");
            done.store(true, Ordering::Relaxed);
        });
        let took = probe_until(&server, &done);
        let growth = process::memory().saturating_sub(memory);
        println!("memory has grown by {} KiB", growth >> 10);
        crowd.join().unwrap();
        assert!(took.len() > 5, "{took:?}");
        assert!(growth < GROWTH_MAX, "{growth} bytes");
    });
    let deadline = Instant::now() + ENDED_WITHIN;
    while process::files() > files {
        assert!(Instant::now() < deadline, "{} files, {files} before", process::files());
        thread::sleep(Duration::from_millis(50));
    }
    probe(server.address, ANSWERED_WITHIN).unwrap();
}

/// An answer that lasts, to a client that reads it, is not ended to make room.
#[test]
fn a_page_of_metrics_is_read_whole_among_hostile_connections() {
    let server = Server::start();
    let _crowd: Vec<_> = (0..256)
        .map(|index| Hostile::ALL[index % Hostile::ALL.len()].connect(server.address))
        .collect();
    let page = client::read_slowly(server.address, "/metrics");
    assert!(page.ends_with('\n') && page.contains("process_open_fds"), "{} bytes", page.len());
}

#[test]
fn the_end_waits_for_no_hostile_connection() {
    let mut server = Server::start();
    let _crowd: Vec<_> = (0..400)
        .map(|index| Hostile::ALL[index % Hostile::ALL.len()].connect(server.address))
        .collect();
    probe(server.address, ANSWERED_WITHIN).unwrap();
    let asked = Instant::now();
    server.stop();
    println!("ended after {:?}", asked.elapsed());
    // Two seconds for answers; the rest is for a busy machine.
    assert!(asked.elapsed() < Duration::from_secs(9), "{:?}", asked.elapsed());
}
