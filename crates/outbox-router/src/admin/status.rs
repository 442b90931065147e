//! `/status.json`: everything that the router knows of its state, in one document. Its shape is a
//! contract: fields are added, never renamed. Positions are texts as PostgreSQL writes them
//! (`0/16B3748`), sizes are bytes, durations are seconds, unknown is `null`.

use std::collections::BTreeMap;

use relay::PauseReason;
use serde::Serialize;

use super::{
    epoch::epoch,
    held::HeldView,
    reason::Reason,
    retention::RetentionView,
    slot::{FiguresView, SlotView},
    verdict::{ChangeView, VerdictView},
    view::View,
    witness::WitnessView,
};
/// The version of the document. A new one means that a field has got another meaning.
const SCHEMA: u32 = 1;

/// The document.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatusDocument {
    /// The version of this document, 1: fields are added, and none is renamed.
    pub schema: u32,
    /// One word and one sentence, who has to act, since when, and what to type.
    pub verdict: VerdictView,
    /// The latest verdicts, the oldest first.
    pub history: Vec<ChangeView>,
    /// `name` of the configuration.
    pub name: String,
    /// `postgres.slot` of the configuration, also while no slot was read.
    pub slot_name: String,
    /// The router's version.
    pub version: &'static str,
    /// `starting`, `standby`, `streaming`, `blocked`, `draining` or `failed`.
    pub state: &'static str,
    /// The open gap, or why the state is what it is; `null` without either.
    pub reason: Option<Reason>,
    /// At which part of the pipeline it stands: `nobody`, `postgresql`, `router`, `kafka` or
    /// `holder`. Who has to act is in `verdict.acts`.
    pub blame: &'static str,
    /// Age of the streaming task's report, in seconds.
    pub age_seconds: f64,
    /// The slot, as it was read last; `null` before that, or when there is no such slot.
    pub slot: Option<SlotView>,
    /// What PostgreSQL warns of within the stream, if that is no gap; `null` a minute after it was
    /// said last.
    pub server_warning: Option<String>,
    /// What was read around the slot last; `null` before that.
    pub server: Option<FiguresView>,
    /// Positions of this session.
    pub positions: Positions,
    /// What lies past the last confirmable position.
    pub window: WindowView,
    /// What the slot is behind, by what it waits for.
    pub lag: Option<LagBytes>,
    /// How a backlog is read from the walsender; `null` while none is.
    pub backlog_reading: Option<BacklogReadingView>,
    /// For how long the socket was not read since the start of the process, in seconds, by reason:
    /// `window`, `queue`, `topic`, `row` or `isolation`.
    pub backpressure_seconds: BTreeMap<&'static str, f64>,
    /// Counts since the start of the process.
    pub totals: TotalsView,
    /// Dead letters, and the events that are held behind them.
    pub held: HeldView,
    /// Rows that are removed after they were delivered.
    pub retention: RetentionView,
    /// The witness, the record in the state topic.
    pub witness: WitnessView,
    /// The monitor itself.
    pub monitor: MonitorView,
}

/// Positions of this session.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Positions {
    /// The last position that was received.
    pub received: String,
    /// The settled position: everything before it is acknowledged by Kafka.
    pub acked: String,
    /// The confirmed position: the greatest that a status update of this process has named, or with
    /// which one of its sessions began (the slot's own, where the witness names that too); else
    /// 0/0.
    pub confirmed: String,
    /// Up to where a long backlog is read by SQL; `null` where the walsender sends what is read.
    pub backlog_by_sql_until: Option<String>,
    /// Process id of the walsender that serves the router which holds the slot, while this one is a
    /// standby.
    pub holder_pid: Option<i32>,
}

/// What lies past the last confirmable position.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WindowView {
    /// Events.
    pub events: u64,
    /// Bytes.
    pub bytes: u64,
    /// Events without an acknowledgement.
    pub unacked_events: u64,
    /// How long the oldest of them, a write of the witness, or a topic's metadata, has been waited
    /// for; `null` when nothing is.
    pub waiting_for_ack_seconds: Option<f64>,
}

/// What the slot is behind, by what it waits for.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LagBytes {
    /// Not yet received.
    pub unread: u64,
    /// Received, not acknowledged.
    pub unacked: u64,
    /// Acknowledged, not confirmed to the slot.
    pub unconfirmed: u64,
}

/// How a backlog is read from the walsender.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BacklogReadingView {
    /// The pause between two reads, in milliseconds.
    pub read_pause_ms: f64,
    /// Bytes of a TCP segment, on average. Some hundred mean that the server's kernel sends each
    /// message by itself. `null` where it is not known, as with a unix socket.
    pub segment_bytes: Option<u64>,
}

/// Counts since the start of the process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TotalsView {
    /// Events that Kafka acknowledged.
    pub events_acked: u64,
    /// Transactions with at least one event.
    pub transactions: u64,
    /// Changes that are no events: inserts into tables that are no outbox, updates, deletes and
    /// truncates. `/metrics` shows them by operation.
    pub rows_ignored: u64,
    /// Rows of outbox tables that `where` leaves out.
    pub rows_filtered: u64,
    /// Connections to PostgreSQL after the first.
    pub reconnects_postgres: u64,
    /// Producers after the first.
    pub reconnects_kafka: u64,
    /// Failures by code.
    pub errors: BTreeMap<&'static str, u64>,
}

/// The monitor itself.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MonitorView {
    /// When PostgreSQL last answered it, in seconds of the epoch.
    pub polled_at: Option<f64>,
    /// How long ago, when this was written.
    pub polled_seconds_ago: Option<f64>,
    /// Why PostgreSQL does not answer.
    pub trouble: Option<Reason>,
    /// What is wrong with slot, publication and tables now, and notes.
    pub findings: Vec<Reason>,
    /// Alterations that the catalog explains; it does not show whether rows were left out
    /// meanwhile.
    pub alterations: Vec<Reason>,
}

impl StatusDocument {
    /// The document of one moment.
    pub fn of(view: &View<'_>) -> Self {
        let snapshot = &view.relay.snapshot;
        let facts = view.facts();
        let verdict = view.verdict(&facts);
        Self {
            schema: SCHEMA,
            verdict: VerdictView::of(view, &facts, verdict),
            history: ChangeView::all(&view.observed.timeline),
            name: view.settings.name.clone(),
            slot_name: view.settings.slot.clone(),
            version: env!("CARGO_PKG_VERSION"),
            state: snapshot.condition.state.as_str(),
            reason: Reason::of_gap(view).or_else(|| Reason::of_condition(view)),
            blame: facts.blame.as_str(),
            age_seconds: view.now.duration_since(view.relay.published_at).as_secs_f64(),
            slot: SlotView::of(view),
            server_warning: snapshot.warning.as_ref().map(|warning| warning.message.clone()),
            server: FiguresView::of(view),
            positions: Positions {
                received: snapshot.received.to_string(),
                acked: snapshot.settled.to_string(),
                confirmed: snapshot.confirmed.to_string(),
                backlog_by_sql_until: view.relay.backlog_until.map(|lsn| lsn.to_string()),
                holder_pid: snapshot.slot_holder,
            },
            window: WindowView {
                events: snapshot.window_events,
                bytes: snapshot.window_bytes,
                unacked_events: snapshot.unacked_events,
                waiting_for_ack_seconds: snapshot.waiting_for_ack.map(|t| t.as_secs_f64()),
            },
            lag: facts.lag.map(|lag| LagBytes {
                unread: lag.unread,
                unacked: lag.unacked,
                unconfirmed: lag.unconfirmed,
            }),
            backlog_reading: view.relay.reading.map(|reading| BacklogReadingView {
                read_pause_ms: reading.pause.as_secs_f64() * 1000.0,
                segment_bytes: reading.segment_bytes,
            }),
            backpressure_seconds: PauseReason::ALL
                .iter()
                .zip(snapshot.paused)
                .map(|(reason, time)| (reason.as_str(), time.as_secs_f64()))
                .collect(),
            totals: TotalsView {
                events_acked: snapshot.events_acked(),
                transactions: snapshot.transactions,
                rows_ignored: snapshot.rows_ignored.total(),
                rows_filtered: snapshot.rows_filtered,
                reconnects_postgres: snapshot.reconnects.postgres,
                reconnects_kafka: snapshot.reconnects.kafka,
                errors: snapshot.errors.iter().map(|(code, &n)| (code.as_str(), n)).collect(),
            },
            held: HeldView::of(&snapshot.held),
            retention: RetentionView::of(view.settings.keep, &view.retention, |failure| {
                Reason::of(failure, view)
            }),
            witness: WitnessView::of(view),
            monitor: MonitorView::of(view),
        }
    }
}

impl MonitorView {
    fn of(view: &View<'_>) -> Self {
        let monitor = &view.monitor;
        Self {
            polled_at: monitor.polled_at.map(|polled| epoch(polled.wall).as_secs_f64()),
            polled_seconds_ago: monitor
                .polled_at
                .map(|polled| view.now.duration_since(polled.at).as_secs_f64()),
            trouble: monitor.trouble.as_ref().map(|failure| Reason::of(failure, view)),
            findings: monitor.findings.iter().map(|failure| Reason::of(failure, view)).collect(),
            alterations: monitor
                .alterations
                .iter()
                .map(|failure| Reason::of(failure, view))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::StatusDocument;

    /// The schema is made of the types above. `UPDATE_DOCS=1` writes it again.
    #[test]
    fn the_schema_in_the_docs_is_current() {
        let schema = schemars::schema_for!(StatusDocument);
        let wanted = format!("{:#}\n", schema.as_value());
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/status.schema.json");
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&file, wanted).expect("the file can be written");
            return;
        }
        let found = fs::read_to_string(&file).unwrap_or_default();
        assert!(found == wanted, "UPDATE_DOCS=1 cargo test -p outbox-router --lib schema");
    }
}
