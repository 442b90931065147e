//! `skip`, on tables as `setup --dead-letters` makes them.

use std::thread;

use outbox_router::cli::{Audience, Exit};
use serde_json::Value;

use crate::{
    held::held,
    server::{CommandOutput, Server, run_command_at, run_command_for},
    status::{no_router, router},
};

/// The command for the row with id `e-1` at 0/16B3748, typed by a person while no router runs.
async fn skip(server: &Server, more: &str) -> CommandOutput {
    skip_answering(server, &no_router(), more, "").await
}

async fn skip_answering(server: &Server, listen: &str, more: &str, answer: &str) -> CommandOutput {
    let line = format!("skip --lsn 0/16B3748 --table public.outbox --set {listen} {more}");
    let line: Vec<&str> = line.split_whitespace().collect();
    run_command_for(Audience::Person, &server.url("operator"), &line, answer).await
}

fn decisions(server: &Server) -> String {
    server.sql(
        "select string_agg(concat_ws(' ', pipeline, slot, commit_lsn, \
         coalesce(event_index::text, 'null'), coalesce(event_id, 'null'), action, \
         coalesce(reason, 'null'), decided_by), '; ' order by id) from outbox_router.decision",
    )
}

#[tokio::test]
async fn a_skip_is_one_row_and_is_decided_once() {
    let server = held();
    let written = skip(&server, "--id e-1 --yes --by ann --reason test").await;
    assert_eq!((written.exit, written.err.as_str()), (Exit::Done, ""), "{written:?}");
    let expected = "\
skip the row with id e-1 of the transaction that commits at 0/16B3748
note: no router of this slot answers at admin.listen
      the skip counts if the router comes to stand there

The row is never delivered. The later rows of its key go on, and nothing else is left out. If the
event is needed, insert a corrected row under a new id.
recorded: the router skips the row with id e-1 when it stands there
to withdraw it before that: delete from outbox_router.decision where action = 'skip' and \
commit_lsn = '0/16B3748';
";
    assert_eq!(written.out, expected);
    let row = "outbox-router outbox_router 0/16B3748 null e-1 skip test ann as operator";
    assert_eq!(decisions(&server), row);

    let again = skip(&server, "--id e-1 --yes --by bob").await;
    assert_eq!((again.exit, again.err.as_str()), (Exit::Done, ""), "{again:?}");
    let told = "the row with id e-1 at 0/16B3748 is skipped already, by ann as operator at ";
    assert!(again.out.starts_with(told), "{}", again.out);
    assert!(again.out.ends_with("Z: test\nnothing was changed\n"), "{}", again.out);
    assert_eq!(decisions(&server), row);

    // Another id, no id, and the same row of another pipeline are other rows.
    for more in ["--id e-2 --by c", "--by c", "--id e-1 --by c --set name=other"] {
        let written = skip(&server, &format!("{more} --yes")).await;
        assert!(written.out.contains("\nrecorded: the router skips the row with"), "{written:?}");
    }
    let expected = format!(
        "{row}; outbox-router outbox_router 0/16B3748 null e-2 skip null c as operator; \
         outbox-router outbox_router 0/16B3748 null null skip null c as operator; \
         other outbox_router 0/16B3748 null e-1 skip null c as operator"
    );
    assert_eq!(decisions(&server), expected);
    let again = skip(&server, "--yes").await;
    assert!(
        again.out.starts_with("the row without an id at 0/16B3748 is skipped already"),
        "{}",
        again.out
    );
}

/// Both wait for the lock of the row that they skip.
#[test]
fn of_two_people_who_skip_at_once_one_decides() {
    let server = held();
    let lock = "select pg_current_xact_id(), pg_advisory_xact_lock(hashtextextended(\
                'outbox_router skip outbox-router outbox_router 0/16B3748', 0))";
    let session = server.transaction("lock", lock);
    let run = |by: &str| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let more = format!("--id e-1 --yes --by {by}");
        runtime.expect("a runtime").block_on(skip(&server, &more))
    };
    let (one, two) = thread::scope(|scope| {
        let one = scope.spawn(|| run("one"));
        let two = scope.spawn(|| run("two"));
        server.wait_until(
            "select count(*) = 2 from pg_stat_activity where wait_event_type = 'Lock' \
             and application_name = 'outbox-router skip'",
        );
        server.end_transaction("lock");
        (one.join().expect("an end"), two.join().expect("an end"))
    });
    drop(session);
    assert_eq!((one.exit, two.exit), (Exit::Done, Exit::Done), "{one:?} {two:?}");
    let is_first = |output: &CommandOutput| output.out.contains("\nrecorded: ");
    let (by, second) = if is_first(&one) { ("one", two) } else { ("two", one) };
    assert!(second.out.contains(&format!(" already, by {by} as operator ")), "{second:?}");
    let row = "outbox-router outbox_router 0/16B3748 null e-1 skip";
    assert_eq!(decisions(&server), format!("{row} null {by} as operator"));
}

#[tokio::test]
async fn nothing_is_decided_without_a_yes_or_in_a_dry_run() {
    let server = held();
    for answer in ["", "yes\n", "outbox_route\n"] {
        let refused = skip_answering(&server, &no_router(), "--id e-1", answer).await;
        assert_eq!((refused.exit, refused.err.as_str()), (Exit::Failure, "nothing was decided\n"));
        assert!(refused.out.ends_with("type outbox_router, the slot's name, to skip it: "));
    }
    let asked = skip_answering(&server, &no_router(), "--id e-1 --json", "outbox_router\n").await;
    assert_eq!((asked.exit, asked.out.as_str()), (Exit::Usage, ""), "{asked:?}");
    let dry = skip(&server, "--id e-1 --dry-run").await;
    assert_eq!((dry.exit, dry.err.as_str()), (Exit::Done, ""), "{dry:?}");
    assert!(dry.out.ends_with("\nnothing was decided\n"), "{}", dry.out);
    assert_eq!(decisions(&server), "");
    let agreed = skip_answering(&server, &no_router(), "--id e-1", "outbox_router\n").await;
    assert_eq!(agreed.exit, Exit::Done, "{agreed:?}");
    assert!(decisions(&server).contains(" e-1 skip null "));
}

#[tokio::test]
async fn what_the_router_stands_at_is_shown() {
    let server = held();
    for (status, shown) in [
        (
            r#"{"state":"failed","reason":{"code":"R009","message":"the row with id e-1 of outbox: no","lsn":"0/16B3748"}}"#,
            "\nthe router stands there: R009: the row with id e-1 of outbox: no\n",
        ),
        (
            r#"{"state":"failed","reason":{"code":"P004","message":"no password","lsn":"0/16"}}"#,
            "\nnote: the router does not stand at 0/16B3748, it is failed at 0/16: P004: no pass",
        ),
        (
            r#"{"state":"streaming","reason":null}"#,
            "\nnote: the router does not stand at 0/16B3748, it is streaming\n",
        ),
        (
            r#"{"state":"failed","slot":{"name":"theirs"}}"#,
            "\nnote: no router of this slot answers at admin.listen\n",
        ),
    ] {
        let (address, request) = router(status);
        let listen = format!("admin.listen={address}");
        let dry = skip_answering(&server, &listen, "--id e-1 --dry-run", "").await;
        assert!(request.join().unwrap().starts_with("GET /status.json HTTP/1.0\r\n"));
        assert!(dry.out.contains(shown), "{shown}\nin {}", dry.out);
    }
}

#[tokio::test]
async fn a_row_at_which_the_router_does_not_stand_is_refused() {
    const AT_10: &str = r#"{"state":"failed","reason":{"code":"R009","message":"the row with id 10 of outbox: no","lsn":"0/16B3748"}}"#;
    let server = held();
    for (id, refused) in [
        (
            "--id 1",
            "error: nothing was decided: the router stands at the row with id 10, and not at the row with id 1: R009: ",
        ),
        (
            "",
            "error: nothing was decided: the router stands at the row with id 10, and not at the row without an id: R009: ",
        ),
    ] {
        let (address, request) = router(AT_10);
        let listen = format!("admin.listen={address}");
        let output = skip_answering(&server, &listen, &format!("{id} --yes"), "").await;
        request.join().unwrap();
        assert_eq!((output.exit, output.out.as_str()), (Exit::Failure, ""), "{output:?}");
        assert!(output.err.starts_with(refused), "{}", output.err);
    }
    for (status, refused) in [
        (
            r#"{"state":"failed","reason":{"code":"R009","message":"the row with id e-1 of outbox: no","lsn":"0/16"}}"#,
            "error: nothing was decided: the router does not stand at 0/16B3748, but at the row with id e-1 at 0/16: R009: ",
        ),
        (
            r#"{"state":"streaming","reason":{"code":"K013","message":"the broker refuses a record","lsn":"0/16B3748"}}"#,
            "error: nothing was decided: a record that the broker refuses cannot be skipped, ",
        ),
    ] {
        let (address, request) = router(status);
        let listen = format!("admin.listen={address}");
        let output = skip_answering(&server, &listen, "--id e-1 --yes", "").await;
        request.join().unwrap();
        assert_eq!((output.exit, output.out.as_str()), (Exit::Failure, ""), "{output:?}");
        assert!(output.err.starts_with(refused), "{}", output.err);
    }
    assert_eq!(decisions(&server), "");
    let (address, request) = router(AT_10);
    let listen = format!("admin.listen={address}");
    let output = skip_answering(&server, &listen, "--id 10 --yes --by ann", "").await;
    request.join().unwrap();
    assert_eq!(output.exit, Exit::Done, "{output:?}");
    let told = "\ndecided: the router skips the row with id 10 within seconds\n";
    assert!(output.out.ends_with(told), "{}", output.out);
}

#[tokio::test]
async fn a_program_reads_what_was_decided() {
    let server = held();
    let json = |output: CommandOutput| -> Value {
        assert_eq!((output.exit, output.err.as_str()), (Exit::Done, ""), "{output:?}");
        serde_json::from_str(&output.out).expect("JSON")
    };
    let dry = json(skip(&server, "--id e-1 --dry-run --json").await);
    assert_eq!((&dry["dry_run"], &dry["written"]), (&true.into(), &false.into()));
    let written = json(skip(&server, "--id e-1 --yes --json --by ann --reason test").await);
    let members = ["action", "lsn", "id"].map(|name| written[name].as_str().unwrap().to_owned());
    assert_eq!(members, ["skip", "0/16B3748", "e-1"]);
    assert_eq!((&written["written"], &written["decided_before"]), (&true.into(), &Value::Null));
    assert_eq!(written["router"], serde_json::json!({"stands_there": false, "says": null}));
    let again = json(skip(&server, "--id e-1 --yes --json").await);
    assert_eq!((&again["written"], &again["dry_run"]), (&false.into(), &false.into()));
    assert_eq!(again["decided_before"]["by"], "ann as operator");
    assert_eq!(again["decided_before"]["reason"], "test");
    let without = json(skip(&server, "--dry-run --json").await);
    assert_eq!(without["id"], Value::Null);
}

#[tokio::test]
async fn a_role_that_may_not_decide_is_told_what_to_type() {
    let server = held();
    let listen = no_router();
    let row = ["--id", "e-1", "--table", "public.outbox"];
    let line = [&["skip", "--lsn", "0/1", "--yes", "--set", &listen], &row[..]].concat();
    let denied = run_command_at(&server.url("router"), &line, "").await;
    assert_eq!(denied.exit, Exit::Failure);
    assert!(denied.err.contains("permission denied for table decision"), "{}", denied.err);
    assert!(
        denied.err.contains("--admin-url postgres://ADMIN@HOST:PORT/DATABASE"),
        "{}",
        denied.err
    );
    assert_eq!(decisions(&server), "");
    let admin = server.url("operator");
    let line = [&line[..], &["--admin-url", &admin]].concat();
    let done = run_command_at(&server.url("router"), &line, "").await;
    assert_eq!(done.exit, Exit::Done, "{done:?}");
}

#[tokio::test]
async fn without_the_table_the_hint_makes_it() {
    let server = Server::start();
    let listen = no_router();
    for effect in ["--yes", "--dry-run"] {
        let row = ["--id", "e-1", "--table", "public.outbox"];
        let line = [&["skip", "--lsn", "0/1", "--set", &listen, effect], &row[..]].concat();
        let missing = run_command_at(&server.url("postgres"), &line, "").await;
        assert_eq!((missing.exit, missing.out.as_str()), (Exit::Failure, ""), "{missing:?}");
        let expected = "error: P036: this database has no table outbox_router.decision: ";
        assert!(missing.err.starts_with(expected), "{}", missing.err);
        let hint = missing.err.lines().last().unwrap_or_default();
        assert!(hint.contains("setup --apply ") && hint.contains(" --dead-letters"), "{hint}");
    }
}
