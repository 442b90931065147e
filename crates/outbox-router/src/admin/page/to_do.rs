//! What a person has to do, with what to type.

use maud::{Markup, html};

use super::{command::is_command, shown::Shown};

/// How many things a list has; nobody reads more at once.
pub(super) const LISTED_MAX: usize = 10;

pub(super) fn block(shown: &Shown<'_>) -> Markup {
    let to_do = &shown.status.verdict.to_do;
    html! {
        section id="to-do" class="card" aria-labelledby="to-do-title" hidden[to_do.is_empty()] {
            h2 id="to-do-title" { "What to do" }
            ol.list {
                @for (index, to_do) in to_do.iter().take(LISTED_MAX).enumerate() {
                    li {
                        p.what { (capital(&to_do.message)) }
                        @if let Some(hint) = &to_do.hint {
                            (to_type(&format!("hint-{index}"), hint))
                        }
                        @if let Some(code) = to_do.code {
                            (to_type(
                                &format!("explain-{index}"),
                                &format!("outbox-router explain {code}"),
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
pub(super) fn more(number: usize) -> Markup {
    html! {
        @if number > LISTED_MAX {
            p.note { "And " (number - LISTED_MAX) " more: " a href="/status.json" { "/status.json" } }
        }
    }
}

/// What to type, with a button where it is a command as it stands.
pub(super) fn to_type(id: &str, text: &str) -> Markup {
    html! {
        div.type {
            pre id=(id) tabindex="0" { (text) }
            @if is_command(text) {
                button.copy type="button" id={"copy-" (id)} data-copy=(id) { "Copy" }
            }
        }
    }
}

/// A message as a sentence.
pub(super) fn capital(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(rest).collect()
}
