//! The core's settings, a slot without defects and the core's report, of which each test changes
//! what it is about.

use std::{collections::BTreeMap, time::Duration};

use pgoutput::Lsn;

use crate::{
    backlog::{BacklogFrom, BacklogSettings},
    delivered::{Acknowledged, Confirmed, Covered, Evidence, FullXid, Horizon, Witnessed},
    held::HeldSettings,
    progress::{Timing, Window},
    protocol::{OnFailed, RelaySettings, WitnessSettings},
    routing::{OutboxTable, Outboxes, TableName, TopicName},
    source::{History, SlotHealth, SlotKind, WalStatus},
    state::{Condition, State},
    telemetry::{HeldReport, OtherTopics, Reconnects, RowsIgnored, Snapshot, WitnessReport},
    witness::WitnessKey,
};

/// Where the witness is kept, of the first process.
pub fn witness_settings() -> WitnessSettings {
    let key = WitnessKey { name: "n".into(), database: "d".into(), slot: "s".into() };
    let topic = TopicName::new("t").expect("a topic's name");
    WitnessSettings { key, process: "0".to_owned(), topic }
}

/// One table, `public.outbox`, without a state topic, within the limits that the product has by
/// default. The server may be silent for a minute.
pub fn settings() -> RelaySettings {
    let name = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
    RelaySettings {
        slot: "s".to_owned(),
        publication: "p".to_owned(),
        witness: None,
        outboxes: Outboxes {
            tables: vec![OutboxTable::with_defaults(name)],
            ..Outboxes::default()
        },
        held: HeldSettings::default(),
        window: Window { events: 20_000, bytes: 32 << 20 },
        row_bytes: 16 << 20,
        timing: Timing {
            status_interval: Duration::from_secs(3),
            silence_limit: Duration::from_secs(60),
        },
        shutdown_limit: Duration::from_secs(25),
        backlog: BacklogSettings::of(BacklogFrom::Stream),
        on_failed: OnFailed::Stay,
        seed: 1,
    }
}

/// Made by `setup`, 60 MiB behind, 70 MiB retained.
pub fn slot() -> SlotHealth {
    SlotHealth {
        current_wal_lsn: Lsn::from_u64(100 << 20),
        confirmed_flush_lsn: Some(Lsn::from_u64(40 << 20)),
        restart_lsn: Some(Lsn::from_u64(30 << 20)),
        catalog_xmin: None,
        safe_wal_bytes: None,
        wal_status: WalStatus::Reserved,
        active_pid: None,
        plugin: Some("pgoutput".to_owned()),
        database: Some("shop".to_owned()),
        kind: SlotKind::Logical,
        unsupported_feature: None,
        failover: None,
        synced: None,
        invalidation_reason: None,
        inactive_since: None,
    }
}

/// Nothing is received yet.
pub fn empty_snapshot(state: State) -> Snapshot {
    let nowhere = Lsn::from_u64(0);
    Snapshot {
        condition: Condition { state, reason: None },
        received: nowhere,
        settled: nowhere,
        confirmed: nowhere,
        window_events: 0,
        window_bytes: 0,
        unacked_events: 0,
        waiting_for_ack: None,
        oldest_unacked: None,
        paused: Default::default(),
        topics: Vec::new(),
        other_topics: OtherTopics::default(),
        transactions: 0,
        rows_ignored: RowsIgnored::default(),
        rows_filtered: 0,
        held: HeldReport::default(),
        reconnects: Reconnects::default(),
        errors: BTreeMap::new(),
        has_session: state == State::Streaming,
        slot_holder: None,
        rereads: None,
        warning: None,
        baseline: None,
        witness: WitnessReport::default(),
    }
}

/// Received up to 80 MiB, acknowledged up to 50 MiB, confirmed up to 40 MiB.
pub fn snapshot(state: State) -> Snapshot {
    Snapshot {
        received: Lsn::from_u64(80 << 20),
        settled: Lsn::from_u64(50 << 20),
        confirmed: Lsn::from_u64(40 << 20),
        window_events: 5,
        window_bytes: 500,
        unacked_events: 5,
        ..empty_snapshot(state)
    }
}

/// Everything before this transaction is confirmed.
pub fn covered(before: u64) -> Covered {
    let (lsn, history) = (Lsn::from_u64(1), History { system_id: "1".to_owned(), timeline: 1 });
    let slot = SlotHealth { confirmed_flush_lsn: Some(lsn), ..slot() };
    let evidence = Evidence {
        here: &history,
        slot_name: "s",
        slot: &slot,
        acknowledged: Acknowledged {
            history: Some(&history),
            position: lsn,
            last_commit: None,
            by: Witnessed::ByRouter,
        },
        verified: lsn,
        nothing_before: None,
    };
    let horizon = Horizon { xmin: FullXid::from_u64(before), lsn };
    let confirmed = Confirmed::by(evidence).expect("the slot is past the horizon");
    horizon.covered(&confirmed).expect("the slot is past the horizon")
}
