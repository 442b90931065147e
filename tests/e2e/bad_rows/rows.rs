//! Rows that cannot become records. The remedy lies in the configuration, because what is in the
//! WAL cannot be changed any more.

use e2e::{Fixture, RouterConfig, SHORT_DEADLINE};
use serde_json::json;
use testbed::load::{Preset, Schema};

use super::{GOOD, Payload, Row, expect_confirmed, expect_ids, expect_reported, insert};

struct Case {
    row: Row<'static>,
    code: &'static str,
    /// What the message must name.
    names: &'static str,
    repair: fn(&mut RouterConfig, topic: &str),
}

fn one_topic(config: &mut RouterConfig, topic: &str) {
    config.set_outbox("topic", topic);
}

fn cases() -> Vec<Case> {
    const LONG: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\
                        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    let of_type = |name: &'static str| Row { aggregate_type: Some(name), ..GOOD };
    vec![
        Case {
            row: Row { aggregate_id: None, ..GOOD },
            code: "R001",
            names: "aggregate id is NULL",
            repair: |config, _| {
                config.set_outbox("columns.aggregate_id", "customer");
            },
        },
        Case {
            row: Row { aggregate_type: None, ..GOOD },
            code: "R002",
            names: "aggregate type is NULL",
            repair: one_topic,
        },
        Case {
            row: of_type("a/b"),
            code: "R003",
            names: "character 2 is a punctuation mark",
            repair: one_topic,
        },
        Case { row: of_type(".."), code: "R003", names: "(2 characters)", repair: one_topic },
        Case { row: of_type(LONG), code: "R003", names: "250 characters", repair: one_topic },
        Case {
            row: Row { payload: Payload::Plain(20 << 20), ..GOOD },
            code: "R005",
            names: "more than a row may have (16777216)",
            repair: |config, _| {
                config.set("limits.row_bytes", "32MiB");
            },
        },
        Case {
            row: Row { headers: Some("[\"tenant\", 7]"), ..GOOD },
            code: "R009",
            names: "headers",
            repair: |config, _| {
                config.set_outbox("columns.headers", json!([]));
            },
        },
    ]
}

#[tokio::test]
async fn a_row_that_cannot_become_a_record_stops_the_router_until_it_can() {
    // The topic is the aggregate type itself, so that `..` is no part of a legal name.
    let schema = Schema::new(Preset::Default).types(&["rows-of-every-kind"]);
    let topic = "rows-of-every-kind";
    let mut fixture = Fixture::builder()
        .schema(schema)
        .without_topics()
        .set_outbox("topic", "${aggregate_type}")
        .prepare()
        .await
        .unwrap();
    let room = [("max.message.bytes", "33554432")];
    fixture.kafka.create_topic(topic, 1, &room).await.unwrap();
    let session = fixture.session().await.unwrap();
    let nullable = "ALTER TABLE outbox ALTER aggregate_type DROP NOT NULL, \
                    ALTER aggregate_id DROP NOT NULL, \
                    ADD customer text NOT NULL DEFAULT 'customer-1'";
    session.batch_execute(nullable).await.unwrap();

    let good = Row { aggregate_type: Some(topic), ..GOOD };
    let usual = fixture.config.clone();
    let mut sent = Vec::new();
    for case in cases() {
        let bad = Row {
            aggregate_type: case
                .row
                .aggregate_type
                .map(|name| if name == "order" { topic } else { name }),
            ..case.row
        };
        fixture.restart().await.unwrap();
        sent.push(insert(&session, good).await);
        let settled = fixture.postgres.current_wal_lsn().await.unwrap();
        let id = insert(&session, bad).await;
        let newer = insert(&session, good).await;

        let status =
            expect_reported(&mut fixture.router, "failed", case.code, SHORT_DEADLINE).await;
        let message = status["reason"]["message"].as_str().unwrap();
        assert!(message.contains(&id) && message.contains(case.names), "{status}");
        assert!(status["reason"]["lsn"].is_string(), "{status}");
        expect_confirmed(&fixture, settled).await;
        expect_ids(&fixture, topic, &sent).await;
        stop(&mut fixture).await;

        (case.repair)(&mut fixture.config, topic);
        fixture.rewrite_config().unwrap();
        fixture.restart().await.unwrap();
        fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
        sent.extend([id, newer]);
        expect_ids(&fixture, topic, &sent).await;
        stop(&mut fixture).await;
        fixture.config = usual.clone();
        fixture.rewrite_config().unwrap();
    }
}

/// Everything that was produced is confirmed, so there is nothing to wait for and nothing to
/// repeat.
async fn stop(fixture: &mut Fixture) {
    fixture.router.sigterm().unwrap();
    assert_eq!(fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap().code(), Some(0));
}
