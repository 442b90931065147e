//! The figures around the slot, as one answer of PostgreSQL gives them.

use serde::Deserialize;

use super::denied::Denied;
use crate::monitor::{pins::WalPin, polled::Polled};

/// What was read around the slot, all at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SlotFigures {
    /// When it was read.
    pub read: Polled,
    /// What limits the slot.
    pub limits: Limits,
    /// What decoding wrote to disk; `None` on PostgreSQL 13, where the role may not read it, or
    /// when there is no such slot.
    pub spill: Option<Spill>,
    /// Open transactions that have written something, the oldest first, at most
    /// [`PINS_MAX`](crate::monitor::pins::PINS_MAX). The first is what holds `restart_lsn` and
    /// `catalog_xmin` back if the slot retains much more than it is behind.
    pub pins: Vec<WalPin>,
    /// Other slots that nobody uses.
    pub other_slots: OtherSlots,
    /// `age(catalog_xmin)` of the slot: for how many transactions the catalog's dead rows have been
    /// kept for it. `None`: there is no such slot, or it keeps none.
    pub catalog_xmin_age: Option<u64>,
    /// The walsender that holds the slot; `None` where nobody does, or the role may not read
    /// `pg_stat_activity`.
    pub holder: Option<Holder>,
    /// What a failover would find; `None` before PostgreSQL 17, which has no failover slots.
    pub standbys: Option<Standbys>,
    /// The size of `pg_wal`; `None` until it was read, which is done once a minute, and where the
    /// role may not list the directory. PostgreSQL does not tell the free space of a disk by SQL:
    /// how full the disk is, only its host knows.
    pub wal_directory: Option<WalDirectory>,
    /// What the role may not read, and what to type so that it may.
    pub denied: Vec<Denied>,
}

/// The walsender that holds the slot, by `pg_stat_activity`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Holder {
    /// Its process id.
    pub pid: i32,
    /// Its client's `application_name`.
    pub application: Option<String>,
    /// What it waits for, as `TYPE:EVENT`; `None` where it works, or the role may not see that.
    pub wait_event: Option<String>,
}

/// The settings that limit the slot.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Limits {
    /// `max_slot_wal_keep_size`, in bytes: a slot that retains more is invalidated at the next
    /// checkpoint. `None`: slots retain WAL without limit, until the disk is full.
    pub wal_keep_bytes: Option<u64>,
    /// `idle_replication_slot_timeout` (18+), in seconds: a slot from which nobody has streamed for
    /// longer is invalidated at the next checkpoint. `None`: off, or an earlier version.
    pub idle_timeout_seconds: Option<f64>,
    /// `wal_sender_timeout`, in seconds: after how much silence the server frees a slot; `None`:
    /// off. This router's own sessions set
    /// [`WAL_SENDER_TIMEOUT`](crate::postgres::WAL_SENDER_TIMEOUT) instead.
    pub wal_sender_timeout_seconds: Option<f64>,
    /// `max_replication_slots`.
    pub slots_max: u64,
    /// Slots of every kind and database.
    pub slots_used: u64,
}

/// `pg_stat_replication_slots` (14+) of the slot: counts since the statistics were last reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Spill {
    /// Transactions that were larger than `logical_decoding_work_mem` and were written to disk.
    pub spill_txns: u64,
    /// How often a transaction was written to disk.
    pub spill_count: u64,
    /// Bytes of transactions that were written to disk.
    pub spill_bytes: u64,
    /// Bytes of transactions that were sent before their commit.
    pub stream_bytes: u64,
    /// Bytes of all transactions that were decoded.
    pub total_bytes: u64,
}

/// Slots besides the router's own that nobody uses, but for which the server keeps WAL: they fill
/// the same disk.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OtherSlots {
    /// How many.
    pub inactive: u64,
    /// The one that retains most; `None` when there is none.
    pub largest: Option<OtherSlot>,
}

/// A slot of somebody else.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OtherSlot {
    /// Its name.
    pub name: String,
    /// Bytes of WAL that it retains.
    pub retained_bytes: u64,
}

/// What decides whether a standby could take over, as far as the primary shows it. Whether a
/// standby copies slots (`sync_replication_slots`) is a setting of the standby.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Standbys {
    /// The slot's `failover`: whether standbys may copy it. False, too, when there is no such slot.
    pub failover: bool,
    /// The slots that `synchronized_standby_slots` names, in its order.
    pub named: Vec<StandbySlot>,
    /// Physical slots of the server from which a standby streams.
    pub active_physical_slots: u64,
}

impl Standbys {
    /// The named slots for which the router's walsender waits: it sends nothing that they have not
    /// confirmed, and these confirm nothing. None where the slot is no failover slot: its walsender
    /// waits for no standby.
    pub fn blocking(&self) -> impl Iterator<Item = &StandbySlot> {
        let confirms_nothing = |slot: &&StandbySlot| slot.state != StandbySlotState::Active;
        self.named.iter().filter(|_| self.failover).filter(confirms_nothing)
    }
}

/// A slot that `synchronized_standby_slots` names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StandbySlot {
    /// Its name.
    pub name: String,
    /// What there is under that name.
    pub state: StandbySlotState,
    /// Bytes of WAL that this standby has not confirmed; `None` when the slot is missing or has no
    /// position.
    pub bytes_behind: Option<u64>,
}

/// What there is under a name in `synchronized_standby_slots`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandbySlotState {
    /// A physical slot from which a standby streams.
    Active,
    /// A physical slot from which nobody streams.
    Inactive,
    /// No slot.
    Missing,
    /// A logical slot, which confirms nothing for a standby.
    Logical,
    /// A slot that PostgreSQL has invalidated.
    Invalidated,
}

impl StandbySlotState {
    /// The word in `/status.json`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Inactive => "inactive",
            Self::Missing => "missing",
            Self::Logical => "logical",
            Self::Invalidated => "invalidated",
        }
    }
}

/// The size of `pg_wal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalDirectory {
    /// The sum of its files, in bytes.
    pub bytes: u64,
    /// When it was read; at most a minute before the other figures.
    pub read: Polled,
}
