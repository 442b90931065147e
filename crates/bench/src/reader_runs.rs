//! The runs of one reader over one backlog, and how two readers compare.
//!
//! The runs of all readers take turns, so the n-th runs were made under the same conditions:
//! readers are compared turn by turn, and what is shown is the ratio within a turn, its median and
//! its spread.

use serde::Serialize;

use crate::choices::{Socket, value_name};
use crate::figures::Spread;
use crate::reader::Reader;
use crate::report::{Column, Table};
use crate::run::Run;

/// A reader, the socket it reads from, and its runs; a run with an anomaly has no figures.
pub(crate) struct ReaderRuns {
    pub(crate) reader: Reader,
    pub(crate) socket: Socket,
    pub(crate) name: String,
    pub(crate) runs: Vec<Option<Run>>,
}

impl ReaderRuns {
    /// Every reader on every socket it can use.
    pub(crate) fn all(readers: &[Reader], sockets: &[Socket]) -> Vec<Self> {
        let all_runs = sockets.iter().flat_map(|&socket| {
            readers.iter().filter(move |reader| reader.can_use(socket)).map(move |reader| {
                let name = match sockets {
                    [_] => reader.name().to_owned(),
                    _ => format!("{}, {}", reader.name(), value_name(socket)),
                };
                Self { reader: reader.clone(), socket, name, runs: Vec::new() }
            })
        });
        all_runs.collect()
    }

    pub(crate) fn spread(&self, figure: impl Fn(&Run) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().flatten().map(figure))
    }

    pub(crate) fn rate(&self) -> Option<Spread> {
        self.spread(|run| run.measured.events_per_second)
    }

    pub(crate) fn peak_megabytes(&self) -> Option<Spread> {
        Spread::of(self.runs.iter().flatten().filter_map(|run| run.peak))
    }

    /// A figure of each run divided by that of `other` in the same turn.
    fn ratios(&self, other: &Self, figure: impl Fn(&Run) -> f64) -> Vec<f64> {
        let pairs = self.runs.iter().zip(&other.runs);
        pairs
            .filter_map(|(ours, theirs)| Some(figure(ours.as_ref()?) / figure(theirs.as_ref()?)))
            .collect()
    }

    /// Its speed relative to `other`.
    pub(crate) fn ratio_to(&self, other: &Self) -> Option<Spread> {
        Spread::of(self.ratios(other, |run| run.measured.events_per_second))
    }

    /// Its speed relative to `pg_recvlogical` on the same socket.
    pub(crate) fn ratio_to_baseline(&self, all_runs: &[Self]) -> Option<Spread> {
        let baseline = all_runs.iter().find(|reader_runs| {
            !reader_runs.reader.delivers() && reader_runs.socket == self.socket
        })?;
        self.ratio_to(baseline)
    }
}

/// Two builds of the router over one backlog.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Comparison {
    pub(crate) what: String,
    pub(crate) figure: &'static str,
    pub(crate) ratio: Spread,
    pub(crate) pairs: usize,
    pub(crate) verdict: &'static str,
}

impl Comparison {
    fn of(what: String, figure: &'static str, ratios: &[f64]) -> Option<Self> {
        let ratio = Spread::of(ratios.iter().copied())?;
        Some(Self { what, figure, ratio, pairs: ratios.len(), verdict: verdict(ratios) })
    }

    /// Every other build compared with the first one.
    pub(crate) fn all(all_runs: &[ReaderRuns]) -> Vec<Self> {
        let mut found = Vec::new();
        for (at, first) in
            all_runs.iter().enumerate().filter(|(_, reader_runs)| reader_runs.reader.is_router())
        {
            let earlier = all_runs.iter().take(at);
            let is_rival = |reader_runs: &&ReaderRuns| {
                reader_runs.reader.is_router() && reader_runs.socket == first.socket
            };
            if earlier.filter(is_rival).count() > 0 {
                continue;
            }
            for reader_runs in all_runs.iter().skip(at + 1).filter(is_rival) {
                let what = format!("{} / {}", reader_runs.name, first.name);
                let rate = reader_runs.ratios(first, |run| run.measured.events_per_second);
                let cpu = reader_runs.ratios(first, |run| run.measured.cpu.reader);
                found.extend(Self::of(what.clone(), "events/s", &rate));
                found.extend(Self::of(what, "CPU per event", &cpu));
            }
        }
        found
    }

    pub(crate) fn table(comparisons: &[Self]) -> Table {
        let columns: [Column<'_, &Self>; 5] = [
            ("builds", &|row| Some(row.what.clone())),
            ("figure", &|row| Some(row.figure.to_owned())),
            ("ratio: min median max", &|row| Some(row.ratio.show_fine())),
            ("pairs", &|row| Some(row.pairs.to_string())),
            ("verdict", &|row| Some(row.verdict.to_owned())),
        ];
        Table::of(&columns, comparisons)
    }
}

/// A sign test: five pairs that all agree come about by chance once in sixteen times, six once in
/// 32.
fn verdict(ratios: &[f64]) -> &'static str {
    let one_sided =
        ratios.iter().all(|ratio| *ratio > 1.0) || ratios.iter().all(|ratio| *ratio < 1.0);
    match (one_sided, ratios.len()) {
        (false, _) => "within the noise",
        (true, 0..=5) => "too few pairs for a result: --runs 6",
        (true, _) => "differs",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_differ_only_if_six_pairs_or_more_all_agree() {
        assert_eq!(verdict(&[1.02, 1.03, 1.01, 1.05, 1.02, 1.01]), "differs");
        assert_eq!(verdict(&[0.9, 0.95, 0.99, 0.98, 0.97, 0.9]), "differs");
        assert_eq!(verdict(&[1.2, 1.3, 0.99, 1.2, 1.2, 1.2]), "within the noise");
        assert_eq!(verdict(&[1.2, 1.3, 1.2, 1.2, 1.3]), "too few pairs for a result: --runs 6");
    }
}
