//! Where a stream has ended whose tables are polled from now on.

use pgoutput::{Lsn, Oid};

use super::{compared::altered, version::Streamed};
use crate::{
    failure::Failure,
    progress::transaction::LastTransaction,
    session::{Covered, HasEvents},
    source::{Catalog, Obstacle, Server, TimelineHistory, history::continued},
    witness::Witness,
};

/// Where a stream has ended, as it was read while the slot was held and nothing was missing.
#[derive(Debug, Clone)]
pub struct StreamEnd {
    /// Where the slot stands.
    slot_at: Lsn,
    /// What the witness covers past the slot.
    covered: Option<Covered>,
    catalog: Catalog,
}

/// What the slot sends again although the witness covers it. A server that was restored may have
/// committed others at the same positions, and they are in no topic.
#[derive(Debug)]
pub struct SentAgain(Option<Covered>);

/// Why it is not proved which committed rows the stream has delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unproved {
    /// The slot was not read up to their commits.
    Unread,
    /// Something was altered meanwhile, so the slot may lack some.
    Altered(String),
    /// The server does not send again what is acknowledged (P015).
    OtherHistory(Failure),
}

impl StreamEnd {
    /// Of a slot that stands at `confirmed`. The position of a witness from before a promotion is
    /// one of the former timeline: as far as the server has that timeline, it counts.
    ///
    /// # Errors
    /// The server does not continue the history of the witness.
    pub fn of(
        witness: Option<Witness>,
        confirmed: Lsn,
        (server, timelines): (&Server, &TimelineHistory),
        catalog: Catalog,
    ) -> Result<Self, Obstacle> {
        let witness = witness.map(|witness| continued(witness, server, timelines)).transpose()?;
        let covered = witness.and_then(|witness| Covered::by(&witness, confirmed));
        Ok(Self { slot_at: confirmed, covered, catalog })
    }

    /// The position before which every transaction is delivered, if the server sends again what the
    /// witness covers.
    pub fn delivered_until(&self) -> Lsn {
        self.covered.as_ref().map_or(self.slot_at, Covered::until)
    }

    /// What the slot has to send again, while it is read from its beginning.
    pub fn sent_again(&self) -> SentAgain {
        SentAgain(self.covered.clone())
    }

    /// Publication and tables, as they were then.
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What the stream has delivered of the rows that a snapshot shows. Before `read_until`, up to
    /// which the slot is read, every transaction has committed that the snapshot shows; `now` was
    /// read after the snapshot was taken.
    ///
    /// # Errors
    /// It is not proved.
    pub fn streamed(
        &self,
        read_until: Lsn,
        now: &Catalog,
        SentAgain(covered): SentAgain,
    ) -> Result<Streamed, Unproved> {
        if let Some(what) = altered(&self.catalog, now) {
            return Err(Unproved::Altered(what));
        }
        if let Some(covered) = covered {
            covered.passed().map_err(Unproved::OtherHistory)?;
        }
        Streamed::between(self.delivered_until(), read_until).ok_or(Unproved::Unread)
    }
}

impl SentAgain {
    /// Whether a row that commits there is an event that the witness covers.
    pub fn covers(&self, relation: Oid, commit_at: Lsn) -> bool {
        self.0.as_ref().is_some_and(|covered| covered.has_event(relation, commit_at))
    }

    /// The slot has sent this transaction, with or without rows that are covered.
    ///
    /// # Errors
    /// It has, and is in no topic.
    pub fn committed(&mut self, came: LastTransaction, covered: HasEvents) -> Result<(), Unproved> {
        match &mut self.0 {
            Some(past) if came.commit_lsn < past.until() => {
                past.committed(came, covered).map_err(Unproved::OtherHistory)
            }
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        progress::transaction::LastTransaction,
        source::{History, samples},
    };

    const CONFIRMED: u64 = 200;

    fn at(position: u64) -> Lsn {
        Lsn::from_u64(position)
    }

    fn history(timeline: u32) -> History {
        History { system_id: "1".to_owned(), timeline }
    }

    /// Everything up to 500 is acknowledged, and the last transaction ends at 300.
    fn witness() -> Witness {
        let last = LastTransaction {
            commit_lsn: Lsn::from_u64(292),
            end_lsn: Lsn::from_u64(300),
            xid: pgoutput::Xid::from_u32(7),
            committed_at: pgoutput::PgTimestamp::from_micros(0),
        };
        Witness { history: Some(history(1)), last: Some(last), ..Witness::at(Lsn::from_u64(500)) }
    }

    fn end(witness: Option<Witness>, (timeline, forked_at): (u32, u64)) -> Option<StreamEnd> {
        let wal_end = Lsn::from_u64(900);
        let server = Server { history: history(timeline), wal_end, ..samples::server() };
        let forked = format!("1\t{}\tx\n", Lsn::from_u64(forked_at));
        let timelines = TimelineHistory::parse(&forked).unwrap();
        let confirmed = Lsn::from_u64(CONFIRMED);
        StreamEnd::of(witness, confirmed, (&server, &timelines), samples::healthy()).ok()
    }

    fn until(witness: Option<Witness>, server: (u32, u64)) -> Option<u64> {
        end(witness, server).map(|end| end.delivered_until().as_u64())
    }

    /// What the new timeline commits between 400 and 500 is in no topic.
    #[test]
    fn a_position_of_a_former_timeline_counts_up_to_where_the_server_has_left_it() {
        assert_eq!(until(Some(witness()), (1, 0)), Some(500));
        assert_eq!(until(Some(witness()), (2, 400)), Some(400));
        assert_eq!(until(Some(witness()), (2, 600)), Some(500));
        assert_eq!(until(Some(witness()), (2, 299)), None, "the promotion lost a transaction");
        assert_eq!(until(None, (2, 400)), Some(CONFIRMED));
    }

    #[test]
    fn nothing_is_proved_where_the_publication_was_altered_or_the_slot_was_not_read() {
        let end = end(None, (1, 0)).unwrap();
        let streamed = |until, now: &Catalog| end.streamed(at(until), now, end.sent_again());
        assert!(streamed(CONFIRMED, &samples::healthy()).is_ok());
        assert_eq!(streamed(CONFIRMED - 1, &samples::healthy()).unwrap_err(), Unproved::Unread);
        let mut put_back = samples::healthy();
        put_back.publication.as_mut().unwrap().tables[0].entry = Some(Oid::from_u32(99));
        let altered = streamed(CONFIRMED, &put_back).unwrap_err();
        let what = "public.outbox was altered in the publication".to_owned();
        assert_eq!(altered, Unproved::Altered(what));
    }

    /// A server that was restored with its slot has committed others behind it.
    #[test]
    fn nothing_is_proved_unless_the_slot_sends_again_what_is_acknowledged() {
        let last = witness().last.unwrap();
        let earlier = LastTransaction { commit_lsn: at(210), end_lsn: at(220), ..last };
        let later = LastTransaction { commit_lsn: at(492), end_lsn: at(499), ..last };
        let behind = LastTransaction { commit_lsn: at(500), end_lsn: at(510), ..last };
        let other = LastTransaction { xid: pgoutput::Xid::from_u32(8), ..last };
        use HasEvents::{No, Yes};
        let is_proved = |sent: &[(LastTransaction, HasEvents)]| {
            let end = end(Some(witness()), (1, 0)).unwrap();
            let mut again = end.sent_again();
            let mut sent = sent.iter();
            sent.all(|(came, covered)| again.committed(*came, *covered).is_ok())
                && end.streamed(at(600), &samples::healthy(), again).is_ok()
        };
        assert!(is_proved(&[(earlier, Yes), (last, Yes), (later, No), (behind, Yes)]));
        assert!(!is_proved(&[]), "the last one has not come again");
        assert!(!is_proved(&[(other, Yes)]));
        assert!(!is_proved(&[(last, Yes), (later, Yes)]), "no topic has it");
    }

    #[test]
    fn without_a_last_transaction_a_position_past_the_slot_says_nothing() {
        let witness = Witness { last: None, ..witness() };
        assert_eq!(until(Some(witness), (1, 0)), Some(CONFIRMED));
    }
}
