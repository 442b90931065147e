//! A server that was restored with its slot to an earlier state: what it commits at positions that
//! the witness covers is in no topic.

use e2e::{Fixture, SHORT_DEADLINE};

use super::super::{COLUMNS, stop};
use super::{begun_with, configure, run, switch, switched};
use crate::gaps::away::{
    ids_in_kafka,
    restored::{older_copy, write_past_what_kafka_has},
};

#[tokio::test]
async fn rows_of_a_restored_server_at_positions_of_the_witness_are_not_marked() {
    let (mut fixture, of) = begun_with(Fixture::builder().track_commits(), COLUMNS).await;
    stop(&mut fixture.router).await;
    switched(&fixture, "stream").await;
    configure(&mut fixture, &of.stream);
    fixture.router.start_again().unwrap();
    fixture.router.wait_state("streaming", SHORT_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();

    let (mut fixture, _) = older_copy(fixture).await.put_back();
    fixture.postgres.start_again().await.unwrap();
    write_past_what_kafka_has(&mut fixture).await;
    let session = fixture.session().await.unwrap();
    let pending = async || -> i64 {
        let query = "select count(*) from outbox where published_at is null";
        session.query_one(query, &[]).await.unwrap().get(0)
    };
    let before = pending().await;
    assert!(before > 0);
    configure(&mut fixture, &of.polling);
    let (exit, said) = switch(&fixture, "polling", "--yes").await;
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("P015") && said.contains("configuration of the stream"), "{said}");
    assert_eq!(pending().await, before);

    // What the hint says.
    configure(&mut fixture, &of.stream);
    fixture.router.start_again().unwrap();
    fixture.router.wait_state("failed", SHORT_DEADLINE).await.unwrap();
    stop(&mut fixture.router).await;
    // The table has no index for its times, and a restored server gives ids again.
    let recover = ["recover", "--yes", "--drop-slot", "--slow", "--since", "2020-01-01"];
    let (exit, said) = run(&fixture, &recover).await;
    assert_eq!(exit, Some(0), "{said}");
    configure(&mut fixture, &of.polling);
    switched(&fixture, "polling").await;
    assert_eq!(pending().await, 0);
    let there = ids_in_kafka(&fixture).await;
    for row in session.query("select id::text from outbox", &[]).await.unwrap() {
        let id: String = row.get(0);
        assert!(there.contains(&id), "{id} is marked, and in no topic");
    }
}
