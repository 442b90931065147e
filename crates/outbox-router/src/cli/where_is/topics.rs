//! Which topics the rows of the tables may go to: those whose names the tables' templates can make.

use relay::TopicName;

use crate::cli::{explain_row::EventRows, topic_template::may_make};

/// A topic, and the tables whose rows may go there.
pub(super) struct TopicOf<'t> {
    pub(super) name: TopicName,
    pub(super) tables: Vec<&'t EventRows>,
}

/// The topics among these.
pub(super) fn topics_of(tables: &[EventRows], names: Vec<TopicName>) -> Vec<TopicOf<'_>> {
    let of = |name: TopicName| {
        let tables = tables.iter().filter(|table| may_make(table.topic(), name.as_str()));
        let tables: Vec<_> = tables.collect();
        (!tables.is_empty()).then_some(TopicOf { name, tables })
    };
    names.into_iter().filter_map(of).collect()
}
