//! Nobody sleeps through it: a real Prometheus with the shipped rules, twelve pipelines on which
//! one event a minute is written, and twelve faults at once, at each of which one event is written.
//! While nothing is wrong no alert fires; each fault fires its alert within three minutes, and the
//! alert goes on firing until the cause is gone.
//!
//! The rules are what `outbox-router alerts --every-pipeline` prints. The default run divides their
//! durations, the scrape interval and the three minutes by [`FASTER`] (`--faster`), so that it
//! takes about three minutes; thresholds and rules are the same. `OUTBOX_ALERTS_FASTER=1` runs them
//! as they are shipped (docs/testing.md).

mod fault;
mod trickle;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use e2e::{Fixture, SHORT_DEADLINE};
use fault::{Done, Fault};
use serde_json::{Value, json};
use testbed::prometheus::Prometheus;
use tokio::time::{Instant, sleep};
use trickle::Trickle;

/// What the durations of the rules are divided by, unless `OUTBOX_ALERTS_FASTER` says otherwise.
const FASTER: u32 = 6;

/// An alert has to fire within this time after its fault, by the clock of Prometheus, as shipped.
const FIRES_WITHIN: Duration = Duration::from_secs(180);

/// What is added where the durations are divided: what the router needs to notice a fault (up to
/// 10 s of silence) is not divided, and neither is a machine that twelve pipelines keep busy.
const SLACK: Duration = Duration::from_secs(20);

/// How often Prometheus scrapes and evaluates, as shipped.
const SCRAPED_EVERY: Duration = Duration::from_secs(15);

/// How long an alert may go on after its cause is gone: the router may check every 30 s only, and
/// the rules look back over a minute.
const ENDS_WITHIN: Duration = Duration::from_secs(240);

/// How long nothing happens, and how long a fault lasts once its alert fires, as shipped.
const PHASE: Duration = Duration::from_secs(240);

/// The shortest time in which nothing happens: two events fall into it.
const CALM: Duration = Duration::from_secs(65);

/// How often Prometheus is asked.
const TICK: Duration = Duration::from_secs(1);

fn faster() -> u32 {
    match std::env::var("OUTBOX_ALERTS_FASTER") {
        Ok(text) => text.parse().expect("OUTBOX_ALERTS_FASTER is a number"),
        Err(_) => FASTER,
    }
}

/// Within which time an alert has to fire after its fault.
fn fires_within(faster: u32) -> Duration {
    let slack = if faster == 1 { Duration::ZERO } else { SLACK };
    FIRES_WITHIN / faster + slack
}

/// A pipeline at work, before and after its fault.
struct Pipeline {
    fault: Fault,
    fixture: Fixture,
}

async fn start(fault: Fault) -> anyhow::Result<Pipeline> {
    let mut fixture = fault.fixture().prepare().await?;
    fixture.start_accepted().await?;
    // Until it takes note of that, its beginning fires an alert.
    let is_closed = |status: &Value| {
        status.pointer("/witness/began_without").is_some_and(Value::is_null)
            && status.pointer("/witness/gaps").is_some_and(|gaps| gaps == &json!([]))
    };
    fixture.router.wait_status("nothing that is open", SHORT_DEADLINE, is_closed).await?;
    Ok(Pipeline { fault, fixture })
}

async fn shipped_rules(fixture: &Fixture, faster: u32) -> anyhow::Result<String> {
    let factor = faster.to_string();
    let line = ["alerts", "--every-pipeline", "--faster", &factor];
    let output = fixture.router.command(&line).await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The alerts that fire, as `pipeline name`.
async fn firing(prometheus: &Prometheus) -> anyhow::Result<Vec<String>> {
    let alerts = prometheus.alerts().await?.into_iter().filter(|alert| alert.fires);
    Ok(alerts.map(|alert| format!("{} {}", alert.pipeline, alert.name)).collect())
}

/// The alerts that a fault has to fire.
fn wanted(fault: Fault) -> impl Iterator<Item = String> {
    fault.alerts().iter().map(move |alert| format!("{} {alert}", fault.pipeline()))
}

/// The alerts of faults that do not fire now.
async fn silent(prometheus: &Prometheus) -> anyhow::Result<Vec<String>> {
    let firing = firing(prometheus).await?;
    Ok(Fault::ALL.into_iter().flat_map(wanted).filter(|alert| !firing.contains(alert)).collect())
}

/// When the alert of each pipeline fired first, by the clock of Prometheus.
async fn first_fired(prometheus: &Prometheus) -> anyhow::Result<BTreeMap<String, f64>> {
    let query = "min_over_time(timestamp(ALERTS{alertstate=\"firing\"})[30m:1s])";
    let found = prometheus.query(query).await?;
    let label = |labels: &Value, name: &str| {
        labels.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let key = |labels| format!("{} {}", label(labels, "pipeline"), label(labels, "alertname"));
    Ok(found.iter().map(|(labels, at)| (key(labels), *at)).collect())
}

fn now() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64()
}

/// No alert fires for a while, and all twelve are scraped.
async fn expect_calm(prometheus: &Prometheus, time: Duration, trickle: &mut Trickle) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        trickle.tick();
        sleep(TICK).await;
        assert_eq!(firing(prometheus).await.unwrap(), [""; 0], "an alert fires in calm");
    }
    let count = "count(count by (pipeline) (outbox_build_info))";
    let scraped = prometheus.query(count).await.unwrap();
    assert_eq!(scraped.first().map(|(_, count)| *count), Some(12.0));
}

/// Waits until each fault fires its alerts, compares the times, and says them.
async fn expect_fire(
    prometheus: &Prometheus,
    times: &[(Fault, f64, f64)],
    within: Duration,
    trickle: &mut Trickle,
) -> Vec<String> {
    // Of the last fault, and until Prometheus shows it; each is compared with its own limit below.
    let deadline = Instant::now() + within + 2 * SCRAPED_EVERY;
    let fired = loop {
        trickle.tick();
        // What has just begun to fire may not be stored yet.
        let fired = first_fired(prometheus).await.unwrap();
        let silent = silent(prometheus).await.unwrap();
        let mut all = Fault::ALL.into_iter().flat_map(wanted);
        if silent.is_empty() && all.all(|alert| fired.contains_key(&alert)) {
            break fired;
        }
        let firing = firing(prometheus).await.unwrap();
        assert!(Instant::now() < deadline, "{silent:?} fire nothing; these fire: {firing:?}");
        sleep(TICK).await;
    };
    let mut said = Vec::new();
    for (fault, begun, ended) in times {
        for alert in wanted(*fault) {
            let at = fired.get(&alert).copied().unwrap();
            let after = at - ended;
            assert!(at >= *begun, "{fault:?}: {alert} fired before its cause");
            assert!(after <= within.as_secs_f64(), "{fault:?}: {alert} after {after:.0} s");
            said.push(format!("{fault:?}: {alert} after {after:.0} s"));
        }
    }
    said
}

/// No alert of a fault ends while the fault lasts. Returns all that fire then.
async fn expect_last(
    prometheus: &Prometheus,
    time: Duration,
    trickle: &mut Trickle,
) -> Vec<String> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        trickle.tick();
        sleep(TICK).await;
        let silent = silent(prometheus).await.unwrap();
        assert!(silent.is_empty(), "{silent:?} fire no more, and the cause is still there");
    }
    firing(prometheus).await.unwrap()
}

/// The alerts of the faults end when the causes are gone.
async fn expect_end(prometheus: &Prometheus, trickle: &mut Trickle) {
    let deadline = Instant::now() + ENDS_WITHIN;
    loop {
        trickle.tick();
        let firing = firing(prometheus).await.unwrap();
        let left: Vec<String> = Fault::ALL
            .into_iter()
            .flat_map(wanted)
            .filter(|alert| firing.contains(alert))
            .collect();
        if left.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{left:?} fire still, and the cause is gone");
        sleep(TICK).await;
    }
}

#[tokio::test]
async fn each_of_twelve_faults_fires_its_alert_until_its_cause_is_gone_and_calm_fires_none() {
    let faster = faster();
    let within = fires_within(faster);
    let (mut pipelines, mut trickle) = (Vec::new(), Trickle::new());
    for fault in Fault::ALL {
        let started = start(fault).await.with_context(|| format!("{fault:?}"));
        let pipeline = started.unwrap();
        trickle.add(&pipeline.fixture);
        pipelines.push(pipeline);
    }
    let rules = shipped_rules(&pipelines[0].fixture, faster).await.unwrap();
    let targets: Vec<String> =
        pipelines.iter().map(|of| of.fixture.router.admin().to_owned()).collect();
    let every = SCRAPED_EVERY / faster;
    let prometheus = Prometheus::start(&rules, &targets, every).await.unwrap();
    expect_calm(&prometheus, CALM.max(PHASE / faster), &mut trickle).await;

    let (mut done, mut times) = (Vec::new(), Vec::new());
    for Pipeline { fault, fixture, .. } in &mut pipelines {
        let begun = now();
        let of_fault = Done::to(fixture, *fault).await.with_context(|| format!("{fault:?}"));
        done.push(of_fault.unwrap());
        times.push((*fault, begun, now()));
        trickle.write(fixture);
    }
    let said = expect_fire(&prometheus, &times, within, &mut trickle).await;
    println!("each within {within:?}, scraped every {every:?}:\n{}", said.join("\n"));
    let all = expect_last(&prometheus, PHASE / faster, &mut trickle).await;
    println!("all that fires: {all:?}");

    for (Pipeline { fault, fixture, .. }, of_fault) in pipelines.iter_mut().zip(done) {
        of_fault.undo(fixture).await.with_context(|| format!("{fault:?}")).unwrap();
    }
    expect_end(&prometheus, &mut trickle).await;
}
