//! A connector that publishes an outbox under load, and the commands that a person types.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use e2e::{Fixture, Interruptions, SHORT_DEADLINE, SLOT, text, wait_committed};
use serde_json::Value;
use testbed::debezium::ConnectorState;
use testbed::load::{Load, Preset, RunningLoad, Schema};
use testbed::truth::Format;
use testbed::wait::eventually;
use tokio::time::Instant;

use super::connector::{Connector, tutorial};

const EVENTS_PER_SECOND: u32 = 1_000;

/// So many that together they keep that rate on two cores, beside a worker and a broker.
const WRITERS: usize = 12;

/// What the writers have to reach on average, so that the scenario shows what it says. The rate is
/// that of the load and not of the router: writers wait for nobody but PostgreSQL.
const REACHED_PER_SECOND: u128 = 900;

/// For what writers have left behind, on a machine that is busy with other things.
const DELIVERED: Duration = Duration::from_secs(120);

/// Everything of a scenario.
pub(super) struct HandOver {
    pub(super) fixture: Fixture,
    pub(super) connector: Connector,
    interruptions: Interruptions,
    load: RunningLoad,
    begun: Instant,
    file: PathBuf,
}

impl HandOver {
    /// A connector that has made slot and publication itself and delivers what is written; and the
    /// router's configuration, translated from the connector's.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let mut fixture = Fixture::builder()
            .empty_database()
            .schema(Schema::new(Preset::Debezium))
            .format(Format::Debezium)
            .postgres("max_prepared_transactions", "20")
            .track_commits()
            .prepare()
            .await?;
        fixture.schema.create(&*fixture.session().await?).await?;
        let connector = Connector::on_a_worker(&fixture, tutorial(&fixture)).await?;
        connector.create("RUNNING").await?;
        connector.wait(&ConnectorState::Running).await?;
        eventually(SHORT_DEADLINE, "the connector to hold its slot", async || {
            Ok(fixture.postgres.slot(SLOT).await?.filter(|slot| slot.active).map(drop))
        })
        .await?;
        let file = connector.file(fixture.router.dir())?;
        fixture.router.set_env("POSTGRES_PASSWORD", Some("unused"));
        // Scenarios share a cluster, and all have the same name, database and slot.
        let state_topic = format!("{}router-state", fixture.mapping.topic_prefix);
        fixture.router.set_env("OUTBOX_ROUTER__KAFKA__STATE_TOPIC", Some(&state_topic));
        let load = Load {
            writers: WRITERS,
            events_per_second: Some(EVENTS_PER_SECOND),
            ..Load::default()
        };
        let (load, begun) = (fixture.load(load), Instant::now());
        let interruptions = Interruptions::default();
        let scene = Self { fixture, connector, interruptions, load, begun, file };
        let bootstrap = scene.fixture.kafka.bootstrap();
        let translated = scene.migrate(&["--bootstrap-servers", &bootstrap], 0).await?;
        scene.fixture.router.set_config(&translated)?;
        scene.written(4_000).await?;
        Ok(scene)
    }

    /// Waits until writers have committed so many events more.
    pub(super) async fn written(&self, events: u64) -> anyhow::Result<()> {
        wait_committed(&self.load, events).await
    }

    /// Runs a command that has to succeed.
    pub(super) async fn command(&self, arguments: &[&str]) -> anyhow::Result<()> {
        self.run(arguments, 0).await.map(drop)
    }

    /// Checks the steps: how the command ends, and how some of the steps stand, each as `name:
    /// state`. Returns how many events are announced to come twice.
    pub(super) async fn check(
        &self,
        direction: &str,
        exit_code: i32,
        steps: &[&str],
    ) -> anyhow::Result<Option<usize>> {
        let url = self.connector.worker.url();
        let answer = self.migrate(&[direction, "--connect-url", &url, "--json"], exit_code).await?;
        let answer: Value = serde_json::from_str(&answer).context("no JSON")?;
        let is_ready = answer.get("ready").and_then(Value::as_bool);
        ensure!(is_ready == Some(exit_code == 0), "{answer:#}");
        let found = answer.get("steps").and_then(Value::as_array).context("no steps")?;
        let stands = |step: &Value| {
            let of = |key: &str| text(step, key).unwrap_or_default().to_owned();
            format!("{}: {}", of("/name"), of("/state"))
        };
        let stand: Vec<String> = found.iter().map(stands).collect();
        for step in steps {
            ensure!(stand.iter().any(|one| one == step), "{step} is not among {answer:#}");
        }
        let twice = found.iter().find_map(|step| step.get("twice")?.as_u64());
        Ok(twice.map(usize::try_from).transpose()?)
    }

    async fn migrate(&self, flags: &[&str], exit_code: i32) -> anyhow::Result<String> {
        let file = self.file.to_str().context("a path that is no text")?;
        self.run(&[&["migrate", "debezium", file], flags].concat(), exit_code).await
    }

    async fn run(&self, arguments: &[&str], exit_code: i32) -> anyhow::Result<String> {
        let output = self.fixture.router.command(arguments).await?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        ensure!(code == Some(exit_code), "{arguments:?} ends with {code:?}: {stdout}{stderr}");
        Ok(stdout)
    }

    /// Notes that the slot changes hands now. Returns how many events are in Kafka although the
    /// slot's position is before their commit: those may come twice.
    pub(super) async fn interrupted(&mut self) -> anyhow::Result<usize> {
        let confirmed = self.fixture.postgres.wait_slot_free(SLOT, SHORT_DEADLINE).await?;
        self.interruptions.note(&self.fixture).await?;
        let seen = self.fixture.seen().await?;
        let (truth, commits) = (self.fixture.truth().await?, self.fixture.commits().await?);
        let commit = |xid: u32| commits.get(&xid).filter(|end| **end > confirmed);
        let past: HashMap<String, _> = truth
            .events
            .iter()
            .filter_map(|event| Some((event.id.to_string(), commit(event.xid)?)))
            .collect();
        let ids: HashSet<&str> = seen.iter().filter_map(|record| record.header("id")).collect();
        Ok(ids.into_iter().filter(|id| past.contains_key(*id)).count())
    }

    /// Ends the load and checks everything that is in Kafka. Returns how many records came twice,
    /// before, between and after the interruptions.
    #[expect(
        clippy::print_stderr,
        reason = "the figures of a test, which captures them unless asked"
    )]
    pub(super) async fn finish(mut self) -> anyhow::Result<Vec<usize>> {
        let (committed, taken) = (self.load.committed(), self.begun.elapsed());
        let journal = self.load.stop().await?;
        self.fixture.note(journal);
        let rate = u128::from(committed) * 1_000 / taken.as_millis().max(1);
        eprintln!("take_over: {committed} events in {} s, {rate} a second", taken.as_secs());
        ensure!(
            rate >= REACHED_PER_SECOND,
            "the writers committed {rate} events a second and not {REACHED_PER_SECOND}, so the hand \
             over was not seen under the load that the documentation names: this machine is too \
             slow, or busy with other things"
        );
        self.fixture
            .wait_delivered(DELIVERED)
            .await
            .with_context(|| self.connector.worker.log())?;
        self.fixture.check().await?.clean()?;
        Ok(self.interruptions.duplicates(&self.fixture.seen().await?))
    }
}
