//! A catalog that changes while it is read.

use outbox_router::{
    monitor::{
        MonitorSettings,
        catalog::{self, Sought},
        server,
    },
    postgres::{TextQuery, TextRow},
};
use relay::{Failure, source::Catalog};
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

/// The function that the view of published tables calls sees the catalog as it is at that moment,
/// and not as the snapshot has it: a table that came back in between looked published by nothing,
/// and its next entry was compared with none.
#[tokio::test]
async fn a_table_put_back_while_the_catalog_is_read_was_unpublished() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    let other = postgres.client().await;
    set_up(&other, "x").await;
    let version = server::version(&mut &client).await.unwrap();
    let MonitorSettings { publication, outboxes, .. } = &settings("x");
    let sought = Sought { publication, outboxes, remembered: None };
    let entry = |catalog: &Catalog| catalog.publication.as_ref().unwrap().tables[0].entry;
    let before = catalog::read(&mut &client, version, sought).await.unwrap();
    assert!(entry(&before).is_some());

    other.batch_execute("alter publication p_x drop table outbox_x").await.unwrap();
    let mut interrupted = Interrupted {
        client: &client,
        other: &other,
        before: "the published tables",
        what: Some("alter publication p_x add table outbox_x"),
        times: 0,
    };
    let torn = catalog::read(&mut interrupted, version, sought).await.unwrap();
    assert_eq!(interrupted.times, 2, "the first look is not believed, the second is");
    assert!(entry(&torn).is_some() && entry(&torn) != entry(&before), "{torn:?}");
}

/// The publication of the snapshot would seem to have lost its tables, which is another defect.
#[tokio::test]
async fn a_publication_that_is_replaced_while_the_catalog_is_read_is_the_new_one() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    let other = postgres.client().await;
    set_up(&other, "x").await;
    let version = server::version(&mut &client).await.unwrap();
    let MonitorSettings { publication, outboxes, .. } = &settings("x");
    let sought = Sought { publication, outboxes, remembered: None };
    let before = catalog::read(&mut &client, version, sought).await.unwrap();
    let mut interrupted = Interrupted {
        client: &client,
        other: &other,
        before: "the published tables",
        what: Some("drop publication p_x; create publication p_x"),
        times: 0,
    };
    let torn = catalog::read(&mut interrupted, version, sought).await.unwrap();
    assert_eq!(interrupted.times, 2, "the first reading is not believed, the second is");
    let oid = |catalog: &Catalog| catalog.publication.as_ref().unwrap().oid;
    assert_ne!(oid(&torn), oid(&before), "{torn:?}");
}

/// What is published FOR ALL TABLES has no entry, and is read once.
#[tokio::test]
async fn a_publication_of_all_tables_is_read_at_once() {
    let postgres = Postgres::start(&[]).await;
    let client = postgres.client().await;
    set_up(&client, "x").await;
    let all =
        "drop publication p_x; create publication p_x for all tables with (publish = 'insert')";
    client.batch_execute(all).await.unwrap();
    let version = server::version(&mut &client).await.unwrap();
    let MonitorSettings { publication, outboxes, .. } = &settings("x");
    let sought = Sought { publication, outboxes, remembered: None };
    let before = "the published tables";
    let mut read = Interrupted { client: &client, other: &client, before, what: None, times: 0 };
    let seen = catalog::read(&mut read, version, sought).await.unwrap();
    assert!(!seen.publication.unwrap().tables[0].has_entry());
    assert_eq!(read.times, 1);
}
