//! Rows that writers have given the last time there is, as one that means "for ever".

use e2e::Fixture;
use testbed::postgres::DatabaseSession;

use super::{polling, started, wait_none};

/// The last moments that columns of these types take, and numbers that are no times.
const LAST: [(&str, &str); 5] = [
    ("timestamptz", "'294276-12-31 23:59:59Z', 'infinity', '4713-01-01 BC'"),
    ("timestamp", "'294276-12-31 23:59:59', '-infinity', '4713-01-01 BC'"),
    ("date", "'5874897-12-31', 'infinity', '4713-01-01 BC'"),
    ("bigint", "9223372036854775807, -9223372036854775808, 0"),
    ("int", "2147483647, -2147483648, 0"),
];

async fn with_times(of_type: &str, times: &str) -> (Fixture, DatabaseSession) {
    let columns = format!(
        "alter table outbox drop created_at, add created_at {of_type}, \
           add n bigint generated always as identity, add published_at timestamptz"
    );
    let fixture = started(polling(), &columns).await;
    // Kafka's own default refuses what is an hour ahead (K013).
    let any = [("message.timestamp.after.max.ms", "9223372036854775807")];
    fixture.kafka.set_topic(fixture.topics.first().unwrap(), &any).await.unwrap();
    let session = fixture.session().await.unwrap();
    let insert = format!(
        "insert into outbox (aggregate_type, aggregate_id, event_type, payload, created_at) \
         select 'order', 'a', 'Made', '{{}}', at::{of_type} \
         from unnest(array[{times}, null]) t (at)"
    );
    session.batch_execute(&insert).await.unwrap();
    (fixture, session)
}

#[tokio::test]
async fn rows_of_the_last_times_there_are_do_not_stop_their_table() {
    for (of_type, times) in LAST {
        let (fixture, session) = with_times(of_type, times).await;
        wait_none(&session, "published_at is null").await.unwrap();
        assert_eq!(fixture.seen().await.unwrap().len(), 4, "{of_type}");
    }
}
