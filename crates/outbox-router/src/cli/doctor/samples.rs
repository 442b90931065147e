//! Facts of a pair of servers that is set up well, for the tests of the judgements.

use std::{collections::HashMap, num::NonZeroI32};

use relay::{
    Name, Names, TopicFacts, TopicName,
    source::{SlotHealth, SlotReading},
    testing::samples,
};

use super::{
    facts::{
        ColumnIndex, ConfigurationFacts, Ids, KafkaFacts, Layout, Owner, PolledTableFacts, Removal,
        ServerFacts, SlotFacts, TableFacts, TopicReading,
    },
    finding::Finding,
};
use crate::{
    kafka::{PartitionLayout, TopicInspected},
    polling::sql::{RowCount, TableSurvey, UpkeepFacts},
};

pub(super) fn codes(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code).collect()
}

pub(super) fn server() -> ServerFacts {
    ServerFacts {
        version: 180_001,
        role: "\"router\"".to_owned(),
        is_superuser: false,
        database: "shop".to_owned(),
        clock_ahead: 1_000,
        clock_margin: 1_000,
        clock: 1_780_000_000_000_000,
        wal_limit: Some(10 << 30),
        idle_timeout: None,
        standby_slots: Vec::new(),
        slots_max: 10,
    }
}

pub(super) fn slot() -> SlotHealth {
    SlotHealth { failover: Some(true), ..samples::slot() }
}

pub(super) fn slots(slot: Option<SlotHealth>) -> SlotFacts {
    let database = slot.as_ref().and_then(|slot| slot.database.clone()).unwrap_or_default();
    let current_wal_lsn = samples::slot().current_wal_lsn;
    let at = "2026-01-31T10:00:00Z".to_owned();
    SlotFacts {
        name: "outbox_router".to_owned(),
        reading: SlotReading {
            current_wal_lsn,
            at,
            clock_micros: 0,
            next_xid: None,
            database,
            slot,
        },
        reader: None,
        own: "outbox-router".to_owned(),
        others: Vec::new(),
    }
}

pub(super) fn table() -> TableFacts {
    let indexed = |column: &str| Some(ColumnIndex { column: column.to_owned(), is_indexed: true });
    TableFacts {
        name: "public.outbox".to_owned(),
        quoted: "\"public\".\"outbox\"".to_owned(),
        unsuitable: None,
        owner: Owner::Other,
        layout: Layout::Plain,
        defaults: Vec::new(),
        bytes: 1 << 20,
        updated: 0,
        deleted: 0,
        rules: Vec::new(),
        nullable: Vec::new(),
        id: indexed("\"id\""),
        ids: Ids::Unique,
        subscriptions: Vec::new(),
        time: indexed("\"created_at\""),
        removal: Removal::Elsewhere,
        template: Some("outbox.event.${aggregate_type}".to_owned()),
    }
}

pub(super) fn upkeep() -> UpkeepFacts {
    UpkeepFacts {
        indexes: Vec::new(),
        has_trigger: true,
        dead: 0,
        live: 0,
        pipelines: vec!["orders".to_owned()],
    }
}

pub(super) fn polled_table() -> PolledTableFacts {
    PolledTableFacts {
        name: "public.outbox".to_owned(),
        quoted: "\"public\".\"outbox\"".to_owned(),
        upkeep: Ok(upkeep()),
        survey: Ok(TableSurvey {
            pending: RowCount::Exactly(0),
            not_due: 0,
            due_in_seconds: None,
            ready: 0,
            oldest_seconds: None,
            failed: RowCount::Exactly(0),
            abandoned: RowCount::Exactly(0),
            stranded: RowCount::Exactly(0),
            processing: RowCount::Exactly(0),
        }),
        columns: None,
        zones: Ok(Vec::new()),
    }
}

pub(super) fn topic_name(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

/// Three partitions with three replicas each, as `brokers` has them.
pub(super) fn topic() -> TopicInspected {
    let partition =
        |partition| PartitionLayout { partition, has_leader: true, replicas: vec![1, 2, 3] };
    TopicInspected {
        facts: TopicFacts {
            partitions: NonZeroI32::new(3).unwrap(),
            max_message_bytes: Some(20 << 20),
        },
        caution: None,
        partitions: (0..3).map(partition).collect(),
        policy: Some("delete".to_owned()),
        in_sync: Some(2),
    }
}

pub(super) fn kafka() -> KafkaFacts {
    let mut names = Names::default();
    names.set(Name::Brokers, "kafka:9092".to_owned());
    names.set(Name::ReplicationFactor, "1".to_owned());
    KafkaFacts {
        names,
        brokers: vec![1],
        state_topic: None,
        state_partitions: Vec::new(),
        topics: Vec::new(),
        templates: Vec::new(),
        operations: HashMap::new(),
        on_cluster: None,
        create: None,
        row_bytes: 16 << 20,
    }
}

pub(super) fn with_topic(found: TopicInspected, brokers: Vec<i32>) -> KafkaFacts {
    let topic = TopicReading { name: topic_name("orders"), found: Ok(found) };
    KafkaFacts { topics: vec![topic], brokers, ..kafka() }
}

pub(super) fn configuration() -> ConfigurationFacts {
    ConfigurationFacts {
        admin: "127.0.0.1:8788".parse().unwrap(),
        has_state_topic: true,
        file: Some("outbox-router.toml".into()),
        plain_secrets: Vec::new(),
        connection_warnings: Vec::new(),
        kafka_protocol: None,
        critical_bytes: 2 << 30,
    }
}
