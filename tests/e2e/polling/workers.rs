//! Several workers share a table: each key has one of them.

use std::time::Duration;

use e2e::{Fixture, SHORT_DEADLINE, wait_committed};
use serde_json::Value;
use testbed::checker::LateReplays;
use testbed::router::RouterProcess;
use testbed::wait::eventually;

use super::{BATCH, COLUMNS, load, polling, started, wait_polling, wait_published};

/// Another worker of the same fixture.
async fn another(fixture: &Fixture) -> RouterProcess {
    let mut worker = RouterProcess::start(&fixture.config.to_string()).unwrap();
    wait_polling(&mut worker).await;
    worker
}

/// How many workers hold shards, and how many shards are held.
async fn held(fixture: &Fixture) -> (i64, i64) {
    let query = "select count(distinct holder), count(*) from outbox_router.lease \
                 where holder is not null and expires_at > now()";
    let row = fixture.session().await.unwrap().query_one(query, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

async fn wait_shared(fixture: &Fixture, workers: i64) {
    eventually(SHORT_DEADLINE, format!("{workers} workers"), async || {
        let (holders, shards) = held(fixture).await;
        Ok((holders == workers && shards == 64).then_some(()))
    })
    .await
    .unwrap();
}

fn published(status: &Value) -> u64 {
    let tables = status.get("tables").and_then(Value::as_array);
    let each = tables.into_iter().flatten().filter_map(|table| table["published"].as_u64());
    each.sum()
}

#[tokio::test]
async fn three_workers_share_the_keys_and_one_that_is_killed_is_replaced() {
    let mut fixture = started(polling().set("polling.lease", "4s"), COLUMNS).await;
    fixture.late_replays = LateReplays::Allowed;
    let running = fixture.load(load());
    wait_committed(&running, 100).await.unwrap();
    let (second, mut third) = (another(&fixture).await, another(&fixture).await);
    wait_shared(&fixture, 3).await;
    wait_committed(&running, 500).await.unwrap();
    third.kill9().await.unwrap();
    wait_shared(&fixture, 2).await;
    wait_committed(&running, 300).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert!(result.duplicates <= BATCH, "{result}: one worker was killed, once");
    for worker in [&fixture.router, &second] {
        let status = worker.status().await.unwrap();
        assert!(published(&status) > 0, "{status}");
    }
}

/// SIGSTOP for longer than the lease: another worker has the keys meanwhile. What the frozen one
/// had read, it does not produce when it wakes up.
#[tokio::test]
async fn a_frozen_worker_that_wakes_up_produces_nothing_of_what_is_no_longer_its_own() {
    let mut fixture = started(polling().set("polling.lease", "4s"), COLUMNS).await;
    fixture.late_replays = LateReplays::Allowed;
    let mut second = another(&fixture).await;
    wait_shared(&fixture, 2).await;
    let running = fixture.load(load());
    for _ in 0..3 {
        wait_committed(&running, 200).await.unwrap();
        fixture.router.pause().unwrap();
        wait_shared(&fixture, 1).await;
        let before = published(&second.status().await.unwrap());
        let goes_on = |status: &Value| published(status) > before;
        second.wait_status("the other at work", SHORT_DEADLINE, goes_on).await.unwrap();
        fixture.router.resume().unwrap();
        wait_shared(&fixture, 2).await;
    }
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    println!("{result}");
    assert!(result.duplicates <= 3 * BATCH, "{result}");
    second.sigterm().unwrap();
    assert_eq!(second.wait_exit(SHORT_DEADLINE).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn workers_that_come_and_go_give_back_their_shards_in_order() {
    let mut fixture = started(polling(), COLUMNS).await;
    let running = fixture.load(load());
    for _ in 0..3 {
        let mut other = another(&fixture).await;
        wait_shared(&fixture, 2).await;
        wait_committed(&running, 200).await.unwrap();
        other.sigterm().unwrap();
        assert_eq!(other.wait_exit(SHORT_DEADLINE).await.unwrap().code(), Some(0));
        wait_shared(&fixture, 1).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fixture.note(running.stop().await.unwrap());
    wait_published(&fixture).await;
    let result = fixture.check().await.unwrap().clean().unwrap();
    assert_eq!(result.duplicates, 0, "nothing was interrupted");
}
