//! The slot and what is around it, as `/status.json` shows it. The figures stay while PostgreSQL
//! does not answer, with their age: that is when people ask.

use relay::{Lsn, source::SlotHealth};
use serde::Serialize;

use super::view::View;
use crate::monitor::{
    pins::{PinHolder, WalPin},
    watch::{
        LastSlot,
        denied::Denied,
        figures::{SlotFigures, StandbySlot},
    },
};

/// The slot as `pg_replication_slots` shows it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SlotView {
    /// Its name.
    pub name: String,
    /// How long ago it was read, in seconds.
    pub read_seconds_ago: f64,
    /// Current WAL position − `confirmed_flush_lsn`: WAL that is not confirmed.
    pub bytes_behind: u64,
    /// Current WAL position − `restart_lsn`: what the slot retains on disk.
    pub retained_bytes: Option<u64>,
    /// What may still be written before the slot is in danger; `null`: no limit is set, or the
    /// slot is lost.
    pub safe_wal_bytes: Option<u64>,
    /// How long, from the last reading, until PostgreSQL invalidates the slot; `null`: without end,
    /// or not known.
    pub seconds_to_limit: Option<f64>,
    /// The setting that is reached then: `max_slot_wal_keep_size` or
    /// `idle_replication_slot_timeout`.
    pub limited_by: Option<&'static str>,
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
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PinView {
    /// Process id of the session; `null` for a prepared transaction.
    pub pid: Option<i32>,
    /// The session's `application_name`.
    pub application: Option<String>,
    /// Name of the prepared transaction; `null` for a session.
    pub prepared: Option<String>,
    /// Age of the transaction.
    pub seconds: Option<f64>,
    /// Its user.
    pub user: Option<String>,
    /// Its database.
    pub database: Option<String>,
    /// The session's `state`, such as `idle in transaction`.
    pub state: Option<String>,
    /// How long ago its last statement began, in seconds.
    pub query_seconds: Option<f64>,
}

/// What was read around the slot.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FiguresView {
    /// How long ago it was read, in seconds.
    pub read_seconds_ago: f64,
    /// `max_slot_wal_keep_size`; `null`: without limit.
    pub wal_keep_bytes: Option<u64>,
    /// `idle_replication_slot_timeout`; `null`: off, or before PostgreSQL 18.
    pub idle_timeout_seconds: Option<f64>,
    /// Slots of the server, and how many there may be.
    pub slots_used: u64,
    /// `max_replication_slots`.
    pub slots_max: u64,
    /// Bytes of transactions that decoding wrote to disk; PostgreSQL 14 and later.
    pub spill_bytes: Option<u64>,
    /// Other slots that nobody uses.
    pub other_slots_inactive: u64,
    /// The one of them that retains most.
    pub other_slot: Option<String>,
    /// What it retains.
    pub other_slot_retained_bytes: Option<u64>,
    /// `age(catalog_xmin)` of the slot.
    pub catalog_xmin_age: Option<u64>,
    /// The size of `pg_wal`; `null` where the role may not list it.
    pub wal_directory_bytes: Option<u64>,
    /// Slots that `synchronized_standby_slots` names and that confirm nothing: the walsender waits
    /// for them.
    pub waits_for_standbys: Vec<String>,
    /// What the role may not read.
    pub denied: Vec<DeniedView>,
}

/// What the role may not read.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeniedView {
    /// The view or function.
    pub object: &'static str,
    /// What is not known without it.
    pub hides: &'static str,
    /// The statement that gives the right.
    pub grant: String,
}

impl SlotView {
    /// `None` before the first reading, and when there is no such slot.
    pub(super) fn of(view: &View<'_>) -> Option<Self> {
        let LastSlot { read, slot, rates, to_limit, .. } = view.monitor.watch.last.as_ref()?;
        let slot: &SlotHealth = slot.as_ref()?;
        let text = |lsn: Option<Lsn>| lsn.map(|lsn| lsn.to_string());
        Some(Self {
            name: view.settings.slot.clone(),
            read_seconds_ago: view.now.duration_since(read.at).as_secs_f64(),
            bytes_behind: slot.bytes_behind(),
            retained_bytes: slot.retained_bytes(),
            safe_wal_bytes: slot.safe_wal_bytes,
            seconds_to_limit: to_limit.map(|to| to.seconds).filter(|time| time.is_finite()),
            limited_by: to_limit.map(|to| to.limit.as_str()),
            wal_bytes_per_second: rates.map(|rates| rates.wal),
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
        })
    }
}

impl PinView {
    fn of(pin: &WalPin) -> Self {
        let (pid, application, prepared) = match &pin.holder {
            PinHolder::Backend { pid, application } => (Some(*pid), application.clone(), None),
            PinHolder::Prepared { gid } => (None, None, Some(gid.clone())),
        };
        Self {
            pid,
            application,
            prepared,
            seconds: pin.seconds,
            user: pin.user.clone(),
            database: pin.database.clone(),
            state: pin.state.clone(),
            query_seconds: pin.query_seconds,
        }
    }
}

impl FiguresView {
    pub(super) fn of(view: &View<'_>) -> Option<Self> {
        let figures = view.monitor.watch.figures.as_ref()?;
        let SlotFigures { read, limits, spill, other_slots, wal_directory, .. } = figures;
        let largest = other_slots.largest.as_ref();
        let standbys = figures.standbys.as_ref();
        let name = |slot: &StandbySlot| format!("{} ({})", slot.name, slot.state.as_str());
        Some(Self {
            read_seconds_ago: view.now.duration_since(read.at).as_secs_f64(),
            wal_keep_bytes: limits.wal_keep_bytes,
            idle_timeout_seconds: limits.idle_timeout_seconds,
            slots_used: limits.slots_used,
            slots_max: limits.slots_max,
            spill_bytes: spill.map(|spill| spill.spill_bytes),
            other_slots_inactive: other_slots.inactive,
            other_slot: largest.map(|slot| slot.name.clone()),
            other_slot_retained_bytes: largest.map(|slot| slot.retained_bytes),
            catalog_xmin_age: figures.catalog_xmin_age,
            wal_directory_bytes: wal_directory.map(|directory| directory.bytes),
            waits_for_standbys: standbys
                .map_or_else(Vec::new, |standbys| standbys.blocking().map(name).collect()),
            denied: figures.denied.iter().map(DeniedView::of).collect(),
        })
    }
}

impl DeniedView {
    fn of(Denied { object, hides, grant }: &Denied) -> Self {
        Self { object, hides, grant: grant.clone() }
    }
}
