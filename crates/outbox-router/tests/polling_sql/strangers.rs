//! Rows with a status that none of the known words is, or with another number than 0 and 1 for a
//! flag: counted, named, and what blocks their keys.

use outbox_router::polling::sql::{RowCount, Stuck, StuckFilter, drop_rows, requeue, stuck};
use relay::{Code, delivered::GivenUp};

use crate::fixture::{Fixture, TABLE, Worker, default_table, ids, polling};

const STATES: &str = ", status text default 'PENDING', last_error text";

/// A word of nobody knows whom; NULL; and the word for failed of a former poller, in a table that
/// has no time of the next attempt.
const ROWS: &str = "insert into outbox (aggregate_id, status) values \
    ('a', 'ERROR'), ('a', 'PENDING'), ('b', null), ('b', 'PENDING'), \
    ('c', 'FAILED'), ('c', 'PENDING'), ('d', 'PENDING'), ('e', 'PUBLISHED'), ('e', 'PENDING')";

async fn found(fixture: &Fixture, worker: &Worker) -> Vec<(String, String)> {
    let session = fixture.server.connect().await.unwrap();
    let table = worker.database.table(TABLE).unwrap();
    let rows = stuck(&session, table, Stuck::Abandoned, &StuckFilter::default()).await.unwrap();
    let rows = rows.unwrap();
    rows.iter().for_each(|row| assert_eq!(row.code(), Some(Code::StatusUnknown)));
    rows.into_iter().map(|row| (row.id, row.error.unwrap())).collect()
}

#[tokio::test]
async fn a_row_of_an_unknown_status_blocks_its_key_and_is_counted_and_named() {
    for is_indexed in [false, true] {
        let fixture = Fixture::new(&default_table(STATES)).await;
        fixture.run(ROWS).await;
        let mut worker = fixture.worker(polling()).await;
        if is_indexed {
            fixture.make_indexes(&worker).await;
            worker.database.describe(TABLE).await.unwrap();
        }
        assert_eq!(ids(&worker.fetch(10).await.rows), ["7", "9"]);
        let survey = worker.database.survey(TABLE).await.unwrap();
        let counted = [survey.pending, survey.abandoned, survey.stranded];
        assert_eq!(counted, [5, 0, 3].map(RowCount::Exactly));
        let said =
            |word: &str| format!("P060: its status is {word}, of which outbox.mark knows nothing");
        let expected = [("1", "'ERROR'"), ("3", "NULL"), ("5", "'FAILED'")];
        let expected = expected.map(|(id, word)| (id.to_owned(), said(word)));
        assert_eq!(found(&fixture, &worker).await, expected);
    }
}

#[tokio::test]
async fn a_person_decides_about_rows_of_an_unknown_status() {
    let fixture = Fixture::new(&default_table(STATES)).await;
    fixture.run(ROWS).await;
    let mut worker = fixture.worker(polling()).await;
    let session = fixture.server.connect().await.unwrap();
    let table = worker.database.table(TABLE).unwrap();
    let mut rows = Vec::new();
    for id in ["1", "3", "5", "7"] {
        rows.push(fixture.row(id).await.row_at());
    }
    assert_eq!(requeue(&session, table, &rows[..2]).await.unwrap(), 2);
    let given_up: Vec<_> =
        rows.into_iter().skip(2).map(|row| GivenUp::by("ann", row).unwrap()).collect();
    assert_eq!(drop_rows(&session, table, &given_up, "dropped by ann").await.unwrap(), 1);
    assert_eq!(found(&fixture, &worker).await, []);
    let states =
        "select string_agg(coalesce(status, '-'), ' ' order by id) from outbox where id < 7";
    let expected = "PENDING PENDING PENDING PENDING PUBLISHED PENDING";
    assert_eq!(fixture.value(states).await, expected);
    assert_eq!(ids(&worker.drain(9).await), ["1", "2", "3", "4", "6", "7", "9"]);
}

/// Values of a poller that knows more than 0 and 1; NULL is pending.
#[tokio::test]
async fn a_number_that_is_no_flag_blocks_its_key_until_a_person_decides() {
    for is_indexed in [false, true] {
        let fixture = Fixture::new(&default_table(", processed smallint default 0")).await;
        fixture
            .run(
                "insert into outbox (aggregate_id, processed) values ('a', 2), ('a', 0), \
                 ('b', -1), ('b', 0), ('c', null), ('d', 1), ('d', 0)",
            )
            .await;
        let mut worker = fixture.worker(polling()).await;
        if is_indexed {
            fixture.make_indexes(&worker).await;
            worker.database.describe(TABLE).await.unwrap();
        }
        assert_eq!(ids(&worker.fetch(10).await.rows), ["5", "7"]);
        let survey = worker.database.survey(TABLE).await.unwrap();
        let counted = [survey.pending, survey.abandoned, survey.stranded];
        assert_eq!(counted, [4, 0, 2].map(RowCount::Exactly));
        let said =
            |word: &str| format!("P060: its status is {word}, of which outbox.mark knows nothing");
        let expected = [("1", "'2'"), ("3", "'-1'")];
        let expected = expected.map(|(id, word)| (id.to_owned(), said(word)));
        assert_eq!(found(&fixture, &worker).await, expected);

        let session = fixture.server.connect().await.unwrap();
        let table = worker.database.table(TABLE).unwrap();
        let pending = fixture.row("1").await.row_at();
        assert_eq!(requeue(&session, table, &[pending]).await.unwrap(), 1);
        let given_up = GivenUp::by("ann", fixture.row("3").await.row_at()).unwrap();
        assert_eq!(drop_rows(&session, table, &[given_up], "dropped by ann").await.unwrap(), 1);
        assert_eq!(found(&fixture, &worker).await, []);
        let flags =
            "select string_agg(coalesce(processed::text, '-'), ' ' order by id) from outbox";
        assert_eq!(fixture.value(flags).await, "0 0 1 0 - 1 0");
        assert_eq!(ids(&worker.drain(9).await), ["1", "2", "4", "5", "7"]);
    }
}
