//! Which router this is, and of when the page is.

use maud::{Markup, html};

use super::{format, judged::Judged};

pub(crate) fn block(shown: &Judged<'_>) -> Markup {
    html! {
        header id="head" {
            p.who {
                span.product { "outbox-router" }
                " "
                strong { (shown.name) }
            }
            p.asof {
                "as of "
                time { (format::time(shown.now, shown.now)) }
                " UTC"
            }
        }
    }
}
