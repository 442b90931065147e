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
