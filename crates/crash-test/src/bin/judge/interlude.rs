//! What happens once in a round, in its middle: a gap and its recovery, a switch of the source and
//! back, a table that joins. Commands are killed at random and typed again.

use std::time::Duration;

use rand::RngExt as _;
use serde_json::Value;
use testbed::postgres::create_slot;
use tokio::time::{Instant, sleep};

use crate::pipeline::{Source, Typed};
use crate::round::Round;
use crate::scenario::{Copied, Gap, IdType, Layout, Person, Play, Times};
use crate::table::{FIRST, KEPT, LATER, ROLE};
use crate::truth::{self, Kind};

/// How long a command is typed again and again that is to succeed.
const PATIENCE: Duration = Duration::from_secs(40);
/// In seconds, as long as `retention.keep` may be.
const TEN_YEARS: u32 = 3650 * 86_400;
/// What a command says that does not succeed as it was typed.
const NEEDS_A_FLAG: [&str; 2] = ["--skip-bad", "P039"];
/// Compares every row that there is.
const SINCE_EVER: &str = "--since=1900-01-01";
const SLOT_DEADLINE: Duration = Duration::from_secs(60);
const STREAMING_DEADLINE: Duration = Duration::from_secs(40);

impl Round<'_> {
    pub(crate) async fn interlude(&mut self) -> anyhow::Result<()> {
        match self.scenario.play {
            Play::Recover => self.recover().await,
            Play::Switch => self.switch().await,
            Play::Joined => self.join().await,
            Play::DropPartitions => match self.scenario.person {
                Person::KeepsOne => self.keep_partition().await,
                Person::AttachesOne => self.attach().await,
                Person::LeavesThem => Ok(()),
            },
            Play::Delete
            | Play::Archive
            | Play::Cleanup
            | Play::DeadLetters
            | Play::PollTime
            | Play::PollStatus
            | Play::PollDelete => Ok(()),
        }
    }

    /// The slot is lost under load, and a person recovers.
    async fn recover(&mut self) -> anyhow::Result<()> {
        self.interruptions += 1;
        if self.random.random_ratio(1, 2) {
            self.pipeline.stop().await?;
        } else {
            self.pipeline.router.kill9().await?;
        }
        self.pause(100..1500).await;
        self.damage().await?;
        self.pause(200..2000).await;
        // With an open gap, whether somebody has found it or not, it may remove nothing.
        self.clean_up().await?;
        let is_up = self.random.random_ratio(1, 2);
        if is_up {
            self.pipeline.router.start_again()?;
            let is_found = |status: &Value| {
                status.pointer("/witness/gaps_recorded") == Some(&Value::Bool(true))
            };
            self.pipeline.status_with(STREAMING_DEADLINE, is_found).await;
        }
        if self.scenario.copied == Copied::BeforeRecovery {
            let topic = self.pipeline.copy_topic();
            let line = ["replay", "--yes", "--all", "--skip-bad", "--to-topic", topic.as_str()];
            self.pipeline.type_as_admin(&line, None).await?;
        }
        let mut line = vec!["recover", "--yes", "--by=judge", "--wait=30s"];
        let is_unique = !matches!(self.scenario.layout, Layout::ByTime(_));
        if self.scenario.id != IdType::Uuid || !is_unique {
            line.push("--ids-unique");
        }
        if self.scenario.gap != Gap::Dropped {
            line.push("--drop-slot");
        }
        if self.scenario.times == Times::Any {
            line.push(SINCE_EVER);
        }
        let mut typed = self.persist(&line).await?;
        // As a person does what the text proposes. Rows stay while a gap is open, also those that
        // the slot of a run has that was killed.
        for (reason, flag) in [
            ("--skip-bad", "--skip-bad"),
            ("they were updated since", "--ids-unique"),
            ("has rows to send", "--drop-slot"),
            ("P039", SINCE_EVER),
        ] {
            if !typed.succeeded() && typed.said.contains(reason) && !line.contains(&flag) {
                line.push(flag);
                typed = self.persist(&line).await?;
            }
        }
        self.pipeline.keep_running()?;
        if self.is_streaming().await {
            return Ok(());
        }
        let (status, said) = (self.status().await, last_lines(&typed.said));
        self.note_stopped(format!("recover ended with {:?}: {said}; {status}", typed.code));
        // A person who looks types it again.
        self.persist(&line).await?;
        self.pipeline.keep_running()?;
        self.is_streaming().await;
        Ok(())
    }

    async fn is_streaming(&self) -> bool {
        let is_streaming =
            |status: &Value| status.get("state").and_then(Value::as_str) == Some("streaming");
        self.pipeline.status_with(STREAMING_DEADLINE, is_streaming).await.is_some()
    }

    /// Does to the slot what is drawn.
    async fn damage(&mut self) -> anyhow::Result<()> {
        let name = self.pipeline.name.clone();
        self.servers.postgres.wait_slot_free(&name, SLOT_DEADLINE).await?;
        let session = self.servers.session(&name).await?;
        let drop_slot = "select pg_drop_replication_slot($1)";
        match self.scenario.gap {
            Gap::Dropped => {
                session.execute(drop_slot, &[&name]).await?;
            }
            Gap::MadeAgain => {
                session.execute(drop_slot, &[&name]).await?;
                self.pause(200..1500).await;
                create_slot(&session, &name, "pgoutput").await?;
            }
            Gap::Advanced => {
                let advance = "select pg_replication_slot_advance($1::text::name, \
                               pg_current_wal_lsn())";
                session.execute(advance, &[&name]).await?;
            }
        }
        Ok(())
    }

    /// From polling to the stream, and mostly back.
    async fn switch(&mut self) -> anyhow::Result<()> {
        let typed = self.persist(&["switch", "stream", "--yes", "--wait=30s"]).await?;
        if !typed.succeeded() {
            self.note_stopped(format!("switch stream: {}", last_lines(&typed.said)));
            return Ok(());
        }
        self.clean_up().await?;
        self.take_source(Source::Stream).await?;
        self.work(Duration::from_secs(4)).await?;
        if self.random.random_ratio(1, 3) {
            return Ok(());
        }
        self.pipeline.stop().await?;
        self.pipeline.source = Source::Polling;
        self.pipeline.configure(self.scenario)?;
        self.clean_up().await?;
        let typed = self.persist(&["switch", "polling", "--yes"]).await?;
        if typed.succeeded() {
            self.pipeline.router.start_again()?;
        } else {
            self.note_stopped(format!("switch polling: {}", last_lines(&typed.said)));
        }
        Ok(())
    }

    async fn take_source(&mut self, source: Source) -> anyhow::Result<()> {
        self.pipeline.keep_running()?;
        self.pipeline.stop().await?;
        self.pipeline.source = source;
        self.pipeline.configure(self.scenario)?;
        self.start_router().await
    }

    /// A table joins that has rows. One transaction begins before, and ends after, if `setup` lets
    /// it.
    async fn join(&mut self) -> anyhow::Result<()> {
        self.writers.remove(0).stop().await?;
        self.pipeline.keep_running()?;
        self.pipeline.stop().await?;
        let open = self.servers.session(&self.pipeline.name).await?;
        let id = match self.scenario.id {
            IdType::Uuid => "gen_random_uuid()",
            IdType::Bigint | IdType::Text | IdType::Char20 => "'9'",
        };
        open.batch_execute(&format!(
            "begin; insert into {LATER} (id, aggregate_type, aggregate_id, event_type, payload) \
               values ({id}, '{LATER}', 'open', 'Made', '{{\"event\": \"open:1\"}}'); \
             insert into judge.committed values \
               ('open:1', '{LATER}', 'open', 1, '{}', 'open while it joined', \
                ('{{\"event\": \"open:1\"}}'::jsonb)::text)",
            Kind::Older.name()
        ))
        .await?;
        self.pipeline.has_later = true;
        self.pipeline.configure(self.scenario)?;
        if self.pipeline.set_up(self.scenario).await.is_err() {
            // It may wait for no transaction.
            open.batch_execute("commit").await?;
            self.pipeline.set_up(self.scenario).await?;
        }
        self.start_router().await?;
        open.batch_execute("commit").await?;
        self.write(LATER, "later", 300, Kind::Event);
        Ok(())
    }

    /// A person detaches a partition, keeps it under another name, and wants nothing to be dropped
    /// any more. Retention has begun to drop it, if there is such a one.
    async fn keep_partition(&mut self) -> anyhow::Result<()> {
        self.interruptions += 1;
        self.pipeline.router.kill9().await?;
        let session = self.servers.session(&self.pipeline.name).await?;
        let begun = format!(
            "select i.inhrelid::regclass::text from pg_inherits i \
               left join pg_description d on d.objoid = i.inhrelid and d.objsubid = 0 \
                 and d.classoid = 'pg_class'::regclass \
             where i.inhparent = '{FIRST}'::regclass \
               and i.inhrelid::regclass::text like 'outbox\\_p%' \
             order by d.description is null, 1 limit 1"
        );
        if let Some(row) = session.query_opt(&begun, &[]).await? {
            let partition: String = row.try_get(0)?;
            let detach = format!("alter table {FIRST} detach partition {partition}");
            // Where a detach is pending, it has to be ended.
            for sql in [detach.clone(), format!("{detach} finalize")] {
                if session.batch_execute(&sql).await.is_ok() {
                    let rename = format!("alter table {partition} rename to {KEPT}");
                    session.batch_execute(&rename).await?;
                    self.has_kept = true;
                    break;
                }
            }
        }
        self.pipeline.keep_seconds = TEN_YEARS;
        self.pipeline.configure(self.scenario)?;
        self.start_router().await
    }

    /// A person attaches a table of former years that has rows. They are no events.
    async fn attach(&mut self) -> anyhow::Result<()> {
        let session = self.servers.session(&self.pipeline.name).await?;
        let years = format!("{FIRST}_of_former_years");
        let fill = truth::older_sql(self.scenario, &years, "attached", "timestamp '1999-06-01'");
        session
            .batch_execute(&format!(
                "create table {years} (like {FIRST} including all); \
                 alter table {years} owner to {ROLE}; {fill}"
            ))
            .await?;
        let attach = format!(
            "alter table {FIRST} attach partition {years} \
             for values from ('1999-01-01') to ('2000-01-01')"
        );
        // Where there is a default partition, it waits for writers, and may be refused.
        drop(session.batch_execute(&attach).await);
        Ok(())
    }

    /// Types a command until it succeeds. The first times it may be killed.
    async fn persist(&mut self, line: &[&str]) -> anyhow::Result<Typed> {
        for _ in 0..self.random.random_range(0..3) {
            let limit = Duration::from_millis(self.random.random_range(100..4000));
            let typed = self.pipeline.type_as_admin(line, Some(limit)).await?;
            if typed.succeeded() {
                return Ok(typed);
            }
            self.interruptions += 1;
            self.pause(0..500).await;
        }
        let started = Instant::now();
        let mut typed = self.pipeline.type_as_admin(line, None).await?;
        while started.elapsed() < PATIENCE {
            if typed.succeeded() || NEEDS_A_FLAG.iter().any(|said| typed.said.contains(said)) {
                break;
            }
            self.pause(1000..3000).await;
            typed = self.pipeline.type_as_admin(line, None).await?;
        }
        Ok(typed)
    }

    async fn pause(&mut self, millis: std::ops::Range<u64>) {
        sleep(Duration::from_millis(self.random.random_range(millis))).await;
    }
}

/// The end of what a command has said.
fn last_lines(said: &str) -> String {
    testbed::router::last_lines(said.trim(), 4).replace('\n', " | ")
}
