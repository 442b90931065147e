//! The admin endpoint of a router that polls: the paths of [`crate::admin`], and what they mean
//! without a slot. Nothing of an event's content is shown here either.
//!
//! Everything is made from two reports: the worker's, and the survey's. `facts` puts them together,
//! `verdict` judges them, and metrics, probes, document and page show the one judgement. `memory`
//! keeps what one look cannot show, and `observer` fills it twice a second.

pub mod document;
mod facts;
mod halt;
mod health;
mod memory;
mod metrics;
mod observer;
mod pace;
mod page;
mod pages;
mod settings;
mod standing;
mod verdict;
mod view;
mod waiting;

use std::future::Future;

use tokio::{net::TcpListener, sync::watch, time::Instant};

use crate::{admin::listener, service::Standing};
use memory::Memory;
use view::View;

pub(crate) use document::SurveyedView;
pub use settings::{AdminSettings, Sources};

/// The endpoint, and what it remembers.
#[derive(Debug)]
pub struct AdminEndpoint {
    settings: AdminSettings,
    sources: Sources,
    remember: watch::Sender<Memory>,
}

impl AdminEndpoint {
    /// Remembers from now on.
    pub fn new(settings: AdminSettings, sources: Sources) -> Self {
        let (remember, _) = watch::channel(Memory::begin(Instant::now()));
        Self { settings, sources, remember }
    }

    /// How the router fares, each time that it is asked.
    pub(crate) fn standing(&self) -> impl Fn() -> Standing + use<> {
        let Self { settings, sources, remember } = self;
        let (settings, sources, memory) = (settings.clone(), sources.clone(), remember.subscribe());
        move || standing::standing(&View::of(&settings, &sources, &memory))
    }

    /// Serves until `shutdown` resolves, and a moment longer for answers that are being sent.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let Self { settings, sources, remember } = self;
        let forget = sources.taps.clone().forget();
        let memory = remember.subscribe();
        let looks = observer::look(settings.clone(), sources.clone(), remember);
        let router = pages::router(settings, sources, memory);
        tokio::select! {
            () = listener::serve(listener, router, shutdown) => {}
            never = looks => match never {},
            never = forget => match never {},
        }
    }
}
