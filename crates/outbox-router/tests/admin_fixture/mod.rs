//! A router at work behind a real admin endpoint, and a client of a dozen lines.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use outbox_router::{
    admin::{AdminSettings, Sources, serve},
    kafka::{BrokerConnection, BrokerFigures, BrokerStatistics, RoundTrip, Waiting},
    monitor::{
        MonitorReport, ObservedSlot, Polled, RelayReport, SlotHealth, Thresholds,
        watch::{
            LastSlot,
            figures::{Limits, OtherSlots, SlotFigures, Spill},
            limit::{SlotLimit, TimeToLimit},
        },
    },
    retention::{RetentionReport, TableFigures, TableReport},
    status::Observed,
    tap::{TapShows, taps},
};
use relay::{
    Case, Code, Failure, Latencies, Lsn, Reconnects, RowsIgnored, Snapshot, State, TableName,
    TopicName, TopicTotals, Window, testing::samples,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::Instant,
};

/// The endpoint, and both ends of what it shows.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) relay: watch::Sender<RelayReport>,
    pub(crate) monitor: watch::Sender<MonitorReport>,
    #[allow(dead_code, reason = "only some tests change what was observed")]
    pub(crate) observed: watch::Sender<Observed>,
    #[allow(dead_code, reason = "only some tests wait for its end")]
    pub(crate) server: JoinHandle<()>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Starts an endpoint that shows [`snapshot`] and [`report`].
pub(crate) async fn start() -> Endpoint {
    start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), std::future::pending())
}

/// Starts such an endpoint without librdkafka's statistics.
#[allow(dead_code, reason = "only one test has none")]
pub(crate) async fn start_without_statistics() -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    serve_on(listener, None, std::future::pending())
}

/// Starts such an endpoint on a socket of the test's own, until `shutdown`.
pub(crate) fn start_on(
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Endpoint {
    serve_on(listener, Some(brokers()), shutdown)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test has no app.rs; the task ends with the endpoint"
)]
fn serve_on(
    listener: TcpListener,
    brokers: Option<BrokerStatistics>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Endpoint {
    let address = listener.local_addr().unwrap();
    let settings = AdminSettings {
        name: "shop".to_owned(),
        slot: "shop_slot".to_owned(),
        thresholds: Thresholds { warning: 256 << 20, critical: 2 << 30 },
        keep: Some(Duration::from_secs(86_400)),
        hosts: vec!["admin".to_owned()],
        window: Window { events: 20_000, bytes: 32 << 20 },
    };
    let (relay, relay_seen) =
        watch::channel(RelayReport::initial(snapshot(State::Streaming), Instant::now()));
    let (monitor, monitor_seen) = watch::channel(report());
    let (_retention, retention_seen) = watch::channel(removed());
    let (observed, observed_seen) = watch::channel(Observed::begin(Instant::now()));
    let sources = Sources {
        relay: relay_seen,
        monitor: monitor_seen,
        observed: observed_seen,
        retention: retention_seen,
        brokers: brokers.map(|brokers| watch::channel(brokers).1),
        taps: taps(TapShows::Metadata).0,
    };
    let server = tokio::spawn(serve(listener, settings, sources, shutdown));
    Endpoint { address, relay, monitor, observed, server }
}

/// Two topics, an error, and something in flight.
pub(crate) fn snapshot(state: State) -> Snapshot {
    let mut buckets = [0; 19];
    (buckets[0], buckets[4], buckets[18]) = (7, 2, 1);
    let topic = |name: &str| TopicTotals {
        name: TopicName::new(name).unwrap(),
        acked: 10,
        latencies: Latencies { buckets, sum_micros: 400_020_000 },
    };
    Snapshot {
        received: Lsn::from_u64(0x1_0000_0300),
        settled: Lsn::from_u64(0x1_0000_0200),
        confirmed: Lsn::from_u64(0x1_0000_0100),
        window_events: 42,
        window_bytes: 4_200,
        unacked_events: 40,
        topics: vec![topic("outbox.event.order"), topic("outbox.event.customer")],
        transactions: 12,
        rows_ignored: RowsIgnored { insert: 3, update: 4, delete: 5, truncate: 6 },
        rows_filtered: 7,
        reconnects: Reconnects { postgres: 2, kafka: 1 },
        errors: BTreeMap::from([(Code::ServerUnreachable, 2)]),
        ..samples::empty_snapshot(state)
    }
}

/// A table that is swept.
pub(crate) fn removed() -> RetentionReport {
    let name = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
    let figures = TableFigures { rows: 70, bytes: 16_384, oldest_seconds: 86_410.5 };
    RetentionReport {
        tables: vec![TableReport { name, removed: 30, older: 0, figures }],
        errors: 1,
        last_success: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        failure: Some(Failure::of(Case::RetentionLocked, "a lock was not given")),
        waits: None,
        abandoned: 2,
    }
}

/// A broker that works, and one that nothing is sent to.
pub(crate) fn brokers() -> BrokerStatistics {
    let busy = BrokerFigures {
        address: "kafka-1.example:9092".to_owned(),
        connection: Some(BrokerConnection::Up),
        unsent: Waiting { requests: 1, records: 20 },
        unanswered: Waiting { requests: 5, records: 400 },
        round_trip: Some(RoundTrip {
            mean: Duration::from_micros(2_500),
            p50: Duration::from_millis(2),
            p99: Duration::from_millis(20),
            max: Duration::from_millis(25),
        }),
        requests: 1_000,
        sent_bytes: 500_000,
        received_bytes: 60_000,
        send_errors: 1,
        retries: 2,
        timeouts: 3,
        connects: 5,
        disconnects: 4,
        throttled: Duration::from_millis(1_500),
    };
    let idle = BrokerFigures {
        address: "kafka-2.example:9092".to_owned(),
        connection: Some(BrokerConnection::Idle),
        round_trip: None,
        ..busy.clone()
    };
    BrokerStatistics {
        interval: Duration::from_secs(10),
        received: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)),
        brokers: BTreeMap::from([(1, busy), (2, idle)]),
        others: 3,
    }
}

/// A slot 0x400 bytes behind.
pub(crate) fn report() -> MonitorReport {
    let now = Instant::now();
    let mut report = MonitorReport::initial(now);
    report.polled_at = Some(Polled { at: now, wall: SystemTime::now() });
    let slot = SlotHealth {
        current_wal_lsn: Lsn::from_u64(0x1_0000_0500),
        confirmed_flush_lsn: Some(Lsn::from_u64(0x1_0000_0100)),
        restart_lsn: Some(Lsn::from_u64(0x1_0000_0000)),
        safe_wal_bytes: Some(1 << 30),
        active_pid: Some(4711),
        ..samples::slot()
    };
    report.slot = ObservedSlot::Seen(slot.clone());
    report.watch.last = Some(LastSlot {
        read: Polled { at: now, wall: SystemTime::now() },
        server_clock: 1_800_000_000.0,
        slot: Some(slot),
        rates: None,
        to_limit: Some(TimeToLimit { seconds: f64::INFINITY, limit: SlotLimit::WalKeepSize }),
    });
    report.watch.figures = Some(figures(now));
    report.seconds_to_limit = Some(f64::INFINITY);
    report.decided = Some(0);
    report
}

/// What a role sees that may not list `pg_wal`.
fn figures(now: Instant) -> SlotFigures {
    SlotFigures {
        read: Polled { at: now, wall: SystemTime::now() },
        limits: Limits {
            wal_keep_bytes: None,
            idle_timeout_seconds: None,
            wal_sender_timeout_seconds: Some(60.0),
            slots_max: 10,
            slots_used: 1,
        },
        spill: Some(Spill {
            spill_txns: 0,
            spill_count: 0,
            spill_bytes: 0,
            stream_bytes: 0,
            total_bytes: 0,
        }),
        pins: Vec::new(),
        other_slots: OtherSlots { inactive: 0, largest: None },
        catalog_xmin_age: Some(7),
        holder: None,
        standbys: None,
        wal_directory: None,
        denied: Vec::new(),
    }
}

impl Endpoint {
    /// Status code, head and body of one request.
    pub(crate) async fn ask(&self, method: &str, path: &str) -> (u16, String, String) {
        self.ask_with(method, path, &["host: admin", "x-outbox-router: 1"]).await
    }

    /// The same, with these headers alone.
    pub(crate) async fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
    ) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request = format!("{method} {path} HTTP/1.1\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // Ends because every answer closes its connection.
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let code = head.split(' ').nth(1).unwrap().parse().unwrap();
        (code, head.to_lowercase(), body.to_owned())
    }

    /// The body of a successful GET.
    pub(crate) async fn get(&self, path: &str) -> String {
        let (code, _, body) = self.ask("GET", path).await;
        assert_eq!(code, 200, "{body}");
        body
    }
}
