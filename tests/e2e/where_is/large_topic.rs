//! The search reads what is near the row's time, and not the topic.

use e2e::{Fixture, SHORT_DEADLINE};

use super::where_is;

/// Records of the topic, ten a second by their rows' times.
const RECORDS: i64 = 300_000;

#[tokio::test]
async fn of_a_large_topic_only_what_is_near_the_events_time_is_read() {
    let fixture = Fixture::builder().set_outbox("timestamp", "column").start().await.unwrap();
    let session = fixture.session().await.unwrap();
    let rows = format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, created_at) \
         SELECT 'order', 'order-' || n % 100, 'n' || n, '{{}}', \
           now() - ({RECORDS} - n) * interval '100 ms' FROM generate_series(1, {RECORDS}) n"
    );
    session.batch_execute(&rows).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE * 4).await.unwrap();
    let written: i64 =
        fixture.kafka.end_offsets(&fixture.topics[0]).await.unwrap().into_iter().sum();
    assert!(written >= RECORDS, "{written}");
    for n in [10, RECORDS / 2, RECORDS - 10] {
        let id = format!("SELECT id::text FROM outbox WHERE event_type = 'n{n}'");
        let id: String = session.query_one(&id, &[]).await.unwrap().get(0);
        let answer = where_is(&fixture, &[&id]).await;
        answer.expect("acknowledged", "at offset ");
        let read = answer.json["records_read"].as_i64().unwrap();
        assert!((1..=100).contains(&read), "{read} records: {:#}", answer.json);
    }
}
