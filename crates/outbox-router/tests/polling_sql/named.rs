//! Rows by the ids that people type.

use outbox_router::{
    monitor::Connect as _,
    polling::sql::{NamedRows, RowNames},
};

use crate::fixture::{Fixture, first_value, name};

/// A table of partitions has the time in its primary key.
const TABLE: &str = "\
    create domain small as text check (length(value) < 4); \
    create table outbox (id uuid, at timestamptz, tag small, n bigint, primary key (tag, at)); \
    insert into outbox values \
      ('00000000-0000-0000-0000-000000000001', '2026-01-01', 'a', 1), \
      ('00000000-0000-0000-0000-000000000002', '2026-01-01', 'a,b', 2), \
      (null, '2026-01-02', 'a', 3)";

/// The rows that a text names, or why there are none.
async fn found(fixture: &Fixture, id: Option<&str>, text: &str) -> Result<String, String> {
    let mut session = fixture.connector().connect().await.unwrap();
    let client = &session.client;
    let work = async {
        client.batch_execute("set timezone = 'UTC'").await.unwrap();
        let names = RowNames::read(client, &name(), id).await.unwrap();
        names.find(client, text).await.unwrap()
    };
    let named = tokio::select! { named = work => named, () = &mut session.driver => panic!() };
    let NamedRows { condition, .. } = named?;
    let query = format!("select string_agg(n::text, ' ' order by n) from outbox where {condition}");
    Ok(first_value(&fixture.session().await, &query).await)
}

#[tokio::test]
async fn a_row_is_named_by_its_id_or_its_primary_key_whatever_the_types() {
    let fixture = Fixture::new(TABLE).await;
    for (text, rows) in [
        ("00000000-0000-0000-0000-000000000001", "1"),
        ("A,2026-01-01 00:00:00+00", "null"),
        ("a,2026-01-01 00:00:00+00", "1"),
        ("a,b,2026-01-01 00:00:00+00", "2"),
        ("a,2026-01-02 00:00:00+00", "3"),
        ("00000000-0000-0000-0000-000000000009", "null"),
    ] {
        assert_eq!(found(&fixture, Some("id"), text).await.as_deref(), Ok(rows), "{text}");
    }
    // No uuid; no time; more than the domain takes; and no key of one column.
    for text in ["7", "a,then", "abcd,2026-01-01", "'; drop table outbox; --", ""] {
        let why = found(&fixture, Some("id"), text).await.unwrap_err();
        assert!(why.contains("is uuid, and that is none, nor a value of the primary"), "{why}");
    }
    let by_key = found(&fixture, None, "a,2026-01-01").await;
    assert_eq!(by_key.as_deref(), Ok("1"), "the id is no column");
}

#[tokio::test]
async fn a_table_without_a_primary_key_has_its_ids() {
    let table = TABLE.replace(", primary key (tag, at)", "");
    let fixture = Fixture::new(&table).await;
    let id = "00000000-0000-0000-0000-000000000002";
    assert_eq!(found(&fixture, Some("id"), id).await.as_deref(), Ok("2"));
    let why = found(&fixture, Some("id"), "7").await.unwrap_err();
    let expected = "column id of public.outbox is uuid, and that is none: type one as \
                    outbox-router tap or outbox-router dead-letters list shows it";
    assert_eq!(why, expected);
}
