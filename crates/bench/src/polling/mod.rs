//! The polling source: how fast it drains a table, how soon a NOTIFY brings a new row into Kafka,
//! and what both cost, beside the stream of a slot on the same table and the poller that texts
//! about this pattern have.

mod latency;
mod literature;
mod load;
mod source;
mod table;
mod throughput;

use crate::bench::Bench;
use crate::reader::Reader;

/// Measures all of it.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report, .. } = bench;
    for (reader, _) in Reader::routers(readers) {
        throughput::measure(args, reader, kafka, report).await?;
        latency::measure(args, reader, kafka, report).await?;
    }
    Ok(())
}
