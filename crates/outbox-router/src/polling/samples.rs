//! A worker that works and a table in which nothing is pending, of which each test changes what it
//! is about.

use std::{collections::BTreeMap, time::SystemTime};

use relay::{
    Latencies, OtherTopics, TableName,
    polling::{PollState, PolledTableReport, PollerReport, ShardSet},
};
use tokio::time::Instant;

use super::survey::{Holder, RowCount, SurveyReport, SurveyedTable, TableSurvey};
use crate::monitor::Polled;

pub(crate) fn name() -> TableName {
    TableName { schema: "public".to_owned(), name: "outbox".to_owned() }
}

/// It holds every shard.
pub(crate) fn report() -> PollerReport {
    PollerReport {
        state: PollState::Polling,
        reason: None,
        tables: vec![PolledTableReport {
            name: name(),
            shards: ShardSet::ALL,
            batches: 10,
            fetched: 100,
            published: 100,
            changed: 0,
            failed: 0,
            abandoned: 0,
            waiting: 0,
            failure: None,
        }],
        topics: Vec::new(),
        other_topics: OtherTopics::default(),
        unacked: 0,
        workers: 1,
        claims_lost: 0,
        errors: BTreeMap::new(),
        reconnects: 0,
        batch_times: Latencies::default(),
    }
}

/// Read now.
pub(crate) fn survey(now: Instant) -> SurveyReport {
    SurveyReport {
        tables: vec![surveyed()],
        read: Some(Polled { at: now, wall: SystemTime::now() }),
        failure: None,
        ticked_at: Some(now),
    }
}

/// Nothing is pending, and one worker holds every shard.
pub(crate) fn surveyed() -> SurveyedTable {
    let holder = Holder {
        worker: "6b2f4a5e-0000-4000-8000-000000000001".to_owned(),
        name: "shop".to_owned(),
        shards: 64,
        lasts_seconds: 8.0,
    };
    let none = RowCount::Exactly(0);
    let figures = TableSurvey {
        pending: none,
        not_due: 0,
        due_in_seconds: None,
        ready: 0,
        oldest_seconds: None,
        failed: none,
        abandoned: none,
        stranded: none,
        processing: none,
    };
    SurveyedTable {
        name: name(),
        figures: Ok(figures),
        size: None,
        holders: Ok(vec![holder]),
        handed: None,
        stranded: None,
    }
}
