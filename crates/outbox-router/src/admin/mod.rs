//! The admin endpoint: what people, probes and Prometheus are told. Reading only, and nothing of
//! any event's content: no payload, no key, no id.
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
mod settings;
pub mod status;
pub mod view;
mod witness;

use std::{future::Future, io};

use tokio::net::TcpListener;

pub use settings::{Settings, Sources};

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
