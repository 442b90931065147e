//! `outbox.where` takes the rows that the core takes.

use pgoutput::PgTimestamp;
use relay::{Case, DryFrame, DryRun, FilterKind, Outboxes, RowFilter, source::TableOids};

use crate::fixture::{Fixture, TABLE, default_table, first_value, ids, polling};

const MORE: &str = ", kind text, flag boolean, code char(4), net inet, n numeric, \
    published_at timestamptz";

/// XLogData around a message.
fn wal(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![b'w'];
    bytes.extend([0; 24]);
    bytes.extend(message);
    bytes
}

fn begin() -> Vec<u8> {
    let mut message = vec![b'B'];
    message.extend(0_u64.to_be_bytes());
    message.extend(PgTimestamp::from_micros(0).as_micros().to_be_bytes());
    message.extend(1_u32.to_be_bytes());
    wal(&message)
}

#[tokio::test]
async fn a_filter_takes_what_the_core_takes() {
    let fixture = Fixture::new(&default_table(MORE)).await;
    fixture
        .run(
            "insert into outbox (aggregate_id, kind, flag, code, net, n) values \
             ('a', 'x', true, 'ab', '10.0.0.1', 1.50), ('b', 'X', false, 'abcd', '10.0.0.0/8', 1.5), \
             ('c', '', null, '', null, 0), ('d', null, true, null, '::1', null), \
             ('e', 'it''s \\', false, 'a''b', '10.0.0.1', 'NaN')",
        )
        .await;
    for (column, values) in [
        ("kind", vec!["x", "it's \\"]),
        ("kind", vec![""]),
        ("flag", vec!["t"]),
        ("flag", vec!["true"]),
        ("code", vec!["ab"]),
        ("code", vec!["ab  ", "a'b "]),
        ("net", vec!["10.0.0.1"]),
        ("net", vec!["10.0.0.1/32"]),
        ("n", vec!["1.50"]),
        ("n", vec![]),
    ] {
        for kind in [FilterKind::In, FilterKind::NotIn] {
            let values = values.iter().map(|&value| value.to_owned()).collect();
            let filter = RowFilter { column: column.to_owned(), values, kind };
            let mut unfiltered = fixture.worker(polling()).await;
            let mut polling = polling();
            polling.config.outbox.filter = Some(filter.clone());
            let outboxes =
                Outboxes { tables: vec![polling.config.outbox.clone()], ..Outboxes::default() };
            let mut core = DryRun::new(outboxes, TableOids::default(), usize::MAX);
            core.frame(&begin(), |_| ()).unwrap();
            for message in unfiltered.database.describe(TABLE).await.unwrap().messages {
                core.frame(&wal(&message), |_| ()).unwrap();
            }
            let mut taken = unfiltered.fetch(10).await.rows;
            taken.retain(|row| {
                !matches!(core.frame(&wal(&row.insert), |_| ()).unwrap(), DryFrame::FilteredOut)
            });
            let mut worker = fixture.worker(polling).await;
            assert_eq!(ids(&worker.fetch(10).await.rows), ids(&taken), "{filter:?}");
        }
    }
}

/// The stream never sends them, though an UPDATE makes them events: `switch stream` looks for them.
#[tokio::test]
async fn pending_rows_that_the_filter_leaves_out_are_seen() {
    let fixture = Fixture::new(&default_table(MORE)).await;
    let mut polling = polling();
    let values = vec!["pending".to_owned()];
    let filter = RowFilter { column: "kind".to_owned(), values, kind: FilterKind::In };
    let unfiltered = fixture.worker(polling.clone()).await;
    assert_eq!(unfiltered.database.table(TABLE).unwrap().is_any_filtered(), None);
    polling.config.outbox.filter = Some(filter);
    let worker = fixture.worker(polling).await;
    let any = worker.database.table(TABLE).unwrap().is_any_filtered().unwrap();
    let session = fixture.session().await;
    for (row, is_any) in [
        ("('a', 'pending', null)", "f"),
        ("('b', 'draft', now())", "f"),
        ("('c', 'draft', null)", "t"),
    ] {
        let insert = "insert into outbox (aggregate_id, kind, published_at) values";
        fixture.run(&format!("{insert} {row}")).await;
        assert_eq!(first_value(&session, &any).await, is_any, "{row}");
    }
    fixture.run("update outbox set kind = null where aggregate_id = 'c'").await;
    assert_eq!(first_value(&session, &any).await, "t", "NULL is in no list");
}

/// Neither the word nor the new label would let the rows through that are meant.
#[tokio::test]
async fn a_word_whose_label_was_renamed_is_refused() {
    let fixture = Fixture::new(&format!(
        "create type kind as enum ('order', 'refund'); {}",
        default_table(", kind kind, published_at timestamptz")
    ))
    .await;
    fixture
        .run("insert into outbox (aggregate_id, kind) values ('a', 'order'), ('b', 'refund')")
        .await;
    for kind in [FilterKind::In, FilterKind::NotIn] {
        let filter =
            RowFilter { column: "kind".to_owned(), values: vec!["order".to_owned()], kind };
        let mut polling = polling();
        polling.config.outbox.filter = Some(filter);
        let mut worker = fixture.worker(polling).await;
        assert_eq!(worker.fetch(10).await.rows.len(), 1);
        fixture.run("alter type kind rename value 'order' to 'purchase'").await;
        let failure = worker.database.describe(TABLE).await.unwrap_err();
        assert_eq!(failure.case, Some(Case::FilterWord), "{failure}");
        let said = "column kind is an enum that has no such label, but purchase, refund";
        assert!(failure.message.contains(said), "{failure}");
        fixture.run("alter type kind rename value 'purchase' to 'order'").await;
    }
}
