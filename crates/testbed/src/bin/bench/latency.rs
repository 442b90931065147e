//! How long an event takes from its commit to a consumer, while transactions come at a fixed rate.
//!
//! The clock starts when the commit is sent and stops when the consumer has the record, so it holds
//! the commit itself, the relay, and the broker; the floor beside it holds the broker alone.

use std::time::Duration;

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use rdkafka::Message as _;
use serde_json::json;
use testbed::kafka::Kafka;
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::router::Router;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::args::{Args, Mode};
use crate::audit::{Audit, member};
use crate::figures::{float, megabytes};
use crate::floor::produce;
use crate::report::{Limit, Mark, Report, Table};
use crate::run::{Fault, Reader, cast, stop};
use crate::series::Cpu;
use crate::stage::{KEYS, Stage};
use crate::topic::{Ends, Follower, PARTITIONS};
use crate::watch::{Cast, CpuMeter};
use crate::writers::{CONNECTIONS, Timetable, write};

const WARM_UP_SECONDS: u64 = 10;
const SECONDS: u64 = 20;
/// The rate for which marks are set.
const MARKED_RATE: u64 = 5000;
const STREAMING_DEADLINE: Duration = Duration::from_secs(30);

/// What one rate looked like to the consumer.
struct Seen {
    /// Nanoseconds, without the warm-up.
    latency: Histogram<u64>,
    audit: Audit,
    /// Per event, in microseconds, without the warm-up.
    cpu: Cpu,
    /// Cores that others kept busy meanwhile.
    others_cores: f64,
    peak_bytes: u64,
}

/// Measures every rate: the floor, then each router.
pub(crate) async fn measure(
    args: &Args,
    readers: &[Reader],
    kafka: &mut Kafka,
    report: &mut Report,
) -> anyhow::Result<()> {
    for &rate in &args.rate {
        let rate = u64::from(rate);
        let mut table = Table::new(&[
            "reader",
            "p50 ms",
            "p99",
            "p99.9",
            "max",
            "written/s",
            "CPU us/event: router",
            "walsender",
            "broker",
            "peak RSS MB",
            "others, cores",
        ]);
        for reader in readers {
            // Written into nothing, nothing arrives: pg_recvlogical's place is taken by the floor.
            let (name, outcome) = match reader {
                Reader::PgRecvlogical => ("producer alone", floor(rate, kafka).await?),
                Reader::Router { name, .. } => {
                    (name.as_str(), routed(args, reader, rate, kafka).await?)
                }
            };
            match outcome {
                Ok(figures) => tell(&figures, (name, rate), &mut table, report)?,
                Err(fault) => report.fault(format!("latency-{rate}-{name}: {fault}"))?,
            }
        }
        report.say(&format!("\nlatency, commit to consumer, {rate} transactions a second"))?;
        report.say(&table.show())?;
    }
    Ok(())
}

struct Figures {
    seen: Seen,
    written_per_second: f64,
    reader: Which,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Floor,
    Router,
}

fn timetable(rate: u64) -> Timetable {
    let events = rate * (WARM_UP_SECONDS + SECONDS);
    Timetable { rate, events: events - events % CONNECTIONS, epoch: Instant::now() }
}

async fn floor(rate: u64, kafka: &mut Kafka) -> anyhow::Result<Result<Figures, Fault>> {
    let (bootstrap, topic) = (kafka.bootstrap(), format!("floor-{rate}"));
    kafka.create_topic(&topic, PARTITIONS, &[]).await?;
    let timetable = timetable(rate);
    let consuming = consume(&bootstrap, &topic, &timetable, None).await?;
    let producing = {
        let (bootstrap, topic, timetable) = (bootstrap.clone(), topic.clone(), timetable.clone());
        spawn_blocking(move || produce(&bootstrap, &topic, &timetable))
    };
    let (took, seen) = tokio::try_join!(producing, consuming)?;
    let figures = Figures {
        seen: seen?,
        written_per_second: float(timetable.events) / took?.as_secs_f64(),
        reader: Which::Floor,
    };
    judge(&bootstrap, &topic, figures, kafka).await
}

async fn routed(
    args: &Args,
    reader: &Reader,
    rate: u64,
    kafka: &mut Kafka,
) -> anyhow::Result<Result<Figures, Fault>> {
    let Reader::Router { name, binary } = reader else { anyhow::bail!("not a router") };
    let (bootstrap, slot) = (kafka.bootstrap(), "latency");
    let topic = format!("latency-{rate}-{}", name.replace(' ', "-"));
    kafka.create_topic(&topic, PARTITIONS, &[]).await?;
    let stage = Stage::set(args.pg, args.socket).await?;
    stage.copy_slot(slot).await?;
    let config = stage.router_config(slot, &topic, &bootstrap);
    let mut router = Router::with_config(&config)?.program(binary);
    router.start_again()?;
    router.wait_state("streaming", STREAMING_DEADLINE).await?;
    let timetable = timetable(rate);
    let cast = cast(&stage, kafka, router.process()?.pid())?;
    let consuming = consume(&bootstrap, &topic, &timetable, Some(cast)).await?;
    let writing = {
        let (url, table) = (stage.postgres.url(SUPERUSER, DATABASE), stage.table().to_owned());
        let timetable = timetable.clone();
        spawn_blocking(move || write(&url, &table, &timetable))
    };
    let (took, seen) = tokio::try_join!(writing, consuming)?;
    let seen = seen.with_context(|| format!("log:\n{}", router.log()))?;
    stop(&mut router).await?;
    let figures = Figures {
        seen,
        written_per_second: float(timetable.events) / took?.as_secs_f64(),
        reader: Which::Router,
    };
    judge(&bootstrap, &topic, figures, kafka).await
}

/// Figures stand only when every event arrived once and in order.
async fn judge(
    bootstrap: &str,
    topic: &str,
    mut figures: Figures,
    kafka: &Kafka,
) -> anyhow::Result<Result<Figures, Fault>> {
    let records = {
        let (bootstrap, topic) = (bootstrap.to_owned(), topic.to_owned());
        spawn_blocking(move || Ends::of(&bootstrap, &topic)?.records()).await??
    };
    kafka.delete_topic(topic).await?;
    let audit = std::mem::replace(&mut figures.seen.audit, Audit::new(0, 1)?);
    Ok(audit.verdict(records).map_err(|faults| faults.to_string()).map(|()| figures))
}

type Consuming = tokio::task::JoinHandle<anyhow::Result<Seen>>;

/// Begins to consume, and returns when whatever is written next will be received at once.
async fn consume(
    bootstrap: &str,
    topic: &str,
    timetable: &Timetable,
    cast: Option<Cast>,
) -> anyhow::Result<Consuming> {
    let (bootstrap, topic) = (bootstrap.to_owned(), topic.to_owned());
    let follower = spawn_blocking(move || -> anyhow::Result<Follower> {
        let follower = Follower::of(&bootstrap, &topic)?;
        follower.settle()?;
        Ok(follower)
    })
    .await??;
    let timetable = timetable.clone();
    Ok(spawn_blocking(move || follow(&follower, &timetable, cast)))
}

fn follow(follower: &Follower, timetable: &Timetable, cast: Option<Cast>) -> anyhow::Result<Seen> {
    let warm_up = timetable.rate * WARM_UP_SECONDS;
    let mut meter = cast.map(CpuMeter::new);
    let mut read_meter = || meter.as_mut().map_or(Ok(Cpu::default()), CpuMeter::read);
    let mut latency = Histogram::new(3)?;
    let mut audit = Audit::new(timetable.events, KEYS)?;
    let (mut count, mut before, mut began) = (0, Cpu::default(), timetable.epoch);
    follower.read(timetable.events, |record| {
        let now = timetable.epoch.elapsed();
        audit.note(record.partition(), record.key(), record.payload());
        let payload = record.payload().context("a record without a value")?;
        let of = |name: &[u8]| member(payload, name).context("a record of somebody else");
        if of(b"\"seq\": ")? >= warm_up {
            latency.record(u64::try_from(now.as_nanos())?.saturating_sub(of(b"\"sent\": ")?))?;
        }
        count += 1;
        if count == warm_up {
            (before, began) = (read_meter()?, Instant::now());
        }
        Ok(())
    })?;
    let used = before.until(read_meter()?);
    let others_cores = used.others / began.elapsed().as_secs_f64();
    let cpu = used.per_event(float(timetable.events - warm_up));
    let peak_bytes =
        cast.map_or(Ok(0), |cast| testbed::process::peak_resident_bytes(cast.reader))?;
    ensure!(!latency.is_empty(), "nothing arrived after the warm-up");
    Ok(Seen { latency, audit, cpu, others_cores, peak_bytes })
}

fn tell(
    figures: &Figures,
    (name, rate): (&str, u64),
    table: &mut Table,
    report: &mut Report,
) -> anyhow::Result<()> {
    let Figures { seen, written_per_second, reader } = figures;
    let at = |quantile: f64| float(seen.latency.value_at_quantile(quantile)) / 1e6;
    let (p50, p99, p999, max) = (at(0.5), at(0.99), at(0.999), at(1.0));
    let of_router = |figure: f64| match reader {
        Which::Floor => "-".to_owned(),
        Which::Router => format!("{figure:.1}"),
    };
    table.row([
        name.to_owned(),
        format!("{p50:.2}"),
        format!("{p99:.2}"),
        format!("{p999:.2}"),
        format!("{max:.2}"),
        format!("{written_per_second:.0}"),
        of_router(seen.cpu.reader),
        of_router(seen.cpu.walsender),
        of_router(seen.cpu.broker),
        of_router(megabytes(seen.peak_bytes)),
        of_router(seen.others_cores),
    ]);
    let measured = |figure: f64| (*reader == Which::Router).then_some(figure);
    report.record(&json!({
        "kind": Mode::Latency.name(), "reader": name, "rate": rate,
        "written_per_second": written_per_second,
        "p50_ms": p50, "p99_ms": p99, "p999_ms": p999, "max_ms": max,
        "reader_cpu_us": measured(seen.cpu.reader),
        "walsender_cpu_us": measured(seen.cpu.walsender),
        "broker_cpu_us": measured(seen.cpu.broker),
        "peak_rss_megabytes": measured(megabytes(seen.peak_bytes)),
        "others_cores": measured(seen.others_cores),
    }))?;
    if *reader == Which::Router && rate == MARKED_RATE {
        let mut mark = |what: &str, limit, measured| {
            let what = format!("{name}, {rate}/s: {what}");
            report.mark(Mark { what, limit: Limit::AtMost(limit), measured });
        };
        mark("commit to consumer p50, ms", 3.0, p50);
        mark("commit to consumer p99, ms", 20.0, p99);
    }
    Ok(())
}
