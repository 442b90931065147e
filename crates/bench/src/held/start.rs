//! The start of a router that may hold events: it opens one more connection, and reads its table.

use serde_json::json;

use super::table::server_with_table;
use super::{HeldBench, Pairs, Variant, compare};
use crate::arrival::{configured, start};
use crate::pipeline::BenchPipeline;
use crate::report::alternate_order;
use crate::server::{BadRows, BenchServer};
use crate::shape::Distribution;

pub(super) async fn measure(bench: &mut HeldBench<'_>) -> anyhow::Result<()> {
    let HeldBench { args, reader, binary, kafka, report } = bench;
    let mut variants = Vec::new();
    for variant in Variant::ALL {
        let (version, distribution) = (args.version(), Distribution::default());
        let server = match variant {
            Variant::Calm => {
                BenchServer::with_headers(version, distribution, BadRows::Halt).await?
            }
            Variant::Held => server_with_table(version, distribution, binary).await?,
        };
        let topic = format!("held-start-{}-{}", variant.name(), reader.slug());
        let pipeline = BenchPipeline::on(server, args, kafka, ("start", &topic)).await?;
        let router = configured(&pipeline, binary)?;
        variants.push((variant, pipeline, router));
    }
    let mut times = Pairs::default();
    for turn in 0..=args.runs {
        for (variant, pipeline, router) in alternate_order(turn, &mut variants) {
            let time = start(pipeline, router, turn).await?;
            let line = json!({ "reader": reader.name(), "variant": variant.name(), "run": turn,
                               "warm_up": turn == 0 });
            report.record("held-start", line, json!({ "first_ms": time }))?;
            if turn > 0 {
                times.push(*variant, Some(time));
            }
        }
    }
    let table = compare(["halts", "holds"], &[("start to first record, ms", &times)]);
    report.print(&format!("\nheld: start\n{}", table.show()))
}
