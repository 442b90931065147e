//! Twelve faults: what each needs, how it begins, which alerts it has to fire, and how it ends.

use anyhow::Context;
use e2e::{Fixture, FixtureBuilder, PUBLICATION, ROLE, SHORT_DEADLINE, SLOT};
use testbed::kafka::{KafkaCluster, KafkaOptions};
use testbed::postgres::{DATABASE, SUPERUSER, ShutdownMode};
use testbed::proxy::ProxyMode;
use testbed::router::RouterProcess;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    BrokerDown,
    TopicGone,
    ProduceRefused,
    PoisonRow,
    SlotDropped,
    SlotHeldElsewhere,
    PublicationNarrowed,
    PostgresDown,
    PostgresFrozen,
    NetworkSilent,
    RouterKilled,
    RouterFrozen,
}

impl Fault {
    pub(super) const ALL: [Self; 12] = [
        Self::BrokerDown,
        Self::TopicGone,
        Self::ProduceRefused,
        Self::PoisonRow,
        Self::SlotDropped,
        Self::SlotHeldElsewhere,
        Self::PublicationNarrowed,
        Self::PostgresDown,
        Self::PostgresFrozen,
        Self::NetworkSilent,
        Self::RouterKilled,
        Self::RouterFrozen,
    ];

    /// The pipeline that has it.
    pub(super) const fn pipeline(self) -> &'static str {
        match self {
            Self::BrokerDown => "broker-down",
            Self::TopicGone => "topic-gone",
            Self::ProduceRefused => "produce-refused",
            Self::PoisonRow => "poison-row",
            Self::SlotDropped => "slot-dropped",
            Self::SlotHeldElsewhere => "slot-held-elsewhere",
            Self::PublicationNarrowed => "publication-narrowed",
            Self::PostgresDown => "postgres-down",
            Self::PostgresFrozen => "postgres-frozen",
            Self::NetworkSilent => "network-silent",
            Self::RouterKilled => "router-killed",
            Self::RouterFrozen => "router-frozen",
        }
    }

    /// The alerts that have to fire. `OutboxOldestUnacked` is not among them: its event has to be
    /// five minutes old, whatever the durations of the rules are divided by.
    pub(super) const fn alerts(self) -> &'static [&'static str] {
        match self {
            Self::BrokerDown | Self::TopicGone | Self::ProduceRefused => &["OutboxBlocked"],
            Self::PoisonRow => &["OutboxFailed"],
            Self::SlotDropped => &["OutboxGapOpen", "OutboxSlotMissing"],
            Self::PublicationNarrowed => &["OutboxGapOpen"],
            Self::SlotHeldElsewhere => &["OutboxSlotHeldElsewhere"],
            Self::PostgresDown | Self::PostgresFrozen | Self::NetworkSilent => {
                &["OutboxNotConnected"]
            }
            Self::RouterKilled | Self::RouterFrozen => &["OutboxRouterAbsent"],
        }
    }

    /// The fixture that it is done to.
    pub(super) fn fixture(self) -> FixtureBuilder {
        let builder = Fixture::builder().set("name", self.pipeline());
        match self {
            Self::BrokerDown => builder.own_kafka(KafkaOptions::default()),
            Self::ProduceRefused => builder.own_kafka(KafkaOptions::default().with_acls()),
            Self::NetworkSilent => builder.proxied_postgres(),
            Self::TopicGone
            | Self::PoisonRow
            | Self::SlotDropped
            | Self::SlotHeldElsewhere
            | Self::PublicationNarrowed
            | Self::PostgresDown
            | Self::PostgresFrozen
            | Self::RouterKilled
            | Self::RouterFrozen => builder,
        }
    }
}

/// A fault that was done, with what has to be kept until it ends.
pub(super) struct Done {
    fault: Fault,
    /// The process that took the slot away.
    other: Option<RouterProcess>,
}

impl Done {
    /// Does it.
    pub(super) async fn to(fixture: &mut Fixture, fault: Fault) -> anyhow::Result<Self> {
        let mut other = None;
        match fault {
            Fault::BrokerDown => fixture.kafka.owned()?.stop().await?,
            Fault::TopicGone => fixture.kafka.delete_topic(topic(fixture)?).await?,
            Fault::ProduceRefused => change_acls(fixture, "--add").await?,
            Fault::PoisonRow => {
                let insert =
                    "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)
                              VALUES ('no topic', 'k', 'Placed', '{}')";
                fixture.session().await?.batch_execute(insert).await?;
            }
            Fault::SlotDropped => {
                fixture.kill_router().await?;
                fixture.postgres.wait_slot_free(SLOT, SHORT_DEADLINE).await?;
                let drop = format!("SELECT pg_drop_replication_slot('{SLOT}')");
                fixture.session().await?.batch_execute(&drop).await?;
                fixture.router.start_again()?;
            }
            Fault::SlotHeldElsewhere => {
                fixture.kill_router().await?;
                let config = fixture.config.clone().set("name", "somebody-else").to_string();
                let mut thief = RouterProcess::start(&config)?;
                thief.wait_state("streaming", SHORT_DEADLINE).await?;
                other = Some(thief);
                fixture.router.start_again()?;
            }
            Fault::PublicationNarrowed => {
                let narrow = format!("ALTER PUBLICATION {PUBLICATION} DROP TABLE outbox");
                fixture.session().await?.batch_execute(&narrow).await?;
            }
            Fault::PostgresDown => {
                fixture.postgres.stop(ShutdownMode::Immediate, SHORT_DEADLINE).await.map(drop)?;
            }
            Fault::PostgresFrozen => fixture.postgres.pause()?,
            Fault::NetworkSilent => fixture.postgres_proxy()?.set(ProxyMode::BlackHole).await?,
            Fault::RouterKilled => fixture.router.kill9().await?,
            Fault::RouterFrozen => fixture.router.pause()?,
        }
        Ok(Self { fault, other })
    }

    /// Removes the cause, as a person would.
    pub(super) async fn undo(self, fixture: &mut Fixture) -> anyhow::Result<()> {
        match self.fault {
            Fault::BrokerDown => fixture.kafka.owned()?.start_again().await,
            Fault::TopicGone => fixture.kafka.create_topic(topic(fixture)?, 3, &[]).await,
            Fault::ProduceRefused => change_acls(fixture, "--remove").await,
            Fault::PoisonRow => {
                // Every row has the same topic from now on.
                let topic = topic(fixture)?.to_owned();
                fixture.config.set_outbox("topic", topic);
                fixture.rewrite_config()?;
                fixture.kill_router().await?;
                fixture.restart().await
            }
            Fault::SlotDropped => {
                setup(fixture).await?;
                fixture.accept().await
            }
            Fault::SlotHeldElsewhere => self.other.context("nobody holds the slot")?.kill9().await,
            Fault::PublicationNarrowed => {
                let widen = format!("ALTER PUBLICATION {PUBLICATION} ADD TABLE outbox");
                fixture.session().await?.batch_execute(&widen).await?;
                fixture.accept().await
            }
            Fault::PostgresDown => fixture.postgres.start_again().await,
            Fault::PostgresFrozen => fixture.postgres.resume(),
            Fault::NetworkSilent => fixture.postgres_proxy()?.set(ProxyMode::Forward).await,
            Fault::RouterKilled => fixture.restart().await,
            Fault::RouterFrozen => fixture.router.resume(),
        }
    }
}

fn topic(fixture: &Fixture) -> anyhow::Result<&str> {
    fixture.topics.first().map(String::as_str).context("a topic")
}

/// Adds or removes what lets clients do everything with the topic but write to it.
async fn change_acls(fixture: &Fixture, change: &str) -> anyhow::Result<()> {
    let bootstrap = fixture.kafka.bootstrap();
    let mut line = vec!["--bootstrap-server", &bootstrap, change, "--topic", topic(fixture)?];
    line.extend(["--allow-principal", KafkaCluster::PRINCIPAL]);
    line.extend(["--operation", "Read", "--operation", "Describe"]);
    line.extend(["--operation", "DescribeConfigs"]);
    if change == "--remove" {
        line.push("--force");
    }
    fixture.kafka.change_acls(&line).await
}

/// Makes the slot anew.
async fn setup(fixture: &Fixture) -> anyhow::Result<()> {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let line = ["setup", "--apply", "--role", ROLE, "--admin-url", &url];
    let output = fixture.router.command(&line).await?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    anyhow::ensure!(output.status.success(), "setup: {errors}");
    Ok(())
}
