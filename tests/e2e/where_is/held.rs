//! Events about which the tables of dead letters and decisions say something.

use e2e::{Fixture, SHORT_DEADLINE, text};
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::wait::eventually;

use super::{insert, where_is};

async fn command(fixture: &Fixture, arguments: &[&str]) -> String {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = [arguments, &["--admin-url", url.as_str()]].concat();
    let output = fixture.router.command(&line).await.unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{line:?}: {out}{err}");
    out
}

const TABLES: [&str; 4] = ["setup", "--apply", "--dead-letters", "--skip-kafka"];

/// A row whose headers are no object.
async fn insert_poison(session: &DatabaseSession, key: &str) -> String {
    let sql = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers) \
               VALUES ('order', $1, 'Poison', '{}', '[7]') RETURNING id::text";
    session.query_one(sql, &[&key]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_dead_letter_and_what_is_held_behind_it_are_followed_to_their_end() {
    let mut fixture = Fixture::builder()
        .set("on_error.bad_row", "dead_letter")
        .set("dead_letters.topic", "")
        .prepare()
        .await
        .unwrap();
    command(&fixture, &TABLES).await;
    fixture.restart().await.unwrap();
    let session = fixture.session().await.unwrap();
    let letter = insert_poison(&session, "a").await;
    let behind = insert(&session, "order", "a").await;
    let beside = insert(&session, "order", "b").await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    let answer = where_is(&fixture, &[&letter]).await;
    answer.expect("dead_lettered", "R009 since ");
    assert_eq!(answer.text("hint"), format!("outbox-router dead-letters show --id {letter}"));
    assert!(answer.text("commit_lsn").contains('/'), "{:#}", answer.json);
    let answer = where_is(&fixture, &[&behind]).await;
    answer.expect("held", "behind the dead letter at ");
    let shown = answer.text("hint").strip_prefix("outbox-router ").unwrap().to_owned();
    let shown = command(&fixture, &shown.split(' ').collect::<Vec<_>>()).await;
    assert!(shown.contains(&letter), "{shown}");
    where_is(&fixture, &[&beside]).await.expect("acknowledged", "at offset ");

    let drop = ["dead-letters", "drop", "--all", "--yes", "--by", "ann", "--reason", "a test"];
    command(&fixture, &drop).await;
    let answer = eventually(SHORT_DEADLINE, "a dropped letter", async || {
        let answer = where_is(&fixture, &[&letter]).await;
        Ok((answer.text("state") == "dropped").then_some(answer))
    });
    answer.await.unwrap().expect("dropped", "given up by ann as ");
    let answer = eventually(SHORT_DEADLINE, "what was behind it", async || {
        let answer = where_is(&fixture, &[&behind]).await;
        Ok((answer.text("state") == "acknowledged").then_some(answer))
    });
    answer.await.unwrap().expect("acknowledged", "at offset ");
}

#[tokio::test]
async fn a_row_that_stops_the_router_waits_until_a_person_skips_it() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    command(&fixture, &TABLES).await;
    fixture.restart().await.unwrap();
    let session = fixture.session().await.unwrap();
    let id = insert_poison(&session, "a").await;
    let is_stopped = |status: &serde_json::Value| text(status, "/state") == Some("failed");
    let status = fixture.router.wait_status("a stop", SHORT_DEADLINE, is_stopped).await.unwrap();
    let answer = where_is(&fixture, &[&id]).await;
    answer.expect("waiting", &id);
    assert_eq!(answer.text("code"), "R009");
    let lsn = text(&status, "/reason/lsn").unwrap();
    let skip = ["skip", "--lsn", lsn, "--id", &id, "--by", "ann", "--reason", "a test", "--yes"];
    command(&fixture, &skip).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let answer = where_is(&fixture, &[&id]).await;
    answer.expect("skipped", "by ann as ");
    assert!(answer.text("reason").ends_with(": a test"), "{:#}", answer.json);
    assert_eq!(answer.text("commit_lsn"), lsn);
}
