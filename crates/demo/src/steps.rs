//! The steps of the demo: writing, an outage of the broker, a killed router, the count.

use std::time::Duration;

use serde_json::Value;
use testbed::load::RunningLoad;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::args::{Afterwards, Args};
use crate::count::{Count, DemoOutcome};
use crate::live::StatusReader;
use crate::screen::Screen;
use crate::system::{CreatedTopics, DemoSystem, SLOT, WRITERS};

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
pub(crate) async fn run(
    args: &Args,
    screen: &mut Screen,
    created_topics: &mut CreatedTopics,
    outcome: &mut Option<DemoOutcome>,
) -> anyhow::Result<()> {
    screen.title("outbox-router: rows of an outbox table become Kafka records, none lost")?;
    let mut system = DemoSystem::build(args, created_topics).await?;
    show_setup(&system, screen)?;
    let mut view = LiveView { status_reader: StatusReader::default(), screen };

    system.router.start_again()?;
    let status = system.router.wait_state("streaming", SOON).await?;
    let version = status.get("version").and_then(Value::as_str).unwrap_or("?");
    let pid = system.router.process()?.pid();
    let text = format!("outbox-router {version}, pid {pid}, streaming");
    view.screen.fact("router", &text)?;
    let text = format!("{WRITERS} connections write orders: single rows, batches, COPY, rollbacks");
    view.screen.step("write", &text)?;
    let running = system.write();
    view.follow(&system, WRITING).await?;
    outage(&system, &mut view).await?;
    kill(&mut system, &mut view).await?;
    let rolled_back = finish(&system, running, &mut view).await?;

    let truth = system.truth().await?.rolled_back(rolled_back);
    let seen = system.drain_consumer().await?;
    let count = Count::of(&truth, seen, args.counting);
    show_count(&count, screen)?;
    *outcome = Some(count.outcome());
    if args.afterwards == Afterwards::Keep {
        show_commands(&system, screen)?;
        // Only Ctrl-C ends it.
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// The live line, and what it is drawn from.
struct LiveView<'s> {
    status_reader: StatusReader,
    screen: &'s mut Screen,
}

impl LiveView<'_> {
    /// Draws the live line for a while.
    async fn follow(&mut self, system: &DemoSystem, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while Instant::now() < end {
            frames.tick().await;
            self.draw(system).await?;
        }
        Ok(())
    }

    async fn draw(&mut self, system: &DemoSystem) -> anyhow::Result<()> {
        let live_status = self.status_reader.read(&system.router, &system.postgres).await?;
        Ok(self.screen.live(&live_status)?)
    }
}

fn show_setup(system: &DemoSystem, screen: &mut Screen) -> anyhow::Result<()> {
    let (postgres, broker) = (&system.postgres, &system.broker);
    let text = format!("{} on {}, temporary", postgres.version(), postgres.address());
    screen.fact("PostgreSQL", &text)?;
    screen.fact("Kafka", &format!("{}, {}", broker.bootstrap(), broker.description()))?;
    let made = "table, role, publication, slot and witness, created by outbox-router setup --apply";
    screen.fact("setup", made)?;
    screen.fact("consumer", &format!("reads topic {} from its first record", system.topic))?;
    Ok(())
}

async fn outage(system: &DemoSystem, view: &mut LiveView<'_>) -> anyhow::Result<()> {
    let Some(time) = system.broker.outage() else {
        return Ok(view
            .screen
            .step("broker", "your Kafka is not stopped; --real-kafka shows an outage")?);
    };
    system.broker.disconnect().await?;
    let text = "the broker is stopped: rows wait in PostgreSQL, and the slot retains them";
    view.screen.step("outage", text)?;
    view.follow(system, time).await?;
    system.broker.reconnect().await?;
    let text = "the broker runs again: the router sends the rows that waited, in order, without any action";
    view.screen.step("recovery", text)?;
    view.follow(system, RECOVERING).await
}

async fn kill(system: &mut DemoSystem, view: &mut LiveView<'_>) -> anyhow::Result<()> {
    system.router.kill9().await?;
    let text = "the router is killed: nothing is lost, because the slot keeps its position";
    view.screen.step("kill -9", text)?;
    view.follow(system, WITHOUT_ROUTER).await?;
    system.router.start_again()?;
    let text =
        "a new router continues from the slot; events that were not confirmed may be sent twice";
    view.screen.step("restart", text)?;
    view.follow(system, RESUMING).await?;
    system.router.wait_state("streaming", SOON).await?;
    Ok(())
}

/// Stops the writers and waits until the slot shows that everything is in Kafka. If the slot does
/// not get there, the count shows the loss. Returns the ids that were rolled back.
async fn finish(
    system: &DemoSystem,
    running: RunningLoad,
    view: &mut LiveView<'_>,
) -> anyhow::Result<Vec<uuid::Uuid>> {
    let journal = running.stop().await?;
    view.screen.step("stop", "the writers have stopped; the router delivers the rest")?;
    let end = system.postgres.current_wal_lsn().await?;
    let deadline = Instant::now() + SOON;
    while system.postgres.confirmed(SLOT).await? < end {
        if Instant::now() > deadline {
            view.screen.note(&format!("the slot has not confirmed {end} after {SOON:?}"))?;
            break;
        }
        view.follow(system, FRAME).await?;
    }
    // The router's monitor sees it a moment later.
    view.follow(system, SETTLING).await?;
    view.screen.show_next();
    view.draw(system).await?;
    Ok(journal.rolled_back)
}

fn show_count(count: &Count, screen: &mut Screen) -> anyhow::Result<()> {
    let text = "compares the table of committed events with the consumer; duplicates are events that were sent again";
    screen.step("count", text)?;
    screen.gap()?;
    if let Some(id) = &count.dropped {
        screen
            .note(&format!("--sabotage: the record of event {id} is dropped before the count"))?;
    }
    for example in count.result.examples() {
        screen.note(&example)?;
    }
    if count.dropped.is_some() || count.outcome() == DemoOutcome::Failed {
        screen.gap()?;
    }
    Ok(screen.result(&count.result.to_string())?)
}

fn show_commands(system: &DemoSystem, screen: &mut Screen) -> anyhow::Result<()> {
    let (router, broker, topic) = (&system.router, system.broker.bootstrap(), &system.topic);
    let database = system.postgres.url("postgres", "shop");
    screen.gap()?;
    screen.fact("database", &format!("psql {database}"))?;
    screen.fact(
        "insert",
        &format!(
            "psql {database} -c \"insert into outbox (aggregate_type, aggregate_id, event_type, \
             payload) values ('order', '42', 'paid', '{{}}')\""
        ),
    )?;
    screen.fact("status", &format!("curl http://{}/status.json", router.admin()))?;
    screen.fact("metrics", &format!("curl http://{}/metrics", router.admin()))?;
    screen.fact("topic", &format!("kcat -C -b {broker} -t {topic} -o beginning"))?;
    screen.fact("log", &format!("tail -f {}", router.log_file().display()))?;
    screen.fact(
        "stop",
        &format!("Ctrl-C, or kill {}; that removes everything", std::process::id()),
    )?;
    Ok(())
}
