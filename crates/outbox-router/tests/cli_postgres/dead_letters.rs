//! `dead-letters`, on tables as `setup --dead-letters` makes them.

use std::{thread, time::Duration};

use outbox_router::cli::{Audience, Exit};
use serde_json::Value;
use testbed::wait::eventually;

use crate::{
    held::held,
    server::{CommandOutput, Server, run_command_at, run_command_for},
};

pub(crate) async fn dead_letters(server: &Server, line: &str) -> CommandOutput {
    dead_letters_answering(server, line, "").await
}

pub(crate) async fn dead_letters_answering(
    server: &Server,
    line: &str,
    answer: &str,
) -> CommandOutput {
    let line: Vec<&str> = std::iter::once("dead-letters").chain(line.split(' ')).collect();
    run_command_for(Audience::Person, &server.url("operator"), &line, answer).await
}

fn json(output: &CommandOutput) -> Value {
    serde_json::from_str(&output.out).expect("JSON")
}

pub(crate) fn states(server: &Server) -> String {
    server.sql(
        "select string_agg(event_id || ' ' || state, ', ' order by commit_lsn) \
         from outbox_router.held",
    )
}

pub(crate) const UNTOUCHED: &str = "a1 held, a2 held, a3 held, b1 held, c1 held, o1 held";

#[tokio::test]
async fn list_has_a_line_for_each_key_of_this_pipeline() {
    let server = held();
    let list = dead_letters(&server, "list").await;
    assert_eq!((list.exit, list.err.as_str()), (Exit::Failure, ""), "{list:?}");
    let expected = "\
key      dead letters  behind  oldest                code  id  to do
order-7  1             2       2026-01-01T01:00:00Z  R003  a1  outbox-router dead-letters show --id a1
order-8  1             0       2026-01-01T04:00:00Z  R005  b1  outbox-router dead-letters show --id b1
\\xff01   1             0       2026-01-01T05:00:00Z  R006  c1  outbox-router dead-letters show --id c1

3 dead letters of 3 keys, 2 events held behind

1 event of 1 key for the pipeline other (slot outbox_router): outbox-router dead-letters list \
--set name=other --set postgres.slot=outbox_router
";
    assert_eq!(list.out, expected);
    for (selected, key) in [
        ("--key order-7", "order-7"),
        ("--key-hex ff01", "\\xff01"),
        ("--id 0/4:0", "order-8"),
        ("--id b1", "order-8"),
        ("--code r003", "order-7"),
        ("--since 2026-01-01T05:00", "\\xff01"),
    ] {
        let list = dead_letters(&server, &format!("list {selected}")).await;
        assert!(list.out.contains(&format!("\n{key} ")), "{selected}: {}", list.out);
        assert!(list.out.contains("\n1 dead letter of 1 key, "), "{selected}: {}", list.out);
    }
    let none = dead_letters(&server, "list --since 1h --code R003").await;
    assert_eq!(none.exit, Exit::Done, "{none:?}");
    assert!(none.out.starts_with("nothing that is held is selected\n"), "{}", none.out);
    let wrong = dead_letters(&server, "list --since soon").await;
    assert_eq!(wrong.exit, Exit::Usage, "{wrong:?}");
    assert!(wrong.err.starts_with("error: --since: invalid input syntax"), "{}", wrong.err);
}

#[tokio::test]
async fn list_is_json_for_programs_and_lists_events_when_asked() {
    let server = held();
    server.sql("update outbox_router.held set state = 'requeued' where event_id = 'a1'");
    let list = json(&dead_letters(&server, "list --json").await);
    assert_eq!((&list["name"], &list["slot"]), (&"outbox-router".into(), &"outbox_router".into()));
    let totals = ["keys_held", "dead_letters", "undecided", "behind"];
    assert_eq!(totals.map(|name| list[name].as_i64().unwrap()), [3, 3, 2, 2]);
    let first = &list["keys"][0];
    assert_eq!((&first["key"], &first["at"]), (&"order-7".into(), &"0/1:0".into()));
    assert_eq!((&first["undecided"], &first["behind"]), (&0.into(), &2.into()));
    assert_eq!(first["hint"], "nothing: the router delivers it when it runs");
    assert_eq!(list["keys"][2]["key"]["hex"], "ff01");

    let events = dead_letters(&server, "list --events --key order-7").await;
    let expected = "\
0/1:0  2026-01-01T01:00:00Z  requeued     R003  order-7  a1  public.outbox
0/2:0  2026-01-01T02:00:00Z  held behind  -     order-7  a2  public.outbox
0/3:0  2026-01-01T03:00:00Z  held behind  -     order-7  a3  public.outbox

1 dead letter, 2 events held behind
";
    assert_eq!((events.out.as_str(), events.exit), (expected, Exit::Done));
    let events = dead_letters(&server, "list --events --json").await;
    let lines: Vec<Value> =
        events.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!((&lines[1]["id"], &lines[1]["code"]), (&"a2".into(), &Value::Null));
    assert_eq!(lines[3]["committed_at"], "2026-01-01T04:00:00Z");
}

/// More events than are read at once, at LSNs of which the longer ones are the later.
#[tokio::test]
async fn every_page_of_events_is_listed_once_and_in_order() {
    let server = held();
    server.sql(
        "insert into outbox_router.held select pipeline, slot, ('0/' || to_hex(n))::pg_lsn, 0, \
         committed_at, key, key_hash, event_id, table_name, messages, null, null, state \
         from outbox_router.held, generate_series(3000, 5499) n where event_id = 'a3'",
    );
    let events = dead_letters(&server, "list --events --json").await;
    assert_eq!((events.out.lines().count(), events.exit), (2_505, Exit::Failure));
    let places = events.out.lines().map(|line| line.split('"').nth(3).unwrap());
    let lsns: Vec<u64> = places
        .map(|place| u64::from_str_radix(&place["0/".len()..place.len() - ":0".len()], 16).unwrap())
        .collect();
    assert!(lsns.is_sorted_by(|a, b| a < b), "{lsns:?}");
}

/// Read as texts, 0/10 comes before 0/9.
#[tokio::test]
async fn positions_are_ordered_as_numbers_wherever_one_is_chosen() {
    let server = held();
    server.sql(
        "insert into outbox_router.held select pipeline, slot, '0/10', 0, committed_at, key, \
         key_hash, 'a10', table_name, messages, code, error, state \
         from outbox_router.held where event_id = 'a1'",
    );
    server.sql(
        "insert into outbox_router.held select pipeline, slot, '0/11', 0, committed_at, key, \
         key_hash, 'a11', table_name, messages, null, null, state \
         from outbox_router.held where event_id = 'a1'",
    );
    server.sql("update outbox_router.held set commit_lsn = '0/9' where event_id = 'a1'");
    let last = json(&dead_letters(&server, "show --id a11 --json").await);
    assert_eq!(last["waits_for"], "0/9:0");
    let shown = dead_letters(&server, "show --key order-7 --json").await;
    let first = shown.out.lines().next().unwrap();
    assert!(first.contains("\"at\":\"0/9:0\""), "{first}");
    let requeue = dead_letters(&server, "requeue --key order-7 --dry-run").await;
    let (a1, a10) = (requeue.out.find("0/9:0").unwrap(), requeue.out.find("0/10:0").unwrap());
    assert!(a1 < a10, "{}", requeue.out);
}

/// PostgreSQL has no statistics of what was written in the last minute.
#[tokio::test]
async fn thirty_thousand_keys_are_listed_and_counted_without_statistics() {
    let server = held();
    // Both commands take a second, and end their statements after a minute; where each key is
    // compared with each, they take several.
    server.sql("alter table outbox_router.held set (autovacuum_enabled = false)");
    server.sql(
        "insert into outbox_router.held select pipeline, slot, commit_lsn, 2 * n + behind, \
         committed_at, key, sha256(n::text::bytea), event_id, table_name, messages, \
         case behind when 0 then 'R003' end, null, state \
         from outbox_router.held, generate_series(1, 30000) n, generate_series(0, 1) behind \
         where event_id = 'a3'",
    );
    let list = dead_letters(&server, "list").await;
    let total = "\n30003 dead letters of 30003 keys, 30002 events held behind\n";
    assert!(list.out.contains(total), "{}", list.out.lines().last().unwrap_or_default());
    let drop = dead_letters(&server, "drop --all --dry-run").await;
    assert!(drop.out.starts_with("drop 30003 dead letters; behind: 30002 events\n"));
}

/// At this size the index of open events has a level more than the primary key, which a server
/// without statistics takes for the cheaper way to a key.
#[tokio::test]
async fn twelve_thousand_keys_are_listed_though_the_primary_key_seems_the_cheaper_way_to_each() {
    let server = held();
    server.sql("alter table outbox_router.held set (autovacuum_enabled = false)");
    server.sql(
        "insert into outbox_router.held select pipeline, slot, ('0/' || to_hex(100 + n))::pg_lsn, \
         n, committed_at, key, sha256(n::text::bytea), n::text, table_name, \
         repeat('m', 300)::bytea, 'R003', null, state \
         from outbox_router.held, generate_series(1, 12000) n where event_id = 'a3'",
    );
    let list = dead_letters(&server, "list").await;
    let total = "\n12003 dead letters of 12003 keys, 2 events held behind\n";
    assert!(list.out.contains(total), "{list:?}");
    // A session reports what it has read when it ends.
    let read = "select coalesce(sum(idx_tup_read), 0) from pg_stat_user_indexes \
                where relname = 'held'";
    let read = eventually(Duration::from_secs(60), "what the list has read", async || {
        let rows: u64 = server.sql(read).parse().expect("a number");
        Ok((rows >= 12_000).then_some(rows))
    });
    let rows = read.await.unwrap();
    assert!(rows < 1_000_000, "{rows} index entries were read for 12003 rows");
}

/// A key whose first event is decided, or no dead letter, is shown by what a person looks for.
#[tokio::test]
async fn the_event_of_a_key_is_its_first_undecided_dead_letter_else_its_first_one() {
    let server = held();
    let first = async || {
        let list = json(&dead_letters(&server, "list --key order-7 --json").await);
        (list["keys"][0]["at"].clone(), list["keys"][0]["code"].clone())
    };
    server.sql("update outbox_router.held set code = 'R004' where event_id = 'a3'");
    server.sql("update outbox_router.held set state = 'requeued' where event_id = 'a1'");
    assert_eq!(first().await, ("0/3:0".into(), "R004".into()));
    server.sql("update outbox_router.held set state = 'dropping' where event_id = 'a3'");
    assert_eq!(first().await, ("0/1:0".into(), "R003".into()));
    server.sql("update outbox_router.held set state = 'delivered' where event_id = 'a1'");
    assert_eq!(first().await, ("0/3:0".into(), "R004".into()));
    server.sql("update outbox_router.held set state = 'dropped' where event_id = 'a3'");
    assert_eq!(first().await, ("0/2:0".into(), Value::Null));
}

/// Without a router, or with one that waits, nothing else would say that something is left to do.
#[tokio::test]
async fn what_is_decided_and_has_not_left_is_counted_since_it_was_decided() {
    let server = held();
    let left =
        async || json(&dead_letters(&server, "list --json").await)["not_carried_out"].clone();
    let none = serde_json::json!({ "events": 0, "since": null });
    assert_eq!(left().await, none);
    let decide = |id: &str, state: &str, hour: u8| {
        server.sql(&format!(
            "update outbox_router.held set state = '{state}', \
             decided_at = '2026-01-02T0{hour}:00:00Z' where event_id = '{id}'"
        ));
    };
    decide("b1", "dropping", 5);
    let expected = serde_json::json!({ "events": 1, "since": "2026-01-02T05:00:00Z" });
    assert_eq!(left().await, expected);
    decide("a1", "requeued", 4);
    let expected = serde_json::json!({ "events": 4, "since": "2026-01-02T04:00:00Z" });
    assert_eq!(left().await, expected, "with what is behind it");
    let list = dead_letters(&server, "list").await;
    let line = "\ndecided, and not carried out yet: 4 events, since 2026-01-02T04:00:00Z; start the \
                router, or see why it waits: outbox-router status\n";
    assert!(list.out.contains(line), "{}", list.out);

    // What waits for an undecided dead letter cannot leave.
    server.sql("update outbox_router.held set code = 'R003' where event_id in ('a2', 'a3')");
    decide("a3", "requeued", 3);
    let expected = serde_json::json!({ "events": 2, "since": "2026-01-02T04:00:00Z" });
    assert_eq!(left().await, expected);
    decide("a1", "dropped", 4);
    decide("b1", "dropped", 5);
    assert_eq!(left().await, none);
    let list = dead_letters(&server, "list").await;
    assert!(!list.out.contains("not carried out"), "{}", list.out);
    // Events whose dead letter has left go by themselves.
    decide("a3", "delivered", 3);
    server.sql("update outbox_router.held set code = null where event_id = 'a2'");
    assert_eq!(left().await, serde_json::json!({ "events": 1, "since": null }));
}

#[tokio::test]
async fn show_has_the_columns_and_who_decided_what() {
    let server = held();
    let show = dead_letters(&server, "show --id a1").await;
    assert_eq!((show.exit, show.err.as_str()), (Exit::Done, ""), "{show:?}");
    for expected in [
        "event      a1, at 0/1:0\ntable      public.outbox\nkey        order-7 (7 bytes)\n\
         committed  2026-01-01T01:00:00Z\nstate      undecided, held since ",
        "why        R003: topic a*b is illegal\nbehind     2 open events of its key after it\n\
         columns    id       a1\n           payload  {\"total\": 12}\n",
        "to do      remove the cause (outbox-router explain R003), then\n           \
         outbox-router dead-letters requeue --id a1 --admin-url postgres://ADMIN@HOST:PORT/DATABASE\n           \
         or give it up: outbox-router dead-letters drop --id a1 \
         --admin-url postgres://ADMIN@HOST:PORT/DATABASE\n",
    ] {
        assert!(show.out.contains(expected), "{expected}\nin {}", show.out);
    }
    let behind = dead_letters(&server, "show --id 0/2:0").await;
    assert!(behind.out.contains("dead-letters show --id 0/1:0\n"), "{}", behind.out);
    let some = dead_letters(&server, "show --id a1 --id gone --id 0/9:9").await;
    assert!(some.exit == Exit::Failure && some.out.starts_with("event      a1, "), "{some:?}");
    let missing = "error: no held event of this pipeline has this id: gone\n\
                   error: no held event of this pipeline has this id: 0/9:9\n";
    assert_eq!(some.err, missing);
    let cut = dead_letters(&server, "show --id b1").await;
    assert!(cut.out.contains("columns    not kept: "), "{}", cut.out);

    let dropped = dead_letters(&server, "drop --id a1 --yes --by ann --reason test").await;
    assert_eq!(dropped.exit, Exit::Done, "{dropped:?}");
    server.sql(
        "update outbox_router.held set state = 'dropped', closed_at = now() where code = 'R003'",
    );
    let show = dead_letters(&server, "show --id a1").await;
    assert!(show.out.contains(" drop by ann as operator: test\n"), "{}", show.out);
    assert!(show.out.contains("state      dropped, held since "), "{}", show.out);
    let show = json(&dead_letters(&server, "show --id a1 --json").await);
    assert_eq!(
        (&show["state"], &show["error"]),
        (&"dropped".into(), &"topic a*b is illegal".into())
    );
    assert_eq!(show["columns"][1]["value"], "{\"total\": 12}");
    assert_eq!((&show["decisions"][0]["action"], &show["behind"]), (&"drop".into(), &2.into()));

    // By key, what is open and could not be delivered.
    let by_key = dead_letters(&server, "show --key order-7").await;
    assert_eq!((by_key.exit, by_key.out.as_str()), (Exit::Failure, ""), "{by_key:?}");
    assert!(by_key.err.starts_with("error: no dead letter of this pipeline has this key\n"));
    let by_key = dead_letters(&server, "show --key-hex ff01").await;
    assert!(by_key.out.starts_with("event      c1, at 0/5:0\n"), "{by_key:?}");
    let other = dead_letters(&server, "show --id o1").await;
    assert_eq!(other.exit, Exit::Failure, "another pipeline's: {other:?}");
}

#[tokio::test]
async fn requeue_changes_what_is_selected_and_says_who_and_why() {
    let server = held();
    let line = "requeue --key order-7 --key-hex ff01 --yes --by ann --reason fixed";
    let requeued = dead_letters(&server, line).await;
    assert_eq!((requeued.exit, requeued.err.as_str()), (Exit::Done, ""), "{requeued:?}");
    assert!(
        requeued.out.starts_with("requeue 2 dead letters; behind: 2 events\n"),
        "{}",
        requeued.out
    );
    assert!(requeued.out.contains("\nrequeued 2 dead letters\n"), "{}", requeued.out);
    let expected = "a1 requeued, a2 held, a3 held, b1 held, c1 requeued, o1 held";
    assert_eq!(states(&server), expected);
    let decided = server.sql(
        "select string_agg(concat_ws(' ', pipeline, slot, commit_lsn, event_index, event_id, action, \
         reason, decided_by), '; ' order by id) from outbox_router.decision",
    );
    let expected = "outbox-router outbox_router 0/1 0 a1 requeue fixed ann as operator; \
                    outbox-router outbox_router 0/5 0 c1 requeue fixed ann as operator";
    assert_eq!(decided, expected);
    let decided_at = "select count(*) from outbox_router.held where decided_at is not null";
    assert_eq!(server.sql(decided_at), "2");

    let again = dead_letters(&server, "drop --key order-7 --yes").await;
    assert_eq!((again.exit, again.out.as_str()), (Exit::Failure, ""), "{again:?}");
    assert!(
        again.err.starts_with(
            "error: no undecided dead letter is selected\n  \
             a1 is requeued (requeue by ann as operator at 2"
        ),
        "{}",
        again.err
    );
    assert!(again.err.contains("\n  a2 is held behind\n"), "{}", again.err);
    assert_eq!(server.sql("select count(*) from outbox_router.decision"), "2");
}

#[tokio::test]
async fn ids_of_no_undecided_dead_letter_are_named_and_the_others_are_decided_about() {
    let server = held();
    let first = dead_letters(&server, "requeue --id c1 --yes --by ann").await;
    assert_eq!(first.exit, Exit::Done, "{first:?}");
    let line = "drop --id a1 --id a2 --id c1 --id o1 --id a.9 --yes --by bob";
    let dropped = dead_letters(&server, line).await;
    assert_eq!(dropped.exit, Exit::Failure, "{dropped:?}");
    assert!(dropped.out.contains("\ndropped 1 dead letter\n"), "{}", dropped.out);
    let told: Vec<&str> = dropped.err.lines().collect();
    assert_eq!(told[0], "error: left out, since it is no undecided dead letter:");
    assert_eq!(told[1], "  a2 is held behind");
    assert!(told[2].starts_with("  c1 is requeued (requeue by ann as operator at 2"), "{told:?}");
    assert_eq!(told[3], "  o1 is no event of this pipeline that is or was held");
    assert_eq!(told[4], "  a.9 is no event of this pipeline that is or was held");
    assert_eq!(told.len(), 5, "{told:?}");
    let json = dead_letters(&server, "drop --id b1 --id c1 --id a.9 --dry-run --json").await;
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["selected"], &json["left_out"][0]["id"]), (&1.into(), &"c1".into()));
    let decision = json["left_out"][0]["decision"].as_str().unwrap();
    assert!(decision.starts_with("requeue by ann as operator at 2"), "{decision}");
    assert_eq!(json["left_out"][1], serde_json::json!({ "id": "a.9", "state": null }));
}

#[tokio::test]
async fn a_list_of_nothing_says_whether_anything_was_left_out() {
    let server = held();
    for line in ["list --code R001", "list --key nobody --events"] {
        let none = dead_letters(&server, line).await;
        let told = "nothing that is held is selected\n";
        assert!(none.exit == Exit::Done && none.out.starts_with(told), "{none:?}");
    }
}

#[tokio::test]
async fn what_is_behind_a_refused_dead_letter_is_not_counted() {
    let server = held();
    server.sql(
        "update outbox_router.held set code = 'R005' where event_id = 'a1' and pipeline <> 'other'",
    );
    let dry = dead_letters(&server, "requeue --all --dry-run").await;
    assert!(dry.out.starts_with("requeue 1 dead letter; behind: 0 events\n"), "{}", dry.out);
}

#[tokio::test]
async fn a_dead_letter_that_was_refused_again_says_so() {
    let server = held();
    let requeued = dead_letters(&server, "requeue --id a1 --yes").await;
    assert_eq!(requeued.exit, Exit::Done, "{requeued:?}");
    server.sql("update outbox_router.held set state = 'held' where event_id = 'a1'");
    let shown = dead_letters(&server, "show --id a1").await;
    let state = "\nstate      undecided, refused again after it was requeued, held since ";
    assert!(shown.out.contains(state), "{}", shown.out);
}

#[tokio::test]
async fn a_row_that_did_not_arrive_whole_is_dropped_and_not_requeued() {
    let server = held();
    let requeued = dead_letters(&server, "requeue --all --yes").await;
    assert_eq!(requeued.exit, Exit::Failure, "{requeued:?}");
    assert!(requeued.out.contains("\nrequeued 2 dead letters\n"), "{}", requeued.out);
    let refused = "error: cannot requeue 1 dead letter: only the beginning of the row arrived";
    assert!(requeued.err.starts_with(refused), "{}", requeued.err);
    assert!(
        requeued.err.contains("  order-8  R005  b1  0/4:0  public.outbox\n"),
        "{}",
        requeued.err
    );
    let expected = "a1 requeued, a2 held, a3 held, b1 held, c1 requeued, o1 held";
    assert_eq!(states(&server), expected);

    let line = "requeue --id b1 --yes --json";
    let refused = dead_letters(&server, line).await;
    assert_eq!((refused.exit, refused.err.as_str()), (Exit::Failure, ""), "{refused:?}");
    let document = json(&refused);
    assert_eq!((&document["changed"], &document["refused"][0]["id"]), (&0.into(), &"b1".into()));

    let dropped = dead_letters(&server, "drop --id b1 --yes --json").await;
    assert_eq!(dropped.exit, Exit::Done, "{dropped:?}");
    let document = json(&dropped);
    assert_eq!((&document["changed"], &document["action"]), (&1.into(), &"drop".into()));
    assert!(states(&server).contains("b1 dropping"));
}

#[tokio::test]
async fn nothing_changes_without_a_yes_or_in_a_dry_run() {
    let server = held();
    for answer in ["", "yes\n", "outbox_route\n"] {
        let refused = dead_letters_answering(&server, "drop --all", answer).await;
        assert_eq!((refused.exit, refused.err.as_str()), (Exit::Failure, "nothing was dropped\n"));
        assert!(refused.out.contains("type outbox_router, the slot's name, to drop them: "));
    }
    let line = ["dead-letters", "drop", "--all"];
    let asked = run_command_at(&server.url("operator"), &line, "outbox_router\n").await;
    assert_eq!(asked.exit, Exit::Usage, "nobody watches: {asked:?}");
    let asked = dead_letters_answering(&server, "drop --all --json", "outbox_router\n").await;
    assert_eq!((asked.exit, asked.out.as_str()), (Exit::Usage, ""), "{asked:?}");
    let dry = dead_letters(&server, "drop --all --dry-run --yes").await;
    assert_eq!(dry.exit, Exit::Done, "{dry:?}");
    assert!(dry.out.ends_with("\nnothing was dropped\n"), "{}", dry.out);
    let dry = json(&dead_letters(&server, "requeue --all --dry-run --json").await);
    assert_eq!(
        (&dry["dry_run"], &dry["selected"], &dry["changed"]),
        (&true.into(), &3.into(), &0.into())
    );
    assert_eq!(states(&server), UNTOUCHED);
    assert_eq!(server.sql("select count(*) from outbox_router.decision"), "0");

    let agreed = dead_letters_answering(&server, "drop --code R003", "outbox_router\n").await;
    assert_eq!(agreed.exit, Exit::Done, "{agreed:?}");
    assert!(states(&server).starts_with("a1 dropping, a2 held"));
}

/// Both wait for a lock on the first dead letter; then one of them changes both, and the other
/// nothing.
#[test]
fn of_two_people_who_decide_at_once_one_changes_everything() {
    let server = held();
    let lock = "select from outbox_router.held where event_id = 'a1' for update";
    let session = server.transaction("lock", &format!("select pg_current_xact_id(); {lock}"));
    let line = |verb: &str| format!("{verb} --id a1 --id c1 --yes --by {verb}");
    let run = |line: String| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(dead_letters(&server, &line))
    };
    let (requeue, drop) = thread::scope(|scope| {
        let requeue = scope.spawn(|| run(line("requeue")));
        let dropping = scope.spawn(|| run(line("drop")));
        server.wait_until(
            "select count(*) = 2 from pg_stat_activity where wait_event_type = 'Lock' \
             and application_name = 'outbox-router dead-letters'",
        );
        server.end_transaction("lock");
        (requeue.join().expect("an end"), dropping.join().expect("an end"))
    });
    std::mem::drop(session);
    let (first, second, state, action) = if requeue.exit == Exit::Done {
        (requeue, drop, "requeued", "requeue")
    } else {
        (drop, requeue, "dropping", "drop")
    };
    assert_eq!((first.exit, second.exit), (Exit::Done, Exit::Failure), "{first:?} {second:?}");
    assert!(first.out.contains("ed 2 dead letters\n"), "{first:?}");
    assert!(second.err.contains("somebody else has decided about all of them"), "{second:?}");
    let expected = format!("a1 {state}, a2 held, a3 held, b1 held, c1 {state}, o1 held");
    assert_eq!(states(&server), expected);
    let decisions = "select string_agg(event_id || ' ' || action || ' ' || decided_by, ', ' \
                     order by id) from outbox_router.decision";
    let by = format!("{action} {action} as operator");
    assert_eq!(server.sql(decisions), format!("a1 {by}, c1 {by}"));
}

#[tokio::test]
async fn a_role_that_may_not_record_decisions_changes_nothing() {
    let server = held();
    let line = ["dead-letters", "requeue", "--id", "a1", "--yes"];
    let denied = run_command_at(&server.url("router"), &line, "").await;
    assert_eq!(denied.exit, Exit::Failure);
    assert!(denied.err.contains("permission denied for table decision"), "{}", denied.err);
    assert!(
        denied.err.contains("--admin-url postgres://ADMIN@HOST:PORT/DATABASE"),
        "{}",
        denied.err
    );
    assert_eq!(states(&server), UNTOUCHED);
    let admin = server.url("operator");
    let line = [&line[..], &["--admin-url", &admin]].concat();
    let done = run_command_at(&server.url("router"), &line, "").await;
    assert_eq!(done.exit, Exit::Done, "{done:?}");
}

#[tokio::test]
async fn without_the_tables_the_hint_makes_them() {
    let server = Server::start();
    for line in ["list", "list --events", "show --id a", "drop --all --yes"] {
        let missing = run_command_at(
            &server.url("postgres"),
            &std::iter::once("dead-letters").chain(line.split(' ')).collect::<Vec<_>>(),
            "",
        )
        .await;
        assert_eq!(missing.exit, Exit::Failure, "{line}");
        let expected = "error: P036: this database has no table of dead letters: ";
        assert!(missing.err.starts_with(expected), "{line}: {}", missing.err);
        let hint = missing.err.lines().last().unwrap_or_default();
        assert!(hint.contains("setup --apply ") && hint.contains(" --dead-letters"), "{hint}");
    }
}
