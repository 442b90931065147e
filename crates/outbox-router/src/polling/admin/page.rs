//! The page at `/` of a router that polls. Verdict, what to do, topics and timeline are the blocks
//! of [`crate::admin`]; here are the way of a row, and the tables with their workers.

use std::{sync::Arc, time::SystemTime};

use maud::{Markup, html};
use relay::{
    Latencies,
    polling::{PollState, PollerReport},
};
use tokio::sync::watch;

use super::{
    AdminSettings, Sources,
    document::{PollingDocument, TableView},
    memory::Memory,
    view::View,
};
use crate::{
    admin::page::{
        Judged, Rendered, RenderedBlock, Renders,
        figure::figure,
        format, head, latency,
        station::{Mark, Node, edge, mark},
        timeline, to_do, topics, verdict,
    },
    monitor::Blame,
    status::Word,
};

/// The survey reads every few seconds; an older reading is pointed out.
const OLD_AFTER: f64 = 60.0;

/// Renders the page.
#[derive(Clone)]
pub(super) struct PollingPage {
    pub(super) settings: Arc<AdminSettings>,
    pub(super) sources: Sources,
    pub(super) memory: watch::Receiver<Memory>,
}

impl Renders for PollingPage {
    fn render(&self) -> Rendered {
        let view = View::of(&self.settings, &self.sources, &self.memory);
        rendered(&view)
    }
}

fn rendered(view: &View<'_>) -> Rendered {
    let status = PollingDocument::of(view);
    let (word, blame) = (view.verdict(&view.facts()).0.word, view.facts().blame);
    let now = SystemTime::now();
    let judged = Judged {
        name: &status.name,
        verdict: &status.verdict,
        history: &status.history,
        word,
        blame,
        now,
    };
    let report = &view.worker.poller;
    let blocks = [
        ("head", head::block(&judged)),
        ("verdict", verdict::block(&judged)),
        ("to-do", to_do::block(&judged)),
        ("flow", flow(&judged, &status, report)),
        ("tables", tables(&judged, &status)),
        ("latency", latency::card(&latencies(report), &format::time(view.memory.begun, now))),
        ("topics", topics::block(&report.topics)),
        ("timeline", timeline::block(&judged)),
    ];
    let blocks = blocks.map(|(id, html)| RenderedBlock { id, html }).into();
    Rendered { name: status.name.clone(), word, now, blocks }
}

/// The latencies of all topics.
fn latencies(report: &PollerReport) -> Latencies {
    let mut all = report.other_topics.latencies.clone();
    for topic in &report.topics {
        for (sum, count) in all.buckets.iter_mut().zip(topic.latencies.buckets) {
            *sum += count;
        }
        all.sum_micros = all.sum_micros.saturating_add(topic.latencies.sum_micros);
    }
    all
}

fn flow(judged: &Judged<'_>, status: &PollingDocument, report: &PollerReport) -> Markup {
    let empty = status.pending.empty_in_seconds.map_or("–".to_owned(), format::age);
    html! {
        section id="flow" class="card" aria-labelledby="flow-title" {
            h2 id="flow-title" { "Flow" }
            ol.flow {
                (postgres(judged, status).render(judged))
                (edge("pending", Some(pending(status))))
                (worker(judged, status).render(judged))
                (edge("unacked", Some(format::grouped(report.unacked))))
                (kafka(judged, report).render(judged))
                (edge("empty in", Some(empty)))
                (marked(judged, status).render(judged))
            }
        }
    }
}

fn pending(status: &PollingDocument) -> String {
    match (status.pending.rows, status.pending.is_at_least) {
        (None, _) => "–".to_owned(),
        (Some(rows), true) => format!("≥ {}", format::grouped(rows)),
        (Some(rows), false) => format::grouped(rows),
    }
}

fn postgres(judged: &Judged<'_>, status: &PollingDocument) -> Node {
    let says = match (&status.survey.trouble, status.survey.read_seconds_ago) {
        (Some(_), Some(seconds)) => format!("no answer for {}", format::age(seconds)),
        (Some(_), None) => "has not answered yet".to_owned(),
        (None, Some(_)) => "answers".to_owned(),
        (None, None) => "not asked yet".to_owned(),
    };
    let is_well = status.survey.trouble.is_none() && status.survey.read_at.is_some();
    let oldest = status.pending.oldest_seconds.map(|age| ("oldest", format::age(age)));
    let count = |value: fn(&super::document::RowsView) -> u64| -> u64 {
        status.tables.iter().filter_map(|table| table.rows.as_ref()).map(value).sum()
    };
    let waits = [
        ("not due", count(|rows| rows.not_due)),
        ("retried", count(|rows| rows.failed)),
        ("abandoned", count(|rows| rows.abandoned)),
    ];
    let waits = waits.into_iter().filter(|(_, rows)| *rows > 0);
    let waits = waits.map(|(what, rows)| (what, format::grouped(rows)));
    Node {
        name: "Tables",
        mark: mark(judged, Blame::Postgres, is_well.then_some(Mark::Well)),
        says,
        figures: oldest.into_iter().chain(waits).collect(),
    }
}

fn worker(judged: &Judged<'_>, status: &PollingDocument) -> Node {
    let held: u32 = status.tables.iter().map(|table| table.shards_held).sum();
    let all: u32 = status.tables.iter().map(|table| table.shards).sum();
    let works = [PollState::Polling, PollState::Draining, PollState::Standby];
    let is_well = works.iter().any(|state| state.as_str() == status.state);
    let mark = match judged.blame {
        Blame::Holder => Mark::Held,
        Blame::Nobody | Blame::Postgres | Blame::Router | Blame::Kafka => {
            mark(judged, Blame::Router, is_well.then_some(Mark::Well))
        }
    };
    Node {
        name: "Router",
        mark,
        says: status.state.to_owned(),
        figures: vec![
            ("shards", format!("{held} of {all}")),
            ("workers", status.workers.to_string()),
        ],
    }
}

fn kafka(judged: &Judged<'_>, report: &PollerReport) -> Node {
    let says = match report.unacked {
        _ if judged.blame == Blame::Kafka => "acknowledges nothing",
        0 => "nothing in flight",
        _ => "acknowledges",
    };
    let is_well = report.state == PollState::Polling;
    Node {
        name: "Kafka",
        mark: mark(judged, Blame::Kafka, is_well.then_some(Mark::Well)),
        says: says.to_owned(),
        figures: vec![("in flight", format::grouped(report.unacked))],
    }
}

fn marked(judged: &Judged<'_>, status: &PollingDocument) -> Node {
    let (mark, says) = match judged.word {
        Word::Ok | Word::CatchingUp => (Mark::Well, "in the tables"),
        Word::Standby => (Mark::Idle, "by other workers"),
        Word::Blocked | Word::Stalled | Word::Failed => (Mark::Idle, "waits"),
    };
    let published = status.tables.iter().map(|table| table.published).sum();
    Node {
        name: "Marks",
        mark,
        says: says.to_owned(),
        figures: vec![("published", format::grouped(published))],
    }
}

fn tables(judged: &Judged<'_>, status: &PollingDocument) -> Markup {
    let old = status.survey.read_seconds_ago.filter(|seconds| *seconds > OLD_AFTER);
    html! {
        section id="tables" class="card" aria-labelledby="tables-title" {
            h2 id="tables-title" { "Tables" }
            @if let Some(seconds) = old {
                p.old {
                    strong { "Old figures." }
                    " The tables were last read at " time { (judged.time_ago(seconds)) }
                    " UTC, " (format::age(seconds)) " ago."
                }
            }
            @for table in &status.tables { (table_card(table)) }
        }
    }
}

fn table_card(table: &TableView) -> Markup {
    let rows = table.rows.as_ref();
    let pending = rows.map_or("–".to_owned(), |rows| {
        let bound = if rows.is_at_least { "≥ " } else { "" };
        format!("{bound}{}", format::grouped(rows.pending))
    });
    let oldest = rows.and_then(|rows| rows.oldest_seconds);
    let oldest = oldest.map(|age| format!("the oldest for {}", format::age(age)));
    let not_due = rows.map(|rows| rows.not_due).filter(|rows| *rows > 0);
    let not_due = not_due.map(|rows| format!("{} not due", format::grouped(rows)));
    let about: Vec<String> = oldest.into_iter().chain(not_due).collect();
    let count = |value: Option<u64>| value.map_or("–".to_owned(), format::grouped);
    let holders = table.holders.as_deref().unwrap_or_default();
    html! {
        p.say { code { (table.name) } }
        div.big {
            (figure("pending", &pending, &about.join(", ")))
            (figure("retried", &count(rows.map(|rows| rows.failed)), ""))
            (figure("abandoned", &count(rows.map(|rows| rows.abandoned)), ""))
        }
        dl.facts {
            @for holder in holders {
                div {
                    dt { (holder.name.as_deref().unwrap_or(&holder.worker)) }
                    dd {
                        (holder.shards) " of " (table.shards) " shards"
                        @if holder.lease_seconds <= 0.0 {
                            ", lease ended " (format::age(-holder.lease_seconds)) " ago"
                        }
                    }
                }
            }
            @if table.holders.is_some() && holders.is_empty() {
                div { dt { "held by" } dd { "nobody" } }
            }
        }
        @if let Some(reason) = &table.reason {
            p.note { (reason.message) " (" (reason.code) ")" }
        }
    }
}
