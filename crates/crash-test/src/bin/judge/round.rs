//! One round: writers, removers, faults and looks at random, an interlude of the play in the
//! middle, and the verdict when everything has come to rest.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;
use testbed::wait::eventually;
use tokio::time::{Instant, sleep};

use crate::faults::Fault;
use crate::figures::Outcome;
use crate::keep::keep;
use crate::pipeline::Pipeline;
use crate::scenario::{Play, Removal, Scenario, Words};
use crate::servers::Servers;
use crate::table::{FIRST, KEPT, LATER, ROLE, UNKNOWN_WORD};
use crate::topics::Topics;
use crate::truth::{Kind, Look, Place};
use crate::verdict::{self, Finding, Moment, Order, Wrong};
use crate::writers::{Assignment, Writers};

const DEADLINE: Duration = Duration::from_secs(60);
/// Writers of a table. Each has a session.
const WRITERS: u32 = 5;

/// A round that is played.
pub(crate) struct Round<'a> {
    pub(crate) servers: &'a mut Servers,
    pub(crate) scenario: &'a Scenario,
    pub(crate) pipeline: Pipeline,
    pub(crate) random: StdRng,
    /// The writers of each table.
    pub(crate) writers: Vec<Writers>,
    pub(crate) interruptions: usize,
    /// Whether a person has detached a partition, to keep it as [`KEPT`].
    pub(crate) has_kept: bool,
    topics: Topics,
    looks: usize,
    /// Each once, however often it is seen.
    findings: BTreeMap<(Wrong, String), Finding>,
}

/// Plays a round. Logs are kept below `parent` if something is wrong.
pub(crate) async fn play(
    servers: &mut Servers,
    scenario: &Scenario,
    parent: &Path,
) -> anyhow::Result<Outcome> {
    let pipeline = Pipeline::prepare(servers, scenario).await?;
    let topics = Topics::open(&servers.kafka, &pipeline.topics())?;
    let mut round = Round {
        servers,
        scenario,
        pipeline,
        random: StdRng::seed_from_u64(scenario.seed),
        writers: Vec::new(),
        interruptions: 0,
        has_kept: false,
        topics,
        looks: 0,
        findings: BTreeMap::new(),
    };
    let mut played = round.run().await;
    let is_clean = played.as_ref().is_ok_and(|outcome| outcome.findings.is_empty());
    if !is_clean {
        let outcome = played.as_ref().ok();
        let logs = keep(round.servers, &round.pipeline, scenario, outcome, parent)?;
        played = match played {
            Ok(outcome) => Ok(Outcome { logs: Some(logs), ..outcome }),
            Err(error) => Err(error.context(format!("logs in {}", logs.display()))),
        };
    }
    let outcome = played?;
    round.remove().await.context("cannot remove what the round has made")?;
    Ok(outcome)
}

impl Round<'_> {
    async fn run(&mut self) -> anyhow::Result<Outcome> {
        if self.scenario.play == Play::Joined {
            self.write(LATER, "early", 200, Kind::Older);
        }
        self.start_router().await?;
        if self.scenario.play == Play::Cleanup && self.scenario.removal == Removal::DropPartitions {
            // Nothing else makes partitions.
            self.clean_up().await?;
        }
        self.write(FIRST, "main", 0, Kind::Event);
        let work = Duration::from_secs(u64::from(self.scenario.work_seconds));
        self.work(work / 2).await?;
        self.interlude().await?;
        self.work(work / 2).await?;
        for writers in std::mem::take(&mut self.writers) {
            writers.stop().await?;
        }
        let moment = self.settle().await?;
        self.verdict(moment).await
    }

    /// Starts the router. One that does not deliver then is a finding.
    pub(crate) async fn start_router(&mut self) -> anyhow::Result<()> {
        if let Err(error) = self.pipeline.start().await {
            let status = self.status().await;
            self.note_stopped(format!("does not begin: {}; {status}", error.root_cause()));
        }
        self.pipeline.keep_running()
    }

    /// Starts writers on a table.
    pub(crate) fn write(
        &mut self,
        table: &'static str,
        name: &'static str,
        first_index: i64,
        kind: Kind,
    ) {
        self.writers.push(Writers::start(Assignment {
            scenario: self.scenario.clone(),
            url: self.servers.admin_url(&self.pipeline.name),
            table,
            name,
            first_index,
            kind,
            count: WRITERS,
        }));
    }

    /// Looks, types and disturbs at random for some time.
    pub(crate) async fn work(&mut self, time: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        while started.elapsed() < time {
            // Load is paced.
            sleep(Duration::from_millis(self.random.random_range(100..700))).await;
            match self.random.random_range(0..10) {
                0..3 => self.look(Moment::During).await?,
                3..6 => self.disturb().await?,
                6 => self.clean_up().await?,
                7 => self.clean_up_alone().await?,
                8 if self.scenario.removal == Removal::DropPartitions => self.grant().await?,
                _ => {}
            }
        }
        Ok(())
    }

    async fn disturb(&mut self) -> anyhow::Result<()> {
        let count = self.scenario.faults.len();
        let fault = match count {
            0 => return Ok(()),
            _ => self.scenario.faults.get(self.random.random_range(0..count)).copied(),
        };
        if let Some(fault) = fault {
            self.interruptions += 1;
            fault
                .play(self.servers, &mut self.pipeline, &mut self.random)
                .await
                .with_context(|| format!("{fault:?}"))?;
        }
        Ok(())
    }

    /// Types `cleanup`; whether it may work now is its own business.
    pub(crate) async fn clean_up(&mut self) -> anyhow::Result<()> {
        if self.scenario.removal == Removal::Off {
            return Ok(());
        }
        let mut line = vec!["cleanup".to_owned(), "--yes".to_owned(), "--wait=3s".to_owned()];
        if self.scenario.play == Play::Cleanup {
            line.extend(Pipeline::cleanup_flags(self.scenario));
        }
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let is_killed = self.random.random_ratio(1, 4);
        let kill = is_killed.then(|| Duration::from_millis(self.random.random_range(50..1500)));
        self.pipeline.type_line(&line, kill).await?;
        Ok(())
    }

    /// The same while no router runs, where that is one of the faults.
    async fn clean_up_alone(&mut self) -> anyhow::Result<()> {
        if !self.scenario.faults.contains(&Fault::KillRouter) {
            return self.clean_up().await;
        }
        self.interruptions += 1;
        self.pipeline.router.kill9().await?;
        self.clean_up().await?;
        self.pipeline.router.start_again()
    }

    /// A privilege on every table, as an administrator grants it.
    async fn grant(&mut self) -> anyhow::Result<()> {
        let session = self.servers.session(&self.pipeline.name).await?;
        // A table may be dropped meanwhile.
        drop(session.batch_execute("grant select on all tables in schema public to public").await);
        Ok(())
    }

    /// Compares tables and topics. Tables are read first: what is sent in between is no excuse that
    /// is needed.
    pub(crate) async fn look(&mut self, moment: Moment) -> anyhow::Result<()> {
        let mut session = self.servers.session(&self.pipeline.name).await?;
        let look = Look::take(&mut session, self.scenario).await?;
        let findings = verdict::unsent(&look, self.topics.read()?, moment);
        self.looks += 1;
        self.note(findings);
        Ok(())
    }

    fn note(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            self.findings.entry((finding.wrong, finding.event.clone())).or_insert(finding);
        }
    }

    /// What is wrong with the pipeline as a whole.
    pub(crate) fn note_stopped(&mut self, said: String) {
        let event = "the pipeline".to_owned();
        self.note(vec![Finding { wrong: Wrong::Stopped, event, said }]);
    }

    /// What a person has taken for themselves has to be there.
    async fn look_for_kept(&mut self) -> anyhow::Result<()> {
        let session = self.servers.session(&self.pipeline.name).await?;
        let query = format!("select to_regclass('public.{KEPT}') is not null");
        if self.has_kept && !session.query_one(&query, &[]).await?.try_get::<_, bool>(0)? {
            let said = "was detached by a person, and is gone".to_owned();
            self.note(vec![Finding { wrong: Wrong::Taken, event: KEPT.to_owned(), said }]);
        }
        Ok(())
    }

    /// Rows whose status has a word that no router knows have to be named by it.
    async fn look_for_names(&mut self) -> anyhow::Result<()> {
        if self.scenario.words == Words::Known {
            return Ok(());
        }
        let counted = self.pipeline.type_line(&["status"], None).await?.said.contains("(P060)");
        let list = ["dead-letters", "list"];
        if counted && self.pipeline.type_line(&list, None).await?.said.contains(UNKNOWN_WORD) {
            return Ok(());
        }
        let said = "is the status of rows that status or dead-letters list does not say".to_owned();
        self.note(vec![Finding { wrong: Wrong::Lost, event: UNKNOWN_WORD.to_owned(), said }]);
        Ok(())
    }

    /// The verdict of the router itself.
    pub(crate) async fn status(&self) -> String {
        let status = self.pipeline.router.status().await.unwrap_or_default();
        let text = |name| status.pointer(name).and_then(Value::as_str).unwrap_or("?").to_owned();
        format!("{}: {} ({})", text("/verdict/word"), text("/verdict/sentence"), text("/state"))
    }

    async fn verdict(&mut self, moment: Moment) -> anyhow::Result<Outcome> {
        self.look(moment).await?;
        self.look_for_kept().await?;
        self.look_for_names().await?;
        let mut session = self.servers.session(&self.pipeline.name).await?;
        let look = Look::take(&mut session, self.scenario).await?;
        let sent = self.topics.read()?;
        let order = if self.scenario.keeps_order() { Order::OfCommits } else { Order::Any };
        let findings = verdict::records(&look, sent, order);
        let (records, duplicates) = (sent.iter().count(), sent.duplicates());
        self.note(findings);
        // A busy machine interrupts by itself: a session that ended has replayed.
        let sessions = self.pipeline.router.log().matches(" connected slot=").count();
        if duplicates > 0 && self.scenario.is_undisturbed() && sessions == 1 {
            let (wrong, event) = (Wrong::Repeated, format!("{duplicates} records"));
            let said = "came again, and nothing was interrupted".to_owned();
            self.note(vec![Finding { wrong, event, said }]);
        }
        let is_gone = |event: &String| !look.places.contains_key(event);
        Ok(Outcome {
            committed: look.committed.len(),
            sent: records,
            duplicates,
            removed: look.committed.iter().filter(|one| is_gone(&one.event)).count(),
            kept: look.count(Place::Detached) + look.count(Place::Abandoned),
            looks: self.looks,
            interruptions: self.interruptions,
            status: self.status().await,
            findings: std::mem::take(&mut self.findings).into_values().collect(),
            logs: None,
        })
    }

    /// Ends the router, and removes slots and database.
    async fn remove(&mut self) -> anyhow::Result<()> {
        self.pipeline.router.kill9().await?;
        let name = self.pipeline.name.clone();
        let session = self.servers.session("postgres").await?;
        session
            .execute(
                "select pg_terminate_backend(active_pid) from pg_replication_slots \
                 where database = $1 and active",
                &[&name],
            )
            .await?;
        eventually(DEADLINE, "the end of the slots", async || {
            let left = "select count(*) from pg_replication_slots where database = $1";
            let drop_free = "select pg_drop_replication_slot(slot_name) \
                             from pg_replication_slots where database = $1 and not active";
            session.execute(drop_free, &[&name]).await?;
            let left: i64 = session.query_one(left, &[&name]).await?.try_get(0)?;
            Ok((left == 0).then_some(()))
        })
        .await?;
        session.batch_execute(&format!("drop database {name} with (force)")).await?;
        session.batch_execute(&format!("alter role {ROLE} replication")).await?;
        Ok(())
    }
}
