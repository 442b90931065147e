//! What cannot be compared is refused before anything is changed.

use e2e::{Fixture, SHORT_DEADLINE, SLOT};

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
    let (exit, _, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P039") && said.contains("create index concurrently on"), "{said}");
    assert!(fixture.postgres.slot(SLOT).await.unwrap().is_none());
    let (exit, answer, said) = recover(&fixture, &["--slow"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 50, "{answer:#}");
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap().0, 0);
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
    assert_eq!(answer["tables"][0]["sent"], 100, "{answer:#}");
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
    // Nothing was acknowledged since, so the beginning of this gap has no time.
    let again = ["--ids-unique", "--since", "5m"];
    let (exit, answer, said) = recover(&fixture, &again).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 0, "{answer:#}");
}
