//! Which path is answered by what.

use std::sync::{Arc, OnceLock};

use axum::{
    Router,
    extract::{RawQuery, State as Shared},
    http::{HeaderMap, StatusCode, header},
    middleware,
    response::Response,
    routing::get,
};

use super::{
    AdminSettings, Sources,
    answer::{answer, json, refused},
    health::{self, StartProgress},
    hosts::{self, Hosts},
    metrics, page,
    status::StatusDocument,
    view::View,
};
use crate::tap::ASKED_BY_COMMAND;

#[derive(Clone)]
struct Admin {
    settings: AdminSettings,
    sources: Sources,
    /// Set as soon as an answer said that the start is over: no later answer takes it back.
    started: Arc<OnceLock<()>>,
}

pub(super) fn router(settings: AdminSettings, sources: Sources) -> Router {
    let page = page::routes(settings.clone(), sources.clone());
    let known = middleware::from_fn_with_state(Hosts::of(&settings.hosts), hosts::check);
    let admin = Admin { settings, sources, started: Arc::default() };
    let guarded = Router::new()
        .route("/status.json", get(status_json))
        .route("/tap", get(tap))
        .with_state(admin.clone())
        .merge(page)
        .route_layer(known);
    Router::new()
        .route("/metrics", get(scrape))
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
        .route("/startupz", get(started))
        .with_state(admin)
        .merge(guarded)
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
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

async fn scrape(Shared(admin): Shared<Admin>) -> Response {
    let body = metrics::encode(&admin.view());
    answer(StatusCode::OK, metrics::CONTENT_TYPE, body)
}

async fn alive(Shared(admin): Shared<Admin>, RawQuery(query): RawQuery) -> Response {
    probe(&health::alive(&admin.view()), query.as_deref())
}

async fn ready(Shared(admin): Shared<Admin>, RawQuery(query): RawQuery) -> Response {
    probe(&health::ready(&admin.view()), query.as_deref())
}

async fn started(Shared(admin): Shared<Admin>, RawQuery(query): RawQuery) -> Response {
    let view = admin.view();
    probe(&health::started(&view, admin.progress(&view)), query.as_deref())
}

async fn status_json(Shared(admin): Shared<Admin>) -> Response {
    json(StatusCode::OK, &StatusDocument::of(&admin.view()))
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

async fn not_found() -> Response {
    let error = "there are /, /metrics, /livez, /readyz, /startupz, /status.json and /tap";
    refused(StatusCode::NOT_FOUND, error.to_owned())
}

async fn not_allowed() -> Response {
    let mut refused = refused(StatusCode::METHOD_NOT_ALLOWED, "only GET is served".to_owned());
    refused.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
    refused
}

fn probe(found: &health::ProbeAnswer, query: Option<&str>) -> Response {
    let status = match found.health {
        health::ProbeResult::Passed => StatusCode::OK,
        health::ProbeResult::Failed => StatusCode::SERVICE_UNAVAILABLE,
    };
    if is_verbose(query) {
        answer(status, "text/plain; charset=utf-8", found.verbose())
    } else {
        json(status, &found.body)
    }
}

/// Whether the query has the parameter `verbose`, with or without a value, as Kubernetes reads it.
fn is_verbose(query: Option<&str>) -> bool {
    let name = |parameter: &str| parameter.split('=').next() == Some("verbose");
    query.is_some_and(|query| query.split('&').any(name))
}
