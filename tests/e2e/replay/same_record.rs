//! A record that is sent again is the record of the stream.

use std::collections::BTreeMap;

use e2e::{Fixture, SHORT_DEADLINE};
use testbed::reader::ConsumedRecord;

use super::{MARKER, aggregate_type, replay};

/// Values whose texts depend on the session, or are escaped by COPY.
const ROWS: &str = r#"
    ALTER TABLE outbox ADD COLUMN amount numeric(12,3), ADD COLUMN raw bytea,
        ADD COLUMN at timestamptz, ADD COLUMN took interval, ADD COLUMN ratio float8,
        ADD COLUMN tags text[], ADD COLUMN note text;
    INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload, headers, created_at,
        amount, raw, at, took, ratio, tags, note)
    SELECT 'TYPE', E'k\\ey\t' || n % 7, CASE n % 3 WHEN 0 THEN E'a\nb' ELSE 'Changed' END,
        CASE n % 5 WHEN 0 THEN NULL ELSE jsonb_build_object('n', n, 'text', E'\\N\t\r\n\b\f\v "ü"') END,
        CASE n % 2 WHEN 0 THEN '{"tenant": "ä\\b"}'::jsonb END,
        '2026-01-01T00:00:00.123456Z'::timestamptz + n * interval '1 min',
        n / 3.0, decode(repeat('5c00ff0a', n % 4), 'hex'),
        '2026-06-01 12:00:00.5+02'::timestamptz + n * interval '1 h', n * interval '100 min',
        1.0 / n, ARRAY['a,b', E'c\\d', NULL, 'N'], CASE n % 4 WHEN 0 THEN '\N' WHEN 1 THEN '' END
    FROM generate_series(1, 300) n"#;

const HEADERS: &str = "extra_headers = [{ name = 'amount', column = 'amount' }, \
    { name = 'raw', column = 'raw' }, { name = 'at', column = 'at' }, \
    { name = 'took', column = 'took' }, { name = 'ratio', column = 'ratio' }, \
    { name = 'tags', column = 'tags' }, { name = 'note', column = 'note' }]";

type Content = (i32, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>, Option<i64>);

/// By id: partition, key, value, headers and time.
fn by_id<'r>(records: impl Iterator<Item = &'r ConsumedRecord>) -> BTreeMap<String, Content> {
    let content = |record: &ConsumedRecord| {
        let ConsumedRecord { partition, key, value, headers, timestamp, .. } = record.clone();
        (record.header("id").unwrap().to_owned(), (partition, key, value, headers, timestamp))
    };
    records.map(content).collect()
}

async fn check(timestamp: &str, commit_times: &str) {
    let mut fixture = Fixture::builder()
        .set_outbox("timestamp", timestamp)
        .postgres("track_commit_timestamp", commit_times)
        .prepare()
        .await
        .unwrap();
    fixture.router.set_config(&format!("{}\n{HEADERS}\n", fixture.config)).unwrap();
    let session = fixture.session().await.unwrap();
    session.batch_execute(&ROWS.replace("TYPE", aggregate_type(&fixture))).await.unwrap();
    fixture.restart().await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let first = fixture.seen().await.unwrap();
    assert_eq!(first.len(), 300);

    let (exit, answer, errors) = replay(&fixture, &["--all"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{errors}");
    let seen = fixture.seen().await.unwrap();
    let (again, originals): (Vec<_>, Vec<_>) =
        seen.iter().partition(|record| record.header(MARKER) == Some("1"));
    assert_eq!((again.len(), originals.len()), (300, 300));
    let mut again = by_id(again.into_iter());
    for (_, _, _, headers, _) in again.values_mut() {
        assert_eq!(headers.pop(), Some((MARKER.to_owned(), Some(b"1".to_vec()))), "the last one");
    }
    let originals = by_id(originals.into_iter());
    assert_eq!(again, originals);
    assert_eq!(originals.len(), 300);

    let (exit, answer, errors) = replay(&fixture, &["--all", "--no-marker"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{errors}");
    let seen = fixture.seen().await.unwrap();
    let same = seen.iter().filter(|record| record.header(MARKER).is_none());
    assert_eq!(same.clone().count(), 600);
    assert_eq!(by_id(same), originals);
}

#[tokio::test]
async fn a_replayed_record_is_the_original_byte_for_byte_with_the_time_of_a_column() {
    check("column", "off").await;
}

#[tokio::test]
async fn a_replayed_record_has_the_time_of_its_commit_where_the_server_keeps_it() {
    check("commit", "on").await;
}

#[tokio::test]
async fn where_the_server_keeps_no_commit_times_a_replayed_record_has_the_time_of_its_row() {
    let mut fixture = Fixture::builder().start().await.unwrap();
    let session = fixture.session().await.unwrap();
    super::write(&fixture, &session, 3, 1).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    let (exit, answer, errors) = replay(&fixture, &["--all"]).await;
    assert_eq!(exit, Some(0), "no router is needed: {answer:#}{errors}");
    let seen = fixture.seen().await.unwrap();
    let again: Vec<_> = seen.iter().filter(|record| record.header(MARKER).is_some()).collect();
    assert_eq!(again.len(), 3);
    for record in again {
        let made = 1_767_225_600_000 + i64::from(super::number(record));
        assert_eq!(record.timestamp, Some(made));
    }
}
