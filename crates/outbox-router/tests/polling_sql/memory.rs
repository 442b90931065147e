//! A batch has no more bytes than fit into memory.

use std::time::Duration;

use relay::{
    polling::{More, RowOutcome, SettleRequest, ShardSet},
    testing::sent,
};

use crate::fixture::{Fixture, default_table, failed, ids, polling};

const LIMIT: usize = 32 * 1024 * 1024;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

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

/// A text may have a gigabyte at most, and a bytea has two digits for each byte: the server stores
/// what it cannot print.
#[tokio::test]
async fn a_row_that_the_server_cannot_print_is_too_large_and_stops_no_other() {
    for more in ["", ", status text not null default 'PENDING', locked_until timestamptz"] {
        let more = format!("{more}, published_at timestamptz, doc bytea");
        let fixture = Fixture::new(&default_table(&more)).await;
        fixture
            .run(
                "insert into outbox (aggregate_id, doc) values \
                   ('small', 'x'), ('large', convert_to(repeat('x', 560000000), 'UTF8')), \
                   ('other', 'y')",
            )
            .await;
        let printed = fixture.session().await.simple_query("select doc from outbox").await;
        let refused = printed.unwrap_err();
        let said = refused.as_db_error().unwrap().message();
        assert!(said.contains("invalid memory alloc request size"), "{said}");
        let mut worker = fixture.worker(polling()).await;
        let rows = worker.fetch(10).await.rows;
        let seen: Vec<(&str, bool, bool)> = rows
            .iter()
            .map(|row| (&*row.id.0[0], row.bytes > 1 << 30, row.insert.len() < 1_000))
            .collect();
        assert_eq!(seen, [("1", false, true), ("2", true, true)]);
        // As the core does with a row that is larger than limits.row_bytes.
        let failed = vec![failed(&rows[1], 1, RowOutcome::Retry(DAY))];
        let request = SettleRequest { published: vec![sent(&rows[0])], failed, ..worker.nothing() };
        worker.settle(request).await;
        let passed_over = [Some("large".into())];
        let others = worker.fetch_of(ShardSet::ALL, 10, &passed_over).await.rows;
        assert_eq!(ids(&others), ["3"]);
    }
}
