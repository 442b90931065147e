//! `/status.json`: everything that the router knows of its state, in one document. Its shape is a
//! contract: fields are added, never renamed. Positions are texts as PostgreSQL writes them
//! (`0/16B3748`), sizes are bytes, durations are seconds, unknown is `null`.

use std::collections::BTreeMap;

use relay::Lsn;
use serde::Serialize;

use super::{
    epoch::epoch, held::HeldView, reason::Reason, retention::RetentionView, view::View,
    witness::WitnessView,
};
use crate::monitor::{
    Blame, SlotHealth,
    pins::{PinHolder, WalPin},
};

/// The document.
#[derive(Debug, Serialize)]
pub struct StatusDocument {
    /// `name` of the configuration.
    pub name: String,
    /// The router's version.
    pub version: &'static str,
    /// `starting`, `standby`, `streaming`, `blocked`, `draining` or `failed`.
    pub state: &'static str,
    /// The open gap, or why the state is what it is; `null` without either.
    pub reason: Option<Reason>,
    /// Who has to act: `nobody`, `postgresql`, `router`, `kafka` or `holder`.
    pub blame: &'static str,
    /// Age of the streaming task's report, in seconds.
    pub age_seconds: f64,
    /// The slot; `null` while PostgreSQL does not answer, or when there is no such slot.
    pub slot: Option<SlotView>,
    /// Positions of this session.
    pub positions: Positions,
    /// What lies past the last confirmable position.
    pub window: WindowView,
    /// What the slot is behind, by what it waits for.
    pub lag: Option<LagBytes>,
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

/// The slot as `pg_replication_slots` shows it.
#[derive(Debug, Serialize)]
pub struct SlotView {
    /// Its name.
    pub name: String,
    /// Current WAL position − `confirmed_flush_lsn`: WAL that is not confirmed.
    pub bytes_behind: u64,
    /// Current WAL position − `restart_lsn`: what the slot retains on disk.
    pub retained_bytes: Option<u64>,
    /// What may still be written before the slot is in danger; `null`: no limit is set, or the
    /// slot is lost.
    pub safe_wal_bytes: Option<u64>,
    /// How long that lasts at the present pace; `null`: without end, or not known.
    pub seconds_to_limit: Option<f64>,
    /// WAL that the server writes.
    pub wal_bytes_per_second: Option<f64>,
    /// `reserved`, `extended`, `unreserved`, `lost` or `unknown`.
    pub wal_status: &'static str,
    /// Whether somebody streams from it.
    pub active: bool,
    /// Process id of the walsender that streams.
    pub active_pid: Option<i32>,
    /// The position that the server has stored for the slot.
    pub confirmed_flush_lsn: Option<String>,
    /// The oldest WAL that the slot retains.
    pub restart_lsn: Option<String>,
    /// The end of WAL.
    pub current_wal_lsn: String,
    /// The output plugin.
    pub plugin: Option<String>,
    /// The slot's database.
    pub database: Option<String>,
    /// Whether the slot is synchronised to standbys; PostgreSQL 17 and later.
    pub failover: Option<bool>,
    /// Whether the slot was synchronised from a primary; PostgreSQL 17 and later.
    pub synced: Option<bool>,
    /// Why the slot was invalidated.
    pub invalidation_reason: Option<String>,
    /// Since when nobody streams from the slot, in seconds of the epoch; PostgreSQL 17 and later.
    pub inactive_since: Option<f64>,
    /// The transaction that keeps WAL from being removed, when it is not the router.
    pub pinned_by: Option<PinView>,
}

/// The oldest transaction that has written something.
#[derive(Debug, Serialize)]
pub struct PinView {
    /// Process id of the session; `null` for a prepared transaction.
    pub pid: Option<i32>,
    /// The session's `application_name`.
    pub application: Option<String>,
    /// Name of the prepared transaction; `null` for a session.
    pub prepared: Option<String>,
    /// Age of the transaction.
    pub seconds: Option<f64>,
}

/// Positions of this session.
#[derive(Debug, Serialize)]
pub struct Positions {
    /// The last position that was received.
    pub received: String,
    /// The settled position: everything before it is acknowledged by Kafka.
    pub acked: String,
    /// The confirmed position: the greatest that a status update of this process has named, or with
    /// which one of its sessions began (the slot's own, where the witness names that too); else
    /// 0/0.
    pub confirmed: String,
    /// Process id of the walsender that serves the router which holds the slot, while this one is a
    /// standby.
    pub holder_pid: Option<i32>,
}

/// What lies past the last confirmable position.
#[derive(Debug, Serialize)]
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
pub struct LagBytes {
    /// Not yet received.
    pub unread: u64,
    /// Received, not acknowledged.
    pub unacked: u64,
    /// Acknowledged, not confirmed to the slot.
    pub unconfirmed: u64,
}

/// Counts since the start of the process.
#[derive(Debug, Serialize)]
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
        let lag = view.lag();
        Self {
            name: view.settings.name.clone(),
            version: env!("CARGO_PKG_VERSION"),
            state: snapshot.condition.state.as_str(),
            reason: Reason::of_gap(view).or_else(|| Reason::of_condition(view)),
            blame: Blame::find(snapshot, lag, view.settings.window).as_str(),
            age_seconds: view.now.duration_since(view.relay.published_at).as_secs_f64(),
            slot: view.monitor.slot.health().map(|slot| SlotView::of(slot, view)),
            positions: Positions {
                received: snapshot.received.to_string(),
                acked: snapshot.settled.to_string(),
                confirmed: snapshot.confirmed.to_string(),
                holder_pid: snapshot.slot_holder,
            },
            window: WindowView {
                events: snapshot.window_events,
                bytes: snapshot.window_bytes,
                unacked_events: snapshot.unacked_events,
                waiting_for_ack_seconds: snapshot.waiting_for_ack.map(|t| t.as_secs_f64()),
            },
            lag: lag.map(|lag| LagBytes {
                unread: lag.unread,
                unacked: lag.unacked,
                unconfirmed: lag.unconfirmed,
            }),
            totals: TotalsView {
                events_acked: snapshot.topics.iter().map(|topic| topic.acked).sum(),
                transactions: snapshot.transactions,
                rows_ignored: snapshot.rows_ignored.total(),
                rows_filtered: snapshot.rows_filtered,
                reconnects_postgres: snapshot.reconnects.postgres,
                reconnects_kafka: snapshot.reconnects.kafka,
                errors: snapshot.errors.iter().map(|(code, &n)| (code.as_str(), n)).collect(),
            },
            held: HeldView::of(&snapshot.held),
            retention: RetentionView::of(view),
            witness: WitnessView::of(view),
            monitor: MonitorView::of(view),
        }
    }
}

impl SlotView {
    fn of(slot: &SlotHealth, view: &View<'_>) -> Self {
        let text = |lsn: Option<Lsn>| lsn.map(|lsn| lsn.to_string());
        Self {
            name: view.settings.slot.clone(),
            bytes_behind: slot.bytes_behind(),
            retained_bytes: slot.retained_bytes(),
            safe_wal_bytes: slot.safe_wal_bytes,
            seconds_to_limit: view.monitor.seconds_to_limit.filter(|time| time.is_finite()),
            wal_bytes_per_second: view.monitor.rates.map(|rates| rates.wal),
            wal_status: slot.wal_status.as_str(),
            active: slot.is_active(),
            active_pid: slot.active_pid,
            confirmed_flush_lsn: text(slot.confirmed_flush_lsn),
            restart_lsn: text(slot.restart_lsn),
            current_wal_lsn: slot.current_wal_lsn.to_string(),
            plugin: slot.plugin.clone(),
            database: slot.database.clone(),
            failover: slot.failover,
            synced: slot.synced,
            invalidation_reason: slot.invalidation_reason.clone(),
            inactive_since: slot.inactive_since,
            pinned_by: view.monitor.pin.as_ref().map(PinView::of),
        }
    }
}

impl PinView {
    fn of(pin: &WalPin) -> Self {
        let (pid, application, prepared) = match &pin.holder {
            PinHolder::Backend { pid, application } => (Some(*pid), application.clone(), None),
            PinHolder::Prepared { gid } => (None, None, Some(gid.clone())),
        };
        Self { pid, application, prepared, seconds: pin.seconds }
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
