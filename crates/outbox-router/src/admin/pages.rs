//! Paths and answers. Every answer closes its connection: a client that asks once in 15 s gains
//! nothing from keeping a connection open.

use axum::{
    Router,
    extract::State as Shared,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Serialize;
use tokio::time::Instant;

use super::{AdminSettings, Sources, health, metrics, status::StatusDocument, view::View};

#[derive(Clone)]
struct Admin {
    settings: AdminSettings,
    sources: Sources,
}

pub(super) fn router(settings: AdminSettings, sources: Sources) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .route("/livez", get(alive))
        .route("/readyz", get(ready))
        .route("/status.json", get(status_json))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .with_state(Admin { settings, sources })
}

impl Admin {
    /// Copies what both tasks have published, for one answer. The guards of the watch channels are
    /// dropped at once: writers must not wait for a client.
    fn view(&self) -> View<'_> {
        View {
            settings: &self.settings,
            relay: self.sources.relay.borrow().clone(),
            monitor: self.sources.monitor.borrow().clone(),
            observed: self.sources.observed.borrow().clone(),
            retention: self.sources.retention.borrow().clone(),
            now: Instant::now(),
        }
    }
}

async fn scrape(Shared(admin): Shared<Admin>) -> Response {
    let body = metrics::encode(&admin.view());
    answer(StatusCode::OK, metrics::CONTENT_TYPE, body)
}

async fn alive(Shared(admin): Shared<Admin>) -> Response {
    probe(health::alive(&admin.view()))
}

async fn ready(Shared(admin): Shared<Admin>) -> Response {
    probe(health::ready(&admin.view()))
}

async fn status_json(Shared(admin): Shared<Admin>) -> Response {
    json(StatusCode::OK, &StatusDocument::of(&admin.view()))
}

async fn not_found() -> Response {
    let error = "there are /metrics, /livez, /readyz and /status.json";
    json(StatusCode::NOT_FOUND, &Refused { error })
}

async fn not_allowed() -> Response {
    let mut refused =
        json(StatusCode::METHOD_NOT_ALLOWED, &Refused { error: "only GET is served" });
    refused.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
    refused
}

#[derive(Serialize)]
struct Refused {
    error: &'static str,
}

fn probe(answer: health::ProbeAnswer) -> Response {
    let status = match answer.health {
        health::ProbeResult::Passed => StatusCode::OK,
        health::ProbeResult::Failed => StatusCode::SERVICE_UNAVAILABLE,
    };
    json(status, &answer.body)
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_string(body) {
        Ok(mut text) => {
            text.push('\n');
            answer(status, "application/json", text)
        }
        Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", format!("{error}\n")),
    }
}

fn answer(status: StatusCode, content_type: &'static str, body: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONNECTION, "close"),
    ];
    (status, headers, body).into_response()
}
