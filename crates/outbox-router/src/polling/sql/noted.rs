//! Whether the marks of a table are those that are noted of it, and what notes them. A column or a
//! word that the application adds may take another one's place: delivered rows are then pending, or
//! pending ones are not. The note is the table's, by its OID: it stays when the table gets another
//! name, or loses an index.

use std::fmt::Display;

use relay::Failure;
use serde_json::json;

use super::{
    failure::unfit,
    literals::literal,
    marks::{Decides, STATUS},
    note::{Note, NotedMarks},
    settings::{MarkConfig, MarkHow},
    setup::{PENDING_INDEX, index_name},
    table::PolledTable,
    words,
};
use crate::postgres::quote_identifier;

/// What makes the note of a table say what decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteWork {
    /// The note's content then, for people.
    pub what: String,
    /// The statement.
    pub statement: String,
}

/// Notes of tables that are gone: `pg_dump` writes their OIDs, and those may be of other tables
/// where the dump is restored. The note of one whose name another table has, of which nothing is
/// noted, stays: that one may be a copy.
const FORGET_GONE: &str = "delete from outbox_router.mark m \
    where not exists (select from pg_class c where c.oid = m.relation) \
      and not exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace \
        where concat(n.nspname, '.', c.relname) = m.decided ->> 'table' \
          and not exists (select from outbox_router.mark o where o.relation = c.oid))";

impl NotedMarks {
    fn now(table: &PolledTable) -> Self {
        let PolledTable { marks, facts, .. } = table;
        let how = match marks.decides {
            Decides::Status => MarkHow::Status,
            Decides::Flag => MarkHow::Flag,
            Decides::Time => MarkHow::Timestamp,
            Decides::Presence => MarkHow::Delete,
        };
        let words = marks.status.as_ref().map(|status| status.words.clone());
        let column = marks.deciding();
        let number = column.and_then(|name| Some((facts.oid, facts.column(name)?.number)));
        let name = table.name.to_string();
        Self {
            how,
            column: column.map(str::to_owned),
            formerly: facts.note.names().filter(|former| *former != name).collect(),
            table: Some(name),
            number,
            words,
        }
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

    /// Whether the column is the one that it was; one that a note without a number names is taken
    /// for it, and so is one of a table that was restored from a dump.
    fn is_same_column(&self, now: &Self) -> bool {
        let is_same = match (self.number, now.number) {
            (Some((table, number)), Some((oid, now))) => table != oid || number == now,
            (None, _) | (_, None) => true,
        };
        is_same && self.column == now.column
    }

    /// For people.
    fn shown(&self) -> String {
        match (&self.column, &self.words) {
            (Some(column), Some(words)) => format!("{column} = \"{}\"", words.published),
            (Some(column), None) => column.clone(),
            (None, _) => "that it is deleted".to_owned(),
        }
    }

    fn insert(&self, relation: impl Display, conflict: &str) -> String {
        let decided = literal(&json!(self).to_string());
        format!(
            "insert into outbox_router.mark (relation, decided) values ({relation}, {decided}) \
             on conflict (relation) do {conflict}"
        )
    }
}

impl PolledTable {
    /// What `setup` does where what decides now is not noted.
    pub fn note_work(&self) -> Option<NoteWork> {
        let now = NotedMarks::now(self);
        let is_noted = match &self.facts.note {
            Note::Found(noted) => *noted == now,
            Note::Unasked | Note::Gone | Note::Missing | Note::OfFormer(_) => false,
        };
        let relation = format!("{}::regclass", literal(&self.quoted()));
        let insert = now.insert(relation, "update set decided = excluded.decided");
        let statement = format!("{insert}; {FORGET_GONE}");
        let what = format!("{} says that a row is published", now.shown());
        (!is_noted).then_some(NoteWork { what, statement })
    }

    /// What a worker does where nothing is noted: what decides now has to do so after a migration.
    pub(super) fn first_note(&self) -> Option<String> {
        let noted = || {
            let now = NotedMarks::now(self);
            match self.facts.decided_before() {
                Some(noted) if noted.is_same_column(&now) => {
                    NotedMarks { table: now.table, number: now.number, ..noted }
                }
                Some(noted) => noted,
                None => now,
            }
        };
        match self.facts.note {
            Note::Missing | Note::OfFormer(_) => Some(noted().insert(self.oid(), "nothing")),
            Note::Unasked | Note::Gone | Note::Found(_) => None,
        }
    }

    /// Checks that the column and the words that decide are those that are noted, unless the
    /// configuration names them.
    ///
    /// # Errors
    /// They are others (P041).
    pub(super) fn check_marks(&self, config: &MarkConfig) -> Result<(), Failure> {
        let Some(noted) = self.facts.decided_before() else { return self.check_definition(config) };
        let now = NotedMarks::now(self);
        let (is_named, has_its_name) = (noted.is_named(config), noted.column == now.column);
        if noted.is_same_column(&now) || has_its_name && is_named {
            return self.check_words(config, &noted, &now);
        }
        match (now.column, is_named) {
            (Some(column), false) => {
                let noted = match noted.column.as_deref() {
                    Some(_) if has_its_name => "which had its name",
                    Some(noted) => noted,
                    None => "that a row was there",
                };
                Err(self.decided_by_another(&column, noted))
            }
            (None, _) | (_, true) => Ok(()),
        }
    }

    /// Checks that the definition of its index names the column that decides.
    fn check_definition(&self, config: &MarkConfig) -> Result<(), Failure> {
        let name = index_name(PENDING_INDEX, &self.name);
        let made = self.facts.indexes.iter().find(|it| it.name == name);
        let comment = made.and_then(|it| it.comment.as_deref());
        let (Some(made_for), MarkHow::Auto, Some(column)) =
            (comment, config.how, self.marks.deciding())
        else {
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
}

#[cfg(test)]
mod tests {
    use tokio_postgres::types::Type;

    use super::{
        super::{
            facts::{self, ColumnFacts, IndexFacts},
            note::DECIDED_BY,
            table::samples::{self, table_of},
        },
        *,
    };

    fn with(note: Note) -> PolledTable {
        let mut table = samples::table(samples::time());
        table.facts.note = note;
        table
    }

    fn by_index(comment: &str) -> IndexFacts {
        let name = "outbox_router_pending_outbox".to_owned();
        IndexFacts { name, valid: true, comment: Some(comment.to_owned()) }
    }

    #[test]
    fn what_decides_is_noted_once_and_again_where_it_is_another() {
        let now = NotedMarks::now(&samples::table(samples::time()));
        let work = with(Note::Missing).note_work().unwrap();
        assert_eq!(work.what, "published_at says that a row is published");
        assert_eq!(
            work.statement,
            "insert into outbox_router.mark (relation, decided) values \
             ('\"public\".\"outbox\"'::regclass, \
             '{\"column\":\"published_at\",\"how\":\"timestamp\",\"number\":[77,7],\"table\":\"public.outbox\",\"words\":null}') \
             on conflict (relation) do update set decided = excluded.decided; \
             delete from outbox_router.mark m where not exists \
             (select from pg_class c where c.oid = m.relation) and not exists (select from \
             pg_class c join pg_namespace n on n.oid = c.relnamespace \
             where concat(n.nspname, '.', c.relname) = m.decided ->> 'table' \
             and not exists (select from outbox_router.mark o where o.relation = c.oid))"
        );
        assert_eq!(with(Note::Found(now.clone())).note_work(), None);
        let other = NotedMarks { column: Some("sent_at".to_owned()), ..now };
        assert_eq!(with(Note::Found(other.clone())).note_work(), Some(work));
        // A worker notes what an index does, and nothing where there is a note.
        assert_eq!(with(Note::Found(other.clone())).first_note(), None);
        assert!(with(Note::Missing).first_note().unwrap().contains("published_at"));
        let mut former = with(Note::Missing);
        former.facts.indexes = vec![by_index(&format!("(\"id\"){DECIDED_BY}{}", json!(other)))];
        let first = former.first_note().unwrap();
        assert!(first.contains("sent_at") && first.ends_with(" do nothing"), "{first}");
    }

    /// Without words every row that is there would be sent, and deleted.
    #[test]
    fn a_status_beside_rows_that_are_deleted_keeps_its_words() {
        let delete = MarkConfig { how: MarkHow::Delete, ..MarkConfig::default() };
        let status = |default: &str| {
            let column = facts::samples::column("status", &Type::TEXT, &[]);
            vec![ColumnFacts { default: Some(default.to_owned()), ..column }]
        };
        let noted = |columns| NotedMarks::now(&table_of(columns, delete.clone()).unwrap());
        let check = |columns, noted: &NotedMarks| {
            let mut table = table_of(columns, delete.clone()).unwrap();
            table.facts.note = Note::Found(noted.clone());
            table.check_marks(&delete).map_err(|failure| failure.message)
        };
        let made = noted(status("'new'::text"));
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
            let column = column.map(str::to_owned);
            Note::Found(NotedMarks {
                how,
                column,
                table: None,
                formerly: Vec::new(),
                number: None,
                words: None,
            })
        };
        let check = |how, column: Option<&str>, noted| {
            let config =
                MarkConfig { how, column: column.map(str::to_owned), ..Default::default() };
            with(noted).check_marks(&config).map_err(|failure| failure.message)
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
