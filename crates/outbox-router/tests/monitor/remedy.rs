//! What a person types is the hint, as it is.

use outbox_router::codes::hint;
use outbox_router::monitor::MonitorSettings;
use relay::{OutboxTable, Outboxes, State, TableName};
use tokio_postgres::{Client, Error, error::SqlState};

use crate::{
    fixture::{COLUMNS, MonitorFixture, make_slot, set_up, settings},
    postgres::Postgres,
};

/// A table and one that inherits from it, both an outbox.
fn family(name: &str) -> MonitorSettings {
    let child = TableName { schema: "public".to_owned(), name: format!("child_{name}") };
    let mut tables = settings(name).outboxes.tables;
    tables.push(OutboxTable::with_defaults(child));
    MonitorSettings { outboxes: Outboxes { tables, ..Outboxes::default() }, ..settings(name) }
}

async fn run_remedy(client: &Client, hint: &str) -> Result<(), Error> {
    let (remedy, _) = hint.split_once("commit").unwrap();
    client.batch_execute(&format!("{remedy}commit")).await
}

/// Entries of a publication: the table, whether all of it is published, and the entry's OID.
async fn entries(client: &Client, publication: &str) -> Vec<(String, bool, u32)> {
    let query = "select r.prrelid::regclass::text, r.prqual is null and r.prattrs is null, r.oid \
         from pg_publication_rel r join pg_publication p on p.oid = r.prpubid \
         where p.pubname = $1 order by 1";
    let rows = client.query(query, &[&publication]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// Another outbox of the same publication stays in it, and what inherits from the table stays as it
/// is.
#[tokio::test]
async fn the_remedy_for_a_table_runs_as_printed_and_alters_no_other_table() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    for (name, break_it) in [
        ("x", ""),
        ("y", "alter publication p_y add table only outbox_y where (true)"),
        ("z", "alter publication p_z add table only outbox_z (id)"),
    ] {
        set_up(&client, name).await;
        let others = format!(
            "create table other_{name} (); create table child_{name} () inherits (outbox_{name}); \
             alter publication p_{name} add table other_{name}, child_{name}"
        );
        client.batch_execute(&others).await.unwrap();
        let mut fixture = MonitorFixture::start(&postgres, family(name), State::Streaming);
        fixture.until_good_reading().await;
        let out = format!("alter publication p_{name} drop table only outbox_{name}; {break_it}");
        client.batch_execute(&out).await.unwrap();
        let remedy = hint(&fixture.gap().await.failure).unwrap();
        // Somebody wants some rows of the one child, and none of the other.
        let children = format!(
            "create table stray_{name} () inherits (outbox_{name}); \
             alter publication p_{name} drop table child_{name}; \
             alter publication p_{name} add table child_{name} where (true)"
        );
        client.batch_execute(&children).await.unwrap();
        let mut wanted = entries(&client, &format!("p_{name}")).await;
        let outbox = format!("outbox_{name}");
        wanted.retain(|(table, ..)| *table != outbox);
        let typed = run_remedy(&client, &remedy).await;
        assert!(typed.is_ok(), "{typed:?}: {remedy}");
        let mut published = entries(&client, &format!("p_{name}")).await;
        let place = published.iter().position(|(table, ..)| *table == outbox).unwrap();
        assert!(published.remove(place).1, "{remedy}");
        assert_eq!(published, wanted, "{remedy}");
    }
}

/// Who writes to a partition holds a lock of that one alone.
#[tokio::test]
async fn the_remedy_for_a_partitioned_table_waits_for_writers_of_its_partitions() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    let table = format!(
        "create table outbox_part ({}) partition by range (created_at); \
         create table outbox_leaf partition of outbox_part default; \
         create publication p_part for table outbox_part \
           with (publish = 'insert', publish_via_partition_root = true)",
        COLUMNS.replace(" primary key", "")
    );
    client.batch_execute(&table).await.unwrap();
    make_slot(&client, "part").await;
    let mut fixture = MonitorFixture::start(&postgres, settings("part"), State::Streaming);
    fixture.until_good_reading().await;
    client.batch_execute("alter publication p_part drop table outbox_part").await.unwrap();
    let remedy = hint(&fixture.gap().await.failure).unwrap();

    let writer = postgres.client().await;
    let row = "begin; insert into outbox_leaf (aggregate_type, aggregate_id, event_type) \
               values ('a', 'b', 'c')";
    writer.batch_execute(row).await.unwrap();
    let refused = run_remedy(&client, &remedy).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::LOCK_NOT_AVAILABLE), "{refused:?}");
    client.batch_execute("rollback").await.unwrap();
    writer.batch_execute("commit").await.unwrap();
    run_remedy(&client, &remedy).await.unwrap();
    let published = entries(&client, "p_part").await;
    assert!(matches!(&published[..], [(table, true, _)] if table == "outbox_part"), "{remedy}");
}
