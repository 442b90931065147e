//! A figure that is read from afar: its name, its value, and a note below.

use maud::{Markup, html};

pub(crate) fn figure(label: &str, value: &str, note: &str) -> Markup {
    html! {
        div {
            p.label { (label) }
            p.value { (value) }
            @if !note.is_empty() { p.note { (note) } }
        }
    }
}
