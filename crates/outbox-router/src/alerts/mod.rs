//! The alerts: one table, from which follow `config/alerts/outbox-router.rules.yml`,
//! `config/alerts/prometheus-rule.yml`, the command `alerts`, and the heads of the pages in
//! `docs/runbook`. So no rule can lack a page, and no page can describe another rule.
//!
//! An expression is plain PromQL over what the router exports. Rules about a slot, and those about
//! polled tables, ask for metrics that only such a router has. Every rule groups by pipeline, and
//! by slot where it is about the slot, with max or min: an active router and its standby export the
//! same slot, and alert once. [`Scope`] narrows the metrics to one configuration, and [`Pace`]
//! divides the durations, for a rehearsal of the whole chain.

mod alert;
#[macro_use]
mod known;
mod delivery;
mod held;
mod pace;
mod polling;
mod retention;
mod routers;
mod rules;
mod scope;
mod slot;
mod wal;

pub use alert::{Alert, Expression, Severity};
pub use pace::Pace;
pub use rules::{DEFAULT_RUNBOOK, Form, Rules};
pub use scope::Scope;

/// The tables, in the order in which they are printed.
const TABLES: [&[Alert]; 7] = [
    routers::ALERTS,
    delivery::ALERTS,
    slot::ALERTS,
    wal::ALERTS,
    polling::ALERTS,
    held::ALERTS,
    retention::ALERTS,
];

/// Every alert.
pub fn alerts() -> impl Iterator<Item = &'static Alert> {
    TABLES.into_iter().flatten()
}
