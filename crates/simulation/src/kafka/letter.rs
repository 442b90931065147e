//! The record of a dead letter, as its topic has it.

use relay::{Code, Lsn, Record, held::EventId};

const PREFIX: &str = "__outbox_router.errors.";

/// What the core gave to the producer for the topic of dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducedLetter {
    /// What its event is known by; `None` if its headers do not say so.
    pub id: Option<EventId>,
    /// Why it is a dead letter.
    pub code: Option<Code>,
    /// The value of the event's id column.
    pub event_id: Option<String>,
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Option<Vec<u8>>,
    /// The partition that the core chose.
    pub partition: i32,
}

impl ProducedLetter {
    pub(super) fn of(record: &Record<'_>) -> Self {
        let header = |name: &str| {
            let own = record.headers.iter().find(|one| one.name.strip_prefix(PREFIX) == Some(name));
            own.and_then(|one| String::from_utf8(one.value?.to_vec()).ok())
        };
        let lsn = header("commit_lsn").and_then(|lsn| lsn.parse::<Lsn>().ok());
        let index = header("index").and_then(|index| index.parse().ok());
        Self {
            id: lsn.zip(index).map(|(commit_lsn, index)| EventId { commit_lsn, index }),
            code: header("code").and_then(|code| Code::parse(&code)),
            event_id: header("event_id"),
            key: record.key.to_vec(),
            value: record.value.map(<[u8]>::to_vec),
            partition: record.partition,
        }
    }
}
