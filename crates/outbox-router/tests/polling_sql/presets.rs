//! Every table of docs/tables.md is polled and drained, with its own marks.

use outbox_router::polling::sql::{MarkConfig, MarkHow, setup::Deletes};
use relay::{PRESETS, TopicTemplate, polling::Claimed};

use crate::fixture::{Fixture, TABLE, Worker, keys, polling};

#[tokio::test]
async fn the_example_of_each_preset_is_read_and_marked() {
    for preset in PRESETS {
        let fixture = Fixture::new(preset.example.table).await;
        fixture.grant(Deletes::Yes).await;
        let mut polling = polling();
        let topic = preset.example.topic.map(|topic| TopicTemplate::parse(topic).unwrap());
        polling.config.outbox.topic = topic;
        let (state, claimed) = match preset.name {
            "default" => ("published_at is not null", Claimed::No),
            "payload" => ("published and published_at is not null", Claimed::No),
            "ordering_key" => ("status = 'published' and published_at is not null", Claimed::Yes),
            "stream" => ("status = 'published' and locked_by is null", Claimed::Yes),
            "spring_modulith" => ("completion_date is not null", Claimed::No),
            "eventuate" => ("published = 1", Claimed::No),
            // Its rows have no mark.
            "debezium" => {
                let mut worker = Worker::new(fixture.connector(), polling.clone());
                let failure = worker.database.describe(TABLE).await.unwrap_err();
                assert_eq!(failure.code, relay::Code::Polling);
                polling =
                    polling.with_mark(MarkConfig { how: MarkHow::Delete, ..MarkConfig::default() });
                ("false", Claimed::No)
            }
            other => panic!("how is {other} marked?"),
        };
        fixture.run(preset.example.row).await;
        let mut worker = fixture.worker(polling).await;
        fixture.make_indexes(&worker).await;
        worker.database.describe(TABLE).await.unwrap();
        let fetched = worker.fetch(10).await;
        assert_eq!(keys(&fetched.rows), [Some(preset.example.record.key)], "{}", preset.name);
        assert_eq!(fetched.claimed, claimed, "{}", preset.name);
        assert_eq!(worker.publish(&fetched.rows).await, 1, "{}", preset.name);
        assert!(worker.fetch(10).await.rows.is_empty(), "{}", preset.name);
        let unmarked = format!("select count(*) from outbox where ({state}) is not true");
        assert_eq!(fixture.value(&unmarked).await, "0", "{}", preset.name);
    }
}

/// A SELECT has the columns that PostgreSQL computes; from 18 on those that are virtual, too.
#[tokio::test]
async fn generated_columns_are_read() {
    let version = std::env::var("OUTBOX_PG_VERSION").unwrap_or_default();
    let kinds = if version == "18" { &["stored", "virtual"][..] } else { &["stored"] };
    for kind in kinds {
        let fixture = Fixture::new(&format!(
            "create table outbox (id uuid primary key default gen_random_uuid(), \
             aggregate_type text default 'order', event_type text default 'placed', \
             payload jsonb, created_at timestamptz default now(), published_at timestamptz, \
             aggregate_id text generated always as (payload->>'order') {kind})"
        ))
        .await;
        fixture.run("insert into outbox (payload) values ('{\"order\": \"seven\"}')").await;
        let mut worker = fixture.worker(polling()).await;
        fixture.make_indexes(&worker).await;
        worker.database.describe(TABLE).await.unwrap();
        let fetched = worker.fetch(10).await;
        assert_eq!(keys(&fetched.rows), [Some("seven")], "{kind}");
        assert_eq!(worker.publish(&fetched.rows).await, 1, "{kind}");
    }
}
