//! New rows are announced where `setup` has made the trigger.

use std::time::Duration;

use outbox_router::{
    polling::sql::{Listener, setup},
    postgres::Session,
    shell::Endpoint,
};

use relay::{TableName, polling::TableIndex};

use crate::fixture::{Fixture, TABLE, default_table, name};

const DEADLINE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_insert_is_heard_of_also_on_a_connection_that_is_made_again() {
    let fixture = Fixture::new(&default_table(", published_at timestamptz")).await;
    for statement in
        setup::notify_statements(&name()).iter().chain(&setup::notify_statements(&name()))
    {
        fixture.run(&statement.sql).await;
    }
    let endpoint = Endpoint {
        conninfo: fixture.connector().conninfo(),
        application_name: "listener".to_owned(),
        session: Session::Shared,
    };
    let mut listener = Listener::new(endpoint, vec![name()]);
    for round in 0..2 {
        assert_eq!(heard(&fixture, &mut listener).await, TABLE, "{round}");
        let end = "select pg_terminate_backend(pid) from pg_stat_activity \
                   where application_name = 'listener'";
        fixture.run(end).await;
    }
}

/// Its channel has the number of the table, which is another one then.
#[tokio::test]
async fn a_table_that_is_made_anew_is_heard_of() {
    let table = default_table(", published_at timestamptz");
    let fixture = Fixture::new(&table).await;
    let endpoint = Endpoint {
        conninfo: fixture.connector().conninfo(),
        application_name: "listener".to_owned(),
        session: Session::Shared,
    };
    let busy = TableName { name: "busy".to_owned(), ..name() };
    fixture.run("create table busy (id int)").await;
    for statement in setup::notify_statements(&busy) {
        fixture.run(&statement.sql).await;
    }
    let renewed_after = Duration::from_millis(500);
    let mut listener = Listener::renewed_after(renewed_after, endpoint, vec![name(), busy]);
    for round in 0..2 {
        fixture.run(&format!("drop table outbox; {table}")).await;
        for statement in setup::notify_statements(&name()) {
            fixture.run(&statement.sql).await;
        }
        assert_eq!(heard(&fixture, &mut listener).await, TABLE, "{round}");
    }
}

/// Inserts rows until one of them is heard of.
async fn heard(fixture: &Fixture, listener: &mut Listener) -> TableIndex {
    let heard = async {
        loop {
            // Not awaited to the end, it loses nothing.
            let next = tokio::time::timeout(Duration::from_millis(50), listener.next());
            if let Ok(TABLE) = next.await {
                break TABLE;
            }
            // What is inserted before somebody listens is not heard of.
            fixture.run("insert into outbox (aggregate_id) values ('a')").await;
            fixture
                .run(
                    "do $$ begin if to_regclass('busy') is not null then \
                         insert into busy values (1); end if; end $$",
                )
                .await;
        }
    };
    tokio::time::timeout(DEADLINE, heard).await.unwrap()
}
