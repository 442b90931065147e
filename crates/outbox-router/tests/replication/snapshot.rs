//! A slot, and the snapshot that divides the rows of a table between the two.

use std::pin::pin;

use outbox_router::postgres::{
    ConnInfo, Failover, Options, ReplicationConnection, ReplicationStream, connect_sql,
};

use crate::cluster::{Cluster, DEADLINE, sql, value};
use crate::reader::{Event, until};

/// Rows that are visible in the snapshot.
async fn rows_of(info: &ConnInfo, snapshot: &str, table: &str) -> String {
    let (client, connection) = connect_sql(info, "snapshot").await.unwrap();
    let mut connection = pin!(connection);
    let read = async {
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{snapshot}'"
        );
        client.batch_execute(&begin).await.unwrap();
        let query = format!("SELECT string_agg(body, ' ' ORDER BY id) FROM public.{table}");
        client.query_one(&query, &[]).await.unwrap().get::<_, String>(0)
    };
    tokio::select! {
        read = read => read,
        ended = &mut connection => panic!("the connection ended: {ended:?}"),
    }
}

async fn body(stream: &mut ReplicationStream) -> String {
    let wanted = |event| match event {
        Event::Insert(tuple) => Some(tuple),
        _ => None,
    };
    let tuple = until(stream, wanted).await;
    let text: Vec<u8> = tuple.iter().rev().take_while(|byte| **byte > b' ').copied().collect();
    String::from_utf8(text.into_iter().rev().collect()).unwrap()
}

/// A row is in the snapshot when its transaction had committed, and else in the stream: also that
/// of a transaction which was open when the creation began, and of one that committed between the
/// creation and the reading of the table.
#[tokio::test]
async fn each_row_is_in_the_snapshot_or_in_the_stream() {
    let cluster = Cluster::shared();
    let info = cluster.info("postgres");
    sql(
        &info,
        "CREATE TABLE public.divided (id int, body text);
         CREATE PUBLICATION divided FOR TABLE public.divided WITH (publish = 'insert');
         INSERT INTO public.divided VALUES (1, 'before')",
    )
    .await;
    let (writer, connection) = connect_sql(&info, "writer").await.unwrap();
    let mut connection = pin!(connection);
    let mut creator = ReplicationConnection::connect(&info, &Options::default()).await.unwrap();
    let creation = async {
        let open = "BEGIN; INSERT INTO public.divided VALUES (2, 'open')";
        writer.batch_execute(open).await.unwrap();
        let created = creator.create_slot("divided", Failover::Off);
        let waits = async {
            let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted \
                           AND locktype = 'transactionid'";
            let until_it_waits = async {
                while value(&info, waiting).await == "0" {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(DEADLINE, until_it_waits).await.expect("it waits for the writer");
            writer.batch_execute("COMMIT").await.unwrap();
        };
        tokio::join!(created, waits).0
    };
    let created = tokio::select! {
        created = creation => created.unwrap(),
        ended = &mut connection => panic!("the writer's connection ended: {ended:?}"),
    };
    sql(&info, "INSERT INTO public.divided VALUES (3, 'after')").await;
    assert_eq!(rows_of(&info, &created.snapshot, "divided").await, "before open");
    let begins = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'divided'";
    assert_eq!(value(&info, begins).await, created.consistent_point);

    // The connection that made the slot holds it: no router takes it before it is given up.
    let mut stream = creator.start_replication("divided", &["divided"]).await.unwrap();
    let active = "SELECT active FROM pg_replication_slots WHERE slot_name = 'divided'";
    assert_eq!(value(&info, active).await, "t");
    assert_eq!(body(&mut stream).await, "after");
}

#[tokio::test]
async fn a_slot_that_exists_is_refused_and_the_connection_stays_usable() {
    let cluster = Cluster::shared();
    let info = cluster.info("postgres");
    let mut creator = ReplicationConnection::connect(&info, &Options::default()).await.unwrap();
    creator.create_slot("twice", Failover::Off).await.unwrap();
    let refused = creator.create_slot("twice", Failover::Off).await.unwrap_err();
    assert!(refused.to_string().contains("already exists"), "{refused}");
    assert!(creator.identify_system().await.is_ok());
}
