//! The page's paths, and the policy that its answers carry: nothing inline but the page's own
//! style, which the policy names by its hash (CSP Level 3, section 2.3.1), nothing from elsewhere,
//! nothing sent anywhere, and no frame around it.

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    extract::State as Shared,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response, Sse},
    routing::get,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::{
    document::{EVENTS, SCRIPT, STYLE, document},
    live::{Live, SEATS},
    rendered::Renders,
};

static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; script-src 'self'; connect-src 'self'; \
         img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    // Base64 has no byte that a header must not have.
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

#[derive(Clone)]
struct Page<P> {
    page: P,
    seats: Arc<Semaphore>,
}

/// The paths of the page.
pub(crate) fn routes<P: Renders>(page: P) -> Router {
    let seats = Arc::new(Semaphore::new(SEATS));
    Router::new()
        .route("/", get(whole::<P>))
        .route(EVENTS, get(events::<P>))
        .route(SCRIPT, get(script))
        .with_state(Page { page, seats })
}

async fn whole<P: Renders>(Shared(page): Shared<Page<P>>) -> Response {
    answer("text/html; charset=utf-8", document(&page.page.render()).into_string())
}

async fn events<P: Renders>(Shared(page): Shared<Page<P>>) -> Response {
    let live = Live::new(page.page, &page.seats);
    // A proxy that collects the answer would deliver the events of five seconds at once.
    let unbuffered = (HeaderName::from_static("x-accel-buffering"), "no");
    (headers("text/event-stream"), [unbuffered], Sse::new(live)).into_response()
}

async fn script() -> Response {
    answer("text/javascript; charset=utf-8", include_str!("assets/script.js"))
}

fn answer(content_type: &'static str, body: impl IntoResponse) -> Response {
    (headers(content_type), body).into_response()
}

fn headers(content_type: &'static str) -> [(HeaderName, HeaderValue); 6] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::CONNECTION, HeaderValue::from_static("close")),
        (header::CONTENT_SECURITY_POLICY, POLICY.clone()),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ]
}
