//! What a router that polls answers at each path.

use std::sync::{Arc, OnceLock};

use axum::Router;
use tokio::sync::watch;

use super::{
    AdminSettings, Sources, document::PollingDocument, health, memory::Memory, metrics,
    page::PollingPage, view::View,
};
use crate::admin::{
    frame::{self, Answers},
    health::{ProbeAnswer, StartProgress},
    page,
};

const PATHS: &str = "there are /, /metrics, /livez, /readyz, /startupz and /status.json";

#[derive(Clone)]
struct Admin {
    settings: Arc<AdminSettings>,
    sources: Sources,
    memory: watch::Receiver<Memory>,
    /// Set as soon as an answer said that the start is over: no later answer takes it back.
    started: Arc<OnceLock<()>>,
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
    let admin = Admin { settings, sources, memory, started: Arc::default() };
    frame::router(admin, &names, page::routes(page), PATHS)
}

impl Admin {
    fn view(&self) -> View<'_> {
        View::of(&self.settings, &self.sources, &self.memory)
    }

    fn progress(&self, view: &View<'_>) -> StartProgress {
        let progress = health::progress(view);
        if progress == StartProgress::Over {
            self.started.get_or_init(|| ());
        }
        if self.started.get().is_some() { StartProgress::Over } else { progress }
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
        health::started(&view, self.progress(&view))
    }

    fn status(&self) -> PollingDocument {
        PollingDocument::of(&self.view())
    }
}
