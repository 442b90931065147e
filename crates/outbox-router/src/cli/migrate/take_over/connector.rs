//! The connector as Kafka Connect shows it: whether it is stopped, what it has stored, its topics
//! and its configuration.

use relay::{Lsn, TopicName};
use serde_json::Value;

use super::rest::ConnectorUrl;

/// What Kafka Connect says.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    pub(super) url: ConnectorUrl,
    pub(super) status: Status,
    pub(super) offset: Option<StoredOffset>,
    /// The topics that it has written to.
    pub(super) topics: Vec<TopicName>,
    /// Its configuration; `Null` where it does not exist.
    config: Value,
}

/// The connector's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Status {
    /// There is none of this name.
    Absent,
    /// It was stopped, and has no task.
    Stopped,
    /// It holds its slot, or may take it at any time.
    Up(String),
}

/// The position up to which the connector has delivered, and has said so to Kafka Connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredOffset {
    /// The position of the last event.
    pub(super) lsn: Lsn,
    /// How many events of that position: rows that were written by one WAL record share it.
    pub(super) events: u64,
    /// The end of the last transaction before that event.
    pub(super) commit: Option<Lsn>,
}

impl Connector {
    /// Asks Kafka Connect.
    ///
    /// # Errors
    /// Why it does not answer.
    pub(super) async fn ask(url: ConnectorUrl) -> Result<Self, String> {
        let status = url.get("status").await?;
        // A worker answers this only for a connector that exists.
        let offsets = url.get("offsets").await.unwrap_or_default();
        let topics = url.get("topics").await.unwrap_or_default();
        let config = url.get("config").await.unwrap_or_default().unwrap_or_default();
        Ok(Self {
            status: status.as_ref().map_or(Status::Absent, state),
            offset: offsets.as_ref().and_then(stored),
            topics: topics.iter().flat_map(topic_names).collect(),
            config,
            url,
        })
    }

    /// A property of its configuration.
    pub(super) fn property(&self, name: &str) -> Option<&str> {
        self.config.get(name)?.as_str()
    }
}

fn state(status: &Value) -> Status {
    let of = |part: Option<&Value>| {
        part.and_then(|part| part.get("state")?.as_str())
            .unwrap_or("in an unknown state")
            .to_owned()
    };
    let connector = of(status.get("connector"));
    let tasks = status.get("tasks").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    match tasks.first() {
        None if connector == "STOPPED" => Status::Stopped,
        None => Status::Up(connector),
        Some(task) => Status::Up(format!("{connector}, its task {}", of(Some(task)))),
    }
}

/// The offset of `GET …/offsets`; a connector of PostgreSQL has one.
fn stored(offsets: &Value) -> Option<StoredOffset> {
    let offsets = offsets.get("offsets")?.as_array()?;
    let offset = offsets.iter().find_map(|one| one.get("offset").filter(|one| !one.is_null()))?;
    let number = |name: &str| offset.get(name)?.as_u64();
    Some(StoredOffset {
        lsn: Lsn::from_u64(number("lsn_proc").or_else(|| number("lsn"))?),
        events: number("lsn_events_processed").unwrap_or(u64::MAX),
        commit: number("lsn_commit").map(Lsn::from_u64),
    })
}

fn topic_names(topics: &Value) -> Vec<TopicName> {
    let of_each = topics.as_object().into_iter().flat_map(|connectors| connectors.values());
    let names = of_each.filter_map(|one| one.get("topics")?.as_array()).flatten();
    names.filter_map(|name| TopicName::new(name.as_str()?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_connector_is_stopped_only_without_a_task() {
        let status = |connector: &str, tasks: Value| {
            state(&json!({ "connector": { "state": connector }, "tasks": tasks }))
        };
        assert_eq!(status("STOPPED", json!([])), Status::Stopped);
        assert_eq!(status("PAUSED", json!([])), Status::Up("PAUSED".to_owned()));
        let up = status("STOPPED", json!([{ "state": "RUNNING" }]));
        assert_eq!(up, Status::Up("STOPPED, its task RUNNING".to_owned()));
    }

    #[test]
    fn the_stored_offset_is_what_debezium_writes() {
        let offset = json!({ "offsets": [{ "partition": { "server": "shop" }, "offset": {
            "lsn": 33_792_128, "lsn_commit": 33_785_584, "lsn_events_processed": 7,
            "lsn_proc": 33_792_128, "messageType": "INSERT", "txId": 2407
        } }] });
        let stored = stored(&offset).unwrap();
        assert_eq!((stored.lsn.to_string().as_str(), stored.events), ("0/203A080", 7));
        assert_eq!(stored.commit.unwrap().to_string(), "0/20386F0");
        assert_eq!(super::stored(&json!({ "offsets": [] })), None);
    }

    #[test]
    fn topics_are_those_of_the_answer() {
        let names = topic_names(&json!({ "outbox": { "topics": ["outbox.event.order"] } }));
        assert_eq!(names, [TopicName::new("outbox.event.order").unwrap()]);
    }
}
