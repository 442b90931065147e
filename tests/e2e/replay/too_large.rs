//! Rows at which `run` would stop.

use e2e::Fixture;
use serde_json::json;

use super::{replay, write};

/// Larger than a row may be, and larger than the topic takes; headers that are none; and a topic
/// whose name differs from that of another in '.' and '_' alone.
const LARGE: &str = "
    INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at)
    SELECT 'TYPE', 'key-1', 'Large', to_jsonb(repeat('x', n)), '2026-01-01T00:00:00.0105Z'
    FROM unnest(ARRAY[2000000, 30000]) n;
    INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers, created_at)
    VALUES ('TYPE', 'key-1', 'Bad', '{}', '[7]', '2026-01-01T00:00:00.0155Z'),
           ('a.b', 'key-1', 'Bad', '{}', null, '2026-01-01T00:00:00.0165Z')";

#[tokio::test]
async fn rows_that_cannot_become_a_record_stop_a_run_or_are_left_out_by_name() {
    let builder = Fixture::builder()
        .set("limits.row_bytes", "1MiB")
        .set("kafka.create_topics.partitions", 1)
        .set("kafka.create_topics.replication_factor", 1);
    let fixture = builder.prepare().await.unwrap();
    let taken = format!("{}a_b", fixture.mapping.topic_prefix);
    fixture.kafka.create_topic(&taken, 1, &[]).await.unwrap();
    fixture.kafka.set_topic(&fixture.topics[0], &[("max.message.bytes", "20000")]).await.unwrap();
    let session = fixture.session().await.unwrap();
    write(&fixture, &session, 20, 3).await;
    session.batch_execute(&LARGE.replace("TYPE", &fixture.schema.types[0])).await.unwrap();

    let (exit, answer, errors) = replay(&fixture, &["--all"]).await;
    assert_eq!((exit, &answer["outcome"]), (Some(1), &json!("stopped_at_row")), "{errors}");
    let code = answer["failure"]["code"].as_str().unwrap();
    assert!(["R005", "K012"].contains(&code), "{answer:#}");
    // The run stops there whatever that is.
    assert!(!answer["failure"]["hint"].to_string().contains("[on_error]"), "{answer:#}");
    assert_eq!((&answer["sent"], &answer["rows"]), (&json!(10), &json!(10)));
    assert_eq!(fixture.seen().await.unwrap().len(), 10, "nothing behind it was sent");

    let (exit, answer, errors) = replay(&fixture, &["--all", "--resume", "--skip-bad"]).await;
    assert_eq!((exit, &answer["outcome"]), (Some(1), &json!("complete")), "{answer:#}{errors}");
    assert_eq!((&answer["sent"], &answer["left_out"]), (&json!(10), &json!(4)), "{answer:#}");
    for code in ["R005", "K012", "R009", "R003"] {
        assert_eq!(errors.matches(code).count(), 1, "{code} in {errors}");
    }
    assert_eq!(errors.matches("left out: ").count(), 4, "{errors}");
    assert_eq!(fixture.seen().await.unwrap().len(), 20, "each row once");
    let (exit, answer, _) = replay(&fixture, &["--all", "--dry-run"]).await;
    assert_eq!(
        (exit, &answer["left_out"]),
        (Some(1), &json!(3)),
        "a topic is not made: {answer:#}"
    );
}
