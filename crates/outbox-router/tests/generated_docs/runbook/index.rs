//! The index of the runbook.

use outbox_router::{
    alerts::{Pace, alerts},
    codes::explanations,
};

use super::families::FAMILIES;

const HEAD: &str = "\
# Runbook

What to do about an alert, and about a code. An alert carries the address of its page as \
`runbook_url`; `outbox-router alerts --runbook-base URL` says where your copy of these pages is. \
This page and the heads of the others are generated from the tables in \
[`alerts/`](../../crates/outbox-router/src/alerts/mod.rs) and \
[`codes/`](../../crates/outbox-router/src/codes/mod.rs) by \
`UPDATE_DOCS=1 cargo test -p outbox-router --test generated_docs`.

First, whatever it is: `outbox-router status` says how far behind the slot is, who is to blame, how \
long until PostgreSQL invalidates it, and what to type. Rows stay in the tables; nothing is lost \
while they and the slot are there.

*critical* wakes somebody: events do not flow, or will soon be lost. *warning* can wait for the \
day. The rules hold for scrape intervals of up to a minute; an alert comes one or two intervals \
after the time below.

HOST in `http://HOST:8788/status.json` is an IP address, `localhost`, or a name in `admin.hosts`; \
probes and `/metrics` answer under every name.

## Alerts

| alert | severity | fires after |
|---|---|---|
";

/// The whole page.
pub(super) fn page() -> String {
    let mut page = HEAD.to_owned();
    for alert in alerts() {
        let after = match alert.hold {
            0 => "at once".to_owned(),
            hold => Pace::AS_SHIPPED.seconds(hold),
        };
        let (name, severity) = (alert.name, alert.severity);
        page.push_str(&format!("| [{name}]({name}.md) | {severity} | {after} |\n"));
    }
    page.push_str("\n## Codes\n\n| code | class | what it is |\n|---|---|---|\n");
    for explanation in explanations() {
        let (code, title) = (explanation.code, explanation.title.replace('|', "\\|"));
        let family = FAMILIES.iter().find(|family| family.contains(code)).expect("a page");
        let (file, anchor) = (family.file(), code.to_lowercase());
        let class = explanation.class().map_or("", |class| class.as_str());
        page.push_str(&format!("| [{code}]({file}#{anchor}) | {class} | {title} |\n"));
    }
    page
}
