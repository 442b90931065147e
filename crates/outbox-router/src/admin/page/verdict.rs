//! The verdict: one word, one sentence, who has to act, and since when.

use maud::{Markup, html};

use super::{format, judged::Judged, shape, shape::Shape, to_do::capital};
use crate::monitor::Blame;

pub(crate) fn block(shown: &Judged<'_>) -> Markup {
    let verdict = shown.verdict;
    let word = shown.word;
    let title = format!("{} · {}", word.title(), shown.name);
    let code = verdict.code.map(|code| format!(" ({code})")).unwrap_or_default();
    // Spoken when it changes, so it has no number.
    let spoken = format!("{}{code}: {}", word.title(), who_acts(shown));
    html! {
        section id="verdict" class={"verdict is-" (word.as_str())} data-title=(title)
            data-icon=(shape::icon(word)) data-spoken=(spoken) {
            div.word {
                (Shape::Verdict(word).svg())
                h1 { (word.title()) }
            }
            div.says {
                p.sentence { (capital(&verdict.sentence)) }
                ul.meta {
                    li { (capital(who_acts(shown))) }
                    li {
                        "since " time { (shown.time_of(verdict.since)) } " UTC, "
                        (format::age(shown.seconds_since(verdict.since)))
                    }
                    @if let Some(code) = verdict.code { li { "code " code { (code) } } }
                }
            }
        }
    }
}

fn who_acts(shown: &Judged<'_>) -> &'static str {
    if shown.needs_person() {
        return "a person has to act";
    }
    match shown.blame {
        Blame::Nobody => "nobody has to act",
        Blame::Postgres => "PostgreSQL has to act",
        Blame::Router => "the router has to act",
        Blame::Kafka => "Kafka has to act",
        Blame::Holder => "the other router acts",
    }
}
