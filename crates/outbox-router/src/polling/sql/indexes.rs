//! The indexes by which pending rows are found, and the rows that others wait for: what they have
//! to be, whether they are there, and what makes them.
//!
//! A server uses an index with a condition for those statements alone that have the same condition.
//! So each index says in its comment what it was made for: after a change of `outbox.mark`,
//! `order_by` or `where` it is another one that is needed, under the same name.

use relay::TableName;

use super::{
    conditions::and,
    facts::{Facts, IndexFacts},
    filter::Filter,
    literals::literal,
    note::read_comment,
    order::suffix,
    setup::{PENDING_INDEX, Partitions, WAITING_INDEX, index_name},
    table::PolledTable,
};
use crate::postgres::quote_identifier;

/// An index that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexWork {
    /// What it is for, in a few words.
    pub purpose: &'static str,
    /// Its name, without that of its schema.
    pub name: String,
    /// What is wrong with it.
    pub trouble: IndexTrouble,
    /// What makes it right. They are run one by one, outside of a transaction: it is built while
    /// the table is written to; on a partitioned table that is not possible, and writers wait.
    pub statements: Vec<String>,
}

/// What is wrong with an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexTrouble {
    /// It is not there.
    Missing,
    /// Its making was interrupted; with its name as an SQL identifier.
    Invalid(String),
    /// It was made for other marks, another order or another filter; with its name.
    Outdated(String),
}

/// An index as it should be.
struct Index {
    purpose: &'static str,
    name: String,
    /// Columns and condition: what its comment says.
    definition: String,
}

impl PolledTable {
    /// Whether the index is there by which pending rows are found.
    pub(super) fn has_pending_index(&self) -> bool {
        trouble(&self.facts, &pending(self), &self.name).is_none()
    }

    /// Whether its indexes are made and dropped while writers wait.
    pub fn partitions(&self) -> Partitions {
        if self.facts.is("partitioned") { Partitions::Some } else { Partitions::None }
    }

    /// The indexes that are not as they should be.
    pub fn index_work(&self) -> Vec<IndexWork> {
        let indexes = [Some(pending(self)), waiting(self)];
        let work = indexes.into_iter().flatten().filter_map(|index| {
            let trouble = trouble(&self.facts, &index, &self.name)?;
            let statements = statements(self, &index, &trouble);
            Some(IndexWork { purpose: index.purpose, name: index.name, trouble, statements })
        });
        work.collect()
    }
}

fn pending(table: &PolledTable) -> Index {
    let order = table
        .order
        .iter()
        .map(|column| format!("{}{}", quote_identifier(&column.name), suffix(column)));
    let order: Vec<String> = order.collect();
    let alias = quote_identifier(&table.name().name);
    let mut conditions = table.conditions().open(&alias);
    // Rows that are left out are never marked, and would stand before all others for ever.
    conditions.extend(table.filter.as_ref().and_then(|filter| Filter::index_sql(filter, &alias)));
    Index {
        purpose: "finds pending rows in their order, however many are published",
        name: index_name(PENDING_INDEX, table.name()),
        definition: format!("({}) where {}", order.join(", "), and(&conditions)),
    }
}

fn waiting(table: &PolledTable) -> Option<Index> {
    let alias = quote_identifier(&table.name().name);
    let may_hold = table.conditions().may_hold(&alias)?;
    let first = quote_identifier(&table.identity.first()?.name);
    Some(Index {
        purpose: "finds rows that later rows of their keys wait for",
        name: index_name(WAITING_INDEX, table.name()),
        definition: format!("({first}) where {may_hold}"),
    })
}

fn trouble(facts: &Facts, index: &Index, table: &TableName) -> Option<IndexTrouble> {
    let is_it = |found: &&IndexFacts| found.name == index.name;
    let Some(found) = facts.indexes.iter().find(is_it) else { return Some(IndexTrouble::Missing) };
    let name = qualified(table, &index.name);
    if !found.valid {
        return Some(IndexTrouble::Invalid(name));
    }
    let (definition, _) = read_comment(found.comment.as_deref().unwrap_or_default());
    (definition != index.definition).then_some(IndexTrouble::Outdated(name))
}

fn statements(table: &PolledTable, index: &Index, trouble: &IndexTrouble) -> Vec<String> {
    let concurrently = match table.partitions() {
        Partitions::None => " concurrently",
        Partitions::Some => "",
    };
    let Index { name, definition, .. } = index;
    let create = format!(
        "create index{concurrently} {} on {} {definition}",
        quote_identifier(name),
        table.quoted()
    );
    let name = qualified(table.name(), name);
    let comment = format!("comment on index {name} is {}", literal(definition));
    match trouble {
        IndexTrouble::Missing => vec![create, comment],
        IndexTrouble::Invalid(_) | IndexTrouble::Outdated(_) => {
            vec![format!("drop index{concurrently} {name}"), create, comment]
        }
    }
}

fn qualified(table: &TableName, index: &str) -> String {
    format!("{}.{}", quote_identifier(&table.schema), quote_identifier(index))
}

#[cfg(test)]
mod tests {
    use super::{super::table::samples, *};

    fn with(indexes: Vec<IndexFacts>) -> PolledTable {
        let mut table = samples::table(samples::time());
        table.facts.indexes = indexes;
        table
    }

    fn found(comment: &str) -> IndexFacts {
        let name = "outbox_router_pending_outbox".to_owned();
        IndexFacts { name, valid: true, comment: Some(comment.to_owned()) }
    }

    #[test]
    fn an_index_is_made_once_and_again_for_other_marks() {
        let definition = "(\"created_at\", \"id\") where \"outbox\".\"published_at\" is null";
        let create = format!(
            "create index concurrently \"outbox_router_pending_outbox\" on \"public\".\"outbox\" \
             {definition}"
        );
        let work = with(Vec::new()).index_work();
        assert_eq!(work[0].trouble, IndexTrouble::Missing);
        assert_eq!(work[0].statements[0], create);
        let former = format!(
            "{definition}, decided by {{\"column\":\"published_at\",\"how\":\"timestamp\"}}"
        );
        for comment in [definition, former.as_str()] {
            assert!(with(vec![found(comment)]).index_work().is_empty());
            assert!(with(vec![found(comment)]).has_pending_index());
        }
        let invalid = IndexFacts { valid: false, ..found(definition) };
        for stale in [invalid, found("(\"id\") where true")] {
            let table = with(vec![stale]);
            assert!(!table.has_pending_index());
            let statements = &table.index_work()[0].statements;
            assert_eq!(
                statements[0],
                "drop index concurrently \"public\".\"outbox_router_pending_outbox\""
            );
            assert_eq!(statements[1], create);
            assert!(statements[2].starts_with("comment on index \"public\"."), "{statements:?}");
        }
    }
}
