//! A slow answer about the figures costs the figures alone.

use std::{process::Command, time::Duration};

use outbox_router::monitor::MonitorSettings;
use testbed::{
    kafka::{KafkaCluster, KafkaOptions},
    postgres::{DATABASE, DatabaseSession, PostgresServer, SUPERUSER},
    router::RouterProcess,
    wait::eventually,
};

use super::{monitor, monitor_with, server, until_figures};
use crate::{fixture::settings, log::Log};

const DEADLINE: Duration = Duration::from_secs(120);

/// The definition of a view of the server, by which it can be made quick again.
struct View(String);

impl View {
    /// Lets it take a minute.
    async fn slow_down(session: &DatabaseSession) -> Self {
        let sql = "select rtrim(pg_get_viewdef('pg_catalog.pg_stat_replication_slots'), ';')";
        let view = Self(session.query_one(sql, &[]).await.unwrap().get(0));
        let slow = format!("select v.* from ({}) v, pg_sleep(60)", view.0);
        view.replace(session, &slow).await;
        view
    }

    async fn speed_up(&self, session: &DatabaseSession) {
        self.replace(session, &self.0).await;
    }

    async fn replace(&self, session: &DatabaseSession, definition: &str) {
        let name = "pg_catalog.pg_stat_replication_slots";
        let replace = format!(
            "set allow_system_table_mods = on; create or replace view {name} as {definition}"
        );
        session.batch_execute(&replace).await.unwrap();
    }
}

/// Idle backends of a client, but for walsenders. One that is stopped while it holds a lock would
/// stop others.
async fn backends(session: &DatabaseSession, application: &str) -> Vec<i32> {
    let sql = "select pid from pg_stat_activity where backend_type = 'client backend' \
               and application_name = $1 and state = 'idle' and pid <> pg_backend_pid()";
    let rows = session.query(sql, &[&application]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Ends the stop when a test fails, too: a stopped backend would keep its server from ending.
struct Stopped(Vec<i32>);

impl Stopped {
    async fn stop(session: &DatabaseSession, application: &str) -> Self {
        let what = format!("an idle backend of \"{application}\"");
        let pids = eventually(DEADLINE, what, async || {
            let pids = backends(session, application).await;
            Ok((!pids.is_empty()).then_some(pids))
        });
        let stopped = Self(pids.await.unwrap());
        for pid in &stopped.0 {
            let sent = Command::new("kill").args(["-STOP", &pid.to_string()]).status().unwrap();
            assert!(sent.success());
        }
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for pid in &self.0 {
            drop(Command::new("kill").args(["-CONT", &pid.to_string()]).status());
        }
    }
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_noted_and_tried_again() {
    let log = Log::default();
    let _guard = log.listen();
    let (server, session) = server(18, &[]).await;
    let mut monitor = monitor(&server);
    let before = until_figures(&mut monitor, "figures", |figures| figures.spill.is_some()).await;
    let view = View::slow_down(&session).await;
    let slow = monitor.until("a note", |report| report.watch.trouble.is_some()).await;
    let trouble = slow.watch.trouble.unwrap();
    assert!(trouble.message_with_causes().contains("statement timeout"), "{trouble:?}");
    // The slot, and what is wrong with it, is seen as ever.
    assert!(slow.slot.health().is_some() && slow.trouble.is_none() && slow.findings.is_empty());
    assert!(slow.watch.figures.unwrap().read.at >= before.watch.figures.unwrap().read.at);
    monitor.rounds(2).await;
    session.batch_execute("drop publication p_x").await.unwrap();
    monitor.gap().await;
    assert_eq!(log.lines("cannot read the figures").len(), 1);
    view.speed_up(&session).await;
    let again = monitor.until("figures again", |report| report.watch.trouble.is_none()).await;
    assert!(again.watch.figures.unwrap().spill.is_some());
    assert_eq!(log.lines("reads the figures around the slot again").len(), 1);
}

/// The backend is stopped as a machine without memory stops it: its connection stays open.
#[tokio::test]
async fn a_backend_that_no_longer_answers_is_replaced() {
    let (server, session) = server(15, &[]).await;
    let settings = MonitorSettings { interval: Duration::from_secs(1), ..settings("x") };
    let mut monitor = monitor_with(&server, SUPERUSER, settings);
    let before = until_figures(&mut monitor, "figures", |_| true).await;
    let read = before.watch.figures.unwrap().read.at;
    let _stopped = Stopped::stop(&session, "").await;
    let report = until_figures(&mut monitor, "newer figures", |figures| {
        figures.read.at > read + Duration::from_secs(1)
    })
    .await;
    assert!(report.slot.health().is_some() && report.trouble.is_none(), "{report:?}");
}

async fn insert(session: &DatabaseSession) {
    let insert = "insert into outbox_x (aggregate_type, aggregate_id, event_type, payload) \
                  values ('order', '1', 'e', '{}')";
    session.batch_execute(insert).await.unwrap();
}

fn router(server: &PostgresServer, kafka: &KafkaCluster) -> RouterProcess {
    let config = format!(
        "name = \"watched\"\n[postgres]\nurl = \"{}\"\nslot = \"s_x\"\npublication = \"p_x\"\n\
         [kafka]\nbootstrap_servers = \"{}\"\n[monitor]\ninterval = \"1s\"\n\
         [log]\nformat = \"text\"\n\
         [[outbox]]\ntable = \"public.outbox_x\"\ntopic = \"watched\"\n",
        server.url(SUPERUSER, DATABASE),
        kafka.bootstrap()
    );
    let router = RouterProcess::with_config(&config).unwrap();
    router.program(env!("CARGO_BIN_EXE_outbox-router"))
}

/// Acknowledged events are confirmed while no statement of the router's monitor is answered.
#[tokio::test]
async fn the_stream_does_not_notice_a_monitor_that_gets_no_answer() {
    let (server, kafka) =
        tokio::join!(server(18, &[]), KafkaCluster::start(KafkaOptions::default()));
    let ((server, session), kafka) = (server, kafka.unwrap());
    kafka.create_topic("watched", 1, &[]).await.unwrap();
    let mut router = router(&server, &kafka);
    router.start_again().unwrap();
    router.wait_state("streaming", DEADLINE).await.unwrap();
    insert(&session).await;
    server.wait_confirmed("s_x", DEADLINE).await.unwrap();
    let walsender = server.slot("s_x").await.unwrap().unwrap().active_pid;

    View::slow_down(&session).await;
    insert(&session).await;
    server.wait_confirmed("s_x", DEADLINE).await.unwrap();

    let stopped = Stopped::stop(&session, "watched").await;
    eventually(DEADLINE, "another connection of the monitor", async || {
        insert(&session).await;
        server.wait_confirmed("s_x", DEADLINE).await?;
        let answering = backends(&session, "watched").await;
        Ok(answering.iter().any(|pid| !stopped.0.contains(pid)).then_some(()))
    })
    .await
    .unwrap_or_else(|error| panic!("{error}:\n{}", router.log()));
    drop(stopped);
    insert(&session).await;
    server.wait_confirmed("s_x", DEADLINE).await.unwrap();
    // It was one session all the time.
    assert_eq!(server.slot("s_x").await.unwrap().unwrap().active_pid, walsender);
}
