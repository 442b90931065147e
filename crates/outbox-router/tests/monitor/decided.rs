//! How many decisions about dead letters are not carried out yet.

use outbox_router::held::schema;
use relay::State;
use tokio_postgres::Client;

use crate::{
    fixture::{MonitorFixture, set_up, settings},
    postgres::Postgres,
};

async fn make_tables(client: &Client) {
    for statement in schema::statements(None) {
        client.batch_execute(&statement.sql).await.unwrap();
    }
}

/// Two events of one key: a dead letter in this state, and another one behind it.
async fn hold(client: &Client, pipeline: &str, lsn: u32, states: [&str; 2]) {
    for (index, state) in states.iter().enumerate() {
        client
            .batch_execute(&format!(
                "insert into outbox_router.held (pipeline, slot, commit_lsn, event_index, \
                   committed_at, key_hash, table_name, messages, code, state) \
                 values ('{pipeline}', 's_x', '0/{lsn}', {index}, now(), sha256('{lsn}'), 't', \
                   '', 'R003', '{state}')"
            ))
            .await
            .unwrap();
    }
}

async fn until(fixture: &mut MonitorFixture, decided: u64) {
    let what = format!("{decided} decided events");
    fixture.until(&what, |report| report.decided == Some(decided)).await;
}

#[tokio::test]
async fn decisions_count_while_nothing_but_the_router_keeps_them_from_being_carried_out() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    // Also where the router does not stream: that is when nothing is carried out.
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Failed);
    until(&mut fixture, 0).await;
    make_tables(&client).await;
    hold(&client, "monitor", 1, ["held", "requeued"]).await;
    hold(&client, "another", 2, ["dropping", "dropping"]).await;
    hold(&client, "monitor", 3, ["requeued", "held"]).await;
    hold(&client, "monitor", 4, ["delivered", "dropping"]).await;
    // What waits for an undecided dead letter is no work that is left to the router.
    until(&mut fixture, 2).await;
    client.batch_execute("update outbox_router.held set state = 'dropped'").await.unwrap();
    until(&mut fixture, 0).await;
}

/// A migration that holds the table may take as long as it likes.
#[tokio::test]
async fn a_table_that_is_locked_leaves_the_figure_as_it_was_and_the_slot_seen() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    make_tables(&client).await;
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Streaming);
    hold(&client, "monitor", 1, ["requeued", "held"]).await;
    until(&mut fixture, 1).await;
    let lock = "begin; lock table outbox_router.held in access exclusive mode";
    client.batch_execute(lock).await.unwrap();
    fixture.rounds(3).await;
    let report = fixture.report.borrow().clone();
    assert!(report.trouble.is_none() && report.slot.health().is_some(), "{report:?}");
    assert_eq!(report.decided, Some(1), "an alert on it must not end");
    client
        .batch_execute("rollback; update outbox_router.held set state = 'dropped'")
        .await
        .unwrap();
    until(&mut fixture, 0).await;
}
