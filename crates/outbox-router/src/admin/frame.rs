//! The paths that every source answers, and how: those that show the router's state under its own
//! names alone (`hosts`), all of them by GET, and the probes as Kubernetes reads them.

use axum::{
    Router,
    extract::{RawQuery, State as Shared},
    http::{StatusCode, header},
    middleware,
    response::Response,
    routing::get,
};
use serde::Serialize;

use super::{
    answer::{answer, json, refused},
    exposition,
    health::{ProbeAnswer, ProbeResult},
    hosts::{self, Hosts},
};

/// What a source answers, each time anew.
pub(crate) trait Answers: Clone + Send + Sync + 'static {
    /// The document of `/status.json`.
    type Document: Serialize;

    /// `/metrics`.
    fn metrics(&self) -> String;

    /// `/livez`.
    fn alive(&self) -> ProbeAnswer;

    /// `/readyz`.
    fn ready(&self) -> ProbeAnswer;

    /// `/startupz`.
    fn started(&self) -> ProbeAnswer;

    /// `/status.json`.
    fn status(&self) -> Self::Document;
}

/// Every path. `guarded` are those of the source's own that show the router's state, as its page
/// does; `paths` names all of them for people.
pub(crate) fn router<A: Answers>(
    answers: A,
    names: &[String],
    guarded: Router,
    paths: &'static str,
) -> Router {
    let known = middleware::from_fn_with_state(Hosts::of(names), hosts::check);
    let guarded = Router::new()
        .route("/status.json", get(status::<A>))
        .with_state(answers.clone())
        .merge(guarded)
        .route_layer(known);
    Router::new()
        .route("/metrics", get(scrape::<A>))
        .route("/livez", get(alive::<A>))
        .route("/readyz", get(ready::<A>))
        .route("/startupz", get(started::<A>))
        .with_state(answers)
        .merge(guarded)
        .fallback(move || async move { refused(StatusCode::NOT_FOUND, paths.to_owned()) })
        .method_not_allowed_fallback(not_allowed)
}

async fn scrape<A: Answers>(Shared(answers): Shared<A>) -> Response {
    answer(StatusCode::OK, exposition::CONTENT_TYPE, answers.metrics())
}

async fn alive<A: Answers>(Shared(answers): Shared<A>, RawQuery(query): RawQuery) -> Response {
    probe(&answers.alive(), query.as_deref())
}

async fn ready<A: Answers>(Shared(answers): Shared<A>, RawQuery(query): RawQuery) -> Response {
    probe(&answers.ready(), query.as_deref())
}

async fn started<A: Answers>(Shared(answers): Shared<A>, RawQuery(query): RawQuery) -> Response {
    probe(&answers.started(), query.as_deref())
}

async fn status<A: Answers>(Shared(answers): Shared<A>) -> Response {
    json(StatusCode::OK, &answers.status())
}

async fn not_allowed() -> Response {
    let mut refused = refused(StatusCode::METHOD_NOT_ALLOWED, "only GET is served".to_owned());
    refused.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
    refused
}

fn probe(found: &ProbeAnswer, query: Option<&str>) -> Response {
    let status = match found.health {
        ProbeResult::Passed => StatusCode::OK,
        ProbeResult::Failed => StatusCode::SERVICE_UNAVAILABLE,
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
