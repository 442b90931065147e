//! The pictures of the page in the documentation. scripts/screenshots.sh runs this.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::Fixture;
use serde_json::{Value, json};
use testbed::kafka::KafkaOptions;
use testbed::load::{Load, Preset, Schema};

use super::browser::{Browser, Scheme, Scripts};
use super::url;

const WIDE: (u32, u32) = (1180, 900);
const PHONE: (u32, u32) = (390, 844);

/// A shop with four kinds of events, and a broker that goes away.
#[tokio::test]
#[ignore = "makes pictures: scripts/screenshots.sh"]
async fn screenshots_of_a_router_that_is_well_and_of_one_without_a_broker() {
    let folder = std::env::var_os("OUTBOX_SCREENSHOTS").map(PathBuf::from);
    let folder = folder.expect("OUTBOX_SCREENSHOTS: the directory of the pictures");
    let types = ["order", "payment", "shipment", "customer"];
    let mut fixture = Fixture::builder()
        .schema(Schema::new(Preset::Default).types(&types))
        .own_kafka(KafkaOptions::default())
        .without_topics()
        .postgres("max_slot_wal_keep_size", "4GB")
        .set("name", "shop")
        .set("kafka.create_topics.partitions", 6)
        .set("kafka.create_topics.replication_factor", 1)
        .set_outbox("topic", "shop.${aggregate_type}")
        .start()
        .await
        .unwrap();
    // That the fixture began without a witness is nothing that a picture should ask about.
    fixture.accept().await.unwrap();
    let running = fixture.load(Load { events_per_second: Some(400), ..Load::default() });
    let mut browser = Browser::start(Scripts::On).await.unwrap();
    browser.open(&url(&fixture)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(75)).await;
    browser.wait_verdict("OK").await.unwrap();
    take(&mut browser, &folder, "page-ok", WIDE, Scheme::Light).await.unwrap();
    take(&mut browser, &folder, "page-ok-dark", WIDE, Scheme::Dark).await.unwrap();

    fixture.kafka.owned().unwrap().broker(1).unwrap().stop().await.unwrap();
    browser.wait_verdict("BLOCKED").await.unwrap();
    tokio::time::sleep(Duration::from_secs(20)).await;
    browser.wait_verdict("BLOCKED").await.unwrap();
    take(&mut browser, &folder, "page-blocked", WIDE, Scheme::Light).await.unwrap();
    take(&mut browser, &folder, "page-blocked-dark", WIDE, Scheme::Dark).await.unwrap();
    take(&mut browser, &folder, "page-blocked-phone", PHONE, Scheme::Dark).await.unwrap();
    fixture.kafka.owned().unwrap().start_again().await.unwrap();
    fixture.note(running.stop().await.unwrap());
}

async fn take(
    browser: &mut Browser,
    folder: &Path,
    name: &str,
    (width, height): (u32, u32),
    scheme: Scheme,
) -> anyhow::Result<()> {
    browser.resize(width, height).await?;
    browser.prefer(scheme).await?;
    let size = browser.evaluate("document.documentElement.scrollHeight").await?;
    // The whole page on a screen; of a phone, what one sees at first and the flow below.
    let whole = u32::try_from(size.as_u64().unwrap_or(900))?;
    browser.resize(width, if width < 500 { whole.min(1_560) } else { whole }).await?;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let picture = browser.call("Page.captureScreenshot", json!({ "format": "png" })).await?;
    let picture = picture.get("data").and_then(Value::as_str).unwrap_or_default();
    let picture = BASE64_STANDARD.decode(picture)?;
    std::fs::write(folder.join(format!("{name}.png")), picture)?;
    Ok(())
}
