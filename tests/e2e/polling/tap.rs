//! `tap` shows the rows that a worker polls.

use serde_json::{Value, json};

use super::{polling, started};
use crate::tap::Tap;

const COLUMNS: &str = "alter table outbox \
    add n bigint generated always as identity, \
    add published_at timestamptz, \
    add abandoned_at timestamptz";

#[tokio::test]
async fn it_shows_what_became_of_each_row_by_its_primary_key() {
    let fixture = started(polling(), COLUMNS).await;
    let session = fixture.session().await.unwrap();
    let mut tap = Tap::start(&fixture, &["--limit", "3"]).await;
    // The headers of the second are no object (R009).
    session
        .batch_execute(
            "insert into outbox (aggregate_type, aggregate_id, event_type, payload, headers) values \
               ('order', 'a', 'Made', '{}', '{}'), \
               ('order', 'b', 'Made', '{}', '[1]'), \
               ('order', 'c', 'Paid', '{\"n\": 1}', '{}')",
        )
        .await
        .unwrap();
    let mut lines = tap.lines(3).await;
    let (exit, told) = tap.end().await;
    assert_eq!(exit, Some(0), "{told}");
    lines.sort_by_key(|line| line["outcome"].to_string());
    let query = "select id::text from outbox order by aggregate_id";
    let ids = session.query(query, &[]).await.unwrap();
    let ids: Vec<Value> = ids.iter().map(|row| json!([row.get::<_, &str>(0)])).collect();
    let [failed, routed, paid] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((&failed["outcome"], &failed["code"]), (&json!("failed"), &json!("R009")));
    assert_eq!((&failed["id"], &failed["topic"]), (&ids[1], &Value::Null));
    assert_eq!((&routed["outcome"], &routed["id"]), (&json!("routed"), &ids[0]));
    assert_eq!((&paid["event_type"], &paid["id"]), (&json!("Paid"), &ids[2]));
    assert!(routed["topic"].as_str().is_some_and(|topic| topic.ends_with(".order")), "{routed}");
    assert_eq!(routed["table"], "public.outbox");
    assert_eq!((&routed["key_bytes"], routed.get("commit_lsn")), (&json!(1), None));
    assert!(routed["written_at"].as_str().is_some_and(|at| at.ends_with('Z')), "{routed}");
    assert_eq!(routed.get("committed_at"), None, "{routed}");
}
