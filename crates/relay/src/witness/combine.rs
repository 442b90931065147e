//! How the records of a pipeline are combined into one witness.

use super::{Unreadable, Witness};
use crate::{
    failure::{Case, Failure},
    protocol::StateTopicRecord,
};

/// The witness that all records of a pipeline make together; `None` when there are no records.
///
/// The order in which they were written does not matter. The record with the greatest (generation,
/// timeline, held, position) counts. From the other records of its generation it takes:
///
/// * every open gap, since two routers may have found different gaps;
/// * every acceptance;
/// * of each topic, the id that the record with more changes names, and every topic that is lost;
/// * partition counts of topics that the later holders have none of. A later holder's own count
///   stays: it may have records in flight under it, and has not read of another count that an
///   earlier holder wrote late;
/// * that rows were left out of what was sent.
///
/// # Errors
/// One of the records cannot be read. That record may be the one that counts, so the others are not
/// used either.
pub fn combine(records: &[StateTopicRecord]) -> Result<Option<Witness>, Unreadable> {
    let mut read = Vec::with_capacity(records.len());
    for record in records {
        read.push(Witness::decode(&record.value)?);
    }
    Ok(join(read))
}

impl From<Unreadable> for Failure {
    fn from(unreadable: Unreadable) -> Self {
        let what = "the witness of this pipeline in the state topic cannot be read";
        Self::of(Case::WitnessUnreadable, what).caused_by(unreadable)
    }
}

/// [`combine`] for records that are already decoded.
pub(crate) fn join(witnesses: impl IntoIterator<Item = Witness>) -> Option<Witness> {
    let mut all: Vec<Witness> = witnesses.into_iter().collect();
    all.sort_by_key(Witness::rank);
    let mut first = all.pop()?;
    let generation = first.generation;
    all.retain(|other| other.generation == generation);
    // The later holder first.
    for other in all.iter().rev() {
        for (topic, count) in &other.partitions {
            first.partitions.entry(topic.clone()).or_insert(*count);
        }
    }
    for other in all {
        first.take_over_topics(&other);
        first.learn_notes(&other);
        first.take_over_acceptances(&other);
        for gap in other.gaps {
            if !first.gaps.iter().any(|known| known.is_same(&gap)) {
                first.gaps.push(gap);
            }
        }
    }
    first.drop_accepted_gaps();
    Some(first)
}

#[cfg(test)]
mod tests {
    use pgoutput::Lsn;

    use super::*;
    use crate::{
        failure::Code,
        source::{Gap, History, Interval, Mark, ServerMoment},
        witness::{Notes, acceptance::Changed},
    };

    fn at(generation: u64, position: u64) -> Witness {
        Witness { generation, ..Witness::at(Lsn::from_u64(position)) }
    }

    fn gap(code: Code) -> Gap {
        let to = Mark { lsn: Lsn::from_u64(9), at: None };
        Gap::new(Failure::new(code, "x"), Interval { from: None, to })
    }

    #[test]
    fn a_late_write_of_the_same_history_holds_an_earlier_position_and_does_not_count() {
        assert_eq!(join([at(1, 500), at(1, 200)]).unwrap().position, Lsn::from_u64(500));
        assert_eq!(join([]), None);
    }

    #[test]
    fn a_late_write_counts_for_less_than_the_witness_of_the_next_holder_of_the_slot() {
        let held = |wal_end, clock_micros, position| {
            let wal_end = Lsn::from_u64(wal_end);
            Witness { held: Some(ServerMoment { wal_end, clock_micros }), ..at(1, position) }
        };
        let position = |all: [Witness; 2]| join(all).unwrap().position.as_u64();
        assert_eq!(position([held(600, 1, 500), held(700, 0, 300)]), 300);
        assert_eq!(position([held(600, 2, 300), held(600, 1, 500)]), 300);
        assert_eq!(position([at(1, 500), held(600, 1, 300)]), 300, "no session wrote the first");
    }

    /// Promoted twice within seconds: the record of a session on the first timeline is stored after
    /// that of one on the second.
    #[test]
    fn a_late_write_of_a_timeline_that_was_left_counts_for_less() {
        let on = |timeline, wal_end, position| {
            let held = ServerMoment { wal_end: Lsn::from_u64(wal_end), clock_micros: 0 };
            let history = History { system_id: "1".to_owned(), timeline };
            Witness { held: Some(held), history: Some(history), ..at(2, position) }
        };
        let joined = join([on(2, 800, 100), on(3, 700, 300)]).unwrap();
        assert_eq!(joined.position.as_u64(), 300);
    }

    /// The late write has a count that its session began to use, and that the next holder, which
    /// may have something in flight, did not read of.
    #[test]
    fn a_late_write_changes_no_partition_count_that_the_next_holder_uses() {
        let held = |clock_micros, counts: &[(&str, i32)]| {
            let wal_end = Lsn::from_u64(600);
            let partitions = counts.iter().map(|(topic, count)| ((*topic).to_owned(), *count));
            let held = Some(ServerMoment { wal_end, clock_micros });
            Witness { held, partitions: partitions.collect(), ..at(1, 500) }
        };
        let (first, next) = (held(1, &[("a", 9), ("b", 2)]), held(2, &[("a", 5)]));
        let earliest = held(0, &[("b", 4), ("c", 1)]);
        for order in [[&first, &next, &earliest], [&earliest, &next, &first]] {
            let joined = join(order.map(Witness::clone)).unwrap();
            assert_eq!(joined.partitions, held(2, &[("a", 5), ("b", 2), ("c", 1)]).partitions);
        }
    }

    #[test]
    fn a_new_generation_counts_although_its_position_is_earlier() {
        assert_eq!(join([at(1, 500), at(2, 200)]).unwrap().position, Lsn::from_u64(200));
    }

    #[test]
    fn every_gap_of_the_generation_stays_open_and_an_earlier_one_is_closed() {
        let missing = at(2, 100).with_gaps(&[gap(Code::SlotMissing)]);
        let replaced = at(2, 300).with_gaps(&[gap(Code::PublicationReplaced)]);
        let old = at(1, 900).with_gaps(&[gap(Code::SlotLost)]);
        let joined = join([missing, old, replaced]).unwrap();
        let codes: Vec<Code> = joined.gaps.iter().map(|gap| gap.failure.code).collect();
        assert_eq!(codes, [Code::PublicationReplaced, Code::SlotMissing]);
    }

    #[test]
    fn that_rows_were_left_out_is_known_by_a_note_beside_a_router_and_by_what_follows() {
        let router = at(2, 100);
        let noted = |by, writes| Notes { any_left_out: true, by: Lsn::from_u64(by), writes };
        let note = router.noting(noted(90, 1)).unwrap();
        let known = join([note.clone(), router.clone()]).unwrap();
        assert_eq!(known, Witness { notes: noted(90, 1), ..router.clone() });
        assert_eq!(known.noting(noted(90, 1)), None);
        assert!(known.noting(noted(91, 1)).is_some(), "more rows since");
        assert!(known.noting(noted(90, 2)).is_some(), "more rows since");
        let mut session = router;
        assert_eq!(session.learn_notes(&known), Changed::Yes);
        assert_eq!(session.learn_notes(&known), Changed::No);
        assert_eq!(session.notes, noted(90, 1));
        let accepted = known.accept(&[], at(1, 200), "ann");
        assert_eq!(accepted.notes, noted(90, 1), "an acceptance is of gaps");
        let history = Some(History { system_id: "another".into(), timeline: 1 });
        let elsewhere = known.accept(&[], Witness { history, ..at(1, 200) }, "ann");
        assert_eq!(elsewhere.notes, noted(0, 0), "positions of another history");
        // A table that is gone says nothing; one that is there does.
        assert_eq!(known.clone().with_notes(None), known);
        let none = known.with_notes(Some(Notes { writes: 2, ..Notes::default() })).notes;
        assert_eq!(none, Notes { any_left_out: false, ..noted(90, 2) });
    }
}
