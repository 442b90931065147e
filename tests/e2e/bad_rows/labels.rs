//! Words of `where`, and labels of an enum that it names, which are renamed or added: rows that are
//! events must not be left out, and removed as such.

use e2e::{Fixture, FixtureBuilder, ROLE, SHORT_DEADLINE};
use serde_json::json;
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

use super::{GOOD, RECHECK_DEADLINE, expect_ids, expect_reported, ids, insert};

fn builder(kind: &str, words: &[&str]) -> FixtureBuilder {
    Fixture::builder()
        .partitions(1)
        .set_outbox("where.column", "status")
        .set_outbox(&format!("where.{kind}"), json!(words))
        .set("retention.mode", "delete")
        .set("retention.keep", "0s")
        .set("retention.interval", "1s")
}

fn topic(fixture: &Fixture) -> String {
    fixture.topics.first().unwrap().clone()
}

/// A router that streams and removes rows; each is `pending`, by default.
async fn started(builder: FixtureBuilder) -> (Fixture, DatabaseSession) {
    started_with(builder, "st", "CREATE TYPE st AS ENUM ('pending', 'done')").await
}

/// The same where the status has another type, and what creates it.
async fn started_with(
    builder: FixtureBuilder,
    kind: &str,
    create: &str,
) -> (Fixture, DatabaseSession) {
    let mut fixture = builder.prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let status = format!(
        "{create}; ALTER TABLE outbox ADD status {kind}; \
         CREATE INDEX ON outbox (created_at); GRANT SELECT, DELETE ON outbox TO {ROLE}"
    );
    session.batch_execute(&status).await.unwrap();
    fixture.start_accepted().await.unwrap();
    (fixture, session)
}

/// Inserts a row whose status has this label.
async fn insert_as(session: &DatabaseSession, label: &str) -> String {
    let default = format!("ALTER TABLE outbox ALTER status SET DEFAULT '{label}'");
    session.batch_execute(&default).await.unwrap();
    insert(session, GOOD).await
}

async fn wait_left(session: &DatabaseSession, rows: i64) {
    eventually(RECHECK_DEADLINE, format!("{rows} rows in the outbox"), async || {
        let count = session.query_one("SELECT count(*) FROM outbox", &[]).await?;
        Ok((count.get::<_, i64>(0) == rows).then_some(()))
    })
    .await
    .unwrap();
}

/// The list names these words from the next start on.
async fn restart_with(fixture: &mut Fixture, words: &[&str]) {
    fixture.kill_router().await.unwrap();
    fixture.config.set_outbox("where.in", json!(words));
    fixture.rewrite_config().unwrap();
    fixture.router.start_again().unwrap();
}

#[tokio::test]
async fn rows_with_a_label_that_is_renamed_while_the_router_runs_are_not_lost() {
    let (mut fixture, session) = started(builder("in", &["pending"])).await;
    let mut sent = vec![insert_as(&session, "pending").await];
    insert_as(&session, "done").await;
    expect_ids(&fixture, &topic(&fixture), &sent).await;
    wait_left(&session, 0).await;

    session.batch_execute("ALTER TYPE st RENAME VALUE 'pending' TO 'PENDING'").await.unwrap();
    let renamed = insert_as(&session, "PENDING").await;
    let behind = fixture.postgres.current_wal_lsn().await.unwrap();
    expect_reported(&mut fixture.router, "failed", "R008", RECHECK_DEADLINE).await;
    wait_left(&session, 1).await;
    let confirmed = fixture.confirmed().await.unwrap();
    assert!(confirmed < behind, "{confirmed} is past the row, which ends before {behind}");

    restart_with(&mut fixture, &["pending", "PENDING"]).await;
    expect_reported(&mut fixture.router, "failed", "R008", RECHECK_DEADLINE).await;
    assert_eq!(ids(&fixture, &topic(&fixture)).await, sent);
    session.batch_execute("ALTER TYPE st ADD VALUE 'pending'").await.unwrap();
    fixture.router.wait_state("streaming", RECHECK_DEADLINE).await.unwrap();
    sent.extend([renamed, insert_as(&session, "pending").await]);
    expect_ids(&fixture, &topic(&fixture), &sent).await;
    wait_left(&session, 0).await;
}

/// The table is followed by its OID, and so are its labels.
#[tokio::test]
async fn rows_of_a_table_that_was_renamed_before_its_label_are_not_lost() {
    let (mut fixture, session) = started(builder("in", &["pending"])).await;
    let sent = vec![insert_as(&session, "pending").await];
    expect_ids(&fixture, &topic(&fixture), &sent).await;
    wait_left(&session, 0).await;
    fixture.kill_router().await.unwrap();
    session.batch_execute("ALTER TABLE outbox RENAME TO events").await.unwrap();
    fixture.router.start_again().unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    session.batch_execute("ALTER TYPE st RENAME VALUE 'pending' TO 'PENDING'").await.unwrap();
    let insert = "INSERT INTO events (aggregate_type, aggregate_id, event_type, status) \
                  VALUES ('order', 'order-1', 'Placed', 'PENDING')";
    session.batch_execute(insert).await.unwrap();
    expect_reported(&mut fixture.router, "failed", "R008", RECHECK_DEADLINE).await;
}

#[tokio::test]
async fn rows_from_before_a_label_was_renamed_are_not_lost() {
    let (mut fixture, session) = started(builder("in", &["pending"])).await;
    let mut sent = vec![insert_as(&session, "pending").await];
    expect_ids(&fixture, &topic(&fixture), &sent).await;
    wait_left(&session, 0).await;

    fixture.kill_router().await.unwrap();
    let former = insert_as(&session, "pending").await;
    session.batch_execute("ALTER TYPE st RENAME VALUE 'pending' TO 'PENDING'").await.unwrap();
    let renamed = insert_as(&session, "PENDING").await;
    fixture.config.set_outbox("where.in", json!(["PENDING"]));
    fixture.rewrite_config().unwrap();
    fixture.router.start_again().unwrap();
    let status = expect_reported(&mut fixture.router, "failed", "R008", RECHECK_DEADLINE).await;
    let message = status["reason"]["message"].as_str().unwrap();
    assert!(message.contains(&former) && status["reason"]["lsn"].is_string(), "{status}");
    wait_left(&session, 2).await;
    assert_eq!(ids(&fixture, &topic(&fixture)).await, sent);

    restart_with(&mut fixture, &["PENDING", "pending"]).await;
    expect_reported(&mut fixture.router, "failed", "R008", RECHECK_DEADLINE).await;
    session.batch_execute("ALTER TYPE st ADD VALUE 'pending'").await.unwrap();
    fixture.router.wait_state("streaming", RECHECK_DEADLINE).await.unwrap();
    sent.extend([former, renamed]);
    expect_ids(&fixture, &topic(&fixture), &sent).await;
    wait_left(&session, 0).await;
}

#[tokio::test]
async fn a_label_that_is_added_while_the_router_runs_needs_no_person() {
    for (kind, word) in [("in", "pending"), ("not_in", "done")] {
        let (mut fixture, session) = started(builder(kind, &[word])).await;
        let mut sent = vec![insert_as(&session, "pending").await];
        expect_ids(&fixture, &topic(&fixture), &sent).await;
        // The session ends at the new label: what is not acknowledged by then comes again.
        fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
        session.batch_execute("ALTER TYPE st ADD VALUE 'urgent'").await.unwrap();
        let added = insert_as(&session, "urgent").await;
        sent.extend((kind == "not_in").then_some(added));
        sent.push(insert_as(&session, "pending").await);
        expect_ids(&fixture, &topic(&fixture), &sent).await;
        wait_left(&session, 0).await;
        fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
        assert!(!fixture.router.log().contains("\"failed\""), "{}", fixture.router.log());
    }
}

#[tokio::test]
async fn rows_of_a_domain_over_an_enum_whose_label_is_renamed_are_not_lost() {
    let create = "CREATE TYPE kinds AS ENUM ('pending', 'done'); CREATE DOMAIN st AS kinds";
    let (mut fixture, session) = started_with(builder("in", &["pending"]), "st", create).await;
    let sent = vec![insert_as(&session, "pending").await];
    expect_ids(&fixture, &topic(&fixture), &sent).await;
    wait_left(&session, 0).await;
    session.batch_execute("ALTER TYPE kinds RENAME VALUE 'pending' TO 'PENDING'").await.unwrap();
    insert_as(&session, "PENDING").await;
    expect_reported(&mut fixture.router, "failed", "R008", RECHECK_DEADLINE).await;
    wait_left(&session, 1).await;
}

/// A migration, after which the words are no values of the column, and the configuration is as it
/// was.
#[tokio::test]
async fn rows_of_a_column_that_becomes_an_enum_while_the_router_runs_are_not_lost() {
    for (kind, create) in [("text", ""), ("st", "CREATE DOMAIN st AS text")] {
        let (mut fixture, session) = started_with(builder("in", &["pending"]), kind, create).await;
        let sent = vec![insert_as(&session, "pending").await];
        expect_ids(&fixture, &topic(&fixture), &sent).await;
        wait_left(&session, 0).await;
        let upgrade = "CREATE TYPE kinds AS ENUM ('PENDING', 'DONE'); \
             ALTER TABLE outbox ALTER status DROP DEFAULT, \
               ALTER status TYPE kinds USING upper(status::text)::kinds";
        session.batch_execute(upgrade).await.unwrap();
        insert_as(&session, "PENDING").await;
        expect_reported(&mut fixture.router, "failed", "R008", RECHECK_DEADLINE).await;
        wait_left(&session, 1).await;
        assert_eq!(ids(&fixture, &topic(&fixture)).await, sent);
    }
}

/// The stream does not say how many blanks, or zeros, the values of a domain have at their end.
#[tokio::test]
async fn words_fit_the_values_of_a_domain_whatever_it_was_declared_with() {
    for (domain, words, fits, others) in [
        ("char(10)", ["pending", "done"], "pending", "failed"),
        ("numeric(6, 2)", ["1.5", "2"], "2", "2.5"),
    ] {
        let create = format!("CREATE DOMAIN st AS {domain}");
        let (fixture, session) = started_with(builder("in", &words), "st", &create).await;
        insert_as(&session, others).await;
        let sent = vec![insert_as(&session, fits).await];
        expect_ids(&fixture, &topic(&fixture), &sent).await;
        wait_left(&session, 0).await;
        assert_eq!(ids(&fixture, &topic(&fixture)).await, sent);
    }
}
