//! The pipeline of one round: its database, its topics, the router's file, and the commands that
//! are typed.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use testbed::router::{RouterConfig, RouterProcess};
use testbed::wait::eventually;
use tokio::time::{Instant, timeout};

use crate::scenario::{Mark, Play, Removal, Scenario, Words};
use crate::servers::Servers;
use crate::table::{FIRST, LATER, PARTITION_SECONDS, ROLE, UNKNOWN_WORD};
use crate::truth;

/// How long a command may take. Those that wait for open transactions are given up before.
const COMMAND_DEADLINE: Duration = Duration::from_secs(90);
const START_DEADLINE: Duration = Duration::from_secs(60);

/// Rows have times in the future, too, and records those of their rows.
const ANY_TIME: (&str, &str) = ("message.timestamp.after.max.ms", "9223372036854775807");

/// What delivers the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Stream,
    Polling,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Typed {
    /// `None`: it was killed.
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
}

impl Typed {
    pub(crate) fn succeeded(&self) -> bool {
        self.code == Some(0)
    }
}

/// The router of a round, and what it is told.
pub(crate) struct Pipeline {
    pub(crate) router: RouterProcess,
    /// Name of database, slot and publication, and what begins the topics' names.
    pub(crate) name: String,
    pub(crate) source: Source,
    /// `retention.keep`.
    pub(crate) keep_seconds: u32,
    /// Whether the table that joins later is in the configuration.
    pub(crate) has_later: bool,
    admin_url: String,
    postgres_port: u16,
    kafka: String,
    began: Instant,
}

impl Pipeline {
    /// Creates the database, the table and the topics, and types `setup`.
    pub(crate) async fn prepare(servers: &Servers, scenario: &Scenario) -> anyhow::Result<Self> {
        let name = format!("judge_{}", scenario.number);
        let outside = servers.session("postgres").await?;
        outside.batch_execute(&format!("create database {name}")).await?;
        let zone = scenario.zone.name();
        outside.batch_execute(&format!("alter database {name} set timezone = '{zone}'")).await?;
        let session = servers.session(&name).await?;
        session
            .batch_execute(&format!(
                "grant create, usage on schema public to {ROLE}; {} {}",
                scenario.create_sql(FIRST),
                if scenario.play == Play::Joined {
                    scenario.create_sql(LATER)
                } else {
                    String::new()
                }
            ))
            .await
            .context("cannot create the tables")?;
        truth::create(&session).await?;
        if scenario.play == Play::Joined {
            session.batch_execute(&truth::older_sql(scenario, FIRST, "before", "now()")).await?;
        }
        if scenario.words == Words::Unknown {
            let rows = truth::older_sql(scenario, FIRST, "former", "now()");
            let word = format!(
                "update {FIRST} set status = '{UNKNOWN_WORD}' where aggregate_id = 'former'"
            );
            session.batch_execute(&format!("{rows} {word}")).await?;
        }
        let source = if scenario.begins_with_stream() { Source::Stream } else { Source::Polling };
        let pipeline = Self {
            router: RouterProcess::with_config("")?,
            source,
            keep_seconds: scenario.keep_seconds,
            has_later: false,
            admin_url: servers.admin_url(&name),
            postgres_port: servers.postgres_proxy.port(),
            kafka: servers.kafka_proxy.address(),
            name,
            began: Instant::now(),
        };
        for topic in pipeline.topics().into_iter().chain([pipeline.copy_topic()]) {
            servers.kafka.create_topic(&topic, 3, &[ANY_TIME]).await?;
        }
        pipeline.configure(scenario)?;
        pipeline.set_up(scenario).await?;
        Ok(pipeline)
    }

    /// The topics of events.
    pub(crate) fn topics(&self) -> [String; 2] {
        [FIRST, LATER].map(|table| format!("{}.{table}", self.name))
    }

    /// A topic of somebody else, whose name the template could make.
    pub(crate) fn copy_topic(&self) -> String {
        format!("{}.copy", self.name)
    }

    /// Types `setup`, which has to succeed.
    pub(crate) async fn set_up(&self, scenario: &Scenario) -> anyhow::Result<()> {
        let mut line = vec!["setup", "--apply", "--role", ROLE];
        if scenario.has_poison && self.source == Source::Stream {
            line.push("--dead-letters");
        }
        let typed = self.type_as_admin(&line, None).await?;
        ensure!(typed.succeeded(), "setup: {}", typed.said);
        Ok(())
    }

    /// Writes the router's file, for its next start.
    pub(crate) fn configure(&self, scenario: &Scenario) -> anyhow::Result<()> {
        self.router.set_config(&self.config(scenario))
    }

    fn config(&self, scenario: &Scenario) -> String {
        let Self { name, postgres_port, .. } = self;
        let mut config = RouterConfig::default();
        config
            .set("name", name.as_str())
            .set("postgres.url", format!("postgres://{ROLE}@127.0.0.1:{postgres_port}/{name}"))
            .set("postgres.slot", name.as_str())
            .set("postgres.publication", name.as_str())
            .set("kafka.bootstrap_servers", self.kafka.as_str())
            .set("kafka.create_topics.partitions", 3)
            .set("kafka.create_topics.replication_factor", 1)
            .set("kafka.state_topic", format!("{name}.state"))
            .set("monitor.interval", "500ms")
            .set("log.format", "text");
        if self.source == Source::Polling {
            config
                .set("postgres.source", "polling")
                .set("polling.batch", 50)
                .set("polling.interval", "100ms")
                .set("polling.lease", "4s");
        }
        if scenario.has_poison {
            set_poison(&mut config, self.source);
        }
        if scenario.play != Play::Cleanup {
            set_removal(&mut config, scenario, self.keep_seconds);
        }
        self.set_table(&mut config, scenario);
        let mut text = config.to_string();
        if self.has_later {
            text.push_str(&format!(
                "\n[[outbox]]\ntable = \"public.{LATER}\"\ntopic = \"{name}.{LATER}\"\n"
            ));
        }
        text
    }

    fn set_table(&self, config: &mut RouterConfig, scenario: &Scenario) {
        config
            .set_outbox("table", format!("public.{FIRST}"))
            .set_outbox("topic", format!("{}.${{aggregate_type}}", self.name));
        if self.source == Source::Polling {
            config.set_outbox("order_by", vec!["seq"]);
            match scenario.mark {
                Some(Mark::Delete) => config.set_outbox("mark.how", "delete"),
                Some(Mark::Status) => config.set_outbox("mark.how", "status"),
                Some(Mark::Time) | None => config.set_outbox("mark.how", "timestamp"),
            };
        }
    }

    /// The flags of a `cleanup` that removes as the scenario says, whatever the router's file says.
    pub(crate) fn cleanup_flags(scenario: &Scenario) -> Vec<String> {
        let mut config = RouterConfig::default();
        set_removal(&mut config, scenario, scenario.keep_seconds);
        let lines = config.to_string();
        let keys = lines.lines().take_while(|line| !line.is_empty());
        keys.flat_map(|line| ["--set".to_owned(), line.replace(" = ", "=").replace('"', "")])
            .collect()
    }

    /// Starts the router, and returns when it delivers.
    pub(crate) async fn start(&mut self) -> anyhow::Result<()> {
        self.router.start_again()?;
        let wanted = match self.source {
            Source::Stream => "streaming",
            Source::Polling => "polling",
        };
        self.router.wait_state(wanted, START_DEADLINE).await.map(drop)
    }

    /// Stops the router in order, or kills it if it does not end.
    pub(crate) async fn stop(&mut self) -> anyhow::Result<()> {
        self.router.sigterm()?;
        if self.router.wait_exit(COMMAND_DEADLINE).await.is_err() {
            self.router.kill9().await?;
        }
        Ok(())
    }

    /// Starts the router if it has ended.
    pub(crate) fn keep_running(&mut self) -> anyhow::Result<()> {
        if self.router.process()?.try_wait()?.is_some() {
            self.router.start_again()?;
        }
        Ok(())
    }

    /// Types a command with a superuser's `--admin-url`.
    pub(crate) async fn type_as_admin(
        &self,
        line: &[&str],
        killed_after: Option<Duration>,
    ) -> anyhow::Result<Typed> {
        let line = [line, &["--admin-url", self.admin_url.as_str()]].concat();
        self.type_line(&line, killed_after).await
    }

    /// Types a command, and kills it if it takes longer than asked. Everything that is typed is in
    /// `typed.log` beside the router's log.
    pub(crate) async fn type_line(
        &self,
        line: &[&str],
        killed_after: Option<Duration>,
    ) -> anyhow::Result<Typed> {
        let started = self.began.elapsed();
        let child = self.router.start_command(line)?;
        let limit = killed_after.unwrap_or(COMMAND_DEADLINE);
        // A command that is dropped is killed.
        let typed = match timeout(limit, child.wait_with_output()).await {
            Ok(output) => Typed::of(&output?),
            Err(_) => Typed { code: None, said: format!("killed after {limit:.1?}") },
        };
        let mut log = File::options().create(true).append(true).open(self.typed_log())?;
        writeln!(
            log,
            "--- {started:.1?} to {:.1?}: {}\n{}\n{:?}",
            self.began.elapsed(),
            line.join(" "),
            typed.said,
            typed.code
        )?;
        Ok(typed)
    }

    /// What was typed, and what the commands said.
    pub(crate) fn typed_log(&self) -> PathBuf {
        self.router.dir().join("typed.log")
    }

    /// Waits until the router says something of itself; `None` if it does not in time.
    pub(crate) async fn status_with(
        &self,
        deadline: Duration,
        fulfilled: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        eventually(deadline, "a status", async || {
            let status = self.router.status().await.unwrap_or_default();
            Ok(fulfilled(&status).then_some(status))
        })
        .await
        .ok()
    }
}

impl Typed {
    fn of(output: &Output) -> Self {
        let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        Self { code: output.status.code(), said: format!("{out}{err}") }
    }
}

fn set_poison(config: &mut RouterConfig, source: Source) {
    config
        .set("on_error.bad_row", "dead_letter")
        .set("on_error.unroutable", "dead_letter")
        .set("on_error.too_large", "dead_letter")
        .set("limits.window_bytes", "256KiB")
        .set("limits.row_bytes", "64KiB");
    match source {
        Source::Stream => config.set("dead_letters.topic", ""),
        Source::Polling => config.set("retry.max_attempts", 2).set("retry.base_delay", "100ms"),
    };
}

fn set_removal(config: &mut RouterConfig, scenario: &Scenario, keep_seconds: u32) {
    let mode = match scenario.removal {
        Removal::Off => return,
        Removal::Delete => "delete",
        Removal::Archive => "archive",
        Removal::DropPartitions => "drop_partitions",
    };
    config
        .set("retention.mode", mode)
        .set("retention.keep", format!("{keep_seconds}s"))
        .set("retention.interval", "1s")
        .set("retention.pause", "0ms")
        .set("retention.lock_timeout", "500ms");
    if scenario.removal == Removal::DropPartitions {
        config
            .set("retention.partition_by", format!("{PARTITION_SECONDS}s"))
            .set("retention.partitions_ahead", 40);
    }
}
