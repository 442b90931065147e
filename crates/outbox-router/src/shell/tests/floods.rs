//! A server that never stops sending, in real time: all other events are still handled.

use std::{io::ErrorKind, io::Write};

use super::{walsender::framed, *};

/// Sends rows of another table within one transaction until the router closes the connection.
fn flood(walsender: &Walsender) -> std::thread::JoinHandle<()> {
    let mut socket = walsender.socket();
    std::thread::spawn(move || {
        let chunk = framed(&vec![wire::insert(1, OTHER, &[]); 1_000]);
        let mut sent = 0;
        loop {
            match socket.write(&chunk[sent..]) {
                Ok(count) => sent = (sent + count) % chunk.len(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(_hung_up) => return,
            }
        }
    })
}

#[tokio::test]
async fn a_flood_of_wal_delays_no_other_event() {
    let mut fixture = Fixture::streaming(settings()).await;
    fixture.world.walsender().send(&transaction(100, &["a"]));
    fixture.produced(1).await;
    fixture.world.walsender().send(&[wire::begin(200, 0)]);
    let flood = flood(&fixture.world.walsender());
    let ignored = |world: &World| world.reports.borrow().snapshot.rows_ignored.total();
    fixture.until("the flood", |world| ignored(world) > 1_000).await;

    fixture.world.producer().ack_all();
    fixture.until("a status update", |world| world.walsender().confirmed() == 108).await;

    for _ in 0..3 {
        let before = ignored(&fixture.world);
        fixture.until("a report", |world| ignored(world) > before).await;
    }

    fixture.world.monitor.try_send(MonitorEvent::ServerStopping).unwrap();
    let capacity = fixture.world.monitor.max_capacity();
    fixture.until("the monitor's turn", |world| world.monitor.capacity() == capacity).await;

    // A job, and its result.
    let topic_client = fixture.shell.refresher.topic_client().cloned().unwrap();
    fixture.shell.start(Job::RefreshTopics(topic_client));
    fixture.until_jobs(0).await;

    fixture.world.shut_down();
    let drains =
        |world: &mut World| world.reports.borrow().snapshot.condition.state == State::Draining;
    fixture.until("the wish to stop", drains).await;
    // The transaction is not over, and the server wants to stop, too: it has two seconds.
    fixture.outcome().await;
    drop(fixture);
    flood.join().unwrap();
}
