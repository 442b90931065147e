//! What a router that follows a slot answers at each path.

use std::sync::Arc;

use axum::Router;

use super::{
    AdminSettings, Sources,
    frame::{self, Answers},
    health::{self, ProbeAnswer, StartLatch, StartProgress},
    metrics,
    page::{self, StreamPage},
    status::StatusDocument,
    tap,
    view::View,
};

const PATHS: &str = "there are /, /metrics, /livez, /readyz, /startupz, /status.json and /tap";

#[derive(Clone)]
struct Admin {
    settings: Arc<AdminSettings>,
    sources: Sources,
    start: StartLatch,
}

pub(super) fn router(settings: AdminSettings, sources: Sources) -> Router {
    let settings = Arc::new(settings);
    let page = StreamPage { settings: Arc::clone(&settings), sources: sources.clone() };
    let admin = Admin { settings, sources, start: StartLatch::default() };
    let names = admin.settings.hosts.clone();
    let guarded = tap::routes(admin.sources.taps.clone()).merge(page::routes(page));
    frame::router(admin, &names, guarded, PATHS)
}

impl Admin {
    fn view(&self) -> View<'_> {
        View::of(&self.settings, &self.sources)
    }
}

impl Answers for Admin {
    type Document = StatusDocument;

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
        health::started(&view, self.start.after(StartProgress::of(&view)))
    }

    fn status(&self) -> StatusDocument {
        StatusDocument::of(&self.view())
    }
}
