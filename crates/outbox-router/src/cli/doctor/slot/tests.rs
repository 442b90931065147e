use relay::Lsn;

use super::*;
use crate::cli::doctor::samples::{codes, server, slot, slots};

fn found(judge: fn(&SlotFacts) -> Vec<Finding>, slot: SlotHealth) -> Vec<&'static str> {
    codes(&judge(&slots(Some(slot))))
}

#[test]
fn a_slot_as_setup_makes_it_gives_no_cause() {
    let facts = slots(Some(slot()));
    let judged = [suitable, unreserved, other_reader].map(|judge| judge(&facts));
    assert!(judged.iter().all(Vec::is_empty), "{judged:?}");
    assert!(failover(&facts, &server()).is_empty() && none_free(&facts, &server()).is_empty());
    assert!(standby_slots(&facts, &server()).is_empty() && others(&facts.others).is_empty());
}

#[test]
fn what_run_refuses_has_its_code() {
    assert_eq!(codes(&suitable(&slots(None))), ["P010"]);
    let lost = SlotHealth { wal_status: WalStatus::Lost, ..slot() };
    assert_eq!(found(suitable, lost.clone()), ["P011"]);
    let plugin = Some("test_decoding".to_owned());
    assert_eq!(found(suitable, SlotHealth { plugin, ..slot() }), ["P013"]);
    let unreserved_slot = SlotHealth { wal_status: WalStatus::Unreserved, ..slot() };
    assert_eq!(found(unreserved, unreserved_slot), ["D013"]);
    assert!(found(unreserved, lost).is_empty(), "it is too late");
}

#[test]
fn a_slot_can_be_made_only_where_one_is_free() {
    let full = ServerFacts { slots_max: 0, ..server() };
    assert_eq!(codes(&none_free(&slots(None), &full)), ["P005"]);
    assert!(none_free(&slots(None), &server()).is_empty());
    assert!(none_free(&slots(Some(slot())), &full).is_empty());
}

#[test]
fn a_reader_under_another_name_is_no_router() {
    let held = SlotHealth { active_pid: Some(9), ..slot() };
    let read_by = |reader: Option<&str>| {
        let reader = reader.map(str::to_owned);
        other_reader(&SlotFacts { reader, ..slots(Some(held.clone())) })
    };
    assert!(read_by(Some("outbox-router")).is_empty());
    assert_eq!(codes(&read_by(Some("pg_recvlogical"))), ["D018"]);
    let hidden = read_by(None);
    assert_eq!(codes(&hidden), ["D018"]);
    assert!(hidden[0].message.starts_with("a session of another role (pid 9)"), "{hidden:?}");
}

fn physical(used: SlotUse) -> OtherSlot {
    let (name, kept) = ("standby".to_owned(), Some(1 << 20));
    OtherSlot { name, kind: SlotKind::Physical, used, kept }
}

#[test]
fn a_promotion_loses_a_slot_without_failover_and_a_standby_makes_that_urgent() {
    let facts = slots(Some(SlotHealth { failover: Some(false), ..slot() }));
    let found = failover(&facts, &server());
    assert_eq!((codes(&found), found[0].severity), (vec!["D014"], Severity::Note));
    let statement = "ALTER_REPLICATION_SLOT outbox_router (FAILOVER true)";
    assert!(found[0].remedy.as_deref().unwrap().contains(statement), "{found:?}");
    let with_standby = SlotFacts { others: vec![physical(SlotUse::Active)], ..facts };
    assert_eq!(failover(&with_standby, &server())[0].severity, Severity::Warning);
    let before_17 = slots(Some(SlotHealth { failover: None, ..slot() }));
    assert!(failover(&before_17, &server()).is_empty());
}

#[test]
fn the_stream_waits_for_a_standby_slot_that_nobody_advances() {
    let names = vec!["standby".to_owned(), "other".to_owned()];
    let server = ServerFacts { standby_slots: names, ..server() };
    let with = |others| SlotFacts { others, ..slots(Some(slot())) };
    let found = standby_slots(&with(vec![physical(SlotUse::Active)]), &server);
    assert_eq!(codes(&found), ["D015"]);
    let statement = "alter system set synchronized_standby_slots = 'standby'";
    assert!(found[0].remedy.as_deref().unwrap().contains(statement), "{found:?}");
    assert_eq!(
        codes(&standby_slots(&with(vec![physical(SlotUse::Inactive)]), &server)),
        ["D015", "D015"]
    );
    let without_failover = SlotHealth { failover: Some(false), ..slot() };
    assert!(standby_slots(&slots(Some(without_failover)), &server).is_empty());
}

#[test]
fn another_slot_keeps_wal_unless_it_is_read_or_lost() {
    assert_eq!(codes(&others(&[physical(SlotUse::Inactive)])), ["D016"]);
    assert!(others(&[physical(SlotUse::Active)]).is_empty());
    assert!(others(&[physical(SlotUse::Lost)]).is_empty());
    assert!(others(&[OtherSlot { kept: None, ..physical(SlotUse::Inactive) }]).is_empty());
}

fn open_transaction(holder: PinHolder, seconds: Option<f64>) -> WalPin {
    WalPin {
        holder,
        seconds,
        xid_age: 1,
        user: None,
        database: None,
        state: None,
        query_seconds: None,
    }
}

#[test]
fn a_transaction_is_long_after_minutes_or_when_it_keeps_wal() {
    let backend = PinHolder::Backend { pid: 9, application: Some("batch".to_owned()) };
    let pin = |seconds| open_transaction(backend.clone(), seconds);
    let slot = slot();
    assert!(long_transaction(None, Some(&slot)).is_empty());
    assert!(long_transaction(Some(&pin(Some(2.0))), Some(&slot)).is_empty());
    assert!(long_transaction(Some(&pin(None)), Some(&slot)).is_empty(), "its age is hidden");
    let found = long_transaction(Some(&pin(Some(3_600.0))), None);
    assert_eq!(codes(&found), ["D017"]);
    assert_eq!(found[0].remedy.as_deref(), Some("select pg_terminate_backend(9)"));
    let held = SlotHealth { restart_lsn: Some(Lsn::from_u64(0)), ..slot };
    let held = SlotHealth {
        current_wal_lsn: Lsn::from_u64(1 << 40),
        confirmed_flush_lsn: Some(Lsn::from_u64(1 << 40)),
        ..held
    };
    assert_eq!(codes(&long_transaction(Some(&pin(None)), Some(&held))), ["D017"]);
    let prepared = open_transaction(PinHolder::Prepared { gid: "o'dd".to_owned() }, Some(400.0));
    let found = long_transaction(Some(&prepared), None);
    assert_eq!(found[0].remedy.as_deref(), Some("rollback prepared 'o''dd'"));
}
