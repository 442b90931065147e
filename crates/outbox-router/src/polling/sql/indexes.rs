//! The indexes by which pending rows are found, and the rows that others wait for: what they have
//! to be, whether they are there, and what makes them.
//!
//! A server uses an index with a condition for those statements alone that have the same condition.
//! So each index says in its comment what it was made for: after a change of `outbox.mark`,
//! `order_by` or `where` it is another one that is needed, under the same name. That of pending
//! rows says, too, what decides whether a row is published.

use relay::{Failure, TableName};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    conditions::and,
    facts::{Facts, IndexFacts},
    failure::unfit,
    filter::Filter,
    literals::literal,
    marks::{Decides, STATUS},
    order::suffix,
    settings::{MarkConfig, MarkHow},
    setup::{PENDING_INDEX, Partitions, WAITING_INDEX, index_name},
    table::PolledTable,
    words::{self, Words},
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
    /// It is as it should be, and its comment does not say what decides; with its name.
    Uncommented(String),
}

/// An index as it should be.
struct Index {
    purpose: &'static str,
    name: String,
    /// Columns and condition.
    definition: String,
    /// What its comment says beside that.
    decided: Option<NotedMarks>,
}

/// What decides whether a row is published, as the comment of an index notes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NotedMarks {
    how: MarkHow,
    column: Option<String>,
    words: Option<Words>,
}

/// Stands between the definition of an index and what decides, in its comment.
const DECIDED_BY: &str = ", decided by ";

impl Index {
    fn comment(&self) -> String {
        let decided = self.decided.as_ref().map(|it| format!("{DECIDED_BY}{}", json!(it)));
        format!("{}{}", self.definition, decided.unwrap_or_default())
    }
}

/// The definition in a comment, and what decides, where it says that: earlier versions have not
/// noted it.
fn read_comment(comment: &str) -> (&str, Option<NotedMarks>) {
    // A text or a name within the definition may have the same words, with more behind them.
    let noted = comment.match_indices(DECIDED_BY).find_map(|(at, _)| {
        let (definition, rest) = comment.split_at_checked(at)?;
        let decided = serde_json::from_str(rest.strip_prefix(DECIDED_BY)?).ok()?;
        Some((definition, Some(decided)))
    });
    noted.unwrap_or((comment, None))
}

impl NotedMarks {
    fn now(table: &PolledTable) -> Self {
        let marks = &table.marks;
        let how = match marks.decides {
            Decides::Status => MarkHow::Status,
            Decides::Flag => MarkHow::Flag,
            Decides::Time => MarkHow::Timestamp,
            Decides::Presence => MarkHow::Delete,
        };
        let words = marks.status.as_ref().map(|status| status.words.clone());
        Self { how, column: marks.deciding().map(str::to_owned), words }
    }

    /// Whether it was for a person to say which column decides, and the configuration does.
    fn is_named(&self, config: &MarkConfig) -> bool {
        match config.how {
            MarkHow::Auto => false,
            MarkHow::Timestamp | MarkHow::Flag | MarkHow::Status => {
                config.column.is_some() || config.how != self.how
            }
            MarkHow::Delete => true,
        }
    }
}

impl PolledTable {
    /// Whether the index is there by which pending rows are found.
    pub(super) fn has_pending_index(&self) -> bool {
        match trouble(&self.facts, &pending(self), &self.name) {
            None | Some(IndexTrouble::Uncommented(_)) => true,
            Some(IndexTrouble::Missing | IndexTrouble::Invalid(_) | IndexTrouble::Outdated(_)) => {
                false
            }
        }
    }

    /// Checks that the column and the words that decide are those that decided when its index was
    /// made, unless the configuration names them. A column or a word that the application adds may
    /// take another one's place: delivered rows are then pending, or pending ones are not.
    ///
    /// # Errors
    /// They are others (P041).
    pub(super) fn check_marks(&self, config: &MarkConfig) -> Result<(), Failure> {
        let name = index_name(PENDING_INDEX, &self.name);
        let made = self.facts.indexes.iter().find(|it| it.name == name);
        let Some(comment) = made.and_then(|it| it.comment.as_deref()) else { return Ok(()) };
        let (made_for, noted) = read_comment(comment);
        let Some(noted) = noted else { return self.check_definition(config, made_for) };
        let now = NotedMarks::now(self);
        if noted.column == now.column {
            return self.check_words(config, &noted, &now);
        }
        match (now.column, noted.is_named(config)) {
            (Some(column), false) => {
                let noted = noted.column.as_deref().unwrap_or("that a row was there");
                Err(self.decided_by_another(&column, noted))
            }
            (None, _) | (_, true) => Ok(()),
        }
    }

    /// Checks that the definition of its index names the column that decides.
    fn check_definition(&self, config: &MarkConfig, made_for: &str) -> Result<(), Failure> {
        let (MarkHow::Auto, Some(column)) = (config.how, self.marks.deciding()) else {
            return Ok(());
        };
        if made_for.contains(&quote_identifier(column)) {
            return Ok(());
        }
        Err(self.decided_by_another(column, &format!("its index is {made_for}")))
    }

    fn decided_by_another(&self, column: &str, noted: &str) -> Failure {
        let what = format!(
            "{column} says now whether a row is published, and another column did when it was set \
             up ({noted}): name the one that does in outbox.mark.how and outbox.mark.column, and \
             if that is {column}, `outbox-router setup --apply` then"
        );
        unfit(&self.name, &what)
    }

    /// The same of words, where the column is the same, or where a row is pending that is there.
    fn check_words(
        &self,
        config: &MarkConfig,
        noted: &NotedMarks,
        now: &NotedMarks,
    ) -> Result<(), Failure> {
        let name = self.marks.status.as_ref().map(|status| status.column.as_str());
        let name = name.or((now.how == MarkHow::Delete).then_some(STATUS));
        let column = name.and_then(|name| self.facts.column(name));
        let column = column.filter(|column| words::is_suitable(column));
        let (Some(column), Some(noted)) = (column, &noted.words) else { return Ok(()) };
        let name = &column.name;
        let what = match &now.words {
            Some(now) => {
                let changes = words::changes(noted, now, column, config);
                if changes.is_empty() {
                    return Ok(());
                }
                format!(
                    "its column {name} has other words for the states of a row than when it was \
                     set up, and nothing names them: {}; name these words, and then \
                     `outbox-router setup --apply`",
                    changes.join("; ")
                )
            }
            // Each row that is there would be pending.
            None => format!(
                "its column {name} had the words by which rows are pending when it was set up, and \
                 now {}",
                words::untold(column)
            ),
        };
        Err(unfit(&self.name, &what))
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
            let purpose = match trouble {
                IndexTrouble::Uncommented(_) => "says in its comment what decides",
                IndexTrouble::Missing | IndexTrouble::Invalid(_) | IndexTrouble::Outdated(_) => {
                    index.purpose
                }
            };
            Some(IndexWork { purpose, name: index.name, trouble, statements })
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
        decided: Some(NotedMarks::now(table)),
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
        decided: None,
    })
}

fn trouble(facts: &Facts, index: &Index, table: &TableName) -> Option<IndexTrouble> {
    let is_it = |found: &&IndexFacts| found.name == index.name;
    let Some(found) = facts.indexes.iter().find(is_it) else { return Some(IndexTrouble::Missing) };
    let name = qualified(table, &index.name);
    if !found.valid {
        return Some(IndexTrouble::Invalid(name));
    }
    let (definition, decided) = read_comment(found.comment.as_deref().unwrap_or_default());
    if definition != index.definition {
        return Some(IndexTrouble::Outdated(name));
    }
    (decided != index.decided).then_some(IndexTrouble::Uncommented(name))
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
    let comment = format!("comment on index {name} is {}", literal(&index.comment()));
    match trouble {
        IndexTrouble::Missing => vec![create, comment],
        IndexTrouble::Invalid(_) | IndexTrouble::Outdated(_) => {
            vec![format!("drop index{concurrently} {name}"), create, comment]
        }
        IndexTrouble::Uncommented(_) => vec![comment],
    }
}

fn qualified(table: &TableName, index: &str) -> String {
    format!("{}.{}", quote_identifier(&table.schema), quote_identifier(index))
}

#[cfg(test)]
mod tests {
    use tokio_postgres::types::Type;

    use super::{
        super::{
            facts::{self, ColumnFacts},
            table::samples::{self, table_of},
        },
        *,
    };

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
        let comment = pending(&with(Vec::new())).comment();
        assert_eq!(
            comment,
            format!(
                "{definition}, decided by \
                 {{\"column\":\"published_at\",\"how\":\"timestamp\",\"words\":null}}"
            )
        );
        assert!(with(vec![found(&comment)]).index_work().is_empty());
        assert!(with(vec![found(&comment)]).has_pending_index());
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

    /// An earlier version has noted the definition alone; a person has named another word since.
    #[test]
    fn an_index_whose_comment_does_not_say_what_decides_stays() {
        let definition = "(\"created_at\", \"id\") where \"outbox\".\"published_at\" is null";
        let other = ", decided by {\"how\":\"timestamp\",\"column\":\"published_at\"}";
        assert!(with(vec![found(&format!("{definition}{other}"))]).index_work().is_empty());
        for former in ["", ", decided by {\"how\":\"status\",\"column\":\"published_at\"}"] {
            let table = with(vec![found(&format!("{definition}{former}"))]);
            assert!(table.has_pending_index());
            let work = table.index_work().pop().unwrap();
            let name = "\"public\".\"outbox_router_pending_outbox\"";
            assert_eq!(work.trouble, IndexTrouble::Uncommented(name.to_owned()));
            let comment = literal(&pending(&table).comment());
            assert_eq!(work.statements, [format!("comment on index {name} is {comment}")]);
        }
    }

    #[test]
    fn a_comment_is_read_as_it_was_written_whatever_words_it_has() {
        let word = "it's, decided by {\"how\":\"delete\"} \"\\\n";
        let words = Words {
            pending: vec![word.to_owned(), "new".to_owned()],
            processing: None,
            published: word.to_owned(),
            failed: Some("'".to_owned()),
            abandoned: None,
        };
        let (how, column) = (MarkHow::Status, Some(", decided by {".to_owned()));
        let index = Index {
            purpose: "",
            name: String::new(),
            definition: format!("(\", decided by \") where x in ({})", literal(word)),
            decided: Some(NotedMarks { how, column, words: Some(words) }),
        };
        assert_eq!(
            read_comment(&index.comment()),
            (index.definition.as_str(), index.decided.clone())
        );
        let former = Index { decided: None, ..index };
        assert_eq!(read_comment(&former.comment()), (former.definition.as_str(), None));
    }

    /// Without words every row that is there would be sent, and deleted.
    #[test]
    fn a_status_beside_rows_that_are_deleted_keeps_its_words() {
        let delete = MarkConfig { how: MarkHow::Delete, ..MarkConfig::default() };
        let status = |default: &str| {
            let column = facts::samples::column("status", &Type::TEXT, &[]);
            vec![ColumnFacts { default: Some(default.to_owned()), ..column }]
        };
        let comment = |columns| pending(&table_of(columns, delete.clone()).unwrap()).comment();
        let check = |columns, comment: &str| {
            let mut table = table_of(columns, delete.clone()).unwrap();
            table.facts.indexes = vec![found(comment)];
            table.check_marks(&delete).map_err(|failure| failure.message)
        };
        let made = comment(status("'new'::text"));
        assert_eq!(check(status("'new'::text"), &made), Ok(()));
        assert_eq!(check(Vec::new(), &made), Ok(()), "it was dropped");
        let what = "its column status had the words by which rows are pending when it was set up, \
                    and now of the words of its column status, by default \"draft\", none is known \
                    to mean pending: name them in outbox.mark.pending and outbox.mark.published";
        let refused = check(status("'draft'::text"), &made).unwrap_err();
        assert!(refused.ends_with(what), "{refused}");
    }

    /// By a decision of a person another column decides than before.
    #[test]
    fn a_column_is_compared_unless_the_configuration_names_it() {
        let noted = |how, column: Option<&str>| {
            let decided = NotedMarks { how, column: column.map(str::to_owned), words: None };
            found(&format!("(\"id\") where \"published_at\" = ''{DECIDED_BY}{}", json!(decided)))
        };
        let check = |how, column: Option<&str>, noted| {
            let config =
                MarkConfig { how, column: column.map(str::to_owned), ..Default::default() };
            with(vec![noted]).check_marks(&config).map_err(|failure| failure.message)
        };
        let (auto, time, flag) = (MarkHow::Auto, MarkHow::Timestamp, MarkHow::Flag);
        for (how, column, noted, is_refused) in [
            (auto, None, noted(time, Some("published_at")), false),
            (auto, None, noted(flag, Some("sent")), true),
            (auto, None, noted(MarkHow::Delete, None), true),
            (time, None, noted(flag, Some("sent")), false),
            (time, None, noted(time, Some("sent_at")), true),
            (time, Some("published_at"), noted(time, Some("sent_at")), false),
        ] {
            let refused = check(how, column, noted.clone());
            assert_eq!(refused.is_err(), is_refused, "{how:?} {column:?} {noted:?}: {refused:?}");
        }
    }
}
