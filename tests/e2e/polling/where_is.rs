//! `where` judges a polled row by its own marks.

use e2e::SHORT_DEADLINE;

use super::{polling, started, wait_none};

const COLUMNS: &str = "alter table outbox \
    add n bigint generated always as identity, \
    add published_at timestamptz, \
    add abandoned_at timestamptz, \
    add last_error text";

#[tokio::test]
async fn a_row_is_delivered_given_up_or_pending_and_no_slot_is_spoken_of() {
    let builder = polling().set("on_error.bad_row", "dead_letter").set("retry.max_attempts", 1);
    let mut fixture = started(builder, COLUMNS).await;
    let session = fixture.session().await.unwrap();
    let insert = |key: &str, headers: &str| {
        format!(
            "insert into outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
             values ('order', '{key}', 'Made', '{{}}', '{headers}')"
        )
    };
    // The headers of the second are no object (R009).
    session.batch_execute(&insert("good", "{}")).await.unwrap();
    session.batch_execute(&insert("bad", "[1]")).await.unwrap();
    wait_none(&session, "coalesce(published_at, abandoned_at) is null").await.unwrap();
    fixture.router.sigterm().unwrap();
    fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    session.batch_execute(&insert("late", "{}")).await.unwrap();
    for (key, words) in [
        ("good", ["acknowledged", "offset"]),
        ("bad", ["dead-lettered", "R009"]),
        ("late", ["waiting", "a worker has not sent it yet"]),
    ] {
        let query = "select id::text from outbox where aggregate_id = $1";
        let id: String = session.query_one(query, &[&key]).await.unwrap().get(0);
        let output = fixture.router.command(&["where", &id]).await.unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(words.iter().all(|word| said.contains(word)), "{key}: {said}");
        assert!(!said.contains("slot"), "{key}: {said}");
    }
}
