//! The runs of one reader over one backlog, and how two readers compare.
//!
//! The runs of all readers take turns, so the n-th runs were made under the same conditions:
//! readers are compared turn by turn, and what is shown is the ratio within a turn, its median and
//! its spread.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::conditions::Conditions;
use crate::figures::Spread;
use crate::reader::Reader;
use crate::report::{Column, Table};
use crate::run::Run;
use crate::way::Way;
use crate::yardstick::QuietTurns;

/// A reader, the way it reads on, and its runs; a run with an anomaly has no figures.
pub(crate) struct ReaderRuns {
    pub(crate) reader: Reader,
    pub(crate) way: Way,
    pub(crate) name: String,
    pub(crate) runs: Vec<Option<Run>>,
}

impl ReaderRuns {
    /// Every reader on every way it can use.
    pub(crate) fn all(readers: &[Reader], ways: &[Way]) -> Vec<Self> {
        let all_runs = ways.iter().flat_map(|way| {
            readers.iter().filter(|reader| reader.can_use(way.socket)).map(move |reader| {
                let name = match ways {
                    [_] => reader.name().to_owned(),
                    _ => format!("{}, {}", reader.name(), way.name()),
                };
                Self { reader: reader.clone(), way: way.clone(), name, runs: Vec::new() }
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

    pub(crate) fn segment_bytes(&self) -> Option<Spread> {
        let conditions = self.runs.iter().flatten().filter_map(|run| run.conditions.as_ref());
        Spread::of(conditions.filter_map(|seen| Some(seen.connection.as_ref()?.segment_bytes)))
    }

    /// What its runs were, the most frequent first; the others with how often they occurred.
    pub(crate) fn seen(
        &self,
        what: impl Fn(&Conditions) -> Option<&'static str>,
    ) -> Option<String> {
        let conditions = self.runs.iter().flatten().filter_map(|run| run.conditions.as_ref());
        counted(conditions.filter_map(what))
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

    /// Its speed relative to `other`, with the cores that other processes kept busy, turn by turn.
    /// A peer counts with the rate that speaks most for it.
    pub(crate) fn turns_beside(&self, other: &Self) -> Option<QuietTurns> {
        let others = |run: &Run| run.measured.others_cores;
        let pairs = self.runs.iter().zip(&other.runs);
        let turns: Vec<(f64, f64)> = pairs
            .filter_map(|(ours, theirs)| {
                let (ours, theirs) = (ours.as_ref()?, theirs.as_ref()?);
                let their_rate = if other.reader.is_peer() {
                    theirs.measured.best_rate()
                } else {
                    theirs.measured.events_per_second
                };
                let ratio = ours.measured.events_per_second / their_rate;
                Some((ratio, others(ours).max(others(theirs))))
            })
            .collect();
        QuietTurns::of(&turns)
    }

    /// A figure of each of its runs.
    pub(crate) fn turns(&self, figure: impl Fn(&Run) -> f64) -> Option<QuietTurns> {
        let runs = self.runs.iter().flatten();
        let turns: Vec<(f64, f64)> =
            runs.map(|run| (figure(run), run.measured.others_cores)).collect();
        QuietTurns::of(&turns)
    }

    /// The runs of `pg_recvlogical` on the same way.
    pub(crate) fn baseline<'a>(&self, all_runs: &'a [Self]) -> Option<&'a Self> {
        all_runs
            .iter()
            .find(|reader_runs| !reader_runs.reader.delivers() && reader_runs.way == self.way)
    }

    /// Its speed relative to `pg_recvlogical` on the same way.
    pub(crate) fn ratio_to_baseline(&self, all_runs: &[Self]) -> Option<Spread> {
        self.ratio_to(self.baseline(all_runs)?)
    }
}

/// Each name, with how often it occurs if there are several, the most frequent first.
fn counted<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut counts = BTreeMap::<&str, u32>::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut counts: Vec<(&str, u32)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    match counts.as_slice() {
        [] => None,
        [(name, _)] => Some((*name).to_owned()),
        several => {
            let texts: Vec<String> =
                several.iter().map(|(name, count)| format!("{name} {count}")).collect();
            Some(texts.join(", "))
        }
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
                reader_runs.reader.is_router() && reader_runs.way == first.way
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
    fn what_all_runs_were_is_named_once_and_what_some_were_with_their_number() {
        assert_eq!(counted(["sql", "sql"].into_iter()), Some("sql".to_owned()));
        let several = counted(["machine", "decoding", "decoding"].into_iter());
        assert_eq!(several, Some("decoding 2, machine 1".to_owned()));
        assert_eq!(counted(std::iter::empty()), None);
    }

    #[test]
    fn builds_differ_only_if_six_pairs_or_more_all_agree() {
        assert_eq!(verdict(&[1.02, 1.03, 1.01, 1.05, 1.02, 1.01]), "differs");
        assert_eq!(verdict(&[0.9, 0.95, 0.99, 0.98, 0.97, 0.9]), "differs");
        assert_eq!(verdict(&[1.2, 1.3, 0.99, 1.2, 1.2, 1.2]), "within the noise");
        assert_eq!(verdict(&[1.2, 1.3, 1.2, 1.2, 1.3]), "too few pairs for a result: --runs 6");
    }
}
