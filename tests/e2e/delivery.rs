//! What flows when nothing breaks, and what must not flow when one part of Kafka is slow.

use std::time::Duration;

use e2e::Stage;
use testbed::load::Load;

const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_committed_row_becomes_a_record_and_is_then_confirmed() {
    let mut stage = Stage::builder().start().await.unwrap();
    let journal = stage.load(Load { events: Some(200), ..Load::default() }).finished().await;
    stage.note(journal.unwrap());
    stage.wait_delivered(DEADLINE).await.unwrap();
    stage.wait_confirmed(DEADLINE).await.unwrap();
    let verdict = stage.verdict().await.unwrap().clean().unwrap();
    assert_eq!(verdict.duplicates, 0);
}
