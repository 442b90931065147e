//! A backlog beside a thousand keys that are held: one event in a hundred is of them, and goes into
//! the table.

use serde_json::json;

use super::table::{empty_table, server_with_table};
use super::{HeldBench, Pairs, Variant, compare};
use crate::report::alternate_order;
use crate::run::run;
use crate::shape::{Distribution, Shape};
use crate::targets::{Limit, Target};
use crate::yardstick::Needs;

const HELD_KEYS: u64 = 1000;
/// All keys; events are distributed evenly over them.
const KEYS: u64 = 100_000;
const SHAPE: Shape = Shape::BATCHED;

pub(super) async fn measure(bench: &mut HeldBench<'_>) -> anyhow::Result<()> {
    let HeldBench { args, reader, binary, kafka, report } = bench;
    let events = args.events(SHAPE.usual_events());
    let distribution = Distribution { keys: KEYS, ..Distribution::default() };
    let server = server_with_table(args.version(), distribution, binary).await?;
    report
        .print(&format!("writing a backlog of {events} events behind {HELD_KEYS} poisoned rows"))?;
    let shape = SHAPE.within(events);
    let (held, calm) = server.write_poisoned_backlog(shape, events, HELD_KEYS).await?;
    let (mut rates, mut cpu) = (Pairs::default(), Pairs::default());
    let mut variants = [(Variant::Calm, calm), (Variant::Held, held)];
    for turn in 0..=args.runs {
        for (variant, written) in alternate_order(turn, &mut variants) {
            let name = format!("held-drain-{}-{turn}-{}", variant.name(), reader.slug());
            let socket = args.first_socket();
            let outcome = run((reader, socket), &server, kafka, *written, &name).await?;
            empty_table(&server).await?;
            let run = report.require_no_anomaly(&name, outcome)?;
            if turn > 0 {
                rates.push(*variant, run.as_ref().map(|run| run.measured.events_per_second / 1e3));
                cpu.push(*variant, run.as_ref().map(|run| run.measured.cpu.reader));
            }
            let Some(run) = run else { continue };
            report.print(&format!(
                "  run {turn} {}: {:.1}k/s, other processes kept {:.2} cores busy",
                variant.name(),
                run.measured.events_per_second / 1e3,
                run.measured.others_cores
            ))?;
            let line = json!({ "reader": reader.name(), "variant": variant.name(), "run": turn,
                               "warm_up": turn == 0, "held_keys": written.letters(),
                               "held_events": written.events - written.delivered() });
            report.record("held-drain", line, run)?;
        }
    }
    report.print(&format!(
        "\nheld: {} events, {}, {} of them held",
        held.events,
        shape.describe(),
        held.events - held.delivered()
    ))?;
    let figures = [("k events/s", &rates), ("router's CPU us/event", &cpu)];
    report.print(&compare(["nothing held", "1,000 keys held"], &figures).show())?;
    if let Some(ratio) = rates.ratio() {
        let what = format!("{}, backlog with {HELD_KEYS} held keys / without", reader.name());
        let target = Target::new(what, Limit::AtLeast(0.9), ratio);
        report.add_target(target.needs(Needs::QuietMachine));
    }
    Ok(())
}
