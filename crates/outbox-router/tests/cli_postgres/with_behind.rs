//! `dead-letters drop --with-behind`: many poisoned rows of one key are given up at once.

use std::thread;

use outbox_router::cli::Exit;
use serde_json::Value;

use crate::{
    dead_letters::{UNTOUCHED, dead_letters, dead_letters_answering, states},
    held::held,
    server::Server,
};

fn decisions(server: &Server) -> String {
    server.sql(
        "select string_agg(concat_ws(' ', event_id, action, reason, decided_by), '; ' order by id) \
         from outbox_router.decision",
    )
}

#[tokio::test]
async fn what_is_behind_is_dropped_with_the_dead_letter_and_nothing_else() {
    let server = held();
    server.sql("update outbox_router.held set code = 'R003' where event_id = 'a2'");
    let drop = "drop --id a1 --with-behind --by ann --reason storm";
    let dropped = dead_letters_answering(&server, drop, "outbox_router\n").await;
    assert_eq!((dropped.exit, dropped.err.as_str()), (Exit::Done, ""), "{dropped:?}");
    let head = "drop 1 dead letter, and what is held behind: 1 more dead letter and 1 event\n  \
                order-7  R003  a1  0/1:0  public.outbox\n\n\
                They are never delivered, and neither is what is held behind them now; ";
    assert!(dropped.out.starts_with(head), "{}", dropped.out);
    let done = "dropped 1 dead letter, and 2 events held behind\n";
    assert!(dropped.out.contains(done), "{}", dropped.out);
    let expected = "a1 dropping, a2 dropping, a3 dropping, b1 held, c1 held, o1 held";
    assert_eq!(states(&server), expected);
    let by = "drop storm ann as operator";
    assert_eq!(decisions(&server), format!("a1 {by}; a2 {by}; a3 {by}"));
    let decided_at = "select count(*) from outbox_router.held where decided_at is not null";
    assert_eq!(server.sql(decided_at), "3");
}

#[tokio::test]
async fn what_is_before_the_selected_dead_letter_stays() {
    let server = held();
    server.sql("update outbox_router.held set code = 'R003' where event_id = 'a2'");
    let dropped = dead_letters(&server, "drop --id a2 --with-behind --yes --json").await;
    assert_eq!(dropped.exit, Exit::Done, "{dropped:?}");
    let json: Value = serde_json::from_str(&dropped.out).unwrap();
    let numbers = ["selected", "changed", "behind", "letters_behind", "changed_behind"];
    assert_eq!(numbers.map(|name| json[name].as_i64().unwrap()), [1, 1, 1, 0, 1]);
    assert_eq!(json["with_behind"], true);
    let expected = "a1 held, a2 dropping, a3 dropping, b1 held, c1 held, o1 held";
    assert_eq!(states(&server), expected);
}

#[tokio::test]
async fn who_decides_about_an_event_that_waits_is_told_for_what() {
    let server = held();
    let requeued = dead_letters(&server, "requeue --id a3 --yes").await;
    assert_eq!(requeued.exit, Exit::Failure, "{requeued:?}");
    let expected = "error: no undecided dead letter is selected: the event at 0/3:0 is held behind \
                    the dead letter at 0/1:0\n  hint: outbox-router dead-letters show --id 0/1:0\n";
    assert_eq!(requeued.err, expected);
    assert_eq!(states(&server), UNTOUCHED);
}

#[tokio::test]
async fn a_dry_run_and_a_no_change_nothing_and_requeue_has_no_such_flag() {
    let server = held();
    let dry = dead_letters(&server, "drop --all --with-behind --dry-run").await;
    assert_eq!((dry.exit, dry.err.as_str()), (Exit::Done, ""), "{dry:?}");
    let head = "drop 3 dead letters, and what is held behind: 0 more dead letters and 2 events\n";
    assert!(dry.out.starts_with(head), "{}", dry.out);
    assert!(dry.out.ends_with("\nnothing was dropped\n"), "{}", dry.out);
    let refused = dead_letters_answering(&server, "drop --all --with-behind", "no\n").await;
    assert_eq!((refused.exit, refused.err.as_str()), (Exit::Failure, "nothing was dropped\n"));
    assert_eq!((states(&server).as_str(), decisions(&server).as_str()), (UNTOUCHED, ""));
}

/// Both wait for a lock on the first dead letter, the other person first: what is behind it is not
/// dropped then. What comes meanwhile is not dropped either.
#[test]
fn what_somebody_else_decides_meanwhile_and_what_comes_meanwhile_stay() {
    let server = held();
    let lock = "select from outbox_router.held where event_id = 'a1' for update";
    let session = server.transaction("lock", &format!("select pg_current_xact_id(); {lock}"));
    let run = |line: &str| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(dead_letters(&server, line))
    };
    let wait_for = |waiting: u8| {
        server.wait_until(&format!(
            "select count(*) = {waiting} from pg_stat_activity where wait_event_type = 'Lock' \
             and application_name = 'outbox-router dead-letters'"
        ));
    };
    let (requeued, dropped) = thread::scope(|scope| {
        let requeue = scope.spawn(|| run("requeue --id a1 --yes"));
        wait_for(1);
        let drop = scope.spawn(|| run("drop --all --with-behind --yes"));
        wait_for(2);
        server.sql(
            "insert into outbox_router.held (pipeline, slot, commit_lsn, event_index, \
               committed_at, key, key_hash, event_id, table_name, messages) \
             select pipeline, slot, '0/9', 0, now(), key, key_hash, 'new', table_name, messages \
             from outbox_router.held where event_id = 'c1'",
        );
        server.end_transaction("lock");
        (requeue.join().expect("an end"), drop.join().expect("an end"))
    });
    std::mem::drop(session);
    assert_eq!((requeued.exit, dropped.exit), (Exit::Done, Exit::Done), "{dropped:?}");
    let told =
        "dropped 2 dead letters, and 0 events held behind; somebody else has decided about 1 ";
    assert!(dropped.out.contains(told), "{}", dropped.out);
    let expected = "a1 requeued, a2 held, a3 held, b1 dropping, c1 dropping, o1 held, new held";
    assert_eq!(states(&server), expected);
}

/// PostgreSQL has no statistics of what was written in the last minute.
#[tokio::test]
async fn a_storm_of_ten_thousand_keys_is_dropped_without_statistics() {
    let server = held();
    // It takes two seconds, and many minutes where each key is compared with each.
    server.sql("alter system set statement_timeout = '60s'");
    server.sql("select pg_reload_conf()");
    server.sql("alter table outbox_router.held set (autovacuum_enabled = false)");
    server.sql(
        "insert into outbox_router.held select pipeline, slot, commit_lsn, 4 * n + behind, \
         committed_at, key, sha256(n::text::bytea), event_id, table_name, messages, \
         case behind when 0 then 'R003' when 2 then 'R003' end, null, state \
         from outbox_router.held, generate_series(1, 10000) n, generate_series(0, 3) behind \
         where event_id = 'a3'",
    );
    // Keys of one event each had another plan, which took half a minute.
    server.sql(
        "insert into outbox_router.held select pipeline, slot, '0/8', n, committed_at, key, \
         sha256(convert_to('alone ' || n, 'UTF8')), n::text, table_name, messages, 'R005', null, \
         state from outbox_router.held, generate_series(1, 10000) n where event_id = 'c1'",
    );
    let drop = dead_letters(&server, "drop --code R005 --dry-run").await;
    assert!(drop.out.starts_with("drop 10001 dead letters"), "{}", drop.out);
    server.sql("delete from outbox_router.held where commit_lsn = '0/8'");
    let drop = dead_letters(&server, "drop --id 0/3:4 --with-behind --yes").await;
    assert!(drop.out.contains("\ndropped 1 dead letter, and 3 events held behind\n"), "{drop:?}");
    let drop = dead_letters(&server, "drop --all --with-behind --yes").await;
    let done = "\ndropped 20001 dead letters, and 20000 events held behind\n";
    assert!(drop.out.contains(done), "{}", drop.out);
    let open = "select count(*) from outbox_router.held where state = 'held'";
    assert_eq!(server.sql(open), "1", "another pipeline's");
}
