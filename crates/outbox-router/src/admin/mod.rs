//! The admin endpoint: what people, probes and Prometheus read. It changes nothing, and shows
//! nothing of any event's content: no payload, no key, no id. The one exception is `/tap`, where
//! the configuration says so (`admin.tap = "content"`).
//!
//! | path | read by | answer |
//! |---|---|---|
//! | `/` | people | a page (`page/`), which loads `/page/…` |
//! | `/metrics` | Prometheus | [`metrics`], text format |
//! | `/livez` | a supervisor | 200 while the router's own tasks run, else 503 |
//! | `/readyz` | probes, rollouts | 200 while rows flow, or a standby could take over; else 503 |
//! | `/startupz` | probes | 200 once the start is over, however it went; else 503 |
//! | `/status.json` | `outbox-router status`, people | [`status`] |
//! | `/tap` | `outbox-router tap` | events as they are routed: [`crate::tap`] |
//!
//! Every answer is encoded at the request, from the watch channels that streaming task, monitor,
//! observer and retention write; the page's events also once a second, for some seconds. `/livez`
//! does not depend on PostgreSQL and Kafka. A 503 names the reason by a code; with `?verbose` a
//! probe lists its checks as text.
//!
//! Clients are not trusted to be well-behaved: `listener` and `room` say what they may cost,
//! and `hosts` keeps out the web pages that a browser on the same machine shows.

mod answer;
pub(crate) mod brokers;
mod connection;
pub(crate) mod epoch;
pub(crate) mod exposition;
pub(crate) mod frame;
pub mod health;
mod held;
mod hosts;
pub(crate) mod listener;
pub mod metrics;
pub(crate) mod page;
mod pages;
pub(crate) mod process;
pub mod reason;
pub(crate) mod retention;
mod room;
mod settings;
pub(crate) mod shared_metrics;
pub mod slot;
mod slot_metrics;
pub(crate) mod standing;
pub mod status;
pub(crate) mod tap;
pub mod verdict;
pub mod view;
mod witness;

use std::future::Future;

use tokio::net::TcpListener;

pub use settings::{AdminSettings, Sources};

/// Serves until `shutdown` resolves, and a moment longer for answers that are being sent. A
/// connection that fails affects its client alone.
pub async fn serve(
    listener: TcpListener,
    settings: AdminSettings,
    sources: Sources,
    shutdown: impl Future<Output = ()>,
) {
    let forget = sources.taps.clone().forget();
    let router = pages::router(settings, sources);
    tokio::select! {
        () = listener::serve(listener, router, shutdown) => {}
        never = forget => match never {},
    }
}
