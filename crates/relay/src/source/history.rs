//! Whether the server's WAL is the one that Kafka's records come from.
//!
//! LSNs mean something only within one history. `IDENTIFY_SYSTEM` names it (system identifier and
//! timeline), and the timeline history file says where each timeline forked off the one before it,
//! its switch point (PostgreSQL manual, "Continuous Archiving", Timelines). After a promotion that
//! forgot no transaction which Kafka has, streaming continues; any other change of history needs a
//! person. A server that was restored to an earlier state on the same timeline is found here only
//! while its WAL ends before the witness, or while it gives ids of transactions again, or where it
//! lacks writes that the witness counts; later it is found because the witness's last transaction
//! is not sent again.

use pgoutput::Lsn;

use super::{
    gap::Gap,
    obstacle::Obstacle,
    server::{History, Server, TimelineHistory},
    slot::SlotReading,
};
use crate::{
    failure::{Case, Code, Failure},
    witness::{Notes, Witness},
};

/// How a server's history continues that of the witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continuation {
    /// It is the same.
    Same,
    /// A later timeline, which forked off the witness's here.
    Promoted(Lsn),
}

/// Whether [`continues`] needs the timeline history of this server.
pub fn needs_timelines(witness: Option<&Witness>, server: &Server) -> bool {
    let known = witness.and_then(|witness| witness.history.as_ref());
    known.is_some_and(|known| {
        known.system_id == server.history.system_id && known.timeline < server.history.timeline
    })
}

/// The witness, brought into the server's history: after a promotion it has a position no later
/// than that, and outranks each record of the former timeline in its generation.
///
/// # Errors
/// Those of [`continues`].
pub fn continued(
    mut witness: Witness,
    server: &Server,
    timelines: &TimelineHistory,
) -> Result<Witness, Obstacle> {
    if let Continuation::Promoted(switch_point) = continues(&witness, server, timelines)? {
        witness.position = witness.position.min(switch_point);
        // Where the former timeline ended says nothing about who held the slot later on this one.
        // If `held` were kept, records of different routers would be ranked by how far each saw the
        // former timeline, and a late write of one would hide the other's record.
        witness.held = None;
    }
    witness.history = Some(server.history.clone());
    Ok(witness)
}

/// Whether the server continues the history of the witness.
///
/// # Errors
/// [`Obstacle::OtherServer`]: another database cluster, a witness whose timeline is later than the
/// server's or not among its ancestors, or a promotion that forgot transactions which Kafka has.
/// [`Obstacle::Gaps`]: WAL that ends before the witness.
pub fn continues(
    witness: &Witness,
    server: &Server,
    timelines: &TimelineHistory,
) -> Result<Continuation, Obstacle> {
    let Some(known) = &witness.history else { return Ok(Continuation::Same) };
    if known.system_id != server.history.system_id {
        let what = format!(
            "this is another database cluster (system identifier {}, Kafka's records come from {})",
            server.history.system_id, known.system_id
        );
        // Two installations that share a Kafka cluster share a record if their name, database and
        // slot are the same.
        let gap = diverged(witness, Lsn::ZERO, Failure::of(Case::OtherCluster, what));
        return Err(Obstacle::OtherServer(Box::new(gap)));
    }
    match known.timeline.cmp(&server.history.timeline) {
        std::cmp::Ordering::Equal => {
            reaches(witness, server, witness.position)?;
            match lost_notes(witness, server, server.wal_end) {
                None => Ok(Continuation::Same),
                Some(lost) => Err(Obstacle::Gaps(vec![lost])),
            }
        }
        std::cmp::Ordering::Greater => Err(other_server(
            witness,
            Lsn::ZERO,
            format!(
                "the server is on timeline {}, Kafka's records come from timeline {}",
                server.history.timeline, known.timeline
            ),
        )),
        std::cmp::Ordering::Less => promoted(witness, known, server, timelines),
    }
}

/// Whether the server's WAL reaches the position. A walsender sends nothing that is not flushed, so
/// WAL that ends earlier is that of a restored server. Where the restored server began to write
/// again is not known, so the whole history counts as changed. Soon the server will have written
/// past the witness, and then the end of WAL no longer shows it; so this is a gap that is written
/// into the witness at once.
fn reaches(witness: &Witness, server: &Server, position: Lsn) -> Result<(), Obstacle> {
    if server.wal_end >= position {
        return Ok(());
    }
    let what = format!(
        "the server's WAL ends at {}, but up to {position} everything is in Kafka: the server was restored to an earlier state",
        server.wal_end
    );
    let failure = Failure::new(Code::HistoryChanged, what);
    Err(Obstacle::Gaps(vec![diverged(witness, Lsn::ZERO, failure)]))
}

/// The notes of rows that were left out, or skipped, which a server lacks that has the witness's
/// history up to `end`. Such a row may be as old as the pipeline. WAL that others have written
/// since the server was taken back hides by its length what is missing; the number of writes does
/// not.
fn lost_notes(witness: &Witness, server: &Server, end: Lsn) -> Option<Gap> {
    let Notes { by, writes, .. } = witness.notes;
    let seen = match server.note_writes {
        Some(there) if there < writes => {
            format!("the server has {there} of {writes} writes of notes, which say what rows")
        }
        Some(_) | None if by > end => format!(
            "the server has the WAL of Kafka's records up to {end}, and up to {by} rows were \
             noted that"
        ),
        Some(_) | None => return None,
    };
    let what = format!(
        "{seen} are in no topic (outbox_router.left_out, outbox_router.decision): a promotion or a \
         restored backup lost notes, so every row may be one"
    );
    Some(diverged(witness, Lsn::ZERO, Failure::new(Code::HistoryChanged, what)))
}

/// Whether the server gives ids of transactions that all come after those of the witness's horizon.
/// A server that was restored gives ids again, and soon enough its WAL is past the witness; its ids
/// may take longer. After a crash they go on behind all that WAL names, and WAL up to the witness's
/// position was flushed.
///
/// # Errors
/// [`Obstacle::Gaps`]: it gives an id again.
pub fn check_not_taken_back(witness: &Witness, reading: &SlotReading) -> Result<(), Obstacle> {
    let known = witness.horizon.filter(|horizon| horizon.lsn <= witness.position);
    let (Some(horizon), Some(next)) = (known, reading.next_xid) else { return Ok(()) };
    if next >= horizon.xmin {
        return Ok(());
    }
    let what = format!(
        "the server's next transaction is {}, but all before {} had ended when everything up to {} \
         was in Kafka: the server was restored to an earlier state",
        next.as_u64(),
        horizon.xmin.as_u64(),
        witness.position
    );
    let failure = Failure::new(Code::HistoryChanged, what);
    Err(Obstacle::Gaps(vec![diverged(witness, Lsn::ZERO, failure)]))
}

fn promoted(
    witness: &Witness,
    known: &History,
    server: &Server,
    timelines: &TimelineHistory,
) -> Result<Continuation, Obstacle> {
    let now = server.history.timeline;
    let Some(switch_point) = timelines.switch_point(known.timeline) else {
        return Err(other_server(
            witness,
            Lsn::ZERO,
            format!(
                "the server's timeline {now} does not come from timeline {}, which Kafka's records come from",
                known.timeline
            ),
        ));
    };
    // Between the witness's last transaction and its position there were no events: if the new
    // timeline lacks that WAL, Kafka has no record too many.
    let last = witness.last.map_or(Lsn::ZERO, |last| last.end_lsn);
    if last <= switch_point {
        if let Some(lost) = lost_notes(witness, server, switch_point) {
            return Err(Obstacle::OtherServer(Box::new(lost)));
        }
        return reaches(witness, server, witness.position.min(switch_point))
            .map(|()| Continuation::Promoted(switch_point));
    }
    Err(other_server(
        witness,
        switch_point,
        format!(
            "timeline {now} forked off timeline {} at {switch_point}, but up to {last} Kafka has its transactions: the promotion lost them",
            known.timeline
        ),
    ))
}

/// A finding that every reading of this server repeats and no reading of the right server does, so
/// the witness need not name it.
fn other_server(witness: &Witness, from: Lsn, what: String) -> Obstacle {
    Obstacle::OtherServer(Box::new(diverged(
        witness,
        from,
        Failure::new(Code::HistoryChanged, what),
    )))
}

fn diverged(witness: &Witness, from: Lsn, failure: Failure) -> Gap {
    Gap::of_another_history(failure, from, witness.mark())
}

#[cfg(test)]
mod tests {
    use pgoutput::{PgTimestamp, Xid};

    use super::*;
    use crate::{
        progress::transaction::LastTransaction,
        source::{ServerMoment, samples},
    };

    fn history(timeline: u32) -> History {
        History { system_id: "1".into(), timeline }
    }

    fn server(timeline: u32, wal_end: u64) -> Server {
        Server { history: history(timeline), wal_end: Lsn::from_u64(wal_end), ..samples::server() }
    }

    /// Everything up to 500, the last transaction ending at 300, on timeline 2.
    fn witness() -> Witness {
        let last = LastTransaction {
            commit_lsn: Lsn::from_u64(292),
            end_lsn: Lsn::from_u64(300),
            xid: Xid::from_u32(7),
            committed_at: PgTimestamp::from_micros(0),
        };
        Witness { history: Some(history(2)), last: Some(last), ..Witness::at(Lsn::from_u64(500)) }
    }

    fn continuation(server: &Server, timelines: &str) -> Result<Continuation, (u64, u64)> {
        let timelines = TimelineHistory::parse(timelines).unwrap();
        continues(&witness(), server, &timelines).map_err(|obstacle| {
            let gap = match obstacle {
                Obstacle::OtherServer(gap) => *gap,
                // By the next reading the server may have written past the witness.
                Obstacle::Gaps(mut gaps) if server.wal_end < witness().position => gaps.remove(0),
                other @ (Obstacle::SlotInUse { .. } | Obstacle::Gaps(_) | Obstacle::Failed(_)) => {
                    panic!("{other:?}")
                }
            };
            assert_eq!(gap.failure.code, Code::HistoryChanged);
            (gap.interval.begins_at().as_u64(), gap.interval.to.lsn.as_u64())
        })
    }

    /// The last row was left out at 700.
    #[test]
    fn a_server_that_lacks_notes_of_rows_that_were_left_out_is_a_gap_of_all_rows() {
        let notes = Notes { by: Lsn::from_u64(700), writes: 2, ..Notes::default() };
        let witness = Witness { notes, ..witness() };
        let server =
            |timeline, wal_end| Server { note_writes: Some(2), ..server(timeline, wal_end) };
        let message = |server: &Server, timelines: &str| {
            let timelines = TimelineHistory::parse(timelines).unwrap();
            let obstacle = continues(&witness, server, &timelines).err()?;
            let (is_written, gap) = match obstacle {
                Obstacle::OtherServer(gap) => (false, *gap),
                Obstacle::Gaps(mut gaps) => (true, gaps.remove(0)),
                other @ (Obstacle::SlotInUse { .. } | Obstacle::Failed(_)) => panic!("{other:?}"),
            };
            assert_eq!(is_written, server.history.timeline == 2, "a promotion stays visible");
            assert_eq!(
                (gap.failure.code, gap.interval.begins_at()),
                (Code::HistoryChanged, Lsn::ZERO)
            );
            Some(gap.failure.message)
        };
        assert_eq!(message(&server(2, 700), ""), None);
        assert!(message(&server(2, 699), "").unwrap().contains("outbox_router.left_out"));
        assert_eq!(message(&server(3, 900), "2\t0/2BC\ty\n"), None, "promoted at 700");
        assert!(message(&server(3, 900), "2\t0/2BB\ty\n").unwrap().contains("up to 0/2BB"));
        // Others have written WAL since the server was taken back.
        for (timeline, timelines) in [(2, ""), (3, "2\t0/2BC\ty\n")] {
            let after = |note_writes| {
                let server = Server { note_writes, ..server(timeline, 900) };
                message(&server, timelines)
            };
            assert!(after(Some(1)).unwrap().contains("1 of 2 writes"));
            assert_eq!((after(Some(2)), after(Some(3)), after(None)), (None, None, None));
        }
    }

    #[test]
    fn the_same_timeline_continues_unless_its_wal_is_shorter() {
        assert_eq!(continuation(&server(2, 500), ""), Ok(Continuation::Same));
        assert_eq!(continuation(&server(2, 499), ""), Err((0, 500)));
    }

    /// WAL alone shows a restore only as long as it is shorter.
    #[test]
    fn a_server_that_gives_ids_again_was_restored() {
        use crate::delivered::{FullXid, Horizon};

        let horizon = |lsn| Horizon { xmin: FullXid::from_u64(900), lsn: Lsn::from_u64(lsn) };
        let gives = |next: Option<u64>, horizon: Option<Horizon>| {
            let next_xid = next.map(FullXid::from_u64);
            let reading = SlotReading { next_xid, ..samples::reading(None) };
            match check_not_taken_back(&Witness { horizon, ..witness() }, &reading) {
                Err(Obstacle::Gaps(gaps)) => Some(gaps[0].failure.code),
                Ok(()) => None,
                Err(other) => panic!("{other:?}"),
            }
        };
        assert_eq!(gives(Some(900), Some(horizon(500))), None);
        assert_eq!(gives(Some(899), Some(horizon(500))), Some(Code::HistoryChanged));
        assert_eq!(gives(Some(899), Some(horizon(501))), None, "it may not be in any WAL");
        assert_eq!(gives(None, Some(horizon(500))), None, "a standby gives none");
        assert_eq!(gives(Some(899), None), None);
    }

    #[test]
    fn a_promotion_after_the_last_transaction_is_legal_and_one_before_it_is_not() {
        let promoted = |at: u64| {
            continuation(&server(3, 900), &format!("1\t0/10\tx\n2\t{}\ty\n", Lsn::from_u64(at)))
        };
        assert_eq!(promoted(600), Ok(Continuation::Promoted(Lsn::from_u64(600))));
        assert_eq!(promoted(300), Ok(Continuation::Promoted(Lsn::from_u64(300))));
        assert_eq!(promoted(299), Err((299, 500)));
        let shorter = continuation(&server(3, 400), "2\t0/258\ty\n");
        assert_eq!(shorter, Err((0, 500)), "such a server would be waited for in silence");
    }

    /// Two routers meet the promotion one after the other: the records of both are of one
    /// generation, and the later one counts.
    #[test]
    fn a_promotion_begins_no_generation_however_far_the_former_timeline_went() {
        let held = |wal_end| ServerMoment { wal_end: Lsn::from_u64(wal_end), clock_micros: 0 };
        let witness = Witness { held: Some(held(900)), ..witness() };
        let timelines = TimelineHistory::parse("2\t0/258\ty\n").unwrap();
        let begun = |wal_end| {
            let continued = continued(witness.clone(), &server(3, wal_end), &timelines).unwrap();
            continued.held_by(Some(held(wal_end))).generation
        };
        assert_eq!((begun(700), begun(1_000)), (1, 1));
    }

    #[test]
    fn an_earlier_timeline_one_of_another_branch_and_another_cluster_are_other_histories() {
        assert_eq!(continuation(&server(1, 900), ""), Err((0, 500)));
        assert_eq!(continuation(&server(4, 900), "1\t0/10\tx\n3\t0/20\ty\n"), Err((0, 500)));
        let mut other = server(2, 900);
        other.history.system_id = "2".into();
        assert_eq!(continuation(&other, ""), Err((0, 500)));
    }

    #[test]
    fn a_history_file_may_have_comments_and_nothing_else() {
        assert_eq!(TimelineHistory::parse("# none\n\n").unwrap(), TimelineHistory::default());
        for bad in ["1", "x\t0/10\tz", "1\tnowhere\tz"] {
            assert!(TimelineHistory::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_history_file_is_read_only_for_a_later_timeline_of_the_same_cluster() {
        assert!(!needs_timelines(None, &server(9, 0)));
        assert!(!needs_timelines(Some(&witness()), &server(2, 0)));
        assert!(needs_timelines(Some(&witness()), &server(3, 0)));
    }
}
