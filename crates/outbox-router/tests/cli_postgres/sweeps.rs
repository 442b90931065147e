//! Sweeps of `run` beside its stream: the task itself, which is told that the stream has delivered
//! everything.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use outbox_router::{
    cli::{self, Cli},
    config::Environment,
    monitor::{Connect, MonitorReport, RelayReport, SqlSession},
    postgres::{ConnInfo, connect_failure, connect_sql},
    retention::{self, Channels, RetentionReport, RetentionSettings},
};
use relay::{
    Failure, Lsn, State,
    source::{Baseline, TableOids},
    testing::{Source, samples::empty_snapshot, wire::TEXT},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    cleanup::{HOUR_AGO, ids, insert, outbox},
    delivered,
    server::Server,
};

const DEADLINE: Duration = Duration::from_secs(60);

/// The task, of a router that runs as `cleaner`.
struct Sweeps<'s> {
    server: &'s Server,
    relay: watch::Sender<RelayReport>,
    _monitor: watch::Sender<MonitorReport>,
    report: watch::Receiver<RetentionReport>,
    task: Pin<Box<dyn Future<Output = ()>>>,
}

/// Connects as the router does.
struct Connector(String);

impl Connect for Connector {
    async fn connect(&self) -> Result<SqlSession, Failure> {
        let info = ConnInfo::resolve(Some(&self.0), &|_: &str| None).expect("a server");
        let (client, connection) = connect_sql(&info, "orders").await.map_err(connect_failure)?;
        Ok(SqlSession { client, driver: Box::pin(async move { drop(connection.await) }) })
    }
}

/// A session that has sent every row of the tables as they are now.
fn all_is_sent(server: &Server) -> RelayReport {
    let source = Source::of("outbox", 16_400, &[("id", TEXT)]);
    let reading = source.slot_reading();
    let known = delivered::record(server, |_| Some(relay::delivered::EventsSince::FIRST_ROW));
    let mut of_server = source.server();
    of_server.history = known.history.expect("it was read");
    let mut snapshot = empty_snapshot(State::Streaming);
    snapshot.baseline = Some(Arc::new(Baseline {
        server: of_server,
        checked: reading.mark(),
        moment: reading.moment(),
        slot: reading.slot.expect("a slot"),
        catalog: source.catalog(),
        alterations: Vec::new(),
        tables: TableOids::default(),
    }));
    snapshot.witness.since = known.since;
    RelayReport::initial(snapshot, Instant::now())
}

impl<'s> Sweeps<'s> {
    fn start(server: &'s Server, settings: &[&str]) -> Self {
        let head = ["outbox-router", "--config", "/dev/null"];
        let table = ["--set", "outbox.0.table=public.outbox", "--set", "retention.interval=1s"];
        let line = [&head[..], &table, settings, &["check"]].concat();
        let cli = Cli::read(line).expect("a command line");
        let loaded = cli::load_config(&cli, &Environment::default()).expect("a configuration");
        let settings = RetentionSettings::of(&loaded.config);
        let initial = RetentionReport::initial(&settings, SystemTime::UNIX_EPOCH);
        let (relay, relay_seen) = watch::channel(all_is_sent(server));
        let (monitor, monitor_seen) = watch::channel(MonitorReport::initial(Instant::now()));
        let (report_out, report) = watch::channel(initial);
        let channels = Channels { relay: relay_seen, monitor: monitor_seen, report: report_out };
        let connector = Connector(server.url("cleaner"));
        let task = Box::pin(retention::run(settings, connector, channels));
        Self { server, relay, _monitor: monitor, report, task }
    }

    /// The first report that is so, while the slot confirms whatever is written.
    async fn until(
        &mut self,
        what: &str,
        is_so: impl Fn(&RetentionReport) -> bool,
    ) -> RetentionReport {
        let begun = Instant::now();
        while begun.elapsed() < DEADLINE {
            let advance = "select end_lsn from pg_replication_slot_advance('outbox_router', \
                           pg_current_wal_insert_lsn())";
            let sent: Lsn = self.server.sql(advance).parse().expect("a position");
            self.relay.send_modify(|report| {
                report.snapshot.confirmed = sent;
                report.snapshot.witness.verified = Some(sent);
                report.published_at = Instant::now();
            });
            let changed = self.report.wait_for(|report| is_so(report));
            tokio::select! {
                () = &mut self.task => panic!("the task ended"),
                report = changed => return report.expect("the task reports").clone(),
                () = sleep(Duration::from_millis(200)) => {}
            }
        }
        panic!("{what} never came: {:?}", self.report.borrow())
    }

    async fn refuses(&mut self, code: &str, what: &str) {
        let said = |report: &RetentionReport| {
            let failure = report.failure.as_ref();
            failure.is_some_and(|failure| {
                failure.code.as_str() == code && failure.message.contains(what)
            })
        };
        let report = self.until(what, said).await;
        assert!(report.tables.iter().all(|table| table.removed == 0), "{report:?}");
    }
}

/// A router may replicate, so it is more than any owner.
#[tokio::test]
async fn a_sweep_removes_nothing_where_rows_are_hidden_or_code_of_another_role_would_run() {
    let server = outbox();
    server.sql("grant select, delete on outbox to cleaner");
    insert(&server, "d1", HOUR_AGO);
    insert(&server, "d2", HOUR_AGO);
    server.script(
        "create role keeper;
         create function away() returns trigger language plpgsql as 'begin return old; end';
         alter function away() owner to keeper;
         create trigger away before delete on outbox for each row execute function away();",
    );
    let settings = ["--set", "retention.mode=delete", "--set", "retention.keep=30m"];
    let mut sweeps = Sweeps::start(&server, &settings);
    sweeps.refuses("P084", "public.outbox: trigger away is code of role keeper").await;

    server.sql("drop trigger away on outbox");
    server.script(
        "create policy few on outbox using (id = 'd1'); \
         alter table outbox enable row level security;",
    );
    let hidden = "role \"cleaner\" may not see every row of public.outbox";
    sweeps.refuses("P038", hidden).await;
    assert_eq!(ids(&server, "outbox"), "d1 d2");

    server.sql("alter role cleaner bypassrls");
    let swept = |report: &RetentionReport| report.failure.is_none();
    let report = sweeps.until("a sweep", swept).await;
    assert_eq!(report.tables[0].removed, 2, "{report:?}");
    assert_eq!(ids(&server, "outbox"), "");
}
