//! The streaming task is told when the server wants to stop: what that means is its own decision.

use outbox_router::monitor::{MonitorEvent, MonitorReport, ObservedSlot};
use relay::{Code, State};

use crate::{
    fixture::{MonitorFixture, set_up, settings},
    postgres::Postgres,
};

#[tokio::test]
async fn the_relay_is_notified_once_that_the_server_stops_while_it_has_a_stream() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let streamer = postgres.stream("s_x", "p_x");
    let mut fixture = MonitorFixture::start(&postgres, settings("x"), State::Starting);
    let active = |view: &ObservedSlot| view.health().is_some_and(|slot| slot.active_pid.is_some());
    fixture.until("a walsender", |report| active(&report.slot)).await;
    streamer.freeze();
    client
        .batch_execute(
            "insert into outbox_x (aggregate_type, aggregate_id, event_type) values ('a', '1', 'e')",
        )
        .await
        .unwrap();
    postgres.begin_stop();
    let refused = |code: Option<Code>| code == Some(Code::ServerNotReady);
    let report = fixture
        .until("57P03", |report| refused(report.trouble.as_ref().map(|failure| failure.code)))
        .await;
    assert_eq!(report.slot, ObservedSlot::Unknown);
    fixture.rounds(3).await;
    fixture.assert_no_event();
    fixture.set_relay(|snapshot| snapshot.condition.state = State::Failed);
    assert_eq!(fixture.event().await, MonitorEvent::ServerStopping);
    fixture.rounds(3).await;
    fixture.assert_no_event();
}

#[tokio::test]
async fn the_monitor_reconnects_by_itself_and_at_once_when_its_connection_is_cut() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let settings = outbox_router::monitor::MonitorSettings {
        // Longer than the test waits: only the broken connection wakes it.
        interval: std::time::Duration::from_secs(600),
        ..settings("x")
    };
    let mut fixture = MonitorFixture::start(&postgres, settings, State::Streaming);
    let before = fixture.until_good_reading().await;
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity \
               where backend_type = 'client backend' and pid <> pg_backend_pid()";
    client.batch_execute(cut).await.unwrap();
    // The round may be over by now.
    let read_at = |report: &MonitorReport| report.polled_at.map(|polled| polled.at);
    fixture.until("another reading", |report| read_at(report) > read_at(&before)).await;
    let report = fixture.until_good_reading().await;
    assert_eq!(report.trouble, None);
}
