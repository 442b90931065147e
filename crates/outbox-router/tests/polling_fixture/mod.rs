//! A worker at work behind a real admin endpoint.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use outbox_router::{
    kafka::{BrokerConnection, BrokerFigures, BrokerStatistics, RoundTrip, Waiting},
    monitor::{Polled, tables::TableSize},
    polling::{
        admin::{AdminEndpoint, AdminSettings, Sources},
        report::WorkerReport,
        survey::{Holder, RowCount, SurveyReport, SurveyedTable, TableSurvey},
    },
    retention::{RetentionReport, TableFigures, TableReport},
    tap::{TapShows, taps},
};
use relay::{
    Case, Code, Failure, Latencies, OtherTopics, TableName, TopicName, TopicTotals,
    polling::{PollState, PolledTableReport, PollerReport},
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
    pub(crate) worker: watch::Sender<WorkerReport>,
    pub(crate) surveyed: watch::Sender<SurveyReport>,
    server: JoinHandle<()>,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Whether published rows are removed some day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// After a day.
    ForADay,
    /// Never.
    All,
}

/// Starts an endpoint that shows [`report`], [`survey`] and [`removed`].
pub(crate) async fn start() -> Endpoint {
    start_with(Keeps::ForADay).await
}

/// Starts an endpoint that shows [`report`] and [`survey`].
#[expect(
    clippy::disallowed_methods,
    reason = "a test has no app.rs; the task ends with the endpoint"
)]
pub(crate) async fn start_with(keeps: Keeps) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let settings = AdminSettings {
        name: "shop".to_owned(),
        hosts: vec!["admin".to_owned()],
        keep: (keeps == Keeps::ForADay).then_some(Duration::from_secs(86_400)),
    };
    let (worker, worker_seen) = watch::channel(WorkerReport::first(report()));
    let (surveyed, survey_seen) = watch::channel(survey());
    let (_, retention) = watch::channel(removed());
    let sources = Sources {
        worker: worker_seen,
        surveyed: survey_seen,
        retention,
        brokers: Some(watch::channel(brokers()).1),
        taps: taps(TapShows::Metadata).0,
    };
    let server =
        tokio::spawn(AdminEndpoint::new(settings, sources).serve(listener, std::future::pending()));
    Endpoint { address, worker, surveyed, server }
}

pub(crate) fn name() -> TableName {
    TableName { schema: "public".to_owned(), name: "outbox".to_owned() }
}

/// One broker that has answered.
fn brokers() -> BrokerStatistics {
    let waiting = || Waiting { requests: 0, records: 0 };
    let ten = Duration::from_millis(10);
    let broker = BrokerFigures {
        address: "kafka-1.example:9092".to_owned(),
        connection: Some(BrokerConnection::Up),
        unsent: waiting(),
        unanswered: waiting(),
        round_trip: Some(RoundTrip { mean: ten, p50: ten, p99: ten, max: ten }),
        requests: 7,
        sent_bytes: 700,
        received_bytes: 70,
        send_errors: 0,
        retries: 0,
        timeouts: 0,
        connects: 1,
        disconnects: 0,
        throttled: Duration::ZERO,
    };
    BrokerStatistics {
        interval: Duration::from_secs(10),
        received: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)),
        brokers: BTreeMap::from([(1, broker)]),
        others: 0,
    }
}

/// One of two workers, which has delivered some rows.
pub(crate) fn report() -> PollerReport {
    let mut buckets = [0; 19];
    (buckets[0], buckets[4], buckets[18]) = (7, 2, 1);
    let latencies = Latencies { buckets, sum_micros: 400_020_000 };
    PollerReport {
        state: PollState::Polling,
        reason: None,
        tables: vec![PolledTableReport {
            name: name(),
            shards: (0..32).collect(),
            batches: 40,
            fetched: 120,
            published: 100,
            changed: 3,
            failed: 5,
            abandoned: 2,
            waiting: 1,
            failure: None,
        }],
        topics: vec![TopicTotals {
            name: TopicName::new("outbox.event.order").unwrap(),
            acked: 10,
            latencies: latencies.clone(),
        }],
        other_topics: OtherTopics::default(),
        unacked: 4,
        workers: 2,
        claims_lost: 1,
        errors: BTreeMap::from([(Code::ServerUnreachable, 2)]),
        reconnects: 3,
        batch_times: latencies,
    }
}

/// Some rows were removed, and the last sweep over the tables failed.
pub(crate) fn removed() -> RetentionReport {
    let figures = TableFigures { rows: 130, bytes: 24_576, oldest_seconds: 86_410.5 };
    RetentionReport {
        tables: vec![TableReport { name: name(), removed: 30, older: 0, figures }],
        errors: 1,
        last_success: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        failure: Some(Failure::of(Case::RetentionLocked, "a lock was not given")),
        waits: None,
        abandoned: 2,
    }
}

/// Some rows are pending, and the other worker holds the other shards.
pub(crate) fn survey() -> SurveyReport {
    let now = Instant::now();
    let holder = |worker: &str, lasts_seconds| Holder {
        worker: worker.to_owned(),
        name: "shop".to_owned(),
        shards: 32,
        lasts_seconds,
    };
    let figures = TableSurvey {
        pending: RowCount::Exactly(25),
        not_due: 3,
        due_in_seconds: Some(3_600.0),
        ready: 17,
        oldest_seconds: Some(1.5),
        failed: RowCount::Exactly(1),
        abandoned: RowCount::Exactly(2),
        stranded: RowCount::Exactly(0),
        processing: RowCount::Exactly(4),
    };
    let holders = vec![holder("aaaa", 8.0), holder("bbbb", -3.0)];
    SurveyReport {
        tables: vec![SurveyedTable {
            name: name(),
            figures: Ok(figures),
            size: Some(TableSize { name: name(), rows: 130, bytes: 24_576 }),
            holders: Ok(holders),
            handed: None,
            stranded: None,
        }],
        read: Some(Polled { at: now, wall: SystemTime::now() }),
        failure: None,
        ticked_at: Some(now),
    }
}

impl Endpoint {
    /// Status code, head and body of one request.
    pub(crate) async fn ask(&self, method: &str, path: &str, host: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n\r\n");
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
        let (code, _, body) = self.ask("GET", path, "admin").await;
        assert_eq!(code, 200, "{body}");
        body
    }
}
