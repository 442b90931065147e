//! What a person has to do, with what to type.

use maud::{Markup, html};

use super::judged::Judged;
use crate::codes::{Hint, HintPart};

/// How many things a list has; nobody reads more at once.
pub(crate) const LISTED_MAX: usize = 10;

pub(crate) fn block(shown: &Judged<'_>) -> Markup {
    let to_do = &shown.verdict.to_do;
    html! {
        section id="to-do" class="card" aria-labelledby="to-do-title" hidden[to_do.is_empty()] {
            h2 id="to-do-title" { "What to do" }
            ol.list {
                @for (index, to_do) in to_do.iter().take(LISTED_MAX).enumerate() {
                    li {
                        p.what { (capital(&to_do.message)) }
                        @if let Some(hint) = &to_do.hint {
                            (to_type(&format!("hint-{index}"), &Hint::of(hint, to_do.commands.clone())))
                        }
                        @if let Some(code) = to_do.code {
                            (to_type(
                                &format!("explain-{index}"),
                                &Hint::command(format!("outbox-router explain {code}")),
                            ))
                        }
                    }
                }
            }
            (more(to_do.len()))
        }
    }
}

/// What a list leaves out.
pub(crate) fn more(number: usize) -> Markup {
    html! {
        @if number > LISTED_MAX {
            p.note { "And " (number - LISTED_MAX) " more: " a href="/status.json" { "/status.json" } }
        }
    }
}

/// What to type: each command in a box of its own, which a button copies as it stands, between what
/// is said about it.
pub(crate) fn to_type(id: &str, hint: &Hint) -> Markup {
    let id_of = |index: usize| match index {
        0 => id.to_owned(),
        index => format!("{id}-{index}"),
    };
    html! {
        @for (index, part) in hint.parts().into_iter().enumerate() {
            @match part {
                HintPart::Text(text) => p.say { (text) },
                HintPart::Command(command) => div.type {
                    pre id=(id_of(index)) tabindex="0" { (command) }
                    button.copy type="button" id={"copy-" (id_of(index))} data-copy=(id_of(index)) {
                        "Copy"
                    }
                },
            }
        }
    }
}

/// A message as a sentence.
pub(crate) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(rest).collect()
}
