//! A monitor at work on a throw-away server, and the ends of its channels.

use std::time::Duration;

use outbox_router::monitor::{
    Channels, Connect, Gap, MonitorEvent, MonitorReport, MonitorSettings, RelayReport, Thresholds,
    run,
};
use relay::{
    OutboxTable, Outboxes, Snapshot, State, TableName, Window, testing::samples::empty_snapshot,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
    time::Instant,
};
use tokio_postgres::Client;

use crate::postgres::Postgres;

/// Far more than anything here takes.
const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct MonitorFixture {
    pub(crate) events: mpsc::Receiver<MonitorEvent>,
    pub(crate) report: watch::Receiver<MonitorReport>,
    pub(crate) relay: watch::Sender<RelayReport>,
    task: JoinHandle<()>,
}

impl Drop for MonitorFixture {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a test calls its objects: table `outbox_N`, publication `p_N`, slot `s_N`.
pub(crate) fn settings(name: &str) -> MonitorSettings {
    MonitorSettings {
        name: "monitor".to_owned(),
        slot: format!("s_{name}"),
        publication: format!("p_{name}"),
        outboxes: Outboxes {
            tables: vec![OutboxTable::with_defaults(table(name))],
            ..Outboxes::default()
        },
        interval: Duration::from_millis(100),
        thresholds: Thresholds { warning: 1 << 20, critical: 4 << 20 },
        window: Window { events: 1_000, bytes: 1 << 20 },
    }
}

fn table(name: &str) -> TableName {
    TableName { schema: "public".to_owned(), name: format!("outbox_{name}") }
}

pub(crate) const COLUMNS: &str = "id uuid primary key default gen_random_uuid(), \
    aggregate_type text not null, aggregate_id text not null, event_type text not null, \
    payload jsonb, created_at timestamptz not null default now()";

/// What `setup --apply` would make.
pub(crate) async fn set_up(client: &Client, name: &str) {
    client
        .batch_execute(&format!(
            "create table outbox_{name} ({COLUMNS}); \
             create publication p_{name} for table outbox_{name} \
               with (publish = 'insert', publish_via_partition_root = true)"
        ))
        .await
        .unwrap();
    make_slot(client, name).await;
}

pub(crate) async fn make_slot(client: &Client, name: &str) {
    let query = "select pg_create_logical_replication_slot($1, 'pgoutput')";
    client.query_one(query, &[&format!("s_{name}")]).await.unwrap();
}

impl MonitorFixture {
    pub(crate) fn start(postgres: &Postgres, settings: MonitorSettings, state: State) -> Self {
        Self::start_with(postgres.connector(), settings, state)
    }

    #[expect(clippy::disallowed_methods, reason = "a test has no app.rs; it ends with the fixture")]
    pub(crate) fn start_with(
        connector: impl Connect + Send + Sync + 'static,
        settings: MonitorSettings,
        state: State,
    ) -> Self {
        let (events_out, events) = mpsc::channel(4);
        let (report_out, report) = watch::channel(MonitorReport::initial(Instant::now()));
        let (relay, relay_seen) =
            watch::channel(RelayReport::initial(empty_snapshot(state), Instant::now()));
        let channels = Channels { relay: relay_seen, events: events_out, report: report_out };
        let task = tokio::spawn(run(settings, connector, channels));
        Self { events, report, relay, task }
    }

    /// The first report that `wanted` accepts.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        wanted: impl FnMut(&MonitorReport) -> bool,
    ) -> MonitorReport {
        if let Ok(report) = tokio::time::timeout(DEADLINE, self.report.wait_for(wanted)).await {
            return report.unwrap().clone();
        }
        panic!("{what} never came: {:?}", self.report.borrow())
    }

    pub(crate) async fn until_good_reading(&mut self) -> MonitorReport {
        self.until("a good reading", |report| {
            report.slot.health().is_some() && report.findings.is_empty()
        })
        .await
    }

    /// The next event but for good readings.
    pub(crate) async fn event(&mut self) -> MonitorEvent {
        loop {
            let event = tokio::time::timeout(DEADLINE, self.events.recv()).await;
            match event.expect("no event came").expect("the monitor ended") {
                MonitorEvent::SourceVerified(_) => {}
                event @ (MonitorEvent::GapSuspected(_) | MonitorEvent::ServerStopping) => {
                    return event;
                }
            }
        }
    }

    /// Nothing is wrong, as far as the streaming task was told.
    pub(crate) fn assert_no_event(&mut self) {
        while let Ok(event) = self.events.try_recv() {
            assert!(matches!(event, MonitorEvent::SourceVerified(_)), "{event:?}");
        }
    }

    pub(crate) async fn gap(&mut self) -> Gap {
        match self.event().await {
            MonitorEvent::GapSuspected(gap) => *gap,
            event @ (MonitorEvent::ServerStopping | MonitorEvent::SourceVerified(_)) => {
                panic!("{event:?}")
            }
        }
    }

    /// Waits for `rounds` more rounds of the monitor.
    pub(crate) async fn rounds(&mut self, rounds: u32) {
        for _ in 0..rounds {
            let ticked_at = self.report.borrow().ticked_at;
            // Each round publishes before the figures are read, and after.
            self.until("a round", |report| report.ticked_at != ticked_at).await;
        }
    }

    pub(crate) fn set_relay(&self, change: impl FnOnce(&mut Snapshot)) {
        self.relay.send_modify(|report| change(&mut report.snapshot));
    }
}
