//! Rows of tables that no comparison reads, or whose ids another table may have, keep a gap open
//! until a person says otherwise.

use e2e::{Fixture, PUBLICATION, SHORT_DEADLINE, SLOT};
use testbed::postgres::DatabaseSession;
use testbed::wait::eventually;

use super::{drop_slot, recover, wait_failed, write};

/// Another outbox, which is published.
async fn add_second(session: &DatabaseSession) {
    let create = format!(
        "CREATE INDEX ON outbox (created_at); CREATE TABLE second (LIKE outbox INCLUDING ALL); \
         ALTER PUBLICATION {PUBLICATION} ADD TABLE second"
    );
    session.batch_execute(&create).await.unwrap();
}

/// Refuses, and leaves the slot as it is. Returns what it says.
async fn refused(fixture: &Fixture, more: &[&str]) -> String {
    let before = fixture.postgres.slot(SLOT).await.unwrap();
    let (exit, answer, said) = recover(fixture, more).await;
    assert_eq!(exit, Some(1), "{answer:#}{said}");
    assert!(said.contains("P039"), "{said}");
    assert_eq!(fixture.postgres.slot(SLOT).await.unwrap(), before);
    said
}

/// Waits until the witness knows that everything up to now had ended before a position.
async fn wait_horizon(fixture: &mut Fixture, session: &DatabaseSession) {
    let now = "SELECT pg_current_xact_id()::xid::text::int8";
    let now: i64 = session.query_one(now, &[]).await.unwrap().get(0);
    let slot = "SELECT catalog_xmin::text::int8 FROM pg_replication_slots WHERE slot_name = $1";
    eventually(SHORT_DEADLINE, "a later catalog_xmin", async || {
        // It logs the running transactions.
        session.batch_execute("CHECKPOINT").await?;
        write(fixture, session, 1).await;
        fixture.wait_confirmed(SHORT_DEADLINE).await?;
        let xmin: i64 = session.query_one(slot, &[&SLOT]).await?.get(0);
        Ok((xmin > now).then_some(()))
    })
    .await
    .unwrap();
    // A session begins with a reading of the slot.
    fixture.kill_router().await.unwrap();
    fixture.restart().await.unwrap();
    write(fixture, session, 1).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
}

#[tokio::test]
async fn an_outbox_that_is_not_configured_or_shares_a_topic_hides_no_missing_row() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    add_second(&session).await;
    let topic = fixture.topics.first().unwrap();
    let first = fixture.config.to_string();
    let both = format!("{first}\n[[outbox]]\ntable = \"public.second\"\ntopic = \"{topic}\"\n");
    fixture.router.set_config(&both).unwrap();
    fixture.start_accepted().await.unwrap();
    write(&fixture, &session, 1).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    // The id of a request that has caused an event in each table.
    session.batch_execute("INSERT INTO second SELECT * FROM outbox").await.unwrap();
    write(&fixture, &session, 2).await;

    // A file of last week.
    fixture.router.set_config(&first).unwrap();
    let said = refused(&fixture, &[]).await;
    assert!(said.contains("would not be compared: public.second"), "{said}");
    assert!(said.contains("recover --give-up public.second --admin-url"), "{said}");
    // A table that is given up may have records in any topic.
    let said = refused(&fixture, &["--give-up", "public.second"]).await;
    assert!(said.contains("another table may write to a topic of public.outbox"), "{said}");
    fixture.router.set_config(&both).unwrap();
    let said = refused(&fixture, &[]).await;
    assert!(said.contains("another table may write to a topic of public.outbox"), "{said}");
    assert!(said.contains("recover --ids-unique --admin-url"), "{said}");
    let (exit, answer, said) = recover(&fixture, &["--all"]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    let sent = [0, 1].map(|table| answer["tables"][table]["sent"].as_u64());
    assert_eq!((sent, &answer["closed"]), ([Some(3), Some(1)], &true.into()), "{answer:#}");

    // What a person gives up is no outbox any more, once a router has begun without it.
    drop_slot(&session).await;
    write(&fixture, &session, 4).await;
    fixture.router.set_config(&first).unwrap();
    let given_up = ["--ids-unique", "--give-up", "public.second"];
    let (exit, answer, said) = recover(&fixture, &given_up).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["given_up"], serde_json::json!(["public.second"]), "{answer:#}");
    assert_eq!((&answer["tables"][0]["missing"], &answer["tables"][1]), (&4.into(), &().into()));
    fixture.restart().await.unwrap();
    write(&fixture, &session, 1).await;
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    write(&fixture, &session, 6).await;
    let (exit, answer, said) = recover(&fixture, &[]).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert_eq!(answer["tables"][0]["missing"], 6, "{answer:#}");
}

#[tokio::test]
async fn a_table_that_has_left_the_publication_keeps_its_gap_open() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    add_second(&session).await;
    let config = fixture.config.to_string();
    let (config, _) = config.split_once("[[outbox]]").unwrap();
    fixture.router.set_config(config).unwrap();
    fixture.start_accepted().await.unwrap();
    let leave = format!("ALTER PUBLICATION {PUBLICATION} DROP TABLE second");
    session.batch_execute(&leave).await.unwrap();
    let insert = "INSERT INTO second (aggregate_type, aggregate_id, event_type) \
         VALUES ('order', 'key', 'Placed')";
    session.batch_execute(insert).await.unwrap();
    wait_failed(&mut fixture, "P021").await;
    fixture.kill_router().await.unwrap();
    let said = refused(&fixture, &["--drop-slot"]).await;
    assert!(said.contains("would not be compared: public.second"), "{said}");
    assert!(said.contains("recover --drop-slot --give-up public.second --admin-url"), "{said}");
    assert!(said.contains("add table only \"public\".\"second\""), "{said}");

    let come_back = format!("ALTER PUBLICATION {PUBLICATION} ADD TABLE second");
    session.batch_execute(&come_back).await.unwrap();
    let (exit, dry, said) = recover(&fixture, &["--drop-slot", "--dry-run"]).await;
    assert_eq!(exit, Some(0), "{dry:#}{said}");
    let tables = dry["tables"].as_array().unwrap();
    let missing = tables.iter().map(|table| table["missing"].as_u64().unwrap());
    assert_eq!((tables.len(), missing.sum()), (2, 1), "{dry:#}");

    session.batch_execute(&leave).await.unwrap();
    let given_up = ["--drop-slot", "--ids-unique", "--give-up", "second"];
    let (exit, answer, said) = recover(&fixture, &given_up).await;
    assert_eq!((exit, &answer["closed"]), (Some(0), &true.into()), "{answer:#}{said}");
}

#[tokio::test]
async fn a_partition_that_was_made_and_detached_within_the_gap_is_named() {
    let mut fixture = Fixture::builder().prepare().await.unwrap();
    let session = fixture.session().await.unwrap();
    let partitioned = format!(
        "ALTER PUBLICATION {PUBLICATION} DROP TABLE outbox; DROP TABLE outbox; \
         CREATE TABLE outbox (id uuid NOT NULL DEFAULT gen_random_uuid(), \
             aggregate_type text NOT NULL, aggregate_id text NOT NULL, \
             event_type text NOT NULL, payload jsonb, \
             created_at timestamptz NOT NULL DEFAULT now()) PARTITION BY RANGE (created_at); \
         CREATE TABLE outbox_now PARTITION OF outbox DEFAULT; \
         CREATE TABLE outbox_old PARTITION OF outbox FOR VALUES FROM ('2000-01-01') TO ('2001-01-01'); \
         CREATE TABLE kept_since_long (LIKE outbox); CREATE TABLE other (id uuid); \
         ALTER PUBLICATION {PUBLICATION} ADD TABLE outbox"
    );
    session.batch_execute(&partitioned).await.unwrap();
    fixture.start_accepted().await.unwrap();
    wait_horizon(&mut fixture, &session).await;
    fixture.kill_router().await.unwrap();
    drop_slot(&session).await;
    // As a tool does that makes, detaches and keeps partitions, and one that archives them.
    let meanwhile = "CREATE TABLE outbox_later PARTITION OF outbox \
             FOR VALUES FROM ('2100-01-01') TO ('2101-01-01'); \
         INSERT INTO outbox (aggregate_type, aggregate_id, event_type, created_at) \
             SELECT aggregate_type, 'later', 'Changed', '2100-01-02' FROM outbox LIMIT 5; \
         ALTER TABLE outbox DETACH PARTITION outbox_later; \
         ALTER TABLE outbox ADD COLUMN trace text; \
         CREATE TABLE archive (LIKE outbox_later) PARTITION BY RANGE (created_at); \
         ALTER TABLE archive ATTACH PARTITION outbox_later \
             FOR VALUES FROM ('2100-01-01') TO ('2101-01-01'); \
         CREATE TABLE outbox_next PARTITION OF outbox \
             FOR VALUES FROM ('2200-01-01') TO ('2201-01-01'); \
         ALTER TABLE other ADD COLUMN n int";
    for statement in meanwhile.split(';') {
        session.batch_execute(statement).await.unwrap();
    }
    write(&fixture, &session, 3).await;
    let said = refused(&fixture, &["--ids-unique"]).await;
    let alike = "since it began: public.archive, public.outbox_later; ";
    assert!(said.contains(alike), "{said}");
    session.batch_execute("ALTER TABLE outbox DETACH PARTITION outbox_old").await.unwrap();
    let said = refused(&fixture, &["--ids-unique"]).await;
    let known = "were partitions when the gap began, and are none now: public.outbox_old; ";
    assert!(said.contains(known) && said.contains(alike), "{said}");
    let hint = "recover --ids-unique --give-up public.outbox_old --give-up public.archive \
         --give-up public.outbox_later --admin-url";
    assert!(said.contains(hint), "{said}");
    session.batch_execute("DROP TABLE outbox_old").await.unwrap();
    let given_up =
        ["--ids-unique", "--give-up", "public.archive", "--give-up", "public.outbox_later"];
    let said = refused(&fixture, &given_up[..3]).await;
    assert!(said.contains("since it began: public.outbox_later; "), "{said}");
    let (exit, answer, said) = recover(&fixture, &given_up).await;
    assert_eq!(exit, Some(0), "{answer:#}{said}");
    assert!(said.contains("a partition of public.outbox (OID "), "{said}");
    assert_eq!(answer["tables"][0]["missing"], 3, "{answer:#}");
}
