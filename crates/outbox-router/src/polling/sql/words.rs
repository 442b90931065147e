//! The words of a status column: what a row's state is called in a table.

use relay::{Failure, TableName};
use tokio_postgres::types::Type;

use super::{
    facts::ColumnFacts,
    failure::unfit,
    note::Words,
    settings::{MarkConfig, MarkHow},
};

/// The keys in `outbox.mark` of the words of each state.
const STATES: [&str; 5] = ["pending", "processing", "published", "failed", "abandoned"];

/// What the states are called in tables that we have seen, the commonest first.
const PENDING: [&str; 5] = ["pending", "new", "ready", "queued", "unpublished"];
const PROCESSING: [&str; 4] = ["processing", "in_progress", "publishing", "claimed"];
const PUBLISHED: [&str; 7] =
    ["published", "sent", "delivered", "processed", "completed", "done", "dispatched"];
const FAILED: [&str; 3] = ["failed", "retry", "retrying"];
const ABANDONED: [&str; 4] = ["abandoned", "dead", "dead_letter", "discarded"];

/// More words that a column may have are not shown.
const SHOWN_MAX: usize = 12;

/// Whether words can be told from a column of this type.
pub(super) fn is_suitable(column: &ColumnFacts) -> bool {
    column.labels.as_ref().is_some_and(|labels| !labels.is_empty())
        || column.is_of(&[Type::TEXT, Type::VARCHAR, Type::BPCHAR])
}

/// The words of a column; `None` where nothing shows that it is the state of a row. `usual` is the
/// word of pending rows in such a table, `noted` are the words that it has had.
///
/// # Errors
/// A configured word is none of those that the column may have, or two states have the same word.
pub(super) fn words(
    table: &TableName,
    column: &ColumnFacts,
    config: &MarkConfig,
    (usual, noted): (Option<&str>, Option<&Words>),
) -> Result<Option<Words>, Failure> {
    let known = vocabulary(column, &config.pending);
    // A default gives way to what is configured for another state.
    let is_free = |word: &String| !config.words().any(|(_, it)| it == word.as_str());
    let pending = if config.pending.is_empty() {
        let by_default = default_word(column).filter(|word| is_one(word, &PENDING));
        let listed = || first_of(&PENDING, known.iter().flatten());
        let Some(word) = by_default.or_else(listed).or(usual.map(str::to_owned)) else {
            return Ok(None);
        };
        vec![word]
    } else {
        config.pending.clone()
    };
    let style = pending.first().map(String::as_str).unwrap_or_default();
    let word = |configured: &Option<String>, words: &[&str]| match (configured, &known) {
        (Some(word), _) => Some(word.clone()),
        (None, Some(known)) => first_of(words, known.iter().filter(|word| is_free(word))),
        // Any word may be written: the commonest, in the manner of the pending one.
        (None, None) => words.first().map(|word| styled(word, style)).filter(is_free),
    };
    let Some(published) = word(&config.published, &PUBLISHED) else {
        // The words are those of something else, unless somebody says otherwise.
        if config.how == MarkHow::Auto && config.words().next().is_none() {
            return Ok(None);
        }
        let what = format!(
            "its column {} has no word for a published row: name one in outbox.mark.published",
            column.name
        );
        return Err(unfit(table, &what));
    };
    // A word that is added is that of no state without one, and takes no other one's place: a row
    // that has it waits for a person, as one with any unknown word does.
    let kept = |noted: &String| known.iter().flatten().any(|it| it == noted) && is_free(noted);
    let optional =
        |configured: &Option<String>, words: &[&str], noted: Option<&Option<String>>| match (
            configured, noted,
        ) {
            (None, Some(None)) => None,
            (None, Some(Some(noted))) if kept(noted) => Some(noted.clone()),
            (Some(_), _) | (None, None | Some(Some(_))) => word(configured, words),
        };
    let words = Words {
        processing: optional(&config.processing, &PROCESSING, noted.map(|it| &it.processing)),
        failed: optional(&config.failed, &FAILED, noted.map(|it| &it.failed)),
        abandoned: optional(&config.abandoned, &ABANDONED, noted.map(|it| &it.abandoned)),
        pending,
        published,
    };
    check(table, column, config, known.as_deref(), &words)?;
    Ok(Some(words))
}

/// Of the words of a state, the commonest that a column may have.
fn first_of<'k>(words: &[&str], known: impl Iterator<Item = &'k String> + Clone) -> Option<String> {
    words.iter().find_map(|word| known.clone().find(|it| it.eq_ignore_ascii_case(word))).cloned()
}

/// Refuses a word that the column cannot have, and one that would mean two states.
fn check(
    table: &TableName,
    column: &ColumnFacts,
    config: &MarkConfig,
    known: Option<&[String]>,
    words: &Words,
) -> Result<(), Failure> {
    let named = words.named();
    let is_unknown = |word: &str| known.is_some_and(|known| !known.iter().any(|it| it == word));
    if let Some((_, unknown)) = named.iter().find(|(_, word)| is_unknown(word)) {
        let what = format!("its column {} cannot have the word {unknown}", column.name);
        return Err(unfit(table, &what));
    }
    let Some((key, other, word)) = same_word(&named) else { return Ok(()) };
    let what = if key == other {
        format!("outbox.mark.{key} has the word \"{word}\" twice: name it once")
    } else if other == "pending" && config.pending.is_empty() {
        taken_for_pending(column, key, word)
    } else {
        format!(
            "outbox.mark.{key} and outbox.mark.{other} are both \"{word}\": each state of a row \
             needs a word of its own"
        )
    };
    Err(unfit(table, &what))
}

/// That a word is configured for another state, and pending rows have it without a configuration.
fn taken_for_pending(column: &ColumnFacts, key: &str, word: &str) -> String {
    let name = &column.name;
    let why = if default_word(column).as_deref() == Some(word) {
        format!(
            "the default of the column {name}: a row is written with it, and is pending with it"
        )
    } else {
        format!("the word of pending rows in the column {name}")
    };
    format!(
        "outbox.mark.{key} is \"{word}\", which is {why}; name another word in \
         outbox.mark.{key}, or the words of pending rows in outbox.mark.pending"
    )
}

/// Why a column was not taken for a status, and which keys make it one.
pub(super) fn untold(column: &ColumnFacts) -> String {
    let (name, listed) = (&column.name, listed(column));
    let shown: Vec<&str> = listed.iter().map(String::as_str).take(SHOWN_MAX).collect();
    let more = if listed.len() > SHOWN_MAX { ", ..." } else { "" };
    let shown = format!("{}{more}", shown.join(", "));
    if listed.iter().any(|word| is_one(word, &PENDING)) {
        return format!(
            "of the words that its column {name} may have ({shown}) none is known to mean \
             published: name it in outbox.mark.published"
        );
    }
    let words = if !listed.is_empty() {
        format!("the words that its column {name} may have ({shown})")
    } else if let Some(default) = default_word(column) {
        format!("the words of its column {name}, by default \"{default}\",")
    } else {
        format!("the words of its column {name}")
    };
    format!(
        "of {words} none is known to mean pending: name them in outbox.mark.pending and \
         outbox.mark.published"
    )
}

/// What follows if `failed` becomes the word for abandoned.
fn failed_means(failed: &str, pending: &str) -> String {
    format!(
        "a row that waits for another attempt is then \"{pending}\", and \"{failed}\" means \
         abandoned"
    )
}

/// Two keys of `outbox.mark` with the same word, the later one first, and that word: by it a row of
/// one state would be taken for one of the other. A row that is tried again may well be pending
/// again.
pub(crate) fn same_word<'w>(
    words: &[(&'static str, &'w str)],
) -> Option<(&'static str, &'static str, &'w str)> {
    words.iter().enumerate().find_map(|(index, (key, word))| {
        let may_be_one = |other: &str| *key == "failed" && other == "pending";
        let mut earlier = words.iter().take(index);
        let (other, _) = earlier.find(|(other, it)| it == word && !may_be_one(other))?;
        Some((*key, *other, *word))
    })
}

/// The words of each state that are others than noted ones, and that nothing names, with what may
/// name them.
pub(super) fn changes(
    noted: &Words,
    now: &Words,
    column: &ColumnFacts,
    config: &MarkConfig,
) -> Vec<String> {
    let known = vocabulary(column, &config.pending);
    let may_be = |word: &str| {
        let is_listed = known.as_ref().is_none_or(|known| known.iter().any(|it| it == word));
        is_listed && !config.words().any(|(_, it)| it == word)
    };
    let change = |key: &&'static str| {
        let (before, after) = (noted.of(key), now.of(key));
        // A state without a word in this column is that of no row.
        if before == after || after.is_empty() || config.words().any(|(named, _)| named == *key) {
            return None;
        }
        let is_possible = !before.is_empty() && before.iter().all(|word| may_be(word));
        let (before, after) = (shown(key, &before), shown(key, &after));
        let former = if is_possible { format!("{before} or = ") } else { String::new() };
        Some(format!("{key} was {before}, and is {after} now: outbox.mark.{key} = {former}{after}"))
    };
    STATES.iter().filter_map(change).collect()
}

/// Words of a state as a configuration has them.
fn shown(key: &str, words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match (key, quoted.as_slice()) {
        (_, []) => "no word".to_owned(),
        ("pending", quoted) => format!("[{}]", quoted.join(", ")),
        (_, quoted) => quoted.join(", "),
    }
}

impl Words {
    /// Those of one state, by its key in `outbox.mark`.
    fn of(&self, key: &str) -> Vec<&str> {
        let named = self.named().into_iter().filter(|(of, _)| *of == key);
        named.map(|(_, word)| word).collect()
    }

    /// With their keys in `outbox.mark`.
    fn named(&self) -> Vec<(&'static str, &str)> {
        let pending = self.pending.iter().map(|word| ("pending", word.as_str()));
        let others = [
            ("processing", self.processing.as_deref()),
            ("published", Some(self.published.as_str())),
            ("failed", self.failed.as_deref()),
            ("abandoned", self.abandoned.as_deref()),
        ];
        let others = others.into_iter().filter_map(|(key, word)| Some((key, word?)));
        pending.chain(others).collect()
    }

    /// The word that shows that a row was tried: a word that rows have before shows nothing.
    pub(super) fn tried(&self) -> Option<&String> {
        self.failed.as_ref().filter(|failed| !self.pending.contains(failed))
    }

    /// What to configure so that one of these words means abandoned, where none does.
    pub(super) fn to_abandon(&self) -> Option<String> {
        let (failed, pending) = (self.tried()?, self.pending.first()?);
        self.abandoned.is_none().then(|| {
            format!(
                "outbox.mark.failed = \"{pending}\" with outbox.mark.abandoned = \"{failed}\": {}",
                failed_means(failed, pending)
            )
        })
    }
}

/// The words that a column may have, if they are listed: by its type, or by a condition. A list of
/// states has a word of pending rows, which may be one of these.
fn vocabulary(column: &ColumnFacts, pending: &[String]) -> Option<Vec<String>> {
    if let Some(labels) = &column.labels {
        return Some(labels.clone());
    }
    let checks = column.checks.iter().flatten();
    let mut lists = checks.map(|check| literals(check));
    // A condition such as `status <> ''` lists nothing.
    lists.find(|words| words.iter().any(|word| is_one(word, &PENDING) || pending.contains(word)))
}

/// The same for people, also where none of the words is known.
fn listed(column: &ColumnFacts) -> Vec<String> {
    let of_check = |check: &String| {
        let words = literals(check);
        // One word alone is what a column may not be.
        (words.len() > 1 && words.iter().all(|word| !word.is_empty())).then_some(words)
    };
    let any_check = || column.checks.iter().flatten().find_map(of_check);
    vocabulary(column, &[]).or_else(any_check).unwrap_or_default()
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
        words(&table, column, config, (None, None))
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
        let check = "CHECK ((status = ANY (ARRAY['open'::text, 'closed'::text])))";
        let checked = ColumnFacts { checks: Some(vec![check.into()]), ..by_default("'open'") };
        let named = MarkConfig { pending: vec!["open".into()], ..config.clone() };
        let named = MarkConfig { published: Some("closed".into()), ..named };
        assert_eq!(shown(&of(&checked, &named).unwrap().unwrap()), "open  closed  ");
        let other = ColumnFacts {
            checks: Some(vec!["CHECK ((status <> ''::text))".into()]),
            ..by_default("'pending'")
        };
        assert!(shown(&of(&other, &config).unwrap().unwrap()).ends_with("abandoned"));
    }

    fn word(word: &str) -> Option<String> {
        Some(word.to_owned())
    }

    #[test]
    fn two_states_with_the_same_word_are_refused() {
        let of_published =
            |word: &str| MarkConfig { published: Some(word.to_owned()), ..MarkConfig::default() };
        let pending = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let config = MarkConfig { pending: pending(&["PENDING"]), ..of_published("PENDING") };
        let failure = of(&by_default("'PENDING'::text"), &config).unwrap_err();
        assert_eq!(failure.code, relay::Code::Polling);
        assert_eq!(
            failure.message,
            "public.outbox cannot be polled: outbox.mark.published and outbox.mark.pending are \
             both \"PENDING\": each state of a row needs a word of its own"
        );
        let twice = MarkConfig { pending: pending(&["NEW", "NEW"]), ..MarkConfig::default() };
        let failure = of(&by_default("'NEW'::text"), &twice).unwrap_err();
        let expected = "outbox.mark.pending has the word \"NEW\" twice: name it once";
        assert!(failure.message.ends_with(expected), "{failure}");
    }

    /// Nobody finds a key in the file that is not there.
    #[test]
    fn a_word_that_pending_rows_have_by_default_is_said_to_be_the_default() {
        let published = MarkConfig { published: word("PENDING"), ..MarkConfig::default() };
        let failure = of(&by_default("'PENDING'::text"), &published).unwrap_err();
        assert_eq!(
            failure.message,
            "public.outbox cannot be polled: outbox.mark.published is \"PENDING\", which is the \
             default of the column status: a row is written with it, and is pending with it; name \
             another word in outbox.mark.published, or the words of pending rows in \
             outbox.mark.pending"
        );
        let (failed, abandoned) = (word("PENDING"), word("PENDING"));
        let abandoned = MarkConfig { failed, abandoned, ..MarkConfig::default() };
        let failure = of(&by_default("'PENDING'::text"), &abandoned).unwrap_err();
        let why = "outbox.mark.abandoned is \"PENDING\", which is the default of the column status";
        assert!(failure.message.contains(why), "a row that failed alone may be pending: {failure}");
        let labels = ["NEW", "SENT"].map(str::to_owned);
        let listed = samples::column("status", &Type::TEXT, &[]);
        let listed = ColumnFacts { labels: Some(labels.into()), ..listed };
        let published = MarkConfig { published: word("NEW"), ..MarkConfig::default() };
        let failure = of(&listed, &published).unwrap_err();
        let why = "is \"NEW\", which is the word of pending rows in the column status; name";
        assert!(failure.message.contains(why), "{failure}");
    }

    #[test]
    fn a_column_that_is_no_status_is_told_with_the_words_that_it_may_have() {
        let checked = |check: &str| {
            let column = samples::column("status", &Type::TEXT, &[]);
            ColumnFacts { checks: Some(vec![check.to_owned()]), ..column }
        };
        let archived = "CHECK ((status = ANY (ARRAY['PENDING'::text, 'ARCHIVED'::text])))";
        assert_eq!(
            untold(&checked(archived)),
            "of the words that its column status may have (PENDING, ARCHIVED) none is known to \
             mean published: name it in outbox.mark.published"
        );
        let open = "of the words that its column status may have (OPEN, CLOSED) none is known to \
                    mean pending: name them in outbox.mark.pending and outbox.mark.published";
        let closed = "CHECK ((status = ANY (ARRAY['OPEN'::text, 'CLOSED'::text])))";
        assert_eq!(untold(&checked(closed)), open);
        let labels = |labels: Vec<String>| ColumnFacts {
            labels: Some(labels),
            ..samples::column("status", &Type::TEXT, &[])
        };
        assert_eq!(untold(&labels(vec!["OPEN".into(), "CLOSED".into()])), open);
        let many = untold(&labels((0..40).map(|number| format!("S{number}")).collect()));
        assert!(many.contains("(S0, S1, ") && many.contains(", S11, ...)"), "{many}");
        let none = "of the words of its column status none is known to mean pending: ";
        assert!(untold(&checked("CHECK ((status <> ''::text))")).starts_with(none));
        let default = "of the words of its column status, by default \"open\", none is known";
        assert!(untold(&by_default("'open'::text")).starts_with(default));
    }

    #[test]
    fn no_state_has_by_default_a_word_that_is_configured_for_another() {
        let none = MarkConfig::default;
        let pending = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        for (config, expected) in [
            (
                MarkConfig { abandoned: word("FAILED"), ..none() },
                "PENDING PROCESSING PUBLISHED  FAILED",
            ),
            (
                MarkConfig { pending: pending(&["NEW", "PROCESSING"]), ..none() },
                "NEW+PROCESSING  PUBLISHED FAILED ABANDONED",
            ),
            (
                MarkConfig { processing: word("FAILED"), ..none() },
                "PENDING FAILED PUBLISHED  ABANDONED",
            ),
            (
                MarkConfig { failed: word("ABANDONED"), ..none() },
                "PENDING PROCESSING PUBLISHED ABANDONED ",
            ),
        ] {
            let words = of(&by_default("'PENDING'::text"), &config).unwrap().unwrap();
            assert_eq!(shown(&words), expected);
        }
        let labels = ["NEW", "PROCESSING", "SENT", "FAILED", "RETRY"].map(str::to_owned);
        let listed = samples::column("status", &Type::TEXT, &[]);
        let listed = ColumnFacts { labels: Some(labels.into()), ..listed };
        let config = MarkConfig { abandoned: word("FAILED"), ..none() };
        let words = of(&listed, &config).unwrap().unwrap();
        assert_eq!(shown(&words), "NEW PROCESSING SENT RETRY FAILED");
        let config = MarkConfig { pending: pending(&["NEW", "PROCESSING"]), ..none() };
        let words = of(&listed, &config).unwrap().unwrap();
        assert_eq!(shown(&words), "NEW+PROCESSING  SENT FAILED ");
        let config = MarkConfig { failed: word("NEW"), abandoned: word("FAILED"), ..none() };
        let words = of(&listed, &config).unwrap().unwrap();
        assert_eq!(shown(&words), "NEW PROCESSING SENT NEW FAILED", "a failed row is pending");
        let config = MarkConfig { processing: word("SENT"), ..none() };
        let failure = of(&listed, &config).unwrap_err();
        assert!(failure.message.ends_with("name one in outbox.mark.published"), "{failure}");
    }

    /// Those that the configuration names are a person's decision.
    #[test]
    fn words_that_nothing_names_are_compared_with_noted_ones() {
        let labels = |labels: &[&str]| {
            let labels = labels.iter().map(|&label| label.to_owned()).collect();
            ColumnFacts { labels: Some(labels), ..samples::column("status", &Type::TEXT, &[]) }
        };
        let none = MarkConfig::default();
        let changed = |before: &ColumnFacts, after: &ColumnFacts, config: &MarkConfig| {
            let noted = of(before, &MarkConfig::default()).unwrap().unwrap();
            changes(&noted, &of(after, config).unwrap().unwrap(), after, config).join("; ")
        };
        let before = labels(&["new", "sent"]);
        let after = labels(&["new", "published", "sent"]);
        assert_eq!(changed(&before, &before, &none), "");
        let published =
            "published was \"sent\", and is \"published\" now: outbox.mark.published = ";
        let either = format!("{published}\"sent\" or = \"published\"");
        assert_eq!(changed(&before, &after, &none), either);
        let named = |published: &str| MarkConfig { published: word(published), ..none.clone() };
        assert_eq!(changed(&before, &after, &named("sent")), "");
        assert_eq!(changed(&before, &after, &named("published")), "");
        let renamed = labels(&["new", "published"]);
        assert_eq!(changed(&before, &renamed, &none), format!("{published}\"published\""));
        // A word that is configured for another state does not count for this one.
        let failed = MarkConfig { failed: word("sent"), ..none.clone() };
        assert_eq!(changed(&before, &after, &failed), format!("{published}\"published\""));
        let failed = "failed was no word, and is \"failed\" now: outbox.mark.failed = \"failed\"";
        let more = labels(&["new", "sent", "failed"]);
        assert_eq!(changed(&before, &more, &none), failed);
        assert_eq!(changed(&more, &before, &none), "", "no row can have it");
        let default = ColumnFacts { default: Some("'pending'::text".into()), ..before.clone() };
        let pending = "pending was [\"new\"], and is [\"pending\"] now: outbox.mark.pending = \
                       [\"new\"] or = [\"pending\"]";
        let listed = labels(&["new", "sent", "pending"]);
        let default = ColumnFacts { labels: listed.labels.clone(), ..default };
        assert_eq!(changed(&before, &default, &none), pending);
        let config = MarkConfig { pending: vec!["pending".into()], ..none.clone() };
        assert_eq!(changed(&before, &default, &config), "");
    }

    /// A running worker goes on with the words that it has, and so does one that starts then.
    #[test]
    fn a_word_that_is_added_is_that_of_no_other_state() {
        let table = TableName { schema: "public".into(), name: "outbox".into() };
        let listed = |labels: &[&str]| {
            let labels = labels.iter().map(|&label| label.to_owned()).collect();
            ColumnFacts { labels: Some(labels), ..samples::column("status", &Type::TEXT, &[]) }
        };
        let after = |noted: &ColumnFacts, column: &ColumnFacts, config: &MarkConfig| {
            let noted = of(noted, &MarkConfig::default()).unwrap().unwrap();
            shown(&words(&table, column, config, (None, Some(&noted))).unwrap().unwrap())
        };
        let (none, before) = (MarkConfig::default(), listed(&["new", "sent"]));
        let more = listed(&["new", "processing", "sent", "failed", "dead"]);
        assert_eq!(after(&before, &more, &none), "new  sent  ");
        let named = MarkConfig { processing: word("processing"), ..none.clone() };
        assert_eq!(after(&before, &more, &named), "new processing sent  ");
        assert_eq!(after(&more, &before, &none), "new  sent  ", "no row can have it");
        let claimed = listed(&["new", "claimed", "sent"]);
        let both = listed(&["new", "claimed", "processing", "sent"]);
        assert_eq!(after(&claimed, &both, &none), "new claimed sent  ");
        assert_eq!(after(&claimed, &both, &named), "new processing sent  ");
        assert_eq!(after(&claimed, &more, &none), "new processing sent  ", "it is listed no more");
        let unlisted = by_default("'new'::text");
        assert_eq!(after(&before, &unlisted, &none), "new  published  ");
    }

    /// A word that new rows have, too, does not show that a row was tried.
    #[test]
    fn a_row_that_failed_may_have_a_word_for_pending() {
        let config = MarkConfig {
            failed: word("PENDING"),
            abandoned: word("FAILED"),
            ..MarkConfig::default()
        };
        let words = of(&by_default("'PENDING'::text"), &config).unwrap().unwrap();
        assert_eq!(shown(&words), "PENDING PROCESSING PUBLISHED PENDING FAILED");
        assert_eq!((words.tried(), words.to_abandon()), (None, None));
        let again = MarkConfig { pending: vec!["NEW".into(), "AGAIN".into()], ..config };
        let again = MarkConfig { failed: word("AGAIN"), ..again };
        assert!(of(&by_default("'NEW'::text"), &again).unwrap().unwrap().tried().is_none());
    }

    #[test]
    fn the_word_for_failed_is_offered_where_none_means_abandoned() {
        let check = "CHECK ((status = ANY (ARRAY['new'::text, 'sent'::text, 'failed'::text])))";
        let checked = ColumnFacts { checks: Some(vec![check.into()]), ..by_default("'new'::text") };
        let words = of(&checked, &MarkConfig::default()).unwrap().unwrap();
        assert_eq!(
            words.to_abandon().unwrap(),
            "outbox.mark.failed = \"new\" with outbox.mark.abandoned = \"failed\": a row that \
             waits for another attempt is then \"new\", and \"failed\" means abandoned"
        );
        let pending = MarkConfig { failed: word("new"), ..MarkConfig::default() };
        assert_eq!(of(&checked, &pending).unwrap().unwrap().to_abandon(), None);
        let words = of(&by_default("'new'::text"), &MarkConfig::default()).unwrap().unwrap();
        assert_eq!(words.to_abandon(), None, "it has a word for abandoned");
    }
}
