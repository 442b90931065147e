//! Which router this is, and of when the page is.

use maud::{Markup, html};

use super::{format, shown::Shown};

pub(super) fn block(shown: &Shown<'_>) -> Markup {
    html! {
        header id="head" {
            p.who {
                span.product { "outbox-router" }
                " "
                strong { (shown.status.name) }
            }
            p.asof {
                "as of "
                time { (format::time(shown.now, shown.now)) }
                " UTC"
            }
        }
    }
}
