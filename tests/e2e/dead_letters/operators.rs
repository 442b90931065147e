//! Two people who decide about the same dead letters at the same moment.

use std::collections::BTreeMap;

use e2e::{Fixture, SHORT_DEADLINE};
use serde_json::Value;
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

use super::bulk::{create_functions, write_transactions};
use super::{LONG_DEADLINE, builder, dead_letters, open, started, states, wait_closed, wait_open};

const LETTERS: i32 = 30;

/// Poisons these many aggregates, one row each.
async fn write_poisons(session: &DatabaseSession) {
    let sql = format!("SELECT testbed.poison(n) FROM generate_series(0, {LETTERS} - 1) n");
    session.batch_execute(&sql).await.unwrap();
}

/// Decides about the letters of some keys, and returns how many that changed.
async fn decide(fixture: &Fixture, verb: &str, by: &str, keys: std::ops::Range<i32>) -> i64 {
    let keys: Vec<String> = keys.map(|n| format!("order-{n}")).collect();
    let mut line = vec![verb, "--yes", "--json", "--by", by, "--reason", "at once"];
    for key in &keys {
        line.extend(["--key", key.as_str()]);
    }
    let (code, told) = dead_letters(fixture, &line).await;
    assert_eq!(code, Some(0), "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    let number = |name: &str| told.get(name).and_then(Value::as_i64).unwrap();
    assert_eq!(number("selected"), number("changed") + number("decided_meanwhile"), "{told}");
    number("changed")
}

/// Lets two processes decide about overlapping letters. Both have read them, and wait for a row of
/// the overlap, before either can decide.
async fn decide_at_once(fixture: &Fixture, session: &DatabaseSession) -> [i64; 2] {
    let mut blocker = fixture.session().await.unwrap();
    let transaction = blocker.transaction().await.unwrap();
    let lock = "SELECT FROM outbox_router.held WHERE key = 'order-15' \
                AND code IS NOT NULL AND state = 'held' FOR UPDATE";
    assert_eq!(transaction.execute(lock, &[]).await.unwrap(), 1);
    let release = async {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                   AND application_name LIKE '%dead-letters'";
        eventually(SHORT_DEADLINE, "two commands that wait", async || {
            Ok((session.query_one(sql, &[]).await?.get::<_, i64>(0) == 2).then_some(()))
        })
        .await
        .unwrap();
        transaction.rollback().await.unwrap();
    };
    let (requeued, dropped, ()) = tokio::join!(
        decide(fixture, "requeue", "ann", 0..20),
        decide(fixture, "drop", "bob", 10..LETTERS),
        release
    );
    [requeued, dropped]
}

/// How often each action was decided, and about how many letters.
async fn audited(session: &DatabaseSession) -> BTreeMap<String, (i64, i64)> {
    let sql = "SELECT action || ' by ' || split_part(decided_by, ' ', 1), count(*), \
               count(DISTINCT (commit_lsn, event_index)) FROM outbox_router.decision GROUP BY 1";
    let rows = session.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect()
}

#[tokio::test]
async fn of_two_who_decide_at_once_one_wins_each_letter_and_each_decision_is_audited_once() {
    const ROUNDS: usize = 4;
    let (mut fixture, session) = started(builder()).await;
    create_functions(&session).await;
    let mut decided = [0, 0];
    for round in 0..ROUNDS {
        write_poisons(&session).await;
        write_transactions(&session, 2, LETTERS, 1).await;
        wait_open(&session, (i64::from(LETTERS) * 3, i64::from(LETTERS))).await;
        // The decisions are made while no router runs.
        fixture.kill_router().await.unwrap();
        let [requeued, dropped] = decide_at_once(&fixture, &session).await;
        println!("round {round}: {requeued} requeued, {dropped} dropped");
        assert_eq!(requeued + dropped, i64::from(LETTERS), "each letter, once");
        assert!(requeued >= 10 && dropped >= 10, "what only one of them has selected");
        decided[0] += requeued;
        decided[1] += dropped;
        let states = states(&session).await;
        assert_eq!(
            [states["requeued"], states["dropping"]],
            [requeued, dropped],
            "as both were told"
        );

        // The router carries that out. Without the cause, what is requeued is delivered.
        fixture.config.set_outbox("columns.headers", serde_json::json!([]));
        fixture.rewrite_config().unwrap();
        fixture.restart().await.unwrap();
        wait_closed(&session).await;
        if round + 1 < ROUNDS {
            // Else the slot sends rounds again, and no stream repeats what was dead letters.
            fixture.wait_confirmed(LONG_DEADLINE).await.unwrap();
            fixture.kill_router().await.unwrap();
            fixture.config.set_outbox("columns.headers", "headers");
            fixture.rewrite_config().unwrap();
            fixture.restart().await.unwrap();
        }
    }
    let [requeued, dropped] = decided;
    let expected = [
        ("drop by bob".to_owned(), (dropped, dropped)),
        ("requeue by ann".to_owned(), (requeued, requeued)),
    ];
    assert_eq!(audited(&session).await, expected.into());
    fixture.wait_confirmed(LONG_DEADLINE).await.unwrap();
    let result = fixture.check().await.unwrap();
    println!("{result}");
    assert_eq!(i64::try_from(result.lost.count()).unwrap(), dropped, "what was dropped");
    assert_eq!(result.examples().len(), result.lost.examples().len(), "{:?}", result.examples());
    assert_eq!(states(&session).await["dropped"], dropped);
    assert_eq!(open(&session).await, (0, 0));
}
