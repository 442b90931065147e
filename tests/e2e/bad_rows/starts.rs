//! Servers that cannot be streamed from, yet: whoever starts the router first and sets things up
//! afterwards need not start it twice.

use std::time::Duration;

use e2e::{Fixture, PUBLICATION, ROLE, RouterConfig, SHORT_DEADLINE, SLOT, text};
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER, ShutdownMode};
use testbed::router::RouterProcess;

use super::{GOOD, RECHECK_DEADLINE, expect_ids, expect_reported, insert};

/// Passwords that may appear nowhere.
const SECRETS: [&str; 2] = ["canary-of-postgresql", "canary-of-kafka"];

/// One router on a server that others are tried on, too: with a slot, a role and a topic of its
/// own.
struct RouterUnderTest {
    name: &'static str,
    code: &'static str,
    router: RouterProcess,
    topic: String,
}

impl RouterUnderTest {
    async fn start(fixture: &Fixture, name: &'static str, code: &'static str, login: &str) -> Self {
        let mut config: RouterConfig = fixture.config.clone();
        let topic = format!("{}{name}", fixture.mapping.topic_prefix);
        let (port, [_, of_kafka]) = (fixture.postgres.port(), SECRETS);
        config
            .set("name", name)
            .set("postgres.url", format!("postgres://{login}@127.0.0.1:{port}/{DATABASE}"))
            .set("postgres.slot", name)
            .set("kafka.properties.\"sasl.password\"", of_kafka)
            .set_outbox("topic", topic.as_str());
        fixture.kafka.create_topic(&topic, 1, &[]).await.unwrap();
        let router = RouterProcess::start(&config.to_string()).unwrap();
        Self { name, code, router, topic }
    }

    /// It is up, and says what is wrong and what to type.
    async fn expect_failed(&mut self, remedy: &str) {
        let status = expect_reported(&mut self.router, "failed", self.code, SHORT_DEADLINE).await;
        let hint = text(&status, "/reason/hint").unwrap();
        assert!(hint.contains(remedy), "{}: {hint}", self.name);
    }

    async fn expect_no_secret(&self) {
        for path in ["/status.json", "/readyz", "/metrics"] {
            let body = self.router.get(path).await.unwrap().body;
            assert!(!SECRETS.iter().any(|secret| body.contains(secret)), "{path}: {body}");
        }
        let log = self.router.log();
        assert!(!SECRETS.iter().any(|secret| log.contains(secret)), "{log}");
    }
}

async fn make_slot(session: &DatabaseSession, name: &str, plugin: &str) {
    let sql = "SELECT pg_create_logical_replication_slot($1::text::name, $2::text::name)";
    session.execute(sql, &[&name, &plugin]).await.unwrap();
}

#[tokio::test]
async fn a_missing_precondition_is_reported_and_the_router_starts_by_itself_once_it_is_met() {
    let fixture = Fixture::builder()
        .hba("host all locked 127.0.0.1/32 scram-sha-256")
        .prepare()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    session
        .batch_execute(
            "CREATE ROLE locked LOGIN REPLICATION PASSWORD 'another one'; CREATE ROLE plain LOGIN",
        )
        .await
        .unwrap();
    for name in ["locked", "plain"] {
        make_slot(&session, name, "pgoutput").await;
    }
    make_slot(&session, "foreign", "test_decoding").await;

    let mut absent = RouterUnderTest::start(&fixture, "absent", "P010", ROLE).await;
    let mut foreign = RouterUnderTest::start(&fixture, "foreign", "P013", ROLE).await;
    let [of_postgresql, _] = SECRETS;
    let login = format!("locked:{of_postgresql}");
    let mut locked = RouterUnderTest::start(&fixture, "locked", "P002", &login).await;
    let mut plain = RouterUnderTest::start(&fixture, "plain", "P003", "plain").await;
    absent.expect_failed("outbox-router setup --apply").await;
    foreign.expect_failed("postgres.slot").await;
    locked.expect_failed("password").await;
    plain.expect_failed("alter role \"plain\" replication").await;
    // Those which have a slot owe this row, although they cannot read it yet.
    let early = insert(&session, GOOD).await;

    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    let setup = ["setup", "--apply", "--admin-url", admin.as_str()];
    let output = absent.router.command(&setup).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    session.batch_execute("SELECT pg_drop_replication_slot('foreign')").await.unwrap();
    make_slot(&session, "foreign", "pgoutput").await;
    session
        .batch_execute(&format!(
            "ALTER ROLE locked PASSWORD '{of_postgresql}'; ALTER ROLE plain REPLICATION"
        ))
        .await
        .unwrap();
    let late = insert(&session, GOOD).await;

    for candidate in [&mut absent, &mut foreign, &mut locked, &mut plain] {
        candidate.router.wait_state("streaming", RECHECK_DEADLINE).await.unwrap();
        candidate.expect_no_secret().await;
    }
    for candidate in [&absent, &foreign] {
        expect_ids(&fixture, &candidate.topic, std::slice::from_ref(&late)).await;
    }
    for candidate in [&locked, &plain] {
        expect_ids(&fixture, &candidate.topic, &[early.clone(), late.clone()]).await;
    }
}

#[tokio::test]
async fn a_server_without_logical_wal_is_reported_and_used_once_it_has_it() {
    let mut fixture = Fixture::builder()
        .empty_database()
        .partitions(1)
        .postgres("wal_level", "replica")
        .prepare()
        .await
        .unwrap();
    let session = fixture.session().await.unwrap();
    fixture.schema.create(&session).await.unwrap();
    let role = format!("CREATE ROLE {ROLE} LOGIN REPLICATION");
    session.batch_execute(&role).await.unwrap();
    fixture.router.start_again().unwrap();
    let status = expect_reported(&mut fixture.router, "failed", "P004", SHORT_DEADLINE).await;
    let reason = &status["reason"];
    assert!(reason["message"].as_str().unwrap().contains("replica"), "{status}");
    assert!(reason["hint"].as_str().unwrap().contains("wal_level = logical"), "{status}");

    drop(session);
    fixture.postgres.set(&[("wal_level", "logical")]).await.unwrap();
    fixture.postgres.stop(ShutdownMode::Fast, Duration::from_secs(20)).await.unwrap();
    fixture.postgres.start_again().await.unwrap();
    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    let setup = ["setup", "--apply", "--admin-url", admin.as_str()];
    let output = fixture.router.command(&setup).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let session = fixture.session().await.unwrap();
    let id = insert(&session, GOOD).await;
    fixture.router.wait_state("streaming", RECHECK_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    expect_ids(&fixture, &fixture.topics[0].clone(), &[id]).await;
    assert!(fixture.slot().await.unwrap().active, "{SLOT} of {PUBLICATION} is not in use");
}
