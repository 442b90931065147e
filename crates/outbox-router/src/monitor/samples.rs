//! A healthy slot and a relay at work, for the tests of this crate to change one thing about.

use std::collections::BTreeMap;

use relay::{
    Condition, Lsn, Reconnects, Snapshot, State, WitnessReport,
    source::{SlotHealth, SlotKind, WalStatus},
};

/// Made by `setup`, 60 MiB behind, 70 MiB retained.
pub(crate) fn slot() -> SlotHealth {
    SlotHealth {
        current_wal_lsn: Lsn::from_u64(100 << 20),
        confirmed_flush_lsn: Some(Lsn::from_u64(40 << 20)),
        restart_lsn: Some(Lsn::from_u64(30 << 20)),
        safe_wal_bytes: None,
        wal_status: WalStatus::Reserved,
        active_pid: None,
        plugin: Some("pgoutput".to_owned()),
        database: Some("shop".to_owned()),
        kind: SlotKind::Logical,
        peculiarity: None,
        failover: None,
        synced: None,
        invalidation_reason: None,
        inactive_since: None,
    }
}

/// Received up to 80 MiB, acknowledged up to 50 MiB.
pub(crate) fn snapshot(state: State) -> Snapshot {
    Snapshot {
        condition: Condition { state, reason: None },
        received: Lsn::from_u64(80 << 20),
        acked: Lsn::from_u64(50 << 20),
        confirmed: Lsn::from_u64(40 << 20),
        window_events: 5,
        window_bytes: 500,
        unacked_events: 5,
        waiting_for_ack: None,
        topics: Vec::new(),
        transactions: 0,
        rows_ignored: 0,
        reconnects: Reconnects::default(),
        errors: BTreeMap::new(),
        slot_holder: None,
        baseline: None,
        witness: WitnessReport::default(),
    }
}
