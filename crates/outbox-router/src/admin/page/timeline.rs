//! The verdicts until now: those of the last hour as a strip, and the latest as a list.

use maud::{Markup, html};

use super::{format, judged::Judged, shape::Shape};
use crate::{admin::verdict::ChangeView, status::Word};

/// How many of them are listed; `/status.json` has more.
const LISTED_MAX: usize = 12;

/// What the strip shows.
const STRIP_SECONDS: f64 = 3_600.0;

const WIDTH: u64 = 1_000;

pub(crate) fn block(shown: &Judged<'_>) -> Markup {
    let history = shown.history;
    html! {
        section id="timeline" class="card" aria-labelledby="timeline-title" {
            h2 id="timeline-title" { "Timeline" }
            @if history.is_empty() {
                p.note { "The router has just started." }
            } @else {
                (strip(shown, history))
                ol.changes {
                    @for (change, end) in spans(shown, history).into_iter().rev().take(LISTED_MAX) {
                        (line(shown, change, end))
                    }
                }
            }
        }
    }
}

fn line(shown: &Judged<'_>, change: &ChangeView, end: f64) -> Markup {
    let word = word(change);
    html! {
        li class={"is-" (change.word)} {
            time { (shown.time_of(change.at)) }
            span.word { (Shape::Verdict(word).svg()) (word.title()) }
            span.for { (format::age(end - change.at)) }
            span.sentence { (change.sentence) }
        }
    }
}

fn word(change: &ChangeView) -> Word {
    Word::parse(change.word).unwrap_or(Word::Failed)
}

/// Each verdict with the moment at which it ended.
fn spans<'a>(shown: &Judged<'_>, history: &'a [ChangeView]) -> Vec<(&'a ChangeView, f64)> {
    let now = crate::admin::epoch::epoch(shown.now).as_secs_f64();
    let ends = history.iter().skip(1).map(|next| next.at).chain([now]);
    history.iter().zip(ends).collect()
}

fn strip(shown: &Judged<'_>, history: &[ChangeView]) -> Markup {
    let now = crate::admin::epoch::epoch(shown.now).as_secs_f64();
    let oldest = history.first().map_or(now, |change| change.at);
    let begin = oldest.max(now - STRIP_SECONDS);
    let millis = |seconds: f64| format::whole(seconds * 1_000.0);
    let span = millis(now - begin).max(1);
    let x = |at: f64| format::part(millis(at - begin), span, WIDTH);
    html! {
        figure.strip {
            svg viewBox="0 0 1000 24" preserveAspectRatio="none" aria-hidden="true" {
                @for (change, end) in spans(shown, history) {
                    @let (from, to) = (x(change.at), x(end));
                    @if end > begin {
                        // The shortest verdict is seen, too.
                        rect class={"is-" (change.word)} x=(from.min(WIDTH - 2)) height="24"
                            width=((to - from).max(2)) { title { (word(change).title()) } }
                    }
                }
            }
            p.axis { span { time { (shown.time_of(begin)) } " UTC" } span { "now" } }
        }
    }
}
