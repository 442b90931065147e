//! A worker on tables of several owners, which may do what none of them may.

use outbox_router::polling::sql::{
    Database,
    setup::{Deletes, grant_statements},
};
use relay::{Code, OutboxTable, TableName, polling::TableIndex};

use crate::fixture::{Fixture, Polling, ROUTER, TABLE, Worker, default_table, ids, polling};

const STATES: &str = ", status text not null default 'PENDING'";

/// Two tables with an owner each, of which one lets a function run wherever a row is marked.
async fn of_two_owners() -> (Fixture, TableName) {
    let fixture = Fixture::new(&default_table(STATES)).await;
    let second = TableName { schema: "public".to_owned(), name: "second".to_owned() };
    fixture
        .run(
            "create role app; create role other; create table seized (by text); \
             grant insert on seized to public; \
             create table second (like outbox including all); \
             alter table outbox owner to app; alter table second owner to other; \
             create function seize() returns trigger language plpgsql as $$ begin \
               insert into public.seized values (current_user); return new; end $$; \
             create trigger t before update on outbox for each row execute function seize(); \
             insert into outbox (aggregate_id) values ('a'); \
             insert into second (aggregate_id) values ('b')",
        )
        .await;
    fixture.grant(Deletes::No).await;
    for statement in grant_statements(&second, ROUTER, Deletes::No) {
        fixture.run(&statement.sql).await;
    }
    (fixture, second)
}

#[tokio::test]
async fn a_worker_on_tables_of_two_owners_runs_no_code_of_either() {
    let (fixture, second) = of_two_owners().await;
    let Polling { config, settings } = polling();
    let mut other = config.clone();
    other.outbox = OutboxTable::with_defaults(second);
    let both = vec![config, other];
    let mut database = Database::new(fixture.connector(), both, settings);
    for table in [TableIndex(0), TableIndex(1)] {
        let failure = database.describe(table).await.unwrap_err();
        assert_eq!(failure.code, Code::ForeignCode, "{failure}");
        let code = "public.outbox: trigger t is code of role app";
        assert!(failure.message.starts_with(code), "{failure}");
    }
    assert_eq!(fixture.value("select count(*) from seized").await, "0");

    fixture.run("drop trigger t on outbox").await;
    for table in [TableIndex(0), TableIndex(1)] {
        database.describe(table).await.unwrap();
    }
}

/// The trigger does what the worker may do, and that is nothing but what its owner may.
#[tokio::test]
async fn a_worker_on_tables_of_one_owner_lets_a_trigger_run() {
    let (fixture, _) = of_two_owners().await;
    let mut worker = fixture.worker(polling()).await;
    assert_eq!(ids(&worker.drain(9).await), ["1"]);
    assert_eq!(fixture.value("select by from seized").await, ROUTER);
}

/// It may read every slot of the server, which is more than any owner of a table.
#[tokio::test]
async fn a_worker_that_may_replicate_or_is_a_superuser_runs_no_code_of_the_one_owner() {
    let (fixture, _) = of_two_owners().await;
    for alter in ["alter role router replication", "alter role router noreplication superuser"] {
        fixture.run(alter).await;
        let mut worker = Worker::new(fixture.connector(), polling());
        let failure = worker.database.describe(TABLE).await.unwrap_err();
        assert_eq!(failure.code, Code::ForeignCode, "{alter}: {failure}");
    }
    assert_eq!(fixture.value("select count(*) from seized").await, "0");
}
