//! Checks of a fixture: whether everything arrived, in which order, and whether a position was
//! confirmed too early. Every answer comes from PostgreSQL and Kafka, and none from the router
//! itself.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use anyhow::{Context, ensure};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::Value;
use testbed::checker::{CheckOptions, CheckResult, check, confirmed_ahead};
use testbed::postgres::{DATABASE, SUPERUSER, SlotRow};
use testbed::reader::{ConsumedRecord, Follower, read_all};
use testbed::truth::Truth;
use testbed::wait::{eventually, until_ok};
use tokio::task::spawn_blocking;
use tokio_postgres::types::PgLsn;

use crate::fixture::Fixture;
use crate::{SHORT_DEADLINE, SLOT};

impl Fixture {
    /// Waits until the router says that rows flow.
    ///
    /// # Errors
    ///
    /// Fails when that does not happen soon, with the last status and the end of the log.
    pub async fn wait_streaming(&mut self) -> anyhow::Result<()> {
        self.router.wait_state("streaming", SHORT_DEADLINE).await.map(drop)
    }

    /// Everything committed so far, and what writers rolled back.
    ///
    /// # Errors
    ///
    /// Fails when the database cannot be read.
    pub async fn truth(&self) -> anyhow::Result<Truth> {
        let truth = Truth::from_committed(&*self.session().await?, &self.mapping).await?;
        let rolled_back =
            self.journals.iter().flat_map(|journal| journal.rolled_back.iter().copied());
        Ok(truth.rolled_back(rolled_back))
    }

    /// Everything in the topics, from offset 0.
    ///
    /// # Errors
    ///
    /// Fails when a topic is missing or cannot be read.
    pub async fn seen(&self) -> anyhow::Result<Vec<ConsumedRecord>> {
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        read_all(&self.kafka.bootstrap(), &topics).await
    }

    /// Where some partitions of a topic end; the leaders of others may be away.
    ///
    /// # Errors
    ///
    /// Fails when a leader cannot be reached.
    pub async fn end_offsets_of(
        &self,
        topic: &str,
        partitions: &'static [i32],
    ) -> anyhow::Result<Vec<i64>> {
        let (bootstrap, topic) = (self.kafka.bootstrap(), topic.to_owned());
        spawn_blocking(move || {
            let consumer: BaseConsumer =
                ClientConfig::new().set("bootstrap.servers", bootstrap).create()?;
            let end =
                |partition: &i32| consumer.fetch_watermarks(&topic, *partition, SHORT_DEADLINE);
            partitions.iter().map(|partition| Ok(end(partition)?.1)).collect()
        })
        .await?
    }

    /// Waits until every event committed before this call is in Kafka.
    ///
    /// # Errors
    ///
    /// Fails when some are still missing after `deadline`, telling how many.
    pub async fn wait_delivered(&self, deadline: Duration) -> anyhow::Result<()> {
        let truth = self.truth().await?;
        let mut missing: HashSet<String> =
            truth.events.iter().map(|event| event.id.to_string()).collect();
        let topics: Vec<&str> = self.topics.iter().map(String::as_str).collect();
        let bootstrap = self.kafka.bootstrap();
        let follower = until_ok(deadline, "a reader of the topics", async || {
            Follower::start(&bootstrap, &topics).await
        })
        .await?;
        let arrived = eventually(deadline, "all events in Kafka", || {
            for record in follower.take() {
                if let Some(id) = record.header("id") {
                    missing.remove(id);
                }
            }
            let arrived = missing.is_empty().then_some(());
            async move { Ok(arrived) }
        })
        .await;
        arrived.with_context(|| {
            format!("{} of {} events are not in Kafka", missing.len(), truth.events.len())
        })
    }

    /// Accepts every gap that is open, as a person does, and returns when the router streams again.
    ///
    /// # Errors
    ///
    /// Fails when the command does, or when the router does not go on.
    pub async fn accept(&mut self) -> anyhow::Result<()> {
        // Until then the router may still hold the slot, and only the router knows what it has
        // found.
        let is_recorded =
            |status: &Value| status.pointer("/witness/gaps_recorded") == Some(&Value::Bool(true));
        self.router
            .wait_status("a gap that is recorded in the state topic", SHORT_DEADLINE, is_recorded)
            .await?;
        let url = self.postgres.url(SUPERUSER, DATABASE);
        let output = self.router.command(&["accept", "--yes", "--admin-url", &url]).await?;
        let status = output.status;
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let output = format!("accept: {stdout}{stderr}");
        ensure!(status.success(), "{output}");
        self.wait_streaming().await.context(output)
    }

    /// Checks everything that is in Kafka now.
    ///
    /// # Errors
    ///
    /// Fails when the database or Kafka cannot be read.
    pub async fn check(&self) -> anyhow::Result<CheckResult> {
        let truth = self.truth().await?;
        let options = CheckOptions { late_replays: self.late_replays };
        Ok(check(&truth, &self.seen().await?, &options))
    }

    /// What the server says of the router's slot.
    ///
    /// # Errors
    ///
    /// Fails when there is no slot.
    pub async fn slot(&self) -> anyhow::Result<SlotRow> {
        self.postgres.slot(SLOT).await?.with_context(|| format!("slot \"{SLOT}\" is gone"))
    }

    /// The position that the slot's next session starts from.
    ///
    /// # Errors
    ///
    /// Fails when there is no slot.
    pub async fn confirmed(&self) -> anyhow::Result<PgLsn> {
        self.postgres.confirmed(SLOT).await
    }

    /// Waits until the slot has confirmed everything that was written before this call.
    ///
    /// # Errors
    ///
    /// Fails when it has not after `deadline`.
    pub async fn wait_confirmed(&self, deadline: Duration) -> anyhow::Result<()> {
        self.postgres.wait_confirmed(SLOT, deadline).await
    }

    /// Kills the router with SIGKILL, and returns when its walsender has gone too.
    ///
    /// # Errors
    ///
    /// Fails when the router was not started.
    pub async fn kill_router(&mut self) -> anyhow::Result<()> {
        self.router.kill9().await?;
        self.postgres.wait_slot_free(SLOT, SHORT_DEADLINE).await.map(drop)
    }

    /// With the router dead: every event at or before `confirmed_flush_lsn` must be in Kafka,
    /// because no later session will send it again. Returns how many there are.
    ///
    /// # Errors
    ///
    /// Fails when one is missing, naming some, or when commits are not tracked.
    pub async fn check_confirmed_events_are_in_kafka(&mut self) -> anyhow::Result<usize> {
        let confirmed = self.postgres.wait_slot_free(SLOT, SHORT_DEADLINE).await?;
        let truth = self.truth().await?;
        let commits = self.commits().await?;
        let ahead = confirmed_ahead(&truth, &commits, confirmed, &self.seen().await?)?;
        ensure!(
            ahead.is_empty(),
            "{confirmed} is confirmed, but {} events before it are not in Kafka: {:?} …",
            ahead.len(),
            ahead.iter().take(5).collect::<Vec<_>>()
        );
        Ok(count_until(&truth, &commits, confirmed))
    }

    /// How many events were committed at or before a position.
    ///
    /// # Errors
    ///
    /// Fails when the database cannot be read, or when commits are not tracked.
    pub async fn events_until(&mut self, position: PgLsn) -> anyhow::Result<usize> {
        let truth = self.truth().await?;
        Ok(count_until(&truth, &self.commits().await?, position))
    }

    /// The position after the commit of each transaction so far, by transaction id.
    ///
    /// # Errors
    ///
    /// Fails when the database cannot be read, or when commits are not tracked.
    pub async fn commits(&mut self) -> anyhow::Result<BTreeMap<u32, PgLsn>> {
        let session = self.session().await?;
        let tracker = self
            .commit_tracker
            .as_mut()
            .context("commits are not tracked: call `track_commits` on the builder")?;
        tracker.drain(&session).await?;
        Ok(tracker.commits().clone())
    }

    /// `/status.json`.
    ///
    /// # Errors
    ///
    /// Fails when the admin endpoint does not answer.
    pub async fn status(&self) -> anyhow::Result<Value> {
        self.router.status().await
    }
}

fn count_until(truth: &Truth, commits: &BTreeMap<u32, PgLsn>, position: PgLsn) -> usize {
    let until = |xid| commits.get(xid).is_some_and(|end| *end <= position);
    truth.events.iter().filter(|event| until(&event.xid)).count()
}
