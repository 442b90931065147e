//! Who reads the slot while this router stands by.

use outbox_router::{
    monitor::{ConnectBy, MonitorReport},
    postgres::{ConnInfo, Options, ReplicationConnection, ReplicationStream},
};
use relay::{Code, State};
use testbed::postgres::{DATABASE, PostgresServer, SUPERUSER};

use super::{server, settings};
use crate::{fixture::MonitorFixture, postgres::open};

/// Reads the slot under this name, when nobody else does any more.
async fn read_as(server: &PostgresServer, name: &str) -> ReplicationStream {
    let info = ConnInfo::resolve(Some(&server.url(SUPERUSER, DATABASE)), &|_| None).unwrap();
    let options = Options { application_name: name.to_owned(), ..Options::default() };
    loop {
        let connection = ReplicationConnection::connect(&info, &options).await.unwrap();
        if let Ok(stream) = connection.start_replication("s_x", &["p_x"]).await {
            return stream;
        }
    }
}

fn is_read_by(report: &MonitorReport, name: &str) -> bool {
    let figures = report.watch.figures.as_ref();
    let holder = figures.and_then(|figures| figures.holder.as_ref());
    holder.is_some_and(|holder| holder.application.as_deref() == Some(name))
}

#[tokio::test]
async fn a_standby_tells_a_router_of_its_pipeline_from_any_other_program() {
    let (server, session) = server(18, &[]).await;
    let address = server.url(SUPERUSER, DATABASE);
    let connector = ConnectBy(move || open(address.clone()));
    let mut monitor = MonitorFixture::start_with(connector, settings("x"), State::Standby);
    let reader = read_as(&server, "another").await;
    let report = monitor.until("a foreign reader", |report| report.foreign_reader.is_some()).await;
    let failure = report.foreign_reader.unwrap();
    let pid = "select active_pid from pg_replication_slots";
    let pid: i32 = session.query_one(pid, &[]).await.unwrap().get(0);
    assert_eq!(failure.code, Code::SlotReadElsewhere);
    let expected = format!("pid {pid}, another, which is no router of this pipeline by its name");
    assert!(failure.message.starts_with(&expected), "{failure}");
    drop(reader);
    let _reader = read_as(&server, "monitor").await;
    let own = |report: &MonitorReport| is_read_by(report, "monitor");
    assert_eq!(monitor.until("a router", own).await.foreign_reader, None);
}
