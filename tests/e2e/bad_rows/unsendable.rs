//! A row that PostgreSQL stores and cannot print: nothing behind it comes until a person lets the
//! slot pass its transaction.

use e2e::{Fixture, SHORT_DEADLINE, text};
use serde_json::{Value, json};
use testbed::postgres::{DATABASE, SUPERUSER};

use super::{GOOD, RECHECK_DEADLINE, insert};

/// A type whose values can be stored, and never printed.
const UNPRINTABLE: &str = "CREATE DOMAIN odd AS text; ALTER TABLE outbox ADD odd odd; \
     UPDATE pg_type SET typoutput = 'trigger_out'::regproc WHERE typname = 'odd'";

#[tokio::test]
async fn a_transaction_that_the_server_cannot_send_is_passed_and_its_other_rows_are_sent() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(UNPRINTABLE).await.unwrap();
    let mut expected = vec![insert(&session, GOOD).await];
    let of_one = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, odd) \
         SELECT 'order', 'order-1', 'Placed', v.odd FROM (VALUES (NULL), ('x'), (NULL)) v (odd) \
         RETURNING id::text, odd IS NULL";
    let mut odd = String::new();
    for row in session.query(of_one, &[]).await.unwrap() {
        match row.get(1) {
            true => expected.push(row.get(0)),
            false => odd = row.get(0),
        }
    }
    expected.push(insert(&session, GOOD).await);
    let status = fixture
        .router
        .wait_status("P008 with its transaction", RECHECK_DEADLINE, |status| {
            text(status, "/reason/code") == Some("P008")
                && text(status, "/reason/hint").is_some_and(|hint| hint.contains("--transaction"))
        })
        .await
        .unwrap();
    let lsn = text(&status, "/reason/lsn").unwrap().to_owned();
    let hint = text(&status, "/reason/hint").unwrap();
    assert!(hint.contains(&format!("outbox-router skip --lsn {lsn} --transaction")), "{hint}");
    let message = text(&status, "/reason/message").unwrap();
    assert!(message.contains("PostgreSQL cannot send a row of the transaction"), "{message}");

    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let typed = async |fixture: &Fixture, line: &[&str]| {
        let line = [line, &["--yes", "--json", "--admin-url", &url]].concat();
        let line: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
        fixture.json_command(&line).await.unwrap()
    };
    let (exit, passed, said) =
        typed(&fixture, &["skip", "--lsn", &lsn, "--transaction", "--reason", "a test"]).await;
    assert_eq!(exit, Some(0), "{passed:#}{said}");
    // The row before it was delivered, unless no session came to begin.
    let before = passed["before"].as_u64().unwrap();
    let named = passed["left_out"]["public.outbox"].as_array().unwrap();
    assert!(before <= 1 && named.len() == 3 + usize::try_from(before).unwrap(), "{passed:#}");
    // Failed, the router tries again after a while, and finds the gap then.
    let stops = |status: &Value| text(status, "/reason/code") == Some("P014");
    fixture.router.wait_status("the gap", RECHECK_DEADLINE, stops).await.unwrap();
    fixture.accept().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let requeue = ["dead-letters", "requeue", "--left-out", "--code", "P008"];
    let (exit, sent, said) = typed(&fixture, &requeue).await;
    assert_eq!((exit, &sent["changed"]), (Some(1), &json!(2 + before)), "{sent:#}{said}");
    let drop = ["dead-letters", "drop", "--left-out", "--id", &odd];
    let (exit, dropped, said) = typed(&fixture, &drop).await;
    assert_eq!((exit, &dropped["changed"]), (Some(0), &json!(1)), "{dropped:#}{said}");
    let (delivered, _) = fixture.delivered_ids().await.unwrap();
    assert_eq!(delivered, expected.into_iter().collect());
}
