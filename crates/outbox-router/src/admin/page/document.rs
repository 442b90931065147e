//! The whole page, complete without a script.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{format, rendered::Rendered, shape};

/// Inline, so that the first paint waits for one answer; the policy of the page names its hash.
pub(super) const STYLE: &str = include_str!("assets/style.css");
/// Paths of what the page loads.
pub(super) const SCRIPT: &str = "/page/script.js";
pub(super) const EVENTS: &str = "/page/events";

pub(super) fn document(page: &Rendered) -> Markup {
    let Rendered { name, word, now, blocks } = page;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (word.title()) " · " (name) }
                link rel="icon" id="icon" href=(shape::icon(*word));
                style { (PreEscaped(STYLE)) }
                script src=(SCRIPT) defer {}
                noscript { meta http-equiv="refresh" content="5"; }
            }
            body data-name=(name) data-events=(EVENTS) data-at=(format::time(*now, *now)) {
                div id="lost" role="alert" hidden data-icon=(shape::icon_without_answer()) {
                    strong { "No answer from the router since " time id="lost-since" {} " UTC." }
                    " What is below is of then."
                }
                p id="spoken" class="spoken" role="status" aria-live="polite" {}
                main {
                    @for block in blocks { (block.html) }
                }
                footer {
                    p { "outbox-router " (env!("CARGO_PKG_VERSION")) " · read-only; times are UTC" }
                    nav aria-label="Other answers" {
                        a href="/status.json" { "/status.json" }
                        a href="/metrics" { "/metrics" }
                        a href="/readyz?verbose" { "/readyz" }
                        a href="/livez?verbose" { "/livez" }
                    }
                }
            }
        }
    }
}
