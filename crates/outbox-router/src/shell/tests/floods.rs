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
    let mut stage = Stage::streaming(settings()).await;
    stage.world.walsender().send(&transaction(100, &["a"]));
    stage.produced(1).await;
    stage.world.walsender().send(&[wire::begin(200, 0)]);
    let flood = flood(&stage.world.walsender());
    let ignored = |world: &World| world.reports.borrow().snapshot.rows_ignored;
    stage.until("the flood", |world| ignored(world) > 1_000).await;

    stage.world.producer().ack_all();
    stage.until("a status update", |world| world.walsender().told() == 108).await;

    for _ in 0..3 {
        let before = ignored(&stage.world);
        stage.until("a report", |world| ignored(world) > before).await;
    }

    stage.world.monitor.try_send(MonitorEvent::ServerStopping).unwrap();
    let capacity = stage.world.monitor.max_capacity();
    stage.until("the monitor's turn", |world| world.monitor.capacity() == capacity).await;

    // A job, and its result.
    let directory = stage.shell.refresher.directory().cloned().unwrap();
    stage.shell.start(Job::LookAtTopics(directory));
    stage.until_jobs(0).await;

    stage.world.shut_down();
    let drains =
        |world: &mut World| world.reports.borrow().snapshot.condition.state == State::Draining;
    stage.until("the wish to stop", drains).await;
    // The transaction is not over, and the server wants to stop, too: it has two seconds.
    stage.outcome().await;
    drop(stage);
    flood.join().unwrap();
}
