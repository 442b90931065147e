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
    /// Where it is, as it has stored it; `Ok(None)` only where nothing is stored.
    pub(super) offset: Result<Option<StoredOffset>, String>,
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
        let offset = match url.get("offsets").await {
            // A worker shows them only of a connector that exists.
            Ok(None) => Ok(None),
            Ok(Some(offsets)) => stored(&offsets),
            Err(why) => Err(why),
        };
        let topics = url.get("topics").await.unwrap_or_default();
        let config = url.get("config").await.unwrap_or_default().unwrap_or_default();
        Ok(Self {
            status: status.as_ref().map_or(Status::Absent, state),
            offset,
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

/// The offset of `GET …/offsets`; a connector of PostgreSQL has one at most.
fn stored(offsets: &Value) -> Result<Option<StoredOffset>, String> {
    let list = offsets.get("offsets").and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("its offsets cannot be read: {offsets}"))?;
    let one = list.iter().find_map(|one| one.get("offset").filter(|one| !one.is_null()));
    let Some(offset) = one else { return Ok(None) };
    let number = |name: &str| offset.get(name)?.as_u64();
    let lsn = number("lsn").or_else(|| number("lsn_proc"));
    let lsn = lsn.ok_or_else(|| format!("its offset has no position: {offset}"))?;
    Ok(Some(StoredOffset {
        lsn: Lsn::from_u64(lsn),
        events: number("lsn_events_processed").unwrap_or(u64::MAX),
        commit: number("lsn_commit").map(Lsn::from_u64),
    }))
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
        let stored = stored(&offset).unwrap().unwrap();
        assert_eq!((stored.lsn.to_string().as_str(), stored.events), ("0/203A080", 7));
        assert_eq!(stored.commit.unwrap().to_string(), "0/20386F0");
    }

    /// Else a connector that has an offset would be taken for one that begins at the slot.
    #[test]
    fn an_offset_that_is_not_understood_is_not_taken_for_none() {
        assert_eq!(stored(&json!({ "offsets": [] })), Ok(None));
        assert_eq!(stored(&json!({ "offsets": [{ "offset": null }] })), Ok(None));
        stored(&json!({ "offsets": [{ "offset": { "file": "x", "pos": 4 } }] })).unwrap_err();
        stored(&json!({ "error_code": 404 })).unwrap_err();
    }

    #[test]
    fn topics_are_those_of_the_answer() {
        let names = topic_names(&json!({ "outbox": { "topics": ["outbox.event.order"] } }));
        assert_eq!(names, [TopicName::new("outbox.event.order").unwrap()]);
    }
}
