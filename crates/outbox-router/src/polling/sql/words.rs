//! The words of a status column: what a row's state is called in a table.

use relay::{Failure, TableName};
use tokio_postgres::types::Type;

use super::{
    facts::ColumnFacts,
    failure::unfit,
    settings::{MarkConfig, MarkHow},
};

/// What the states of a row are called. `None`: the table has no such state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    /// The first is what a row becomes that is given back.
    pub(super) pending: Vec<String>,
    pub(super) processing: Option<String>,
    pub(super) published: String,
    pub(super) failed: Option<String>,
    pub(super) abandoned: Option<String>,
}

/// What the states are called in tables that we have seen, the commonest first.
const PENDING: [&str; 5] = ["pending", "new", "ready", "queued", "unpublished"];
const PROCESSING: [&str; 4] = ["processing", "in_progress", "publishing", "claimed"];
const PUBLISHED: [&str; 7] =
    ["published", "sent", "delivered", "processed", "completed", "done", "dispatched"];
const FAILED: [&str; 3] = ["failed", "retry", "retrying"];
const ABANDONED: [&str; 4] = ["abandoned", "dead", "dead_letter", "discarded"];

/// Whether words can be told from a column of this type.
pub(super) fn is_suitable(column: &ColumnFacts) -> bool {
    column.labels.is_some() || column.is_of(&[Type::TEXT, Type::VARCHAR, Type::BPCHAR])
}

/// The words of a column; `None` where nothing shows that it is the state of a row.
///
/// # Errors
/// A configured word is none of those that the column may have.
pub(super) fn words(
    table: &TableName,
    column: &ColumnFacts,
    config: &MarkConfig,
    usual: Option<&str>,
) -> Result<Option<Words>, Failure> {
    let known = vocabulary(column);
    let found = |words: &[&str]| {
        let known = known.as_ref()?;
        words.iter().find_map(|word| known.iter().find(|it| it.eq_ignore_ascii_case(word))).cloned()
    };
    let pending = if config.pending.is_empty() {
        let by_default = default_word(column).filter(|word| is_one(word, &PENDING));
        let Some(word) = by_default.or_else(|| found(&PENDING)).or(usual.map(str::to_owned)) else {
            return Ok(None);
        };
        vec![word]
    } else {
        config.pending.clone()
    };
    let style = pending.first().map(String::as_str).unwrap_or_default();
    let word = |configured: &Option<String>, words: &[&str]| match (configured, &known) {
        (Some(word), _) => Some(word.clone()),
        (None, Some(_)) => found(words),
        // Any word may be written: the commonest, in the manner of the pending one.
        (None, None) => words.first().map(|word| styled(word, style)),
    };
    let Some(published) = word(&config.published, &PUBLISHED) else {
        // The words are those of something else, unless somebody says otherwise.
        if config.how == MarkHow::Auto && config.pending.is_empty() {
            return Ok(None);
        }
        let what = format!(
            "its column {} has no word for a published row: name one in outbox.mark.published",
            column.name
        );
        return Err(unfit(table, &what));
    };
    let words = Words {
        processing: word(&config.processing, &PROCESSING),
        failed: word(&config.failed, &FAILED),
        abandoned: word(&config.abandoned, &ABANDONED),
        pending,
        published,
    };
    match known.as_ref().and_then(|known| words.all().find(|word| !known.contains(word))) {
        Some(unknown) => {
            let what = format!("its column {} cannot have the word {unknown}", column.name);
            Err(unfit(table, &what))
        }
        None => Ok(Some(words)),
    }
}

impl Words {
    fn all(&self) -> impl Iterator<Item = &String> {
        let optional = [&self.processing, &self.failed, &self.abandoned];
        self.pending.iter().chain([&self.published]).chain(optional.into_iter().flatten())
    }
}

/// The words that a column may have, if they are listed: by its type, or by a condition.
fn vocabulary(column: &ColumnFacts) -> Option<Vec<String>> {
    if let Some(labels) = &column.labels {
        return Some(labels.clone());
    }
    let checks = column.checks.iter().flatten();
    let mut lists = checks.map(|check| literals(check));
    // A condition such as `status <> ''` lists nothing.
    lists.find(|words| words.iter().any(|word| is_one(word, &PENDING)))
}

fn is_one(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// What a column is by default, if that is a word.
fn default_word(column: &ColumnFacts) -> Option<String> {
    literals(column.default.as_deref()?).into_iter().next()
}

/// The string literals of an expression, as `pg_get_expr` prints it.
fn literals(expression: &str) -> Vec<String> {
    // In between two quotes that are doubled, nothing is: they stand for one.
    let marked = expression.replace("''", "\u{1}");
    let inside = marked.split('\'').skip(1).step_by(2);
    inside.map(|text| text.replace('\u{1}', "'")).collect()
}

/// A word as another one is written: in capitals, with a capital, or without.
fn styled(word: &str, like: &str) -> String {
    let mut letters = like.chars();
    let first_is_capital = letters.next().is_some_and(char::is_uppercase);
    let others_are = letters.next().is_some_and(char::is_uppercase);
    match (first_is_capital, others_are) {
        (true, true) => word.to_ascii_uppercase(),
        (true, false) => {
            let (first, rest) = word.split_at(1);
            format!("{}{rest}", first.to_ascii_uppercase())
        }
        (false, _) => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::facts::samples, *};

    fn of(column: &ColumnFacts, config: &MarkConfig) -> Result<Option<Words>, Failure> {
        let table = TableName { schema: "public".into(), name: "outbox".into() };
        words(&table, column, config, None)
    }

    fn by_default(default: &str) -> ColumnFacts {
        let column = samples::column("status", &Type::TEXT, &[]);
        ColumnFacts { default: Some(default.to_owned()), ..column }
    }

    fn shown(words: &Words) -> String {
        let optional = |word: &Option<String>| word.clone().unwrap_or_default();
        let (processing, failed) = (optional(&words.processing), optional(&words.failed));
        let pending = words.pending.join("+");
        format!(
            "{pending} {processing} {} {failed} {}",
            words.published,
            optional(&words.abandoned)
        )
    }

    #[test]
    fn words_are_written_as_the_default_is() {
        for (default, expected) in [
            ("'pending'::text", "pending processing published failed abandoned"),
            ("'PENDING'::character varying", "PENDING PROCESSING PUBLISHED FAILED ABANDONED"),
            ("'New'::text", "New Processing Published Failed Abandoned"),
        ] {
            let words = of(&by_default(default), &MarkConfig::default()).unwrap().unwrap();
            assert_eq!(shown(&words), expected);
        }
    }

    #[test]
    fn a_column_that_shows_no_state_is_none() {
        let config = MarkConfig::default();
        assert_eq!(of(&by_default("'open'::text"), &config).unwrap(), None);
        assert_eq!(of(&samples::column("status", &Type::TEXT, &[]), &config).unwrap(), None);
        let named = MarkConfig { pending: vec!["open".into(), "again".into()], ..config };
        let words = of(&by_default("'open'::text"), &named).unwrap().unwrap();
        assert_eq!(shown(&words), "open+again processing published failed abandoned");
    }

    #[test]
    fn listed_words_are_taken_as_they_are_listed() {
        let labels = |labels: &[&str]| {
            let labels = labels.iter().map(|&label| label.to_owned()).collect();
            ColumnFacts { labels: Some(labels), ..samples::column("status", &Type::TEXT, &[]) }
        };
        let config = MarkConfig::default();
        let words = of(&labels(&["NEW", "SENT", "DEAD"]), &config).unwrap().unwrap();
        assert_eq!(shown(&words), "NEW  SENT  DEAD");
        assert_eq!(of(&labels(&["NEW", "GONE"]), &config).unwrap(), None);
        let asked = MarkConfig { how: MarkHow::Status, ..config.clone() };
        assert!(of(&labels(&["NEW", "GONE"]), &asked).is_err(), "no word for published");
        let named = MarkConfig { published: Some("gone".into()), ..config.clone() };
        assert!(of(&labels(&["NEW", "GONE"]), &named).is_err(), "no such word");
        let check = "CHECK ((status = ANY (ARRAY['pending'::text, 'it''s'::text, 'done'::text])))";
        let checked = ColumnFacts { checks: Some(vec![check.into()]), ..by_default("'pending'") };
        assert_eq!(shown(&of(&checked, &config).unwrap().unwrap()), "pending  done  ");
        assert_eq!(literals(check), ["pending", "it's", "done"]);
        let other = ColumnFacts {
            checks: Some(vec!["CHECK ((status <> ''::text))".into()]),
            ..by_default("'pending'")
        };
        assert!(shown(&of(&other, &config).unwrap().unwrap()).ends_with("abandoned"));
    }
}
