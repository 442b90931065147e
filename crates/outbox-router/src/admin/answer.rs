//! What an answer consists of. Every answer closes its connection: a client that asks once in 15 s
//! gains nothing from keeping a connection open.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

#[derive(Serialize)]
struct Refused {
    error: String,
}

/// An answer that says why there is none.
pub(super) fn refused(status: StatusCode, error: String) -> Response {
    json(status, &Refused { error })
}

pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_string(body) {
        Ok(mut text) => {
            text.push('\n');
            answer(status, "application/json", text)
        }
        Err(error) => answer(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", format!("{error}\n")),
    }
}

pub(super) fn answer(status: StatusCode, content_type: &'static str, body: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONNECTION, "close"),
    ];
    (status, headers, body).into_response()
}
