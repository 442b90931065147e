//! The shape of each verdict and of a node of the flow, for readers who cannot tell the colours
//! apart. The icon of the browser's tab is the same shape.

use maud::{Markup, PreEscaped, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::status::Word;

/// What a shape says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Verdict(Word),
    /// Something is wrong, or has to act.
    Alarm,
    /// Nothing is known.
    Unknown,
}

const CHECK: &str = r#"<circle cx="12" cy="12" r="9.5"/><path d="M7.5 12.5l3 3 6-7"/>"#;
const FORWARD: &str =
    r#"<circle cx="12" cy="12" r="9.5"/><path d="M7.5 8l4 4-4 4M12.5 8l4 4-4 4"/>"#;
const BARRED: &str = r#"<path d="M8 2.5h8L21.5 8v8L16 21.5H8L2.5 16V8zM7.5 12h9"/>"#;
const PAUSED: &str = r#"<circle cx="12" cy="12" r="9.5"/><path d="M9.5 8v8M14.5 8v8"/>"#;
const WAITING: &str = r#"<circle cx="12" cy="12" r="9.5" stroke-dasharray="3.5 2.5"/><circle cx="12" cy="12" r="2"/>"#;
const CROSSED: &str = r#"<path d="M12 1.8L22.2 12 12 22.2 1.8 12zM9 9l6 6M15 9l-6 6"/>"#;
const ALARM: &str = r#"<path d="M12 3l10 17.5H2zM12 9.5v5M12 17v.6"/>"#;
const OPEN: &str = r#"<circle cx="12" cy="12" r="9.5" stroke-dasharray="3.5 2.5"/>"#;

impl Shape {
    const fn lines(self) -> &'static str {
        match self {
            Self::Verdict(Word::Ok) => CHECK,
            Self::Verdict(Word::CatchingUp) => FORWARD,
            Self::Verdict(Word::Blocked) => BARRED,
            Self::Verdict(Word::Stalled) => PAUSED,
            Self::Verdict(Word::Standby) => WAITING,
            Self::Verdict(Word::Failed) => CROSSED,
            Self::Alarm => ALARM,
            Self::Unknown => OPEN,
        }
    }

    /// In the colour of the text around it. A word stands beside it, so readers of the page aloud
    /// leave it out.
    pub(crate) fn svg(self) -> Markup {
        html! {
            svg.shape viewBox="0 0 24 24" aria-hidden="true" { (PreEscaped(self.lines())) }
        }
    }
}

/// Colours that are seen on light and on dark tabs.
const fn colour(word: Word) -> &'static str {
    match word {
        Word::Ok => "#16936b",
        Word::CatchingUp => "#2f81d8",
        Word::Blocked => "#d9780f",
        Word::Stalled => "#9a63d6",
        Word::Standby => "#74808e",
        Word::Failed => "#d63b34",
    }
}

/// The icon of the browser's tab.
pub(super) fn icon(word: Word) -> String {
    data_uri(Shape::Verdict(word), colour(word))
}

/// The icon of a page that gets no answer.
pub(super) fn icon_without_answer() -> String {
    data_uri(Shape::Unknown, colour(Word::Failed))
}

fn data_uri(shape: Shape, colour: &str) -> String {
    let svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 24 24\" fill=\"none\" \
         stroke=\"{colour}\" stroke-width=\"2.6\">{}</svg>",
        shape.lines()
    );
    format!("data:image/svg+xml,{}", utf8_percent_encode(&svg, NON_ALPHANUMERIC))
}
