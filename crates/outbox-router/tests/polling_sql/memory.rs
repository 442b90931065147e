//! A batch has no more bytes than fit into memory.

use relay::polling::More;

use crate::fixture::{Fixture, default_table, ids, polling};

const LIMIT: usize = 32 * 1024 * 1024;

async fn check(more: &str, rows: usize) {
    let fixture = Fixture::new(&default_table(more)).await;
    // Such values are not compressed.
    fixture.run("alter table outbox alter column payload set storage external").await;
    let insert =
        "insert into outbox (aggregate_id, payload) select i, to_jsonb(repeat('x', 5242880))";
    fixture.run(&format!("{insert} from generate_series(1, {rows}) i")).await;
    let mut worker = fixture.worker(polling()).await;
    let (mut all, mut fetches) = (Vec::new(), 0);
    loop {
        let fetched = worker.fetch(1_000).await;
        fetches += 1;
        let bytes: usize = fetched.rows.iter().map(|row| row.insert.len()).sum();
        assert!(bytes < LIMIT + 6 * 1024 * 1024, "{bytes}");
        assert_eq!(worker.publish(&fetched.rows).await, fetched.rows.len());
        all.extend(ids(&fetched.rows));
        if fetched.more == More::No {
            break;
        }
        assert!(bytes >= LIMIT, "{bytes}");
    }
    let expected: Vec<String> = (1..=rows).map(|id| id.to_string()).collect();
    assert_eq!(all, expected);
    assert!(fetches >= rows / 7, "{fetches}");
}

#[tokio::test]
async fn large_rows_come_in_several_fetches() {
    check(", published_at timestamptz", 100).await;
}

#[tokio::test]
async fn no_more_rows_are_taken_than_are_read() {
    check(", status text default 'pending', locked_until timestamptz", 30).await;
}

#[tokio::test]
async fn a_compressed_value_counts_as_what_it_becomes() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    let rows = "insert into outbox (aggregate_id, payload) \
        select i, to_jsonb(repeat('x', 5000000)) from generate_series(1, 20) i";
    fixture.run(rows).await;
    let mut worker = fixture.worker(polling()).await;
    let fetched = worker.fetch(1_000).await;
    assert_eq!((fetched.rows.len(), fetched.more), (7, More::Maybe));
}
