//! Which topics the rows of the tables may go to: those whose names the tables' templates can make.

use relay::{TableName, TopicName};

use crate::cli::{explain_row::EventRows, topic_template::may_make};

/// A topic, and the tables whose rows may go there.
pub(super) struct TopicOf<'t> {
    pub(super) name: TopicName,
    pub(super) tables: Vec<&'t EventRows>,
}

/// A configured table that was not asked for: a record with the id of an event may be of its rows.
pub(super) struct Neighbour {
    pub(super) table: TableName,
    /// The template of its topics; `None` where any name may be one of them.
    pub(super) topic: Option<String>,
}

impl Neighbour {
    /// Whether a row of this table may go to a topic of this name.
    pub(super) fn may_use(&self, name: &TopicName) -> bool {
        self.topic.as_ref().is_none_or(|template| may_make(template, name.as_str()))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_may_use_what_its_template_makes_and_without_one_everything() {
        let table = TableName { schema: "public".to_owned(), name: "c".to_owned() };
        let with = |topic: Option<&str>| {
            let topic = topic.map(str::to_owned);
            Neighbour { table: table.clone(), topic }.may_use(&TopicName::new("a.c").unwrap())
        };
        assert!(with(Some("a.${aggregate_type}")) && with(Some("a.c")) && with(None));
        assert!(!with(Some("b.${aggregate_type}")));
    }
}
