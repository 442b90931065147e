//! `dead-letters adopt`: a table that was copied from another database cluster.

use outbox_router::cli::{Audience, Exit};
use serde_json::{Value, json};

use crate::{
    held::held,
    server::{CommandOutput, Server, run_command_for},
};

/// As the owner of the tables.
async fn adopt(server: &Server, flags: &str, answer: &str) -> CommandOutput {
    let line = ["dead-letters", "adopt"].into_iter().chain(flags.split_whitespace());
    let line: Vec<&str> = line.collect();
    run_command_for(Audience::Person, &server.url("postgres"), &line, answer).await
}

/// What is held, as another cluster has written it, and beside it a table of another name that has
/// the OID which the outbox had there.
fn copied() -> Server {
    let server = held();
    server.sql("create table outbox (id text)");
    server.sql(
        "update outbox_router.held set commit_lsn = \
           ('FFFF/' || split_part(commit_lsn::text, '/', 2) || '0000')::pg_lsn",
    );
    server.sql("update outbox_router.held set state = 'dropped' where event_id = 'b1'");
    // Damaged messages keep nothing else from being adopted.
    server.sql("update outbox_router.held set messages = 'x' where event_id = 'a3'");
    server.sql(
        "insert into outbox_router.held_version (pipeline, slot, system_id, writes, open) values \
         ('outbox-router', 'outbox_router', '7', 9, 4), ('other', 'outbox_router', '7', 2, 1)",
    );
    server.sql(
        "insert into outbox_router.decision (pipeline, slot, commit_lsn, event_index, action) \
         values ('outbox-router', 'outbox_router', 'FFFF/40000', 0, 'drop')",
    );
    server
}

const PLACES: &str = "\
    select string_agg(commit_lsn || ':' || event_id, ' ' order by event_id) \
    from outbox_router.held";
const VERSIONS: &str = "\
    select string_agg(concat_ws(' ', pipeline, system_id, writes, open), '; ' order by pipeline) \
    from outbox_router.held_version";

#[tokio::test]
async fn adopted_rows_come_before_all_wal_in_their_order_and_name_this_clusters_table() {
    let server = copied();
    let before = server.sql(PLACES);
    for (flags, answer) in [("--dry-run", ""), ("", "no\n")] {
        let shown = adopt(&server, flags, answer).await;
        let head = "adopt 4 events of 2 keys, and 1 that have left, of the database cluster with \
                    system identifier 7\n";
        assert!(shown.out.starts_with(head), "{}", shown.out);
        assert_eq!(server.sql(PLACES), before);
    }
    let adopted = adopt(&server, "", "outbox_router\n").await;
    assert_eq!((adopted.exit, adopted.err.as_str()), (Exit::Done, ""), "{adopted:?}");
    assert!(adopted.out.contains("\nadopted 4 events; a router"), "{}", adopted.out);
    let expected = "0/1:a1 0/2:a2 0/3:a3 0/4:b1 0/5:c1 FFFF/60000:o1";
    assert_eq!(server.sql(PLACES), expected, "another pipeline's stay");
    assert_eq!(server.sql("select commit_lsn from outbox_router.decision"), "0/4");
    let here = server.sql("select system_identifier from pg_control_system()");
    assert_eq!(server.sql(VERSIONS), format!("other 7 2 1; outbox-router {here} 9 4"));
    // The relation's message is the first; its length is before it, and its letter.
    let oid = server.sql("select lpad(to_hex('outbox'::regclass::oid::int), 8, '0')");
    let named = "select distinct encode(substr(messages, 6, 4), 'hex') from outbox_router.held \
                 where event_id in ('a1', 'a2', 'c1')";
    assert_eq!(server.sql(named), oid);
    let again = adopt(&server, "--yes", "").await;
    let nothing = "nothing to adopt: no row of this pipeline is of another database cluster\n";
    assert_eq!((again.exit, again.out.as_str()), (Exit::Done, nothing));
}

/// Rows that were adopted once may be open still when the table is copied again.
#[tokio::test]
async fn rows_are_adopted_a_second_time_behind_those_of_the_first() {
    let server = copied();
    adopt(&server, "--yes", "").await;
    server.sql("update outbox_router.held set commit_lsn = 'FFFF/0' where event_id = 'a2'");
    server.sql("update outbox_router.held_version set system_id = '8'");
    let adopted = adopt(&server, "--yes --json", "").await;
    let json: Value = serde_json::from_str(&adopted.out).expect("JSON");
    let expected = json!({ "adopted": true, "from": "8", "open": 4, "keys": 2, "closed": 1 });
    assert_eq!(json, expected);
    assert_eq!(server.sql(PLACES), "0/6:a1 0/A:a2 0/7:a3 0/8:b1 0/9:c1 FFFF/60000:o1");
}

#[tokio::test]
async fn a_role_that_may_not_change_all_of_it_changes_nothing() {
    let server = copied();
    let before = server.sql(PLACES) + &server.sql(VERSIONS);
    let line = ["dead-letters", "adopt", "--yes"];
    let refused = run_command_for(Audience::Person, &server.url("operator"), &line, "").await;
    assert_eq!(refused.exit, Exit::Failure, "{refused:?}");
    assert!(refused.err.contains("--admin-url"), "{}", refused.err);
    assert_eq!(server.sql(PLACES) + &server.sql(VERSIONS), before);
}
