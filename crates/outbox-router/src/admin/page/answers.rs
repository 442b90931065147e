//! The page's paths, and the policy that its answers carry: nothing inline, nothing from elsewhere,
//! nothing sent anywhere, and no frame around it.

use std::sync::Arc;

use axum::{
    Router,
    extract::State as Shared,
    http::{HeaderName, header},
    response::{IntoResponse, Response, Sse},
    routing::get,
};
use tokio::sync::Semaphore;

use super::{
    document::{EVENTS, SCRIPT, STYLE, document},
    live::{Live, SEATS},
    shown::Shown,
};
use crate::admin::{AdminSettings, Sources, view::View};

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
    connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

#[derive(Clone)]
struct Page {
    settings: Arc<AdminSettings>,
    sources: Sources,
    seats: Arc<Semaphore>,
}

/// The paths of the page.
pub(in crate::admin) fn routes(settings: AdminSettings, sources: Sources) -> Router {
    let seats = Arc::new(Semaphore::new(SEATS));
    Router::new()
        .route("/", get(page))
        .route(EVENTS, get(events))
        .route(STYLE, get(style))
        .route(SCRIPT, get(script))
        .with_state(Page { settings: Arc::new(settings), sources, seats })
}

async fn page(Shared(page): Shared<Page>) -> Response {
    let view = View::of(&page.settings, &page.sources);
    answer("text/html; charset=utf-8", document(&Shown::of(&view)).into_string())
}

async fn events(Shared(page): Shared<Page>) -> Response {
    let live = Live::new(page.settings, page.sources, &page.seats);
    // A proxy that collects the answer would deliver the events of five seconds at once.
    let unbuffered = (HeaderName::from_static("x-accel-buffering"), "no");
    (headers("text/event-stream"), [unbuffered], Sse::new(live)).into_response()
}

async fn style() -> Response {
    answer("text/css; charset=utf-8", include_str!("assets/style.css"))
}

async fn script() -> Response {
    answer("text/javascript; charset=utf-8", include_str!("assets/script.js"))
}

fn answer(content_type: &'static str, body: impl IntoResponse) -> Response {
    (headers(content_type), body).into_response()
}

fn headers(content_type: &'static str) -> [(HeaderName, &'static str); 6] {
    [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONNECTION, "close"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ]
}
