//! What cannot be compared is refused before anything is changed.

use e2e::{Fixture, SHORT_DEADLINE, SLOT};
use testbed::postgres::{DATABASE, LENIENT, PgBouncer, SUPERUSER, ShutdownMode};

use super::{drop_slot, recover, streaming, write};

#[tokio::test]
async fn without_an_index_and_without_a_gap_nothing_is_changed() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    session.batch_execute("DROP INDEX outbox_created_at_idx").await.unwrap();
    let (exit, _, _) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "nothing is open");
    write(&fixture, &session, 50).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 50).await;
    // The router's own role reads no table.
    let own = fixture.router.command(&["recover", "--yes"]).await.unwrap();
    let said = String::from_utf8_lossy(&own.stderr).into_owned();
    assert_eq!(own.status.code(), Some(1), "{said}");
    assert!(said.contains("grant select on table \"public\".\"outbox\" to"), "{said}");
    // Which rows belong to the gap, their transactions say, so no index is needed.
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_none());
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 50, "{answer:#}");
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap().0, 0);
}

#[tokio::test]
async fn what_a_role_lacks_is_said_at_once_with_the_statements_that_grant_it() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    let role = "CREATE ROLE helper LOGIN REPLICATION; GRANT SELECT ON outbox TO helper; \
         CREATE SCHEMA outbox_router; CREATE TABLE outbox_router.republication (id bigint)";
    session.batch_execute(role).await.unwrap();
    write(&fixture, &session, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 30).await;
    let url = fixture.postgres.url("helper", DATABASE);
    let line = |more: &str| -> Vec<String> {
        ["recover", "--yes", "--json", "--by", "ann", more, "--admin-url", &url]
            .into_iter()
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let (exit, answer, said) = fixture.json_command(&line("--dry-run")).await.unwrap();
    assert_eq!(exit, Some(1), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 30, "{answer:#}");
    let grants = "grant usage on schema outbox_router to helper; \
                  grant select, insert, update on outbox_router.republication to helper";
    assert!(said.contains(grants), "{said}");
    let (exit, _, said) = fixture.json_command(&line("")).await.unwrap();
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains(grants), "{said}");
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_none());

    // The table as the command makes it.
    session.batch_execute("DROP SCHEMA outbox_router CASCADE").await.unwrap();
    let (exit, _, said) = fixture.json_command(&line("")).await.unwrap();
    assert_eq!(exit, Some(1), "{said}");
    let (_, grant) = said.split_once("hint: ").unwrap();
    let (grant, _) = grant.split_once(" (as the owner").unwrap();
    session.batch_execute(grant).await.unwrap();
    let revoke = format!("REVOKE TEMPORARY ON DATABASE {DATABASE} FROM public");
    session.batch_execute(&revoke).await.unwrap();
    let (exit, _, said) = fixture.json_command(&line("")).await.unwrap();
    assert_eq!(exit, Some(1), "{said}");
    let grant = format!("grant temporary on database {DATABASE} to helper");
    assert!(said.contains(&grant), "{said}");
    session.batch_execute(&grant).await.unwrap();
    let (exit, answer, said) = fixture.json_command(&line("")).await.unwrap();
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 30, "{answer:#}");
    let (exit, answer, said) = fixture.json_command(&line("")).await.unwrap();
    assert_eq!((exit, &answer["gaps"], said.as_str()), (Some(0), &serde_json::json!([]), ""));
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
}

#[tokio::test]
async fn records_that_are_deleted_already_need_a_decision() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 60).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 40).await;
    let topic = fixture.topics.first().unwrap().clone();
    // Records of that age may be deleted.
    fixture.kafka.set_topic(&topic, &[("retention.ms", "60000")]).await.unwrap();
    let ends = fixture.end_offsets_of(&topic, &[0, 1, 2]).await.unwrap();
    for (partition, end) in (0..).zip(ends) {
        fixture.kafka.delete_records(&topic, partition, end / 2).await.unwrap();
    }
    let (exit, _, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("may be deleted already") && said.contains("recover --all"), "{said}");
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_none());
    let (exit, answer, said) = recover(&fixture, &["--all"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    let sent = answer["tables"][0]["sent"].as_u64().unwrap();
    assert!((40..=100).contains(&sent), "{answer:#}");
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
}

#[tokio::test]
async fn ids_that_are_no_uuid_need_a_word_and_are_compared_as_they_are_written() {
    let builder = Fixture::builder().set("recover.order_by", "created_at, id");
    let (mut fixture, session) = streaming(builder).await;
    write(&fixture, &session, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    let alter = "ALTER TABLE outbox ALTER id DROP DEFAULT, ALTER id TYPE char(40), \
         ALTER id SET DEFAULT gen_random_uuid()::text";
    session.batch_execute(alter).await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 30).await;
    let (exit, _, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P039") && said.contains("recover --ids-unique"), "{said}");
    let (exit, answer, said) = recover(&fixture, &["--ids-unique"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    // The ids of the first twenty have blanks behind them now, which their records have not.
    assert_eq!(answer["tables"][0]["missing"], 50, "{answer:#}");
    drop_slot(&session).await;
    fixture.router.start_again().unwrap();
    super::wait_failed(&mut fixture, "P010").await;
    // Nothing was acknowledged since, so the beginning of this gap has no time, and needs none.
    let (exit, answer, said) = recover(&fixture, &["--ids-unique"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 0, "{answer:#}");
}

/// Its server connections outlive the command, and would keep its lock.
#[tokio::test]
async fn nothing_is_locked_behind_a_pooler_that_passes_no_replication_on() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 5).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    let pooler =
        PgBouncer::start_with(fixture.postgres.port(), SUPERUSER, &[LENIENT]).await.unwrap();
    let url = format!("postgres://{SUPERUSER}@127.0.0.1:{}/{DATABASE}", pooler.port());
    let pooled = fixture.router.command(&["recover", "--yes", "--admin-url", &url]).await.unwrap();
    let said = String::from_utf8_lossy(&pooled.stderr);
    assert_eq!(pooled.status.code(), Some(1), "{said}");
    assert!(said.contains("P002") && !said.contains("at work in process"), "{said}");
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    let locks: i64 = session.query_one(locks, &[]).await.unwrap().get(0);
    assert_eq!(locks, 0, "{said}");
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
}

/// A URL that leads to a copy, as in staging.
#[tokio::test]
async fn a_copy_of_the_database_does_not_get_the_pipeline_of_a_router_that_streams() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 3).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let copy = Fixture::builder().prepare().await.unwrap();
    let url = format!("postgres.url={}", copy.postgres.url(SUPERUSER, DATABASE));
    let lines =
        [&["recover", "--dry-run"][..], &["recover", "--yes", "--drop-slot"], &["accept", "--yes"]];
    let typed = async |fixture: &Fixture, line: &[&str]| {
        let output = fixture.router.command(&[line, &["--set", &url]].concat()).await.unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let slot = copy.confirmed().await.unwrap();
    for line in lines {
        let (exit, said) = typed(&fixture, line).await;
        assert_eq!(exit, Some(1), "{line:?}: {said}");
        assert!(
            said.contains("P015: ") && said.contains("not from this server"),
            "{line:?}: {said}"
        );
    }
    assert_eq!(copy.confirmed().await.unwrap(), slot);
    write(&fixture, &session, 3).await;
    fixture.wait_delivered(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    let (_, said) = typed(&fixture, lines[0]).await;
    assert!(!said.contains("not from this server"), "no router streams: {said}");
}

/// A copy of the server, which has its system identifier, its timeline and all rows up to then.
#[tokio::test]
async fn a_copy_of_the_server_is_not_taken_for_it() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    fixture.postgres.stop(ShutdownMode::Fast, SHORT_DEADLINE).await.unwrap();
    let mut copy = fixture.postgres.copied(&[]).await.unwrap();
    fixture.postgres.start_again().await.unwrap();
    copy.start_again().await.unwrap();
    let session = fixture.session().await.unwrap();
    drop_slot(&session).await;
    drop_slot(&copy.connect_to(DATABASE).await.unwrap()).await;
    write(&fixture, &session, 4).await;
    let url = copy.url(SUPERUSER, DATABASE);
    let line = ["recover", "--yes", "--json", "--by", "ann", "--admin-url", &url];
    let line = line.map(str::to_owned);
    let (exit, answer, said) = fixture.json_command(&line).await.unwrap();
    assert_eq!(exit, Some(1), "{answer:#}{said}");
    assert!(said.contains("P013: this connection is to the server at "), "{said}");
    assert!(copy.slot(SLOT).await.unwrap().is_none(), "nothing was made there");
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 4, "{answer:#}");
}
