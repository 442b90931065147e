//! The admin endpoint of a router that polls: the paths of [`crate::admin`], and what they mean
//! without a slot. Nothing of an event's content is shown here either.
//!
//! Everything is made from two reports: the worker's, and the survey's. `facts` puts them together,
//! `verdict` judges them, and metrics, probes, document and page show the one judgement. `memory`
//! keeps what one look cannot show, and `observer` fills it twice a second.

pub mod document;
mod facts;
mod health;
mod memory;
mod metrics;
mod observer;
mod pace;
mod page;
mod pages;
mod settings;
mod verdict;
mod view;

use std::future::Future;

use tokio::{net::TcpListener, sync::watch, time::Instant};

use crate::admin::listener;
pub(crate) use document::SurveyedView;
pub use settings::{AdminSettings, Sources};

/// Serves until `shutdown` resolves, and a moment longer for answers that are being sent.
pub async fn serve(
    listener: TcpListener,
    settings: AdminSettings,
    sources: Sources,
    shutdown: impl Future<Output = ()>,
) {
    let (remember, memory) = watch::channel(memory::Memory::begin(Instant::now()));
    let forget = sources.taps.clone().forget();
    let looks = observer::look(settings.clone(), sources.clone(), remember);
    let router = pages::router(settings, sources, memory);
    tokio::select! {
        () = listener::serve(listener, router, shutdown) => {}
        never = looks => match never {},
        never = forget => match never {},
    }
}
