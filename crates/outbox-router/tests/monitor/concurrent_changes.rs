//! A catalog that changes while it is read.

use std::time::Duration;

use outbox_router::{
    monitor::{
        MonitorSettings,
        catalog::{self, Sought},
        server,
    },
    postgres::{TextQuery, TextRow},
};
use relay::{Failure, delivered::compared::altered, source::Catalog};
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

use crate::{
    fixture::{set_up, settings},
    postgres::Postgres,
};

/// Reads the catalog; right before one of its statements somebody else does something, once.
struct Interrupted<'a> {
    client: &'a Client,
    other: &'a Client,
    before: &'static str,
    what: Option<&'static str>,
    /// How often that statement was run.
    times: u32,
}

impl TextQuery for Interrupted<'_> {
    async fn rows(&mut self, name: &'static str, sql: &str) -> Result<Vec<TextRow>, Failure> {
        if name == self.before {
            self.times += 1;
            if let Some(what) = self.what.take() {
                self.other.batch_execute(what).await.unwrap();
            }
        }
        (&mut &*self.client).rows(name, sql).await
    }
}

/// Two connections to a server with the objects of `x`.
struct Setup {
    _postgres: Postgres,
    client: Client,
    other: Client,
    version: i32,
    settings: MonitorSettings,
}

impl Setup {
    async fn new() -> Self {
        Self::with(&[]).await
    }

    async fn with(server: &[&str]) -> Self {
        let postgres = Postgres::start(server).await;
        let client = postgres.client().await;
        let other = postgres.client().await;
        set_up(&other, "x").await;
        let version = server::version(&mut &client).await.unwrap();
        Self { _postgres: postgres, client, other, version, settings: settings("x") }
    }

    async fn read(&self, query: &mut impl TextQuery) -> Catalog {
        let MonitorSettings { publication, outboxes, .. } = &self.settings;
        let sought = Sought { publication, outboxes, remembered: None };
        catalog::read(query, self.version, sought).await.unwrap()
    }

    /// A reading during which `what` is run by the other connection, before the published tables
    /// are read.
    fn interrupted(&self, what: Option<&'static str>) -> Interrupted<'_> {
        let before = "the published tables";
        Interrupted { client: &self.client, other: &self.other, before, what, times: 0 }
    }
}

/// The function that the view of published tables calls sees the catalog as it is at that moment,
/// and not as the snapshot has it: a table that came back in between looked published by nothing,
/// and its next entry was compared with none.
#[tokio::test]
async fn a_table_put_back_while_the_catalog_is_read_was_unpublished() {
    let setup = Setup::new().await;
    let entry = |catalog: &Catalog| catalog.publication.as_ref().unwrap().tables[0].entry;
    let before = setup.read(&mut &setup.client).await;
    assert!(entry(&before).is_some());

    setup.other.batch_execute("alter publication p_x drop table outbox_x").await.unwrap();
    let mut interrupted = setup.interrupted(Some("alter publication p_x add table outbox_x"));
    let torn = setup.read(&mut interrupted).await;
    assert_eq!(interrupted.times, 2, "the first reading is not believed, the second is");
    assert!(entry(&torn).is_some() && entry(&torn) != entry(&before), "{torn:?}");
}

/// The publication of the snapshot would seem to have lost its tables, which is another defect.
#[tokio::test]
async fn a_publication_that_is_replaced_while_the_catalog_is_read_is_the_new_one() {
    let setup = Setup::new().await;
    let before = setup.read(&mut &setup.client).await;
    let mut interrupted = setup.interrupted(Some("drop publication p_x; create publication p_x"));
    let torn = setup.read(&mut interrupted).await;
    assert_eq!(interrupted.times, 2, "the first reading is not believed, the second is");
    let oid = |catalog: &Catalog| catalog.publication.as_ref().unwrap().oid;
    assert_ne!(oid(&torn), oid(&before), "{torn:?}");
}

/// What is published FOR ALL TABLES has no entry, and is read once.
#[tokio::test]
async fn a_publication_of_all_tables_is_read_at_once() {
    let setup = Setup::new().await;
    let all =
        "drop publication p_x; create publication p_x for all tables with (publish = 'insert')";
    setup.other.batch_execute(all).await.unwrap();
    let mut reading = setup.interrupted(None);
    let catalog = setup.read(&mut reading).await;
    assert!(!catalog.publication.unwrap().tables[0].has_entry());
    assert_eq!(reading.times, 1);
}

/// A command reads rows in an older snapshot, and of the partitions that are attached at that
/// moment: one that was away in between would look as if it had been made meanwhile.
#[tokio::test]
async fn a_partition_that_was_detached_behind_a_snapshot_is_altered_when_it_comes_back() {
    let setup = Setup::new().await;
    let detach = "alter table outbox_x detach partition outbox_x_one";
    let attach = "alter table outbox_x attach partition outbox_x_one default";
    let partitioned = "alter table outbox_x rename to outbox_x_one; \
         create table outbox_x (like outbox_x_one including all) partition by list (id); \
         alter publication p_x set table outbox_x; \
         alter publication p_x set (publish_via_partition_root = true)";
    setup.other.batch_execute(partitioned).await.unwrap();
    let before = setup.read(&mut &setup.client).await;
    setup.other.batch_execute(attach).await.unwrap();
    let begin = "begin isolation level repeatable read; select from pg_class limit 1";
    setup.client.batch_execute(begin).await.unwrap();
    setup.other.batch_execute(detach).await.unwrap();

    let add = catalog::with_partitions_of_snapshot;
    let shown = add(&mut &setup.client, setup.version, before.clone()).await.unwrap();
    setup.client.batch_execute("commit").await.unwrap();
    let again = add(&mut &setup.other, setup.version, before.clone()).await.unwrap();
    assert_eq!(again, before, "nothing is attached now");
    setup.other.batch_execute(attach).await.unwrap();
    let now = setup.read(&mut &setup.client).await;
    assert_eq!(altered(&before, &now), None);
    let what = altered(&shown, &now).unwrap();
    assert!(what.ends_with("of public.outbox_x was altered or detached"), "{what}");
    assert_eq!(add(&mut &setup.other, setup.version, now.clone()).await.unwrap(), now);
}

/// A commit is in the WAL, and pgoutput follows it, before a snapshot shows it: for as long as it
/// waits for a synchronous standby.
#[tokio::test]
async fn an_alteration_that_no_snapshot_shows_is_one_that_is_under_way() {
    let standby = ["synchronous_standby_names=nobody", "synchronous_commit=local"];
    let setup = Setup::with(&standby).await;
    assert!(setup.read(&mut &setup.client).await.is_settled());
    let aborted = "begin; alter publication p_x drop table outbox_x; rollback";
    setup.other.batch_execute(aborted).await.unwrap();
    assert!(setup.read(&mut &setup.client).await.is_settled(), "nothing was altered");
    setup.other.batch_execute("set synchronous_commit = on").await.unwrap();
    let alterations = [
        "begin; savepoint a; alter publication p_x set (publish = 'update'); commit",
        "alter publication p_x drop table outbox_x",
        "alter table outbox_x set unlogged",
    ];
    for alteration in alterations {
        let waiting = async {
            let pid = "select pid from pg_stat_activity where wait_event = 'SyncRep'";
            while setup.client.query_opt(pid, &[]).await.unwrap().is_none() {
                sleep(Duration::from_millis(10)).await;
            }
            let hidden = setup.read(&mut &setup.client).await;
            let end = format!("select pg_cancel_backend(({pid}))");
            setup.client.batch_execute(&end).await.unwrap();
            hidden
        };
        let both = async { tokio::join!(waiting, setup.other.batch_execute(alteration)) };
        let (hidden, altered) = timeout(Duration::from_secs(60), both).await.expect(alteration);
        altered.unwrap();
        assert!(!hidden.is_settled(), "{alteration}");
        let shown = setup.read(&mut &setup.client).await;
        assert!(shown.is_settled(), "{alteration}: {shown:?}");
        let without = |catalog: &Catalog| Catalog { altering: None, next: None, ..catalog.clone() };
        assert_ne!(without(&shown), without(&hidden), "{alteration}");
    }
}
