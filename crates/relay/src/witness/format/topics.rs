//! How a record names the topics that were produced to, and those that are lost.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::text::{MarkText, Unreadable};
use crate::witness::{KnownTopic, LostTopic, TopicUuid, lost::LOST_MAX, record::PARTITIONS_MAX};

/// Id and number of changes: there may be hundreds of them, and the record is written often.
#[derive(Serialize, Deserialize)]
pub(super) struct TopicText(Option<String>, u32);

#[derive(Serialize, Deserialize)]
pub(super) struct LostText {
    topic: String,
    was: String,
    now: Option<String>,
    noticed: MarkText,
}

impl TopicText {
    pub(super) fn all(topics: &BTreeMap<String, KnownTopic>) -> BTreeMap<String, Self> {
        let text = |known: &KnownTopic| Self(text_of(known.uuid.as_ref()), known.changes);
        let first = topics.iter().take(PARTITIONS_MAX);
        first.map(|(topic, known)| (topic.clone(), text(known))).collect()
    }

    pub(super) fn read_all(topics: BTreeMap<String, Self>) -> BTreeMap<String, KnownTopic> {
        let known = |Self(uuid, changes)| KnownTopic { uuid: uuid.map(TopicUuid::new), changes };
        topics.into_iter().map(|(topic, text)| (topic, known(text))).collect()
    }
}

impl LostText {
    /// Records that were combined may name more than one record does.
    pub(super) fn all(lost: &[LostTopic]) -> Vec<Self> {
        let text = |lost: &LostTopic| Self {
            topic: lost.topic.clone(),
            was: lost.was.as_str().to_owned(),
            now: text_of(lost.now.as_ref()),
            noticed: MarkText::of(&lost.noticed),
        };
        lost.iter().take(LOST_MAX).map(text).collect()
    }

    pub(super) fn read(self) -> Result<LostTopic, Unreadable> {
        let Self { topic, was, now, noticed } = self;
        let (was, now) = (TopicUuid::new(was), now.map(TopicUuid::new));
        Ok(LostTopic { topic, was, now, noticed: noticed.read()? })
    }
}

fn text_of(uuid: Option<&TopicUuid>) -> Option<String> {
    uuid.map(|uuid| uuid.as_str().to_owned())
}
