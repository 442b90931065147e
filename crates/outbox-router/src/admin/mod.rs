//! The admin endpoint: what people, probes and Prometheus are told. Reading only, and nothing of any event's content:
//! no payload, no key, no id.
//!
//! | path | who asks | answer |
//! |---|---|---|
//! | `/metrics` | Prometheus | [`metrics`], text format |
//! | `/livez` | an init system | 200 while our own tasks come round, whatever PostgreSQL and Kafka do; else 503 |
//! | `/readyz` | a load balancer, a rollout | 200 while rows flow or a healthy holder is stood by for; else 503 with a code |
//! | `/status.json` | `outbox-router status`, people | [`status`] |
//!
//! Everything is encoded when it is asked for, from the two watches that relay and monitor write.

mod exposition;
pub mod health;
mod listener;
pub mod metrics;
mod pages;
pub mod reason;
pub mod status;
pub mod view;
mod witness;

use std::{future::Future, io};

use tokio::{net::TcpListener, sync::watch};

use crate::monitor::{MonitorReport, RelayReport, Thresholds, WindowLimits};

/// What does not change while the router runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `name`: the label `pipeline`.
    pub name: String,
    /// The slot: the label `slot`.
    pub slot: String,
    /// `monitor.bytes_behind`, exported so that alert rules need no editing.
    pub thresholds: Thresholds,
    /// The window's limits, to tell who is to blame.
    pub window: WindowLimits,
}

/// Where the answers come from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// What the relay's task publishes.
    pub relay: watch::Receiver<RelayReport>,
    /// What the monitor publishes.
    pub monitor: watch::Receiver<MonitorReport>,
}

/// Serves until `shutdown` resolves.
///
/// # Errors
/// The listener's address cannot be read; a failed connection is its client's matter.
pub async fn serve(
    listener: TcpListener,
    settings: Settings,
    sources: Sources,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let router = pages::router(settings, sources);
    axum::serve(listener::Limited::new(listener), router).with_graceful_shutdown(shutdown).await
}
