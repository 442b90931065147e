//! `/tap`: opens a tap, and answers it. [`crate::tap`] says what it shows and why it cannot slow
//! the router.
//!
//! | query | answer |
//! |---|---|
//! | `topic`, `key`, `content=true`, each if wanted | one line, which names the tap |
//! | `id`, `after`: the tap, and the number in the last line that has arrived | the next lines |
//! | `id`, `end` | nothing: the tap is ended |

use axum::{
    Router,
    extract::{RawQuery, State as Shared},
    http::{HeaderMap, StatusCode},
    response::Response,
    routing::get,
};
use percent_encoding::percent_decode_str;
use serde_json::json;

use super::answer::{answer, refused};
use crate::tap::{ASKED_BY_COMMAND, Filter, Line, Taps, Unlistened, Wants};

const CONTENT_TYPE: &str = "application/x-ndjson";

/// The path.
pub(crate) fn routes(taps: Taps) -> Router {
    Router::new().route("/tap", get(tap)).with_state(taps)
}

/// A tap is a state of the router, and there are few. No web page can open one: a browser sends a
/// header of one's own to another origin only if that origin has agreed, and this one never does.
async fn tap(
    Shared(taps): Shared<Taps>,
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
    let told = told(&taps, query.as_deref()).await;
    answer(told.status, told.content_type, told.body)
}

/// The answer to a request.
struct Told {
    status: StatusCode,
    content_type: &'static str,
    body: String,
}

/// What was asked.
enum Asked {
    Open(Filter, Wants),
    Next { id: String, after: u64 },
    End { id: String },
}

async fn told(taps: &Taps, query: Option<&str>) -> Told {
    match read(query.unwrap_or_default()) {
        Ok(Asked::Open(filter, wants)) => match taps.open(filter, wants) {
            Ok(id) => lines(&Line::Tap { id, after: 0 }.written()),
            Err(refused) => {
                let status = match refused {
                    Unlistened::ContentNotShown => StatusCode::FORBIDDEN,
                    Unlistened::TooMany => StatusCode::SERVICE_UNAVAILABLE,
                };
                error(status, &refused.to_string())
            }
        },
        Ok(Asked::Next { id, after }) => match taps.lines(&id, after).await {
            Some(text) => lines(&text),
            None => error(StatusCode::GONE, "this router has no such tap, or not any more"),
        },
        Ok(Asked::End { id }) => {
            taps.end(&id);
            lines("")
        }
        Err(why) => error(StatusCode::BAD_REQUEST, &why),
    }
}

fn read(query: &str) -> Result<Asked, String> {
    let (mut filter, mut wants) = (Filter::default(), Wants::Metadata);
    let (mut id, mut after, mut ends) = (None, 0, false);
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = percent_decode_str(value).decode_utf8();
        let value = value.map_err(|_| format!("{name} is not UTF-8"))?.into_owned();
        match (name, value.as_str()) {
            ("topic", _) => filter.topic = Some(value),
            ("key", _) => filter.key = Some(value),
            ("content", "true") => wants = Wants::Content,
            ("content", "false") => wants = Wants::Metadata,
            ("id", _) => id = Some(value),
            ("after", number) => {
                after = number.parse().map_err(|_| "after is no number".to_owned())?;
            }
            ("end", _) => ends = true,
            _ => return Err("there are topic, key, content=true, id, after and end".to_owned()),
        }
    }
    Ok(match id {
        Some(id) if ends => Asked::End { id },
        Some(id) => Asked::Next { id, after },
        None => Asked::Open(filter, wants),
    })
}

fn lines(text: &str) -> Told {
    Told { status: StatusCode::OK, content_type: CONTENT_TYPE, body: text.to_owned() }
}

fn error(status: StatusCode, why: &str) -> Told {
    let body = format!("{}\n", json!({ "error": why }));
    Told { status, content_type: "application/json", body }
}
