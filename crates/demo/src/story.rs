//! The parts of the demo: writing, an outage of the broker, a killed router, the count.

use std::time::Duration;

use serde_json::Value;
use testbed::load::Running;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_postgres::types::PgLsn;

use crate::args::{Afterwards, Args};
use crate::count::{Count, Outcome};
use crate::live::Gauges;
use crate::screen::Screen;
use crate::stage::{Borrowed, Kept, SLOT, Stage, WRITERS};

/// How often the live line is drawn.
const FRAME: Duration = Duration::from_millis(200);

/// How long each part is shown.
const WRITING: Duration = Duration::from_secs(4);
const RECOVERING: Duration = Duration::from_secs(4);
const WITHOUT_ROUTER: Duration = Duration::from_secs(2);
const RESUMING: Duration = Duration::from_secs(3);
const SETTLING: Duration = Duration::from_millis(600);

/// The deadline of everything that has to happen.
const SOON: Duration = Duration::from_secs(60);

/// Runs the demo from start to end, and stores in `outcome` how the count ended: with `--keep` the
/// demo runs on until it is interrupted.
pub(crate) async fn tell(
    args: &Args,
    screen: &mut Screen,
    borrowed: &mut Borrowed,
    outcome: &mut Option<Outcome>,
) -> anyhow::Result<()> {
    screen.title("outbox-router: rows of an outbox table become Kafka records, none lost")?;
    let mut stage = Stage::build(args, borrowed).await?;
    introduce(&stage, screen)?;
    let mut watch = Watch { gauges: Gauges::default(), screen };

    stage.router.start_again()?;
    let status = stage.router.wait_state("streaming", SOON).await?;
    let version = status.get("version").and_then(Value::as_str).unwrap_or("?");
    let pid = stage.router.process()?.pid();
    let text = format!("outbox-router {version}, the binary itself, pid {pid}, streaming");
    watch.screen.fact("router", &text)?;
    let text = format!("{WRITERS} connections write orders: single rows, batches, COPY, rollbacks");
    watch.screen.step("write", &text)?;
    let running = stage.write();
    watch.follow(&stage, WRITING).await?;
    outage(&stage, &mut watch).await?;
    kill(&mut stage, &mut watch).await?;
    let rolled_back = finish(&stage, running, &mut watch).await?;

    let truth = stage.truth().await?.never(rolled_back);
    let (seen, kept) = stage.drain_consumer().await?;
    let count = Count::of(&truth, seen, args.counting);
    conclude(&count, screen)?;
    *outcome = Some(count.outcome());
    if args.afterwards == Afterwards::Keep {
        show(&kept, screen)?;
        // Only Ctrl-C ends it.
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// The live line, and what it is drawn from.
struct Watch<'s> {
    gauges: Gauges,
    screen: &'s mut Screen,
}

impl Watch<'_> {
    /// Draws the live line for a while.
    async fn follow(&mut self, stage: &Stage, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while Instant::now() < end {
            frames.tick().await;
            self.draw(stage).await?;
        }
        Ok(())
    }

    async fn draw(&mut self, stage: &Stage) -> anyhow::Result<()> {
        let reading = self.gauges.read(&stage.router, &stage.session).await?;
        Ok(self.screen.live(&reading)?)
    }
}

fn introduce(stage: &Stage, screen: &mut Screen) -> anyhow::Result<()> {
    let (postgres, broker) = (&stage.postgres, &stage.broker);
    let text = format!("{} on {}, throw-away", postgres.version(), postgres.address());
    screen.fact("PostgreSQL", &text)?;
    screen.fact("Kafka", &format!("{}, {}", broker.bootstrap(), broker.description()))?;
    let made = "table, role, publication, slot and record, by outbox-router setup --apply";
    screen.fact("setup", made)?;
    screen.fact("consumer", &format!("reads topic {} from its first record", stage.topic))?;
    Ok(())
}

async fn outage(stage: &Stage, watch: &mut Watch<'_>) -> anyhow::Result<()> {
    let Some(time) = stage.broker.outage() else {
        return Ok(watch
            .screen
            .step("broker", "it is yours and stays up; --real-kafka shows it away")?);
    };
    stage.broker.take_away().await?;
    let text = "the broker is gone: rows wait in PostgreSQL, the slot holds them";
    watch.screen.step("outage", text)?;
    watch.follow(stage, time).await?;
    stage.broker.bring_back().await?;
    let text = "the broker is back: the router sends what waited, in order; nobody had to act";
    watch.screen.step("recovery", text)?;
    watch.follow(stage, RECOVERING).await
}

async fn kill(stage: &mut Stage, watch: &mut Watch<'_>) -> anyhow::Result<()> {
    stage.router.kill9().await?;
    let text = "the router is killed: nothing is lost with it, its only memory is the slot";
    watch.screen.step("kill -9", text)?;
    watch.follow(stage, WITHOUT_ROUTER).await?;
    stage.router.start_again()?;
    let text = "a new router goes on from the slot; what was not confirmed may come twice";
    watch.screen.step("restart", text)?;
    watch.follow(stage, RESUMING).await?;
    stage.router.wait_state("streaming", SOON).await?;
    Ok(())
}

/// Stops the writers and waits until the slot shows that everything is in Kafka. If the slot does
/// not get there, the count shows the loss. Returns the ids that were rolled back.
async fn finish(
    stage: &Stage,
    running: Running,
    watch: &mut Watch<'_>,
) -> anyhow::Result<Vec<uuid::Uuid>> {
    let journal = running.stop().await?;
    watch.screen.step("stop", "the writers are done; the router delivers the rest")?;
    let end = stage.postgres.current_wal_lsn().await?;
    let deadline = Instant::now() + SOON;
    while !confirmed(stage, end).await? {
        if Instant::now() > deadline {
            watch.screen.note(&format!("the slot is not at {end} after {SOON:?}"))?;
            break;
        }
        watch.follow(stage, FRAME).await?;
    }
    // The router's monitor sees it a moment later.
    watch.follow(stage, SETTLING).await?;
    watch.screen.show_next();
    watch.draw(stage).await?;
    Ok(journal.never)
}

async fn confirmed(stage: &Stage, end: PgLsn) -> anyhow::Result<bool> {
    let slot = stage.postgres.slot(SLOT).await?;
    Ok(slot.and_then(|slot| slot.confirmed_flush_lsn).is_some_and(|lsn| lsn >= end))
}

fn conclude(count: &Count, screen: &mut Screen) -> anyhow::Result<()> {
    let text = "the database's ledger against the consumer; duplicates are what was resent";
    screen.step("count", text)?;
    screen.gap()?;
    if let Some(id) = &count.dropped {
        screen
            .note(&format!("--sabotage: the record of event {id} is dropped before the count"))?;
    }
    for example in count.verdict.examples() {
        screen.note(&example)?;
    }
    if count.dropped.is_some() || count.outcome() == Outcome::Broken {
        screen.gap()?;
    }
    Ok(screen.verdict(&count.verdict.to_string())?)
}

fn show(kept: &Kept, screen: &mut Screen) -> anyhow::Result<()> {
    let (router, broker, topic) = (&kept.router, kept.broker.bootstrap(), &kept.topic);
    let database = kept.postgres.url("postgres", "shop");
    screen.gap()?;
    screen.fact("database", &format!("psql {database}"))?;
    screen.fact(
        "an order",
        &format!(
            "psql {database} -c \"insert into outbox (aggregate_type, aggregate_id, event_type, \
             payload) values ('order', '42', 'paid', '{{}}')\""
        ),
    )?;
    screen.fact("status", &format!("curl http://{}/status.json", router.admin()))?;
    screen.fact("metrics", &format!("curl http://{}/metrics", router.admin()))?;
    screen.fact("topic", &format!("kcat -C -b {broker} -t {topic} -o beginning"))?;
    screen.fact("log", &format!("tail -f {}", router.log_file().display()))?;
    screen.fact("stop", &format!("Ctrl-C, or kill {}: removes all of it", std::process::id()))?;
    Ok(())
}
