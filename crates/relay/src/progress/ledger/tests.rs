//! The ledger against a naive model that keeps every record, and cases in which the manual's
//! wording is easily misread. Invariants are those of the crate's documentation.

use proptest::prelude::*;

use super::*;

fn lsn(position: u64) -> Lsn {
    Lsn::from_u64(position)
}

const T0: PgTimestamp = PgTimestamp::from_micros(0);

fn begin(commit_lsn: u64) -> Begin {
    Begin { final_lsn: lsn(commit_lsn), committed_at: T0, xid: pgoutput::Xid::from_u32(7) }
}

const WINDOW: Window = Window { events: 4, bytes: 1 << 20 };

fn run_of(tickets: Vec<Ticket>) -> Vec<AckRun> {
    let topic = crate::TopicId::from_index(0).unwrap();
    let mut acks = crate::Acks::default();
    for ticket in tickets {
        acks.push(ticket, topic);
    }
    acks.runs().to_vec()
}

fn credit(ledger: &mut Ledger, tickets: Vec<Ticket>) {
    for run in run_of(tickets) {
        assert!(matches!(ledger.credit(&run), Ok(Credit::Counted(..))));
    }
}

/// One transaction of `records` records, committed at `at..at + 8`.
fn transaction(ledger: &mut Ledger, at: u64, records: usize) -> Vec<Ticket> {
    ledger.begin(&begin(at)).unwrap();
    let tickets = (0..records).map(|_| ledger.issue(100).unwrap()).collect();
    ledger.commit(lsn(at), lsn(at + 8)).unwrap();
    tickets
}

#[test]
fn a_later_transaction_waits_for_an_earlier_one() {
    // I1
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    let first = transaction(&mut ledger, 100, 2);
    let second = transaction(&mut ledger, 200, 1);
    credit(&mut ledger, second);
    assert_eq!(ledger.settled(), Lsn::ZERO);
    credit(&mut ledger, first);
    assert_eq!(ledger.settled(), lsn(208));
}

#[test]
fn a_row_that_is_no_event_is_in_the_window_until_it_is_confirmed() {
    // I3, I6
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    let first = transaction(&mut ledger, 100, 1);
    for at in [200, 300, 400] {
        ledger.begin(&begin(at)).unwrap();
        ledger.count_without_record().unwrap();
        assert_eq!(ledger.commit(lsn(at), lsn(at + 8)), Ok(Carried::Events));
    }
    assert!(!ledger.has_room(WINDOW), "four events are past what is confirmed");
    assert_eq!(ledger.settled(), Lsn::ZERO);
    credit(&mut ledger, first);
    assert_eq!(ledger.settled(), lsn(408));
    ledger.confirm();
    assert!(ledger.has_room(WINDOW));
    assert_eq!(ledger.count_without_record(), Err(Disorder::RowOutsideTransaction));
}

#[test]
fn a_transaction_counts_only_with_its_commit() {
    // I3
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    ledger.begin(&begin(100)).unwrap();
    let ticket = ledger.issue(1).unwrap();
    credit(&mut ledger, vec![ticket]);
    assert_eq!(ledger.settled(), Lsn::ZERO);
    ledger.commit(lsn(100), lsn(108)).unwrap();
    assert_eq!(ledger.settled(), lsn(108));
}

#[test]
fn what_is_confirmed_is_the_end_of_the_commit_record() {
    // `commit_lsn` would send the transaction again for ever; one more would skip the next.
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    let tickets = transaction(&mut ledger, 100, 1);
    credit(&mut ledger, tickets);
    assert_eq!(ledger.settled(), lsn(108));
    // The next commit may begin exactly there.
    let tickets = transaction(&mut ledger, 108, 1);
    assert_eq!(ledger.settled(), lsn(108));
    credit(&mut ledger, tickets);
    assert_eq!(ledger.settled(), lsn(116));
}

#[test]
fn a_keepalive_waits_for_all_that_came_before_it() {
    // I4
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    let tickets = transaction(&mut ledger, 100, 1);
    ledger.keepalive(lsn(500));
    ledger.keepalive(lsn(600));
    assert_eq!(ledger.entries.len(), 1, "a keepalive needs no entry");
    assert_eq!(ledger.settled(), Lsn::ZERO);
    credit(&mut ledger, tickets);
    assert_eq!(ledger.settled(), lsn(600));
}

#[test]
fn a_keepalive_inside_a_transaction_is_ignored() {
    // I4
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    ledger.begin(&begin(100)).unwrap();
    ledger.keepalive(lsn(500));
    ledger.commit(lsn(100), lsn(108)).unwrap();
    assert_eq!(ledger.settled(), lsn(108));
}

#[test]
fn an_idle_stream_advances_by_keepalives() {
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    ledger.keepalive(lsn(500));
    assert_eq!(ledger.confirm().lsn(), lsn(500));
    ledger.keepalive(lsn(400));
    assert_eq!(ledger.confirm().lsn(), lsn(500), "I2: never backwards");
}

#[test]
fn a_keepalive_from_before_the_slot_is_ignored() {
    // Older servers move `confirmed_flush_lsn` back when a status update names a lower position.
    let mut ledger = Ledger::new(SessionId(0), lsn(500), WitnessStore::Memory);
    ledger.keepalive(lsn(400));
    assert_eq!(ledger.settled(), Lsn::ZERO);
    ledger.keepalive(lsn(600));
    assert_eq!(ledger.settled(), lsn(600));
}

#[test]
fn transactions_without_events_take_no_memory() {
    // I6: servers before 15 send an empty transaction for every transaction of the database, even
    // while Kafka is unreachable.
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    let tickets = transaction(&mut ledger, 100, 1);
    for at in 0..1_000 {
        ledger.begin(&begin(200 + 8 * at)).unwrap();
        assert_eq!(ledger.commit(lsn(200 + 8 * at), lsn(208 + 8 * at)), Ok(Carried::Nothing));
    }
    assert_eq!(ledger.entries.len(), 1);
    assert_eq!(ledger.settled(), Lsn::ZERO);
    credit(&mut ledger, tickets);
    assert_eq!(ledger.settled(), lsn(8_200));
}

#[test]
fn a_commit_before_what_was_received_is_noticed() {
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    let _pending = transaction(&mut ledger, 100, 1);
    ledger.begin(&begin(50)).unwrap();
    assert_eq!(ledger.commit(lsn(50), lsn(58)), Err(Disorder::Backwards(lsn(58))));
}

#[test]
fn acknowledgements_of_an_earlier_session_confirm_nothing() {
    let mut old = Ledger::new(SessionId(1), Lsn::ZERO, WitnessStore::Memory);
    let tickets = transaction(&mut old, 100, 1);
    let mut new = Ledger::new(SessionId(2), Lsn::ZERO, WitnessStore::Memory);
    let _pending = transaction(&mut new, 100, 1);
    assert_eq!(new.credit(&run_of(tickets)[0]), Ok(Credit::Stale));
    assert_eq!(new.settled(), Lsn::ZERO);
}

#[test]
fn a_surplus_acknowledgement_is_noticed() {
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    let tickets = transaction(&mut ledger, 100, 1);
    let run = run_of(tickets)[0];
    ledger.credit(&run).unwrap();
    assert_eq!(ledger.credit(&run), Err(Disorder::Overcredit));
}

#[test]
fn the_window_is_what_lies_past_the_last_confirmed_position() {
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    let stuck = transaction(&mut ledger, 100, 1);
    let rest = transaction(&mut ledger, 200, 3);
    credit(&mut ledger, rest);
    assert_eq!(ledger.unacked(), 1);
    assert!(!ledger.has_room(WINDOW), "one stuck record holds the others back");
    credit(&mut ledger, stuck);
    assert!(!ledger.has_room(WINDOW), "settled, but the server has not been told");
    assert!(ledger.is_worth_confirming(WINDOW));
    ledger.confirm();
    assert!(ledger.has_room(WINDOW));
}

#[test]
fn a_position_is_confirmed_only_when_the_witness_with_it_is_acknowledged() {
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Kafka);
    let first = transaction(&mut ledger, 100, 2);
    credit(&mut ledger, first);
    assert_eq!(ledger.confirm().lsn(), Lsn::ZERO, "settled, and in no witness");
    let ticket = ledger.issue_witness_ticket();
    assert_eq!(ticket.position(), lsn(108));
    assert_eq!(ledger.last().unwrap().end_lsn, lsn(108));
    let second = transaction(&mut ledger, 200, 1);
    credit(&mut ledger, second);
    ledger.witness_acked(ticket);
    assert_eq!(ledger.confirm().lsn(), lsn(108), "and not what settled meanwhile");
    assert_eq!(ledger.window().0, 1);
    let of_another_session =
        Ledger::new(SessionId(1), Lsn::ZERO, WitnessStore::Kafka).issue_witness_ticket();
    ledger.witness_acked(of_another_session);
    assert_eq!(ledger.confirm().lsn(), lsn(108));
}

#[test]
fn the_position_of_an_earlier_witness_is_confirmed_when_this_session_has_written_it() {
    let mut ledger = Ledger::new(SessionId(0), lsn(50), WitnessStore::Kafka);
    ledger.start_after(lsn(400), None);
    assert_eq!(ledger.confirm().lsn(), Lsn::ZERO);
    ledger.keepalive(lsn(300));
    assert_eq!(ledger.settled(), lsn(400));
    let ticket = ledger.issue_witness_ticket();
    let _pending = transaction(&mut ledger, 400, 1);
    ledger.witness_acked(ticket);
    assert_eq!(ledger.confirm().lsn(), lsn(400));
    // The slot's own position needs no witness.
    let mut ledger = Ledger::new(SessionId(0), lsn(400), WitnessStore::Kafka);
    ledger.start_after(lsn(400), None);
    assert!(!ledger.has_unwritten());
    assert_eq!(ledger.confirm().lsn(), lsn(400));
}

#[test]
fn a_transaction_larger_than_the_window_passes_with_its_unacknowledged_part_bounded() {
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    ledger.begin(&begin(100)).unwrap();
    let mut unacked = Vec::new();
    for _ in 0..100 {
        while ledger.has_room(WINDOW) {
            unacked.push(ledger.issue(10).unwrap());
        }
        assert_eq!(unacked.len(), 4);
        credit(&mut ledger, vec![unacked.remove(0)]);
    }
}

#[test]
fn a_large_transaction_waits_for_what_precedes_it() {
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    let _stuck = transaction(&mut ledger, 100, 1);
    ledger.begin(&begin(200)).unwrap();
    let mut tickets = Vec::new();
    while ledger.has_room(WINDOW) {
        tickets.push(ledger.issue(10).unwrap());
    }
    assert_eq!(tickets.len(), 3);
    credit(&mut ledger, tickets);
    assert!(!ledger.has_room(WINDOW));
}

#[test]
fn a_withdrawn_ticket_changes_nothing() {
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    ledger.begin(&begin(100)).unwrap();
    let ticket = ledger.issue(10).unwrap();
    ledger.withdraw(ticket);
    assert_eq!((ledger.unacked(), ledger.window()), (0, (0, 0)));
    assert_eq!(ledger.commit(lsn(100), lsn(108)), Ok(Carried::Nothing));
    assert_eq!(ledger.settled(), lsn(108));
}

#[test]
fn broken_order_is_noticed() {
    let mut ledger = Ledger::new(SessionId(0), Lsn::ZERO, WitnessStore::Memory);
    assert_eq!(ledger.issue(1), Err(Disorder::RowOutsideTransaction));
    assert_eq!(ledger.commit(lsn(1), lsn(2)), Err(Disorder::CommitWithoutBegin));
    ledger.begin(&begin(100)).unwrap();
    assert_eq!(ledger.begin(&begin(200)), Err(Disorder::NestedBegin));
    let wrong = Disorder::WrongCommit { begin: lsn(100), commit: lsn(101) };
    assert_eq!(ledger.commit(lsn(101), lsn(102)), Err(wrong));
    assert_eq!(ledger.commit(lsn(100), lsn(100)), Err(Disorder::Backwards(lsn(100))));
}

/// The naive model: every transaction with every record, nothing incremental.
#[derive(Debug, Default)]
struct Model {
    transactions: Vec<ModelTransaction>,
    /// The window begins after this.
    window_start: u64,
    confirmed: u64,
    /// On its way into the witness.
    writing: Option<u64>,
}

#[derive(Debug)]
struct ModelTransaction {
    end: Option<u64>,
    acked: Vec<bool>,
}

impl Model {
    fn settled(&self) -> u64 {
        self.transactions
            .iter()
            .take_while(|t| t.end.is_some() && t.acked.iter().all(|acked| *acked))
            .filter_map(|t| t.end)
            .last()
            .unwrap_or(0)
    }

    fn unacked(&self) -> u64 {
        let count =
            self.transactions.iter().flat_map(|t| &t.acked).filter(|acked| !**acked).count();
        u64::try_from(count).unwrap()
    }

    fn in_window(&self) -> u64 {
        let is_past = |t: &&ModelTransaction| t.end.is_none_or(|end| end > self.window_start);
        let past = self.transactions.iter().filter(is_past);
        u64::try_from(past.map(|t| t.acked.len()).sum::<usize>()).unwrap()
    }
}

#[derive(Debug, Clone)]
enum ModelStep {
    Begin,
    Record,
    Commit,
    Keepalive,
    Ack(prop::sample::Index),
    WriteWitness,
    WitnessAcked,
    Confirm,
}

fn steps() -> impl Strategy<Value = Vec<ModelStep>> {
    let step = prop_oneof![
        2 => Just(ModelStep::Begin),
        4 => Just(ModelStep::Record),
        2 => Just(ModelStep::Commit),
        1 => Just(ModelStep::Keepalive),
        4 => any::<prop::sample::Index>().prop_map(ModelStep::Ack),
        1 => Just(ModelStep::WriteWitness),
        1 => Just(ModelStep::WitnessAcked),
        1 => Just(ModelStep::Confirm),
    ];
    prop::collection::vec(step, 0..200)
}

fn store() -> impl Strategy<Value = WitnessStore> {
    prop_oneof![Just(WitnessStore::Memory), Just(WitnessStore::Kafka)]
}

proptest! {
    /// I1, I2, I3, I4, I9 and the window, after every step.
    #[test]
    fn agrees_with_the_naive_model(steps in steps(), store in store()) {
        let mut ledger = Ledger::new(SessionId(3), Lsn::ZERO, store);
        let mut model = Model::default();
        let mut tickets: Vec<(usize, usize, Ticket)> = Vec::new();
        let mut ticket = None;
        let mut position = 0;
        let mut last_settled = 0;
        for step in steps {
            position += 8;
            let open = model.transactions.last().is_some_and(|t| t.end.is_none());
            match step {
                ModelStep::Begin if !open => {
                    ledger.begin(&begin(position)).unwrap();
                    model.transactions.push(ModelTransaction { end: None, acked: Vec::new() });
                }
                ModelStep::Record if open => {
                    let number = model.transactions.len() - 1;
                    let acked = &mut model.transactions[number].acked;
                    tickets.push((number, acked.len(), ledger.issue(64).unwrap()));
                    acked.push(false);
                }
                ModelStep::Commit if open => {
                    let begin = ledger.open_commit_lsn().unwrap();
                    ledger.commit(begin, lsn(position)).unwrap();
                    model.transactions.last_mut().unwrap().end = Some(position);
                }
                ModelStep::Keepalive => {
                    ledger.keepalive(lsn(position));
                    if !open {
                        model.transactions
                            .push(ModelTransaction { end: Some(position), acked: Vec::new() });
                    }
                }
                ModelStep::Ack(which) if !tickets.is_empty() => {
                    let (number, record, ticket) = tickets.swap_remove(which.index(tickets.len()));
                    credit(&mut ledger, vec![ticket]);
                    model.transactions[number].acked[record] = true;
                }
                ModelStep::WriteWitness if store == WitnessStore::Kafka && ticket.is_none() => {
                    ticket = Some(ledger.issue_witness_ticket());
                    model.writing = Some(model.settled());
                }
                ModelStep::WitnessAcked => {
                    if let Some(ticket) = ticket.take() {
                        ledger.witness_acked(ticket);
                        model.window_start = model.writing.take().unwrap();
                    }
                }
                ModelStep::Confirm => {
                    if store == WitnessStore::Memory {
                        model.window_start = model.settled();
                    }
                    model.confirmed = ledger.confirm().lsn().as_u64();
                    prop_assert_eq!(model.confirmed, model.window_start);
                }
                ModelStep::Begin | ModelStep::Record | ModelStep::Commit | ModelStep::Ack(_) | ModelStep::WriteWitness => {}
            }
            prop_assert_eq!(ledger.settled().as_u64(), model.settled());
            prop_assert!(ledger.settled().as_u64() >= last_settled);
            last_settled = ledger.settled().as_u64();
            prop_assert_eq!(ledger.unacked(), model.unacked());
            // I6: an entry per transaction in flight with events, and the open one.
            let in_flight = model.transactions.iter().filter(|t| !t.acked.is_empty()).count();
            prop_assert!(ledger.entries.len() <= in_flight + 1);
            let past = model.in_window();
            prop_assert_eq!(ledger.window(), (past, past * 64));
        }
    }
}
