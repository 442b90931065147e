//! What a router that polls answers at each path.

use std::sync::Arc;

use axum::Router;
use tokio::sync::watch;

use super::{
    AdminSettings, Sources, document::PollingDocument, health, memory::Memory, metrics,
    page::PollingPage, view::View,
};
use crate::admin::{
    frame::{self, Answers},
    health::{ProbeAnswer, StartLatch},
    page, tap,
};

const PATHS: &str = "there are /, /metrics, /livez, /readyz, /startupz, /status.json and /tap";

#[derive(Clone)]
struct Admin {
    settings: Arc<AdminSettings>,
    sources: Sources,
    memory: watch::Receiver<Memory>,
    start: StartLatch,
}

pub(super) fn router(
    settings: AdminSettings,
    sources: Sources,
    memory: watch::Receiver<Memory>,
) -> Router {
    let settings = Arc::new(settings);
    let page = PollingPage {
        settings: Arc::clone(&settings),
        sources: sources.clone(),
        memory: memory.clone(),
    };
    let names = settings.hosts.clone();
    let tap = tap::routes(sources.taps.clone());
    let admin = Admin { settings, sources, memory, start: StartLatch::default() };
    frame::router(admin, &names, tap.merge(page::routes(page)), PATHS)
}

impl Admin {
    fn view(&self) -> View<'_> {
        View::of(&self.settings, &self.sources, &self.memory)
    }
}

impl Answers for Admin {
    type Document = PollingDocument;

    fn metrics(&self) -> String {
        metrics::encode(&self.view())
    }

    fn alive(&self) -> ProbeAnswer {
        health::alive(&self.view())
    }

    fn ready(&self) -> ProbeAnswer {
        health::ready(&self.view())
    }

    fn started(&self) -> ProbeAnswer {
        let view = self.view();
        health::started(&view, self.start.after(health::progress(&view)))
    }

    fn status(&self) -> PollingDocument {
        PollingDocument::of(&self.view())
    }
}
