//! The note of a table: what decided whether a row is published when the table was set up, or first
//! polled. It is in `outbox_router.mark`, by the OID of the table; earlier versions have noted it
//! in the comment of the index of pending rows, or have not.

use relay::{Code, Failure, TableName};
use serde::{Deserialize, Serialize};
use tokio_postgres::Client;

use super::{
    connection::run,
    failure::{of_lease, unfit},
    literals::literal,
    settings::MarkHow,
};
use crate::{
    held::{Readability, readability},
    postgres::quote_identifier,
};

/// What the states of a row are called. `None`: the table has no such state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Words {
    /// The first is what a row becomes that is given back.
    pub(super) pending: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) processing: Option<String>,
    pub(super) published: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) abandoned: Option<String>,
}

/// What decides whether a row is published, as it is noted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NotedMarks {
    pub(super) how: MarkHow,
    pub(super) column: Option<String>,
    /// The table's name: another one takes it where a migration copies the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) table: Option<String>,
    /// The names that it had before: another one may have taken them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) formerly: Vec<String>,
    /// The table's OID, and the number of that column: another one may get its name. In a dump
    /// that is restored both are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) number: Option<(u32, i16)>,
    pub(super) words: Option<Words>,
}

/// The note of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Note {
    /// No table of notes, or it was not asked.
    #[default]
    Unasked,
    /// The table of notes is gone, although workers have shared tables.
    Gone,
    Missing,
    /// Of another table that had its name.
    OfFormer(NotedMarks),
    Found(NotedMarks),
}

impl Note {
    /// The names that the table had when it was noted; of another table, none.
    pub(super) fn names(&self) -> impl Iterator<Item = String> {
        let own = match self {
            Self::Found(noted) => Some(noted),
            Self::Unasked | Self::Gone | Self::Missing | Self::OfFormer(_) => None,
        };
        own.into_iter().flat_map(|noted| noted.formerly.iter().chain(&noted.table)).cloned()
    }
}

/// Stands between the definition of an index and what decides, in a comment of earlier versions.
pub(super) const DECIDED_BY: &str = ", decided by ";

/// The definition in the comment of an index, and what decides, where it says that.
pub(super) fn read_comment(comment: &str) -> (&str, Option<NotedMarks>) {
    // A text or a name within the definition may have the same words, with more behind them.
    let noted = comment.match_indices(DECIDED_BY).find_map(|(at, _)| {
        let (definition, rest) = comment.split_at_checked(at)?;
        let decided = serde_json::from_str(rest.strip_prefix(DECIDED_BY)?).ok()?;
        Some((definition, Some(decided)))
    });
    noted.unwrap_or((comment, None))
}

/// Reads the note of a table. Without it a table counts as one that was never polled, so it has to
/// be known whether there is one.
///
/// # Errors
/// This role may not read it (P042), another version has written it (P041), or the connection
/// breaks.
pub(super) async fn read(
    mut client: &Client,
    table: &TableName,
    (oid, role): (u32, &str),
) -> Result<Note, Failure> {
    match readability(&mut client, "outbox_router.mark", ["mark", "worker"]).await? {
        [Readability::Absent, Readability::Absent] => return Ok(Note::Unasked),
        [Readability::Absent, Readability::Hidden | Readability::Readable] => {
            return Ok(Note::Gone);
        }
        [Readability::Hidden, _] => {
            let what = format!(
                "table outbox_router.mark may not be read by {role}: grant select on \
                 outbox_router.mark to {}",
                quote_identifier(role)
            );
            return Err(Failure::new(Code::LeaseTable, what));
        }
        [Readability::Readable, _] => {}
    }
    // Of several former tables the last one that was made.
    let sql = format!(
        "select decided::text, case when relation = {oid} then 'own' end from outbox_router.mark \
         where relation = {oid} or decided ->> 'table' = {0} or decided -> 'formerly' ? {0} \
         order by relation = {oid} desc, relation::oid desc limit 1",
        literal(&table.to_string())
    );
    let answers = run(client, &sql).await.map_err(of_lease)?;
    let row = answers.first().and_then(|answer| answer.rows.first());
    let Some(row) = row else { return Ok(Note::Missing) };
    let text = row.try_get(0).ok().flatten().unwrap_or_default();
    let is_own = row.try_get(1).ok().flatten().is_some();
    let note = if is_own { Note::Found } else { Note::OfFormer };
    serde_json::from_str(text).map(note).map_err(|error| {
        let what = "its note in outbox_router.mark cannot be read: another version has written it";
        unfit(table, what).caused_by(error)
    })
}

/// The table of notes is gone, and no index notes anything either.
pub(super) fn gone() -> Failure {
    let what = "table outbox_router.mark does not exist, which notes by which column and words a \
                row is published: an earlier version has set up the workers";
    Failure::new(Code::LeaseTable, what)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        let noted = NotedMarks {
            how,
            column,
            table: None,
            formerly: Vec::new(),
            number: None,
            words: Some(words),
        };
        let definition = format!("(\", decided by \") where x in ({})", literal(word));
        let comment = format!("{definition}{DECIDED_BY}{}", json!(noted));
        assert_eq!(read_comment(&comment), (definition.as_str(), Some(noted)));
        assert_eq!(read_comment(&definition), (definition.as_str(), None));
    }
}
