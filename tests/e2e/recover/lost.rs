//! Slots that are gone, and what comes back.

use std::time::SystemTime;

use e2e::{Fixture, FixtureBuilder, LONG_DEADLINE, SHORT_DEADLINE, SLOT, wait_committed};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::Value;
use testbed::load::{Preset, Schema};
use testbed::postgres::{DATABASE, DatabaseSession, SUPERUSER};
use testbed::wait::eventually;

use super::{drop_slot, expect_closed, line, load, recover, streaming, wait_failed, write};

const HOUR_MS: i64 = 3_600_000;
/// Kafka refuses a time that is more than an hour ahead.
const AHEAD_MS: i64 = HOUR_MS - 300_000;

#[tokio::test]
async fn a_slot_dropped_under_load_is_recovered_exactly_while_writers_go_on() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    let running = fixture.load(load());
    wait_committed(&running, 300).await.unwrap();
    fixture.router.sigterm().unwrap();
    fixture.router.wait_exit(SHORT_DEADLINE).await.unwrap();
    wait_committed(&running, 300).await.unwrap();
    drop_slot(&session).await;
    fixture.router.start_again().unwrap();
    wait_failed(&mut fixture, "P010").await;
    wait_committed(&running, 300).await.unwrap();

    // The load updates rows.
    let (exit, dry, said) = recover(&fixture, &["--ids-unique", "--dry-run"]).await;
    assert_eq!(exit, Some(0), "{dry:#}{said}");
    assert!(dry["tables"][0]["missing"].as_u64().unwrap() >= 300, "{dry:#}");
    assert_eq!(dry["closed"], false);

    let (exit, answer, said) = recover(&fixture, &["--ids-unique"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["closed"], true, "{answer:#}");
    // The router that was up all the time goes on without a restart.
    fixture.wait_streaming().await.unwrap();
    wait_committed(&running, 300).await.unwrap();
    fixture.note(running.stop().await.unwrap());
    fixture.wait_delivered(LONG_DEADLINE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));

    let status = fixture.router.status().await.unwrap();
    let accepted = status.pointer("/witness/accepted").and_then(Value::as_array).unwrap();
    let recovered = accepted.iter().find_map(|one| one.pointer("/recovered/rows"));
    assert_eq!(recovered, Some(&answer["tables"][0]["missing"]), "{status:#}");
    let (exit, _, _) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "nothing is open");
}

#[tokio::test]
async fn a_slot_advanced_by_hand_and_a_publication_that_is_gone_are_recovered() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 100).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    write(&fixture, &session, 50).await;
    let advance = "SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())";
    session.query_one(advance, &[&e2e::SLOT]).await.unwrap();
    write(&fixture, &session, 25).await;
    session.batch_execute(&format!("DROP PUBLICATION {}", e2e::PUBLICATION)).await.unwrap();
    write(&fixture, &session, 50).await;

    // All that is refused is said at once, and by a dry run, too.
    for more in [&["--dry-run"][..], &[]] {
        let (exit, answer, said) = recover(&fixture, more).await;
        assert_eq!(exit, Some(1), "{answer:#}{said}");
        // Each with what the other needs.
        for remedy in [
            "recover --mend-publication --drop-slot --admin-url",
            "recover --drop-slot --mend-publication --admin-url",
        ] {
            assert!(said.contains(remedy), "{remedy} in {said}");
        }
        let is_dry = !more.is_empty();
        let refusals = answer["refusals"].as_array().map(Vec::len);
        assert_eq!(refusals, is_dry.then_some(2), "{answer:#}");
        assert!(!is_dry || answer["tables"][0]["missing"] == 125, "{answer:#}");
    }
    // Rows that were deleted would only be in the slot.
    let (exit, answer, said) = recover(&fixture, &["--mend-publication"]).await;
    assert_eq!(exit, Some(1), "{answer:#}{said}");
    assert!(said.contains("P039"), "{said}");
    assert!(said.contains("recover --mend-publication --drop-slot --admin-url"), "{said}");
    let (exit, answer, said) = recover(&fixture, &["--drop-slot"]).await;
    assert_eq!(exit, Some(1), "{answer:#}{said}");
    assert!(said.contains("P039"), "{said}");
    assert!(said.contains("recover --drop-slot --mend-publication --admin-url"), "{said}");
    let both = ["--drop-slot", "--mend-publication"];
    let (exit, answer, said) = recover(&fixture, &both).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 125, "{answer:#}");
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let (missing, _) = fixture.missing_and_doubled(&session).await.unwrap();
    assert_eq!(missing, 0);
}

#[tokio::test]
async fn a_transaction_that_was_open_for_long_is_found_by_the_margin() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    let aggregate_type = fixture.schema.types.first().unwrap().clone();
    // Its rows look as if they had been made three quarters of an hour ago.
    let other = fixture.session().await.unwrap();
    let early = format!(
        "BEGIN; INSERT INTO outbox (aggregate_type, aggregate_id, event_type, created_at) \
         SELECT '{aggregate_type}', 'early', 'Changed', now() - interval '45 min' \
         FROM generate_series(1, 20)"
    );
    other.batch_execute(&early).await.unwrap();
    write(&fixture, &session, 100).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    other.batch_execute("COMMIT").await.unwrap();
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 20, "{answer:#}{said}");
    fixture.restart().await.unwrap();
    // It is closed under the name under which it was shown, although no router had found it.
    let status = fixture.router.status().await.unwrap();
    let closed = status.pointer("/witness/accepted").and_then(Value::as_array).unwrap();
    let last = closed.last().unwrap();
    assert_eq!(last["name"], answer["gaps"][0], "{status:#}");
    assert!(answer["gaps"][0].as_str().unwrap().starts_with("P010@"), "{answer:#}");
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap().0, 0);
}

/// Its WAL is no backlog of ours, and nothing is lost with it.
#[tokio::test]
async fn a_slot_that_was_made_again_is_dropped_if_it_has_no_row_to_send() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    write(&fixture, &session, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 50).await;
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    let setup = ["setup", "--apply", "--admin-url", &url];
    let made = fixture.router.command(&setup).await.unwrap();
    let said = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(said.contains("next: outbox-router recover "), "{said}");
    let other = "CREATE TABLE other (n int); INSERT INTO other SELECT generate_series(1, 1000)";
    session.batch_execute(other).await.unwrap();
    let (exit, dry, said) = recover(&fixture, &["--dry-run"]).await;
    assert_eq!(exit, Some(0), "{dry:#}{said}");
    assert_eq!(dry["refusals"].as_array().map(Vec::len), Some(0), "{dry:#}");

    // Its writer deletes a row at once: the slot alone has it.
    write(&fixture, &session, 1).await;
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(1), "{answer:#}{said}");
    assert!(said.contains("has rows to send") && said.contains("--drop-slot"), "{said}");
    let advance = "SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())";
    session.query_one(advance, &[&SLOT]).await.unwrap();
    session.batch_execute("INSERT INTO other SELECT generate_series(1, 1000)").await.unwrap();
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 51, "{answer:#}");
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
}

#[tokio::test]
async fn a_publication_altered_while_rows_are_sent_keeps_the_gap_open() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 5_000).await;
    let line = line(&fixture, &["--rate", "1000"]);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    let run = fixture.router.start_command(&line).unwrap();
    eventually(LONG_DEADLINE, "the first records", async || {
        Ok((fixture.seen().await?.len() > 100).then_some(()))
    })
    .await
    .unwrap();
    // What is written meanwhile is in neither snapshot nor stream.
    let publication = e2e::PUBLICATION;
    let left_out = format!(
        "ALTER PUBLICATION {publication} SET (publish = 'update'); \
         INSERT INTO outbox (aggregate_type, aggregate_id, event_type) \
           SELECT aggregate_type, 'left-out', 'Changed' FROM outbox LIMIT 10; \
         ALTER PUBLICATION {publication} SET (publish = 'insert')"
    );
    for statement in left_out.split(';') {
        session.batch_execute(statement).await.unwrap();
    }
    let output = run.wait_with_output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("nothing was closed: the publication was altered meanwhile"), "{said}");
    assert!(said.contains("outbox-router recover --rate 1000 --admin-url"), "{said}");
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 10, "{answer:#}");
    fixture.restart().await.unwrap();
    write(&fixture, &session, 10).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
}

#[tokio::test]
async fn records_whose_times_are_an_hour_off_are_found() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 30).await;
    // Two thirds of them are in Kafka, with times of a clock that is behind, and of one ahead.
    let rows =
        session.query("SELECT id::text FROM outbox ORDER BY id LIMIT 20", &[]).await.unwrap();
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", fixture.kafka.bootstrap()).create().unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    let now = i64::try_from(now).unwrap();
    let topic = fixture.topics.first().unwrap();
    for (row, off) in rows.iter().zip([-HOUR_MS, AHEAD_MS].into_iter().cycle()) {
        let id: String = row.get(0);
        let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some(&id) });
        let record = BaseRecord::<str, str>::to(topic).key("key").payload("{}").headers(headers);
        // They are records of the rows by their ids alone.
        producer.send(record.timestamp(now + off)).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(SHORT_DEADLINE).unwrap();
    let (exit, answer, said) = recover(&fixture, &["--ids-unique"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 10, "{answer:#}");
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
}

/// Kafka's disks are taken back to a snapshot, and the witness with them: the record of an event
/// that was held until then is gone, and its row is older than all that the gap has.
#[tokio::test]
async fn an_event_that_left_the_held_ones_since_kafkas_snapshot_is_compared_however_old_its_row_is()
{
    let builder =
        of_invoices().set("on_error.too_large", "dead_letter").set("dead_letters.topic", "");
    let mut fixture = builder.prepare().await.unwrap();
    let made = admin(&fixture, &["setup", "--apply", "--dead-letters"]).await;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    limit_invoices(&fixture, "1000").await;
    let session = fixture.session().await.unwrap();
    session.batch_execute("CREATE INDEX ON outbox (created_at)").await.unwrap();
    fixture.start_accepted().await.unwrap();
    session.batch_execute(INVOICE).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    limit_invoices(&fixture, "1000000").await;
    write(&fixture, &session, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let requeued = admin(&fixture, &["dead-letters", "requeue", "--all", "--yes"]).await;
    assert!(requeued.status.success(), "{}", String::from_utf8_lossy(&requeued.stderr));
    wait_invoice(&fixture).await;
    let is_empty = |status: &Value| status["held"]["events"] == 0;
    fixture.router.wait_status("nothing is held", SHORT_DEADLINE, is_empty).await.unwrap();
    fixture.kill_router().await.unwrap();
    expect_invoice_again(&fixture, &session).await;
}

/// As above, and `recover` had left the row out before, since it was too large.
#[tokio::test]
async fn a_row_that_was_left_out_and_sent_since_kafkas_snapshot_is_compared_however_old_it_is() {
    let (mut fixture, session) = streaming(of_invoices()).await;
    limit_invoices(&fixture, "1000").await;
    write(&fixture, &session, 5).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    session.batch_execute(INVOICE).await.unwrap();
    drop_slot(&session).await;
    let (exit, answer, said) = recover(&fixture, &["--skip-bad"]).await;
    assert_eq!((exit, &answer["tables"][0]["left_out"]), (Some(0), &1.into()), "{answer:#}{said}");
    limit_invoices(&fixture, "1000000").await;
    fixture.restart().await.unwrap();
    write(&fixture, &session, 20).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let requeue = ["dead-letters", "requeue", "--left-out", "--all", "--yes"];
    let requeued = admin(&fixture, &requeue).await;
    assert!(requeued.status.success(), "{}", String::from_utf8_lossy(&requeued.stderr));
    wait_invoice(&fixture).await;
    let listed = admin(&fixture, &["dead-letters", "list", "--left-out", "--json"]).await;
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["left_out"], serde_json::json!([]), "{listed:#}");
    fixture.kill_router().await.unwrap();
    expect_invoice_again(&fixture, &session).await;
}

/// A fixture with a topic for invoices alone.
fn of_invoices() -> FixtureBuilder {
    Fixture::builder().schema(Schema::new(Preset::Default).types(&["order", "invoice"]))
}

/// Larger than 1000 bytes.
const INVOICE: &str = "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
    VALUES ('invoice', 'key', 'Changed', jsonb_build_object('n', repeat('n', 5000)))";

fn topic_of_invoices(fixture: &Fixture) -> &str {
    fixture.topics.get(1).unwrap()
}

async fn limit_invoices(fixture: &Fixture, bytes: &str) {
    let limit = [("max.message.bytes", bytes)];
    fixture.kafka.set_topic(topic_of_invoices(fixture), &limit).await.unwrap();
}

async fn invoices(fixture: &Fixture) -> i64 {
    fixture.kafka.end_offsets(topic_of_invoices(fixture)).await.unwrap().iter().sum()
}

async fn wait_invoice(fixture: &Fixture) {
    let sent = async || Ok((invoices(fixture).await == 1).then_some(()));
    eventually(SHORT_DEADLINE, "the event is sent", sent).await.unwrap();
}

/// Runs a command as a superuser.
async fn admin(fixture: &Fixture, line: &[&str]) -> std::process::Output {
    let url = fixture.postgres.url(SUPERUSER, DATABASE);
    fixture.router.command(&[line, &["--admin-url", &url]].concat()).await.unwrap()
}

/// Takes the topic of the invoice back to before its record, and the slot past later rows.
async fn expect_invoice_again(fixture: &Fixture, session: &DatabaseSession) {
    let invoices_topic = topic_of_invoices(fixture);
    fixture.kafka.delete_topic(invoices_topic).await.unwrap();
    fixture.kafka.create_topic(invoices_topic, 1, &[]).await.unwrap();
    write(fixture, session, 20).await;
    let advance = "SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())";
    session.query_one(advance, &[&SLOT]).await.unwrap();
    expect_closed(&recover(fixture, &["--drop-slot"]).await, &[("missing", 21)]);
    assert_eq!(invoices(fixture).await, 1);
}

/// A writer's time that means "for ever" is later than what 64 bits of microseconds count to.
#[tokio::test]
async fn a_row_of_the_last_time_there_is_is_recovered() {
    let (mut fixture, session) = streaming(Fixture::builder()).await;
    let any = [("message.timestamp.after.max.ms", "9223372036854775807")];
    fixture.kafka.set_topic(fixture.topics.first().unwrap(), &any).await.unwrap();
    write(&fixture, &session, 5).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    write(&fixture, &session, 5).await;
    let last = "UPDATE outbox SET created_at = '294276-12-31 23:59:59Z' \
         WHERE id = (SELECT id FROM outbox ORDER BY created_at DESC LIMIT 1)";
    session.batch_execute(last).await.unwrap();
    drop_slot(&session).await;
    let (exit, answer, said) = recover(&fixture, &["--ids-unique"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    let sent = &answer["tables"][0]["sent"];
    assert_eq!((sent, &answer["closed"]), (&5.into(), &true.into()), "{answer:#}");
    assert_eq!(fixture.missing_and_doubled(&session).await.unwrap(), (0, 0));
}
