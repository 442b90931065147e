//! The latest events of a key.

use e2e::{Fixture, SHORT_DEADLINE};
use serde_json::Value;

use super::{insert, told, where_is};

#[tokio::test]
async fn the_latest_events_of_a_key_are_listed_with_their_states() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(insert(&session, "order", "a 'key'").await);
        insert(&session, "order", "another").await;
    }
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let listed = |answer: &super::Answer, member: &str| -> Vec<Value> {
        let events = answer.json["events"].as_array().unwrap();
        events.iter().map(|event| event[member].clone()).collect()
    };
    let answer = where_is(&fixture, &["--key", "a 'key'", "--limit", "3"]).await;
    assert_eq!(answer.exit, Some(0), "{:#}{}", answer.json, answer.errors);
    let latest: Vec<Value> = ids.iter().rev().take(3).map(|id| id.as_str().into()).collect();
    assert_eq!(listed(&answer, "id"), latest);
    assert_eq!(listed(&answer, "state"), ["acknowledged"; 3]);
    let offsets: Vec<i64> = listed(&answer, "offset").iter().filter_map(Value::as_i64).collect();
    assert!(offsets.len() == 3 && offsets.is_sorted_by(|a, b| a > b), "{offsets:?}");
    assert_eq!(answer.json["searched"].as_array().unwrap().len(), 1, "one scan: {:#}", answer.json);

    // Rows of one statement have one time.
    let many = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
         SELECT 'order', 'many', 'Made' FROM generate_series(1, 30)";
    session.batch_execute(many).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let all = where_is(&fixture, &["--key", "many", "--limit", "1000"]).await;
    let all = listed(&all, "offset");
    let answer = where_is(&fixture, &["--key", "many", "--limit", "3"]).await;
    assert_eq!(listed(&answer, "offset"), all[..3], "{:#}", answer.json);
    let offsets: Vec<i64> = all.iter().filter_map(Value::as_i64).collect();
    assert!(offsets.len() == 30 && offsets.is_sorted_by(|a, b| a > b), "{offsets:?}");

    fixture.kill_router().await.unwrap();
    let waiting = insert(&session, "order", "a 'key'").await;
    let answer = where_is(&fixture, &["--key", "a 'key'", "--limit", "2"]).await;
    assert_eq!(answer.exit, Some(1), "{:#}{}", answer.json, answer.errors);
    assert_eq!(listed(&answer, "state"), ["waiting", "acknowledged"], "{:#}", answer.json);
    let told = told(&fixture, &["--key", "a 'key'"]).await;
    assert!(told.contains(&format!("{waiting}  waiting: ")), "{told}");
    assert!(told.contains(&format!("{}  acknowledged  ", ids[0])), "{told}");

    let answer = where_is(&fixture, &["--key", "none"]).await;
    assert_eq!(answer.exit, Some(1));
    assert!(answer.errors.contains("no row has the key none"), "{}", answer.errors);
}
