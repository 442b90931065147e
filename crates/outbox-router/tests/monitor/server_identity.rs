//! The slot read beside the stream: on the same server, or not at all.

use outbox_router::codes::hint;
use outbox_router::{
    held::Pipeline,
    monitor::server::identity,
    postgres::{ConnInfo, Session},
    shell::{Endpoint, Postgres as _, Source},
};
use relay::{Class, Code, Failure, source::Server};
use testbed::postgres::Identity;

use crate::{
    fixture::{set_up, settings},
    postgres::Postgres,
};

/// The stream of the table `outbox_x`.
pub(crate) fn source_at(postgres: &Postgres) -> Source {
    let url = postgres.url();
    let conninfo = ConnInfo::resolve(Some(&url), &|_| None).unwrap();
    let settings = settings("x");
    Source {
        endpoint: Endpoint { conninfo, application_name: "test".to_owned(), session: Session::Own },
        pipeline: Pipeline { name: "test".to_owned(), slot: settings.slot.clone() },
        slot: settings.slot,
        publication: settings.publication,
        outboxes: settings.outboxes,
        row_bytes: 1 << 20,
    }
}

async fn server_of(source: &Source) -> Server {
    source.open().await.unwrap().1
}

fn assert_passes_over(failure: &Failure, expected: &[&str]) {
    assert_eq!((failure.code, failure.class()), (Code::ServerUnreachable, Class::Transport));
    for expected in expected {
        assert!(failure.message.contains(expected), "{failure}");
    }
    assert!(hint(failure).unwrap().contains("postgres.url"), "{failure:?}");
}

/// As behind a load balancer, where each connection may reach another. There is no such slot, and
/// that says nothing.
#[tokio::test]
async fn the_slot_is_not_read_from_another_server() {
    let other = Postgres::start_as(Identity::Other, &[]);
    let (streamed, other) = tokio::join!(Postgres::start(&[]), other);
    set_up(&streamed.client().await, "x").await;
    let source = source_at(&streamed);
    let history = server_of(&source).await.history;
    let reading = source.read_slot_beside(&history).await.unwrap();
    assert!(reading.slot.is_some());
    let failure = source_at(&other).read_slot_beside(&history).await.unwrap_err();
    let another = server_of(&source_at(&other)).await.history;
    assert_passes_over(&failure, &[&history.system_id, &another.system_id]);
}

/// The control file tells the timeline of the last checkpoint, which a promotion does not wait for.
#[tokio::test]
async fn a_server_that_was_promoted_a_moment_ago_is_the_one_that_streams() {
    let mut postgres = Postgres::start(&[]).await;
    set_up(&postgres.client().await, "x").await;
    let source = source_at(&postgres);
    let before = server_of(&source).await.history;
    postgres.promote().await;
    let client = postgres.client().await;
    let by_sql = identity(&mut &client).await.unwrap();
    let history = server_of(&source).await.history;
    assert_eq!((before.timeline, history.timeline), (1, 2));
    assert_eq!(by_sql, history);
    source.read_slot_beside(&history).await.unwrap();
    let failure = source.read_slot_beside(&before).await.unwrap_err();
    assert_passes_over(&failure, &["timeline 1", "timeline 2"]);
}

/// Its role may be kept from asking; then nothing speaks against the server.
#[tokio::test]
async fn a_role_that_may_not_read_the_servers_identity_still_reads_the_slot() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let revoke = "create role kept login replication; \
                  revoke execute on function pg_control_system() from public";
    client.batch_execute(revoke).await.unwrap();
    let mut source = source_at(&postgres);
    let history = server_of(&source).await.history;
    source.endpoint.conninfo.user = "kept".to_owned();
    assert!(source.read_slot_beside(&history).await.unwrap().slot.is_some());
}

/// Before a promotion there is nothing to write WAL with.
#[tokio::test]
async fn a_standby_server_has_an_identity_too() {
    let mut postgres = Postgres::start(&[]).await;
    let before = identity(&mut &postgres.client().await).await.unwrap();
    postgres.become_standby().await;
    assert_eq!(identity(&mut &postgres.client().await).await.unwrap(), before);
}

/// Hourly ones for seven weeks: the answer about them has a row for each.
#[tokio::test]
async fn a_table_of_more_than_a_thousand_partitions_is_read_before_a_stream() {
    let postgres = Postgres::start(&["max_locks_per_transaction=2048"]).await;
    let client = postgres.client().await;
    let make = "create table outbox_x (id uuid, aggregatetype text, aggregateid text, type text, \
          payload text, hour int) partition by list (hour); \
        do $$ begin for n in 1..1200 loop execute format( \
          'create table outbox_x_%s partition of outbox_x for values in (%s)', n, n); \
        end loop; end $$; \
        create publication p_x for table outbox_x \
          with (publish = 'insert', publish_via_partition_root = true)";
    client.batch_execute(make).await.unwrap();
    let source = source_at(&postgres);
    let (open, _) = source.open().await.unwrap();
    let (_, catalog) = source.catalog(open, None).await.unwrap();
    assert_eq!(catalog.relations[0].partitions.len(), 1200);
}
