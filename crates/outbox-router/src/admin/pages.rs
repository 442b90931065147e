//! What a router that follows a slot answers at each path.

use std::sync::{Arc, OnceLock};

use axum::{
    Router,
    extract::{RawQuery, State as Shared},
    http::{HeaderMap, StatusCode},
    response::Response,
    routing::get,
};

use super::{
    AdminSettings, Sources,
    answer::{answer, refused},
    frame::{self, Answers},
    health::{self, ProbeAnswer, StartProgress},
    metrics,
    page::{self, StreamPage},
    status::StatusDocument,
    view::View,
};
use crate::tap::ASKED_BY_COMMAND;

const PATHS: &str = "there are /, /metrics, /livez, /readyz, /startupz, /status.json and /tap";

#[derive(Clone)]
struct Admin {
    settings: Arc<AdminSettings>,
    sources: Sources,
    /// Set as soon as an answer said that the start is over: no later answer takes it back.
    started: Arc<OnceLock<()>>,
}

pub(super) fn router(settings: AdminSettings, sources: Sources) -> Router {
    let settings = Arc::new(settings);
    let page = StreamPage { settings: Arc::clone(&settings), sources: sources.clone() };
    let admin = Admin { settings, sources, started: Arc::default() };
    let tap = Router::new().route("/tap", get(tap)).with_state(admin.clone());
    let names = admin.settings.hosts.clone();
    frame::router(admin, &names, tap.merge(page::routes(page)), PATHS)
}

impl Admin {
    fn view(&self) -> View<'_> {
        View::of(&self.settings, &self.sources)
    }

    fn progress(&self, view: &View<'_>) -> StartProgress {
        let progress = StartProgress::of(view);
        if progress == StartProgress::Over {
            self.started.get_or_init(|| ());
        }
        if self.started.get().is_some() { StartProgress::Over } else { progress }
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
        health::started(&view, self.progress(&view))
    }

    fn status(&self) -> StatusDocument {
        StatusDocument::of(&self.view())
    }
}

/// A tap is a state of the router, and there are few. No web page can open one: a browser sends a
/// header of one's own to another origin only if that origin has agreed, and this one never does.
async fn tap(
    Shared(admin): Shared<Admin>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    if !headers.contains_key(ASKED_BY_COMMAND) {
        return refused(
            StatusCode::FORBIDDEN,
            format!(
                "/tap is for outbox-router tap: to ask it yourself, send the header \
                 {ASKED_BY_COMMAND}: 1"
            ),
        );
    }
    let told = super::tap::answer(&admin.sources.taps, query.as_deref()).await;
    answer(told.status, told.content_type, told.body)
}
