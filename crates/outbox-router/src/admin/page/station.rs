//! A station of an event's way, and what waits between two of them.

use maud::{Markup, html};

use super::{judged::Judged, shape::Shape};
use crate::{monitor::Blame, status::Word};

/// One station.
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) mark: Mark,
    pub(crate) says: String,
    pub(crate) figures: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Well,
    /// It has to act before anything moves.
    Blamed,
    /// Another router has it, and acts.
    Held,
    /// Something is wrong with it.
    Wrong,
    /// It waits, or nothing is known of it.
    Idle,
}

impl Mark {
    const fn class(self) -> &'static str {
        match self {
            Self::Well => "is-well",
            Self::Blamed => "is-blamed",
            Self::Held => "is-held",
            Self::Wrong => "is-wrong",
            Self::Idle => "is-idle",
        }
    }

    const fn shape(self) -> Shape {
        match self {
            Self::Well => Shape::Verdict(Word::Ok),
            Self::Blamed | Self::Wrong => Shape::Alarm,
            Self::Held => Shape::Verdict(Word::Standby),
            Self::Idle => Shape::Unknown,
        }
    }

    fn flag(self, judged: &Judged<'_>) -> Option<&'static str> {
        match self {
            Self::Blamed if judged.needs_person() => Some("a person has to act"),
            Self::Blamed => Some("has to act"),
            Self::Held => Some("held by another"),
            Self::Well | Self::Wrong | Self::Idle => None,
        }
    }
}

pub(crate) fn edge(what: &str, figure: Option<String>) -> Markup {
    html! {
        li.edge {
            span.figure { (figure.as_deref().unwrap_or("–")) }
            span.arrow {}
            span.what { (what) }
        }
    }
}

impl Node {
    pub(crate) fn render(&self, judged: &Judged<'_>) -> Markup {
        html! {
            li class={"node " (self.mark.class())} {
                h3 { (self.mark.shape().svg()) (self.name) }
                p.says { (self.says) }
                @if let Some(flag) = self.mark.flag(judged) { p.flag { (flag) } }
                dl {
                    @for (what, figure) in &self.figures {
                        div { dt { (what) } dd { (figure) } }
                    }
                }
            }
        }
    }
}

/// The mark of a station that is well by itself, unless it is to blame.
pub(crate) fn mark(judged: &Judged<'_>, who: Blame, well: Option<Mark>) -> Mark {
    if judged.blame == who { Mark::Blamed } else { well.unwrap_or(Mark::Idle) }
}
