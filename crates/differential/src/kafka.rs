//! What is in Kafka of a case.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use testbed::reader::{ConsumedRecord, read_all};

use crate::case::Case;

/// The names of all topics.
async fn topics(bootstrap: &str) -> anyhow::Result<Vec<String>> {
    let bootstrap = bootstrap.to_owned();
    tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", bootstrap).create()?;
        let metadata = consumer.fetch_metadata(None, Duration::from_secs(10))?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
    })
    .await?
}

/// The records of every case, in the cases' order.
pub(crate) async fn records(
    bootstrap: &str,
    cases: &[Case],
) -> anyhow::Result<Vec<Vec<ConsumedRecord>>> {
    let topics = topics(bootstrap).await?;
    let of_cases: Vec<&str> = topics
        .iter()
        .map(String::as_str)
        .filter(|topic| cases.iter().any(|case| case.has_topic(topic)))
        .collect();
    let all = read_all(bootstrap, &of_cases).await?;
    let is_of = |case: &Case, record: &ConsumedRecord| case.has_topic(&record.topic);
    Ok(cases
        .iter()
        .map(|case| all.iter().filter(|record| is_of(case, record)).cloned().collect())
        .collect())
}
