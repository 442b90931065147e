//! What a person on call asks about the slot, on servers of each version that answers differently:
//! 15 has no failover slots, 17 has them, 18 has a second limit.

mod backlog;
mod figures;
mod limits;
mod pins;
mod readers;
mod rights;
mod slow;
mod standbys;
mod tables;
mod unprintable;
mod unreachable;
mod warnings;

use outbox_router::monitor::{
    ConnectBy, MonitorReport, MonitorSettings, watch::figures::SlotFigures,
};
use relay::State;
use testbed::postgres::{
    DATABASE, DatabaseSession, PostgresOptions, PostgresServer, SUPERUSER, create_slot,
};

use crate::{
    fixture::{COLUMNS, MonitorFixture, settings},
    postgres::open,
};

/// A server with table, publication and slot `x`, and a session on it.
async fn server(version: u16, settings: &[(&str, &str)]) -> (PostgresServer, DatabaseSession) {
    let options = PostgresOptions::version(version);
    let options = settings.iter().fold(options, |options, (name, value)| options.set(name, value));
    let server = PostgresServer::start(options).await.unwrap();
    let session = server.connect().await.unwrap();
    session
        .batch_execute(&format!(
            "create table outbox_x ({COLUMNS}); create table n (i int, t text); \
             create publication p_x for table outbox_x \
               with (publish = 'insert', publish_via_partition_root = true)"
        ))
        .await
        .unwrap();
    create_slot(&session, "s_x", "pgoutput").await.unwrap();
    (server, session)
}

/// A monitor of slot `x` that connects as `role`.
fn monitor_as(server: &PostgresServer, role: &str) -> MonitorFixture {
    monitor_with(server, role, settings("x"))
}

fn monitor_with(server: &PostgresServer, role: &str, settings: MonitorSettings) -> MonitorFixture {
    let address = server.url(role, DATABASE);
    let connector = ConnectBy(move || open(address.clone()));
    MonitorFixture::start_with(connector, settings, State::Starting)
}

fn monitor(server: &PostgresServer) -> MonitorFixture {
    monitor_as(server, SUPERUSER)
}

/// The first figures that `wanted` accepts.
async fn until_figures(
    monitor: &mut MonitorFixture,
    what: &str,
    mut wanted: impl FnMut(&SlotFigures) -> bool,
) -> MonitorReport {
    let seen = |report: &MonitorReport| report.watch.figures.as_ref().is_some_and(&mut wanted);
    monitor.until(what, seen).await
}

/// The present figures.
async fn any_figures(monitor: &mut MonitorFixture) -> SlotFigures {
    let report = until_figures(monitor, "figures", |_| true).await;
    report.watch.figures.unwrap()
}
