//! The tables that the router knows, and what the configuration makes of columns, all on one slot.

use e2e::{Fixture, ROLE, SHORT_DEADLINE};
use relay::{ExampleRecord, PRESETS, Preset};
use testbed::kafka::KafkaOptions;
use testbed::postgres::{DATABASE, SUPERUSER};
use testbed::reader::{ConsumedRecord, read_all};

/// The table of a preset's example under a name of its own.
fn table(preset: &Preset) -> String {
    format!("outbox_{}", preset.name)
}

/// Whether a record is that of an example.
fn is_record(record: &ConsumedRecord, expected: &ExampleRecord) -> bool {
    let headers: Vec<(&str, Option<&[u8]>)> =
        record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
    let wanted: Vec<(&str, Option<&[u8]>)> =
        expected.headers.iter().map(|(name, value)| (*name, value.map(str::as_bytes))).collect();
    &*record.topic == expected.topic
        && record.key.as_deref() == Some(expected.key.as_bytes())
        && record.value.as_deref() == Some(expected.value.as_bytes())
        && headers == wanted
}

/// Sets up what the configuration names, and starts the router.
async fn set_up(fixture: &mut Fixture, config: &str) {
    fixture.router.set_config(config).unwrap();
    let admin = fixture.postgres.url(SUPERUSER, DATABASE);
    let arguments = ["setup", "--apply", "--role", ROLE, "--admin-url", admin.as_str()];
    let output = fixture.router.command(&arguments).await.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    fixture.restart().await.unwrap();
}

async fn empty_fixture() -> Fixture {
    let builder = Fixture::builder().empty_database().own_kafka(KafkaOptions::default());
    let builder = builder.without_topics().set("kafka.create_topics.partitions", 3);
    builder.prepare().await.unwrap()
}

#[tokio::test]
async fn every_preset_makes_the_record_of_its_example() {
    let mut fixture = empty_fixture().await;
    let session = fixture.session().await.unwrap();
    let mut config = fixture.config.clone();
    config.set_outbox("table", format!("public.{}", table(PRESETS[0])));
    config.set_outbox("topic", "outbox.event.${aggregate_type}");
    let mut config = config.to_string();
    for preset in PRESETS {
        let name = table(preset);
        let create = preset.example.table.replacen("TABLE outbox", &format!("TABLE {name}"), 1);
        session.batch_execute(&create).await.unwrap();
        if *preset != *PRESETS[0] {
            let topic = preset.example.topic.map(|topic| format!("topic = \"{topic}\"\n"));
            let topic = topic.unwrap_or_default();
            config.push_str(&format!("\n[[outbox]]\ntable = \"public.{name}\"\n{topic}"));
        }
    }
    set_up(&mut fixture, &config).await;
    for preset in PRESETS {
        let insert =
            preset.example.row.replacen("INTO outbox", &format!("INTO {}", table(preset)), 1);
        session.batch_execute(&insert).await.unwrap();
    }
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let topics: Vec<&str> = PRESETS.iter().map(|preset| preset.example.record.topic).collect();
    let seen = read_all(&fixture.kafka.bootstrap(), &topics).await.unwrap();
    assert_eq!(seen.len(), PRESETS.len(), "{seen:?}");
    for preset in PRESETS {
        let expected = &preset.example.record;
        assert!(
            seen.iter().any(|record| is_record(record, expected)),
            "{}: {expected:?} is not among {seen:?}",
            preset.name
        );
    }
}

#[tokio::test]
async fn quoted_names_and_generated_columns_are_routed() {
    let mut fixture = empty_fixture().await;
    let session = fixture.session().await.unwrap();
    let create = r#"CREATE TABLE "Out Box" ("Id" text PRIMARY KEY, "Kind" text, "Aggregate Id" text,
        "eventType" text, "Body" jsonb, size int GENERATED ALWAYS AS (length("Kind")) STORED)"#;
    session.batch_execute(create).await.unwrap();
    let mut config = fixture.config.clone();
    config.set_outbox("table", "public.\"Out Box\"");
    config.set_outbox("preset", "default");
    config.set_outbox("topic", "quoted.${aggregate_type}");
    let columns = "\n[outbox.columns]\nid = \"Id\"\naggregate_type = \"Kind\"\n\
        aggregate_id = \"Aggregate Id\"\nevent_type = \"eventType\"\npayload = \"Body\"\n";
    set_up(&mut fixture, &format!("{config}{columns}")).await;
    let insert = r#"INSERT INTO "Out Box" VALUES ('1', 'order', 'k', 'made', '{}')"#;
    session.batch_execute(insert).await.unwrap();
    session.batch_execute(r#"ALTER TABLE "Out Box" DROP COLUMN size"#).await.unwrap();
    session.batch_execute(&insert.replace("'1'", "'2'")).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    let seen = read_all(&fixture.kafka.bootstrap(), &["quoted.order"]).await.unwrap();
    let ids: Vec<Option<&str>> = seen.iter().map(|record| record.header("id")).collect();
    assert_eq!(ids, [Some("1"), Some("2")], "{seen:?}");
    assert!(seen.iter().all(|record| record.key.as_deref() == Some(b"k".as_slice())), "{seen:?}");
}

#[tokio::test]
async fn a_partition_may_be_an_outbox_of_its_own() {
    let mut fixture = empty_fixture().await;
    let session = fixture.session().await.unwrap();
    let create = "CREATE TABLE outbox (id text, aggregate_type text, aggregate_id text,
            event_type text, payload jsonb) PARTITION BY LIST (aggregate_type);
        CREATE TABLE orders PARTITION OF outbox FOR VALUES IN ('order');
        CREATE TABLE invoices PARTITION OF outbox FOR VALUES IN ('invoice');
        CREATE TABLE others PARTITION OF outbox DEFAULT";
    session.batch_execute(create).await.unwrap();
    let mut config = fixture.config.clone();
    config.set_outbox("table", "public.orders");
    config.set_outbox("topic", "first");
    let second = "\n[[outbox]]\ntable = \"public.invoices\"\ntopic = \"second\"\n";
    set_up(&mut fixture, &format!("{config}{second}")).await;
    let insert = "INSERT INTO outbox VALUES ('1', 'order', 'k', 'made', '{}'),
        ('2', 'invoice', 'k', 'made', '{}'), ('3', 'other', 'k', 'made', '{}')";
    session.batch_execute(insert).await.unwrap();
    fixture.wait_confirmed(SHORT_DEADLINE).await.unwrap();
    for (topic, id) in [("first", "1"), ("second", "2")] {
        let seen = read_all(&fixture.kafka.bootstrap(), &[topic]).await.unwrap();
        let ids: Vec<Option<&str>> = seen.iter().map(|record| record.header("id")).collect();
        assert_eq!(ids, [Some(id)], "{topic}: {seen:?}");
    }
}
