//! What is held for a pipeline that nobody sees any more, because its name or slot was changed in
//! the configuration, or because its slot is given up.

use outbox_router::cli::Exit;
use serde_json::{Value, json};

use crate::{
    dead_letters::dead_letters,
    give_back::give_back,
    held::hold_events,
    kafka::StateCluster,
    server::{CommandOutput, Server, run_command_at},
    status::{no_router, router},
    take_over::{CONNECTOR, step},
};

const OTHER: &str = "1 event of 1 key for the pipeline other (slot outbox_router): outbox-router \
                     dead-letters list --set name=other --set postgres.slot=outbox_router";
const OWN: &str = "5 events of 3 keys";

/// A slot, a publication and an outbox.
async fn set_up() -> Server {
    let server = Server::start();
    let made = server.run_command(&["setup", "--apply", "--create-table"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    assert!(!made.out.contains("held"), "nothing is said of what does not exist: {}", made.out);
    server
}

/// The same with events of this pipeline and of another in the table.
async fn holding() -> Server {
    let server = set_up().await;
    hold_events(&server);
    server
}

fn parsed(output: &CommandOutput) -> Value {
    serde_json::from_str(&output.out).expect("JSON")
}

fn other() -> Value {
    json!([{
        "name": "other", "slot": "outbox_router", "events": 1, "keys": 1,
        "hint": "outbox-router dead-letters list --set name=other --set postgres.slot=outbox_router",
    }])
}

#[tokio::test]
async fn after_a_rename_the_list_names_the_former_pipeline_and_what_to_type_shows_its_events() {
    let server = holding().await;
    let renamed = dead_letters(&server, "list --set name=renamed --json").await;
    assert_eq!(renamed.exit, Exit::Done, "another pipeline's are no finding: {renamed:?}");
    let others = parsed(&renamed)["other_pipelines"].clone();
    let names = |key: &str| others.as_array().unwrap().iter().map(|o| o[key].clone()).collect();
    let of_names: Vec<Value> = names("name");
    assert_eq!(of_names, ["other", "outbox-router"]);
    let of_events: Vec<Value> = names("events");
    assert_eq!(of_events, [1, 5]);
    let hint = others[1]["hint"].as_str().unwrap().replace("outbox-router dead-letters ", "");
    let found = dead_letters(&server, &hint).await;
    assert!(found.out.contains("\n3 dead letters of 3 keys, 2 events held behind\n"), "{found:?}");

    let of_slot = dead_letters(&server, "list --set postgres.slot=renamed").await;
    assert!(of_slot.out.starts_with("nothing is held\n\n"), "{}", of_slot.out);
    assert!(of_slot.out.ends_with("--set postgres.slot=outbox_router\n"), "{}", of_slot.out);
    assert_eq!(of_slot.out.lines().count(), 4, "{}", of_slot.out);
    let list = parsed(&dead_letters(&server, "list --json").await);
    assert_eq!(list["other_pipelines"], other());
}

#[tokio::test]
async fn events_that_have_left_are_not_named() {
    let server = holding().await;
    server.sql("update outbox_router.held set state = 'dropped' where pipeline = 'other'");
    let list = dead_letters(&server, "list").await;
    assert!(list.out.ends_with("2 events held behind\n"), "{}", list.out);
    assert_eq!(parsed(&dead_letters(&server, "list --json").await)["other_pipelines"], json!([]));
}

/// A name that no configuration may have cannot be typed.
#[tokio::test]
async fn a_name_that_is_none_is_shown_without_control_characters_and_without_a_command() {
    let server = holding().await;
    server.sql("update outbox_router.held set pipeline = E'a\\x1b b' where pipeline = 'other'");
    let list = dead_letters(&server, "list").await;
    let named = "\n1 event of 1 key for the pipeline a\\u{1b} b (slot outbox_router)\n";
    assert!(list.out.ends_with(named), "{}", list.out);
    let json = parsed(&dead_letters(&server, "list --json").await);
    assert_eq!(json["other_pipelines"][0]["hint"], Value::Null);
}

#[tokio::test]
async fn status_shows_what_is_held_while_no_router_answers() {
    let server = holding().await;
    let status = server.run_command(&["status", "--set", &no_router()]).await;
    let own = format!("\nheld      {OWN}: outbox-router dead-letters list\n");
    assert!(status.out.contains(&own), "{}", status.out);
    assert!(status.out.contains(&format!("\nheld      {OTHER}\n")), "{}", status.out);
    let json = parsed(&server.run_command(&["status", "--json", "--set", &no_router()]).await);
    assert_eq!(json["held"], json!({ "events": 5, "keys": 3 }));
    assert_eq!(json["other_pipelines"], other());
}

#[tokio::test]
async fn status_names_other_pipelines_while_a_router_answers_too() {
    let server = holding().await;
    let says = r#"{"state":"streaming","held":{"keys":3,"events":5,"oldest_seconds":7.0}}"#;
    let (address, request) = router(says);
    let line = ["status", "--set", &format!("admin.listen={address}")];
    let status = server.run_command(&line).await;
    request.join().unwrap();
    let own = format!("\nheld      {OWN}, the oldest for ");
    assert!(status.out.contains(&own), "{}", status.out);
    assert!(status.out.contains(&format!("\nheld      {OTHER}\n")), "{}", status.out);
}

#[tokio::test]
async fn status_says_nothing_of_a_table_that_is_empty_or_that_its_role_may_not_read() {
    let server = holding().await;
    server.sql("update outbox_router.held set state = 'delivered'");
    let line = ["status", "--set", &*no_router()];
    let status = server.run_command(&line).await;
    assert!(!status.out.contains("\nheld "), "{}", status.out);
    server.sql("update outbox_router.held set state = 'held'");
    server.sql("create role stranger login");
    let url = server.url("stranger");
    let status = run_command_at(&url, &line, "").await;
    assert!(status.out.contains("\nslot      outbox_router: confirmed"), "{status:?}");
    assert!(!status.out.contains("\nheld "), "{}", status.out);
}

#[tokio::test]
async fn setup_names_the_other_pipelines() {
    let server = holding().await;
    let again = server.run_command(&["setup", "--apply", "--dead-letters"]).await;
    assert_eq!(again.exit, Exit::Done, "{again:?}");
    assert!(again.out.contains(&format!("\ntable outbox_router.held: {OTHER}\n")), "{}", again.out);
    assert!(!again.out.contains(OWN), "its own are no news: {}", again.out);
}

#[tokio::test]
async fn who_tears_down_is_told_what_was_never_delivered_before_and_after() {
    let server = holding().await;
    let refused = server.run_command_answering(&["teardown", "--apply"], "no\n").await;
    assert_eq!(refused.exit, Exit::Failure);
    assert!(refused.err.starts_with("nothing was dropped\n"), "{}", refused.err);
    let told = format!("{OWN} are held, and not delivered: outbox-router dead-letters list");
    let (before, _) = refused.out.split_once("type outbox_router to drop it").expect("a question");
    assert!(before.contains(&told), "{before}");
    let dropped = server.run_command(&["teardown", "--apply", "--yes"]).await;
    assert_eq!(dropped.exit, Exit::Done, "{dropped:?}");
    let left = format!("\ntable outbox_router.held: left, with {OWN} that are not delivered\n");
    assert!(dropped.out.contains(&left), "{}", dropped.out);
    assert!(dropped.out.contains(&format!("\ntable outbox_router.held: {OTHER}\n")), "{dropped:?}");
    assert_eq!(server.sql("select count(*) from outbox_router.held where state = 'held'"), "6");
}

/// With the witness, nobody would notice any more that the table loses rows.
#[tokio::test]
async fn teardown_keeps_the_witness_while_events_are_held_unless_they_are_forgotten() {
    let (server, kafka) = (Server::start(), StateCluster::start());
    let run = async |line: &[&str]| {
        let line = kafka.with(line);
        server.run_command(&line.iter().map(String::as_str).collect::<Vec<_>>()).await
    };
    let made = run(&["setup", "--apply", "--create-table"]).await;
    assert_eq!(made.exit, Exit::Done, "{made:?}");
    hold_events(&server);
    let kept = run(&["teardown", "--apply", "--yes"]).await;
    assert_eq!(kept.exit, Exit::Done, "{kept:?}");
    let why = format!(
        "witness: kept, so that this is not forgotten: {OWN} are held, and not delivered\n"
    );
    assert!(kept.out.contains(&why), "{}", kept.out);
    assert!(!kept.out.contains("insert the missing rows again"), "{}", kept.out);
    assert!(kafka.record().await.is_some());
    // A router that ran before would write down that it found the publication after the slot.
    let again = run(&["setup", "--apply", "--dead-letters"]).await;
    assert_eq!(again.exit, Exit::Done, "{again:?}");
    let unused =
        "\nnote: no class of [on_error] is \"dead_letter\", so a row that cannot be delivered ";
    assert!(again.out.contains(unused), "{}", again.out);
    let next = "\nnext: outbox-router recover --admin-url ";
    assert!(again.out.contains(next), "{}", again.out);
    assert!(again.out.ends_with("; only then: outbox-router run\n"), "{}", again.out);
    let forgotten = run(&["teardown", "--apply", "--yes", "--forget"]).await;
    assert_eq!(forgotten.exit, Exit::Done, "{forgotten:?}");
    assert_eq!(kafka.record().await, None, "{}", forgotten.out);
}

#[tokio::test]
async fn a_connector_that_gets_the_slot_back_delivers_nothing_that_is_held() {
    let server = holding().await;
    let output = give_back(&server, &[]).await;
    let (state, text) = step(&output, "dead letters");
    assert_eq!(state, "to do", "{output:?}");
    assert_eq!(text, format!("{OWN} are held, and no connector delivers them"));
    assert!(output.out.contains(OTHER), "{}", output.out);
    server.sql("update outbox_router.held set state = 'delivered'");
    let output = give_back(&server, &[]).await;
    assert!(!output.out.contains("dead letters"), "{}", output.out);
    // What the writes have counted is beside it.
    server.sql(
        "insert into outbox_router.held_version (pipeline, slot, system_id, writes, open) \
         values ('outbox-router', 'outbox_router', '1', 1, 1); drop table outbox_router.held",
    );
    let output = give_back(&server, &[]).await;
    let (state, text) = step(&output, "dead letters");
    assert_eq!(state, "failed", "{output:?}");
    assert!(text.contains("P036") && text.contains("it had 1 open events"), "{text}");
}

/// A router without `[on_error]` may run as a role that was never granted the tables of another.
#[tokio::test]
async fn a_role_that_may_not_use_the_schema_reads_the_source_and_is_told_that_it_cannot_see_them() {
    let server = holding().await;
    server.sql("create role stranger login replication");
    let url = server.url("stranger");
    let line = ["migrate", "debezium", "-", "--give-back", "--json"];
    let output = run_command_at(&url, &line, CONNECTOR).await;
    assert_eq!(step(&output, "slot").0, "ok", "{output:?}");
    let (state, text) = step(&output, "dead letters");
    assert_eq!(state, "not checked", "{output:?}");
    assert!(text.starts_with("the role may not see which events are held: grant"), "{text}");
}
