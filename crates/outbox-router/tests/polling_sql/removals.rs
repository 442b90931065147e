//! Which rows retention removes.

use std::time::Duration;

use outbox_router::polling::sql::{MarkConfig, Removal, RemovalRules, Scan};
use relay::{FilterKind, RowFilter};

use crate::fixture::{Fixture, TABLE, default_table, polling};

const RULES: RemovalRules = RemovalRules {
    keep: Duration::ZERO,
    time_column: None,
    batch: 100,
    lock_timeout: Duration::from_secs(2),
    scan: Scan::Whole,
};

const LEFT: &str = "select string_agg(aggregate_id, ' ' order by id) from outbox";

/// A backlog that a new installation takes over, and rows that a former poller has left.
#[tokio::test]
async fn an_abandoned_row_leaves_by_nobody_but_a_person_whatever_its_age() {
    let word = |word: &str| Some(word.to_owned());
    let former =
        MarkConfig { failed: word("PENDING"), abandoned: word("FAILED"), ..MarkConfig::default() };
    for mark in [MarkConfig::default(), former] {
        let more = ", status text not null default 'PENDING', available_at timestamptz, \
                    abandoned_at timestamptz";
        let fixture = Fixture::new(&default_table(more)).await;
        fixture
            .run(
                "insert into outbox (aggregate_id, status, created_at, available_at, abandoned_at) \
                 select 'x' || s, s, now() - interval '40 years', now() - interval '40 years', g \
                 from unnest(array['ABANDONED', 'FAILED', 'PENDING', 'ERROR']) s, \
                   (values (null), (now() - interval '40 years')) v (g); \
                 insert into outbox (aggregate_id, status, created_at) values \
                   ('done', 'PUBLISHED', now() - interval '1 day'); \
                 grant delete on outbox to router",
            )
            .await;
        let before = fixture.value(LEFT).await;
        let mut worker = fixture.worker(polling().with_mark(mark)).await;
        let removal = Removal::of(worker.database.table(TABLE).unwrap(), &RULES).unwrap();
        assert_eq!(worker.database.count(TABLE, &removal).await.unwrap(), 1);
        assert_eq!(worker.database.remove(TABLE, &removal).await.unwrap(), 1);
        assert_eq!(fixture.value(LEFT).await, before.replace(" done", ""));
    }
}

/// Two pipelines share a table by `outbox.where`, and one of them keeps its rows longer.
#[tokio::test]
async fn rows_of_another_pipeline_stay() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    fixture
        .run(
            "insert into outbox (aggregate_type, aggregate_id, published_at) values \
             ('order', 'ours', now() - interval '1 day'), \
             ('invoice', 'theirs', now() - interval '1 day'); grant delete on outbox to router",
        )
        .await;
    let mut polling = polling();
    polling.config.outbox.filter = Some(RowFilter {
        column: "aggregate_type".to_owned(),
        values: vec!["order".to_owned()],
        kind: FilterKind::In,
    });
    let mut worker = fixture.worker(polling).await;
    let removal = Removal::of(worker.database.table(TABLE).unwrap(), &RULES).unwrap();
    assert_eq!(worker.database.remove(TABLE, &removal).await.unwrap(), 1);
    assert_eq!(fixture.value(LEFT).await, "theirs");
}
