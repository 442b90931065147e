//! The words of `where`, at the beginning of a session.

use outbox_router::shell::{Postgres as _, Source};
use relay::{Case, Failure, FilterKind, RowFilter, TableName, ValueType};

use crate::{fixture::set_up, postgres::Postgres, server_identity::source_at};

/// Begins a session, up to where it would stream. Returns the labels that it knows of its table.
async fn begin(source: &Source) -> Result<Option<Vec<String>>, Failure> {
    let (open, _) = source.open().await.unwrap();
    let (_, catalog) = source.catalog(open, None).await?;
    let table = catalog.publication.as_ref().unwrap().tables.first().unwrap().oid;
    Ok(catalog.labels.of(table, "kind").map(<[String]>::to_vec))
}

/// Has the tables' `where` read the column `kind`, with the word `order`.
fn filter_by_kind(source: &mut Source, kind: FilterKind) {
    let (column, values) = ("kind".to_owned(), vec!["order".to_owned()]);
    let filter = RowFilter { column, values, kind };
    source.outboxes.tables.iter_mut().for_each(|table| table.filter = Some(filter.clone()));
}

/// A word is compared with the text of a row, of an array, or of a range.
#[tokio::test]
async fn no_session_begins_with_words_of_a_type_of_users_that_has_none() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    client
        .batch_execute(
            "create type kind as enum ('order'); create type pair as (kind kind, at int); \
             create type kinds as range (subtype = kind); create domain list as kind[]; \
             create domain word as text; alter table outbox_x add kind kind default 'order'",
        )
        .await
        .unwrap();
    let mut source = source_at(&postgres);
    filter_by_kind(&mut source, FilterKind::In);
    for (of_type, value) in [
        ("kind[]", "array[kind]"),
        ("list", "kind"),
        ("pair", "(kind[1], 1)::pair"),
        ("kinds", "kinds((kind).kind, null)"),
    ] {
        let change = format!(
            "alter table outbox_x alter kind drop default; \
             alter table outbox_x alter kind type {of_type} using {value}"
        );
        client.batch_execute(&change).await.unwrap();
        let failure = begin(&source).await.unwrap_err();
        assert_eq!(failure.case, Some(Case::FilterWord), "{of_type}: {failure}");
        assert!(failure.message.contains("kind is of a type without labels"), "{failure}");
    }
    client
        .batch_execute("alter table outbox_x alter kind type word using lower(kind)::text")
        .await
        .unwrap();
    assert_eq!(begin(&source).await.unwrap(), None);
}

/// A word that the server would write in another way fits no row.
#[tokio::test]
async fn words_of_built_in_types_are_as_the_server_writes_them() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    let table = TableName { schema: "public".to_owned(), name: "outbox".to_owned() };
    for (of_type, word) in [
        ("json", "{\"a\":  1.0}"),
        ("jsonb", "1.10"),
        ("jsonb", "-12345678901234567890123.5"),
        ("jsonb", "\"a\\\"b\\u001f/é\""),
        ("cidr", "10.0.0.0/8"),
        ("cidr", "2001:DB8::/32"),
        ("inet", "::FFFF:10.0.0.1"),
        ("macaddr", "08:00:2B:01:02:03"),
        ("time", "09:30:00.50"),
        ("time", "24:00:00"),
        ("bit(3)", "101"),
        ("varbit(3)", "10"),
        ("pg_lsn", "0/0016B374"),
        ("uuid", "{0198C3F27D1A7C3E8B4F00000000000A}"),
        ("int8", "+07"),
        ("date", "2026-01-31"),
        ("float8", "1.50"),
    ] {
        let query = format!("select '{of_type}'::regtype::oid, concat($1::text::{of_type})");
        let row = client.query_one(&query, &[&word]).await.unwrap();
        let (oid, expected): (u32, String) = (row.get(0), row.get(1));
        let values = vec![word.to_owned()];
        let filter = RowFilter { column: "kind".to_owned(), values, kind: FilterKind::In };
        let written = filter.written(&table, ValueType { oid, modifier: -1 });
        assert_eq!(written, Ok(vec![expected]), "{of_type} {word}");
    }
}

/// The stream would leave out every row, or none.
#[tokio::test]
async fn no_session_begins_with_a_word_whose_label_was_renamed() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    client
        .batch_execute(
            "create type kind as enum ('order', 'refund'); alter table outbox_x add kind kind",
        )
        .await
        .unwrap();
    let mut source = source_at(&postgres);
    for kind in [FilterKind::In, FilterKind::NotIn] {
        filter_by_kind(&mut source, kind);
        let labels = begin(&source).await.unwrap();
        assert_eq!(labels, Some(["order", "refund"].map(str::to_owned).to_vec()));
        let rename = "alter type kind rename value 'order' to 'purchase'";
        client.batch_execute(rename).await.unwrap();
        let failure = begin(&source).await.unwrap_err();
        assert_eq!(failure.case, Some(Case::FilterWord), "{failure}");
        let said = "column kind is an enum that has no such label, but purchase, refund";
        assert!(failure.message.contains(said), "{failure}");
        let back = "alter type kind rename value 'purchase' to 'order'";
        client.batch_execute(back).await.unwrap();
    }
}
