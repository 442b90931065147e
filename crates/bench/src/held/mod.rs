//! What dead letters cost: the other keys' latency, draining a backlog, the way out of the table,
//! and the start. Every figure stands beside that of a router for which nothing is held, in runs
//! that take turns.

mod drain;
mod latency;
mod release;
mod start;
pub(crate) mod table;

use std::path::Path;

use testbed::kafka::KafkaCluster;

use crate::args::Args;
use crate::bench::Bench;
use crate::choices::HeldPart;
use crate::figures::Spread;
use crate::reader::Reader;
use crate::report::{Report, Table};

/// What each part of the measurement gets.
struct HeldBench<'a> {
    args: &'a Args,
    reader: &'a Reader,
    binary: &'a Path,
    kafka: &'a mut KafkaCluster,
    report: &'a mut Report,
}

/// Two kinds of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    /// Nothing is held.
    Calm,
    /// Something is held, or could be.
    Held,
}

impl Variant {
    const ALL: [Self; 2] = [Self::Calm, Self::Held];

    const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Held => "held",
        }
    }
}

/// The same figure of runs of both kinds that took turns. A run with an anomaly has none.
#[derive(Debug, Default)]
struct Pairs {
    calm: Vec<Option<f64>>,
    held: Vec<Option<f64>>,
}

impl Pairs {
    fn push(&mut self, variant: Variant, figure: Option<f64>) {
        match variant {
            Variant::Calm => self.calm.push(figure),
            Variant::Held => self.held.push(figure),
        }
    }

    fn of(&self, variant: Variant) -> Option<Spread> {
        let runs = match variant {
            Variant::Calm => &self.calm,
            Variant::Held => &self.held,
        };
        Spread::of(runs.iter().copied().flatten())
    }

    /// Held divided by calm, turn by turn.
    fn ratio(&self) -> Option<Spread> {
        let turns = self.held.iter().zip(&self.calm);
        Spread::of(turns.filter_map(|(held, calm)| Some((*held)? / (*calm)?)))
    }
}

/// A table of figures with their ratio: minimum, median and maximum of each.
fn compare(names: [&str; 2], rows: &[(&str, &Pairs)]) -> Table {
    let mut table = Table::new(&["min median max", names[0], names[1], "ratio"]);
    for (what, pairs) in rows {
        let figures = [pairs.of(Variant::Calm), pairs.of(Variant::Held), pairs.ratio()];
        let cells =
            figures.map(|spread| spread.map_or("-".to_owned(), |spread| spread.show_fine()));
        table.row([(*what).to_owned()].into_iter().chain(cells));
    }
    table
}

/// Measures every router.
pub(crate) async fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    let Bench { args, readers, kafka, report, .. } = bench;
    for (reader, binary) in Reader::routers(readers) {
        let mut bench = HeldBench { args, reader, binary, kafka, report };
        for part in args.held() {
            match part {
                HeldPart::Latency => latency::measure(&mut bench).await?,
                HeldPart::Drain => drain::measure(&mut bench).await?,
                HeldPart::Release => release::measure(&mut bench).await?,
                HeldPart::Start => start::measure(&mut bench).await?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_in_which_one_run_has_no_figure_has_no_ratio() {
        let mut pairs = Pairs::default();
        for (calm, held) in [(Some(2.0), Some(1.0)), (None, Some(9.0)), (Some(4.0), Some(4.0))] {
            pairs.push(Variant::Held, held);
            pairs.push(Variant::Calm, calm);
        }
        assert_eq!(pairs.ratio(), Some(Spread { min: 0.5, median: 0.75, max: 1.0 }));
        assert_eq!(pairs.of(Variant::Calm), Some(Spread { min: 2.0, median: 3.0, max: 4.0 }));
    }
}
