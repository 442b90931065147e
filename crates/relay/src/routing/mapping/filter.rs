//! Which rows of a table are events: those whose column has one of the listed values, or none of
//! them. As in SQL, a row whose column is NULL fits neither list.

/// A list of values for one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The column's position.
    pub(super) position: usize,
    pub(super) values: Vec<String>,
    pub(super) kind: FilterKind,
    pub(super) compared: ComparedText,
    /// The labels of the column's type, where it is an enum and they are known.
    pub(super) labels: Option<Labels>,
}

/// The labels that an enum had when the session began, and its column, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(super) column: String,
    pub(super) labels: Vec<String>,
    /// The first word of the list that the enum lacks.
    pub(super) unknown_word: Option<String>,
}

impl Labels {
    pub(super) fn new(column: &str, labels: &[String], words: &[String]) -> Self {
        let unknown_word = words.iter().find(|word| !labels.contains(word)).cloned();
        Self { column: column.to_owned(), labels: labels.to_vec(), unknown_word }
    }

    /// Why a value says nothing for the list. The message has no value of the row.
    #[inline(never)]
    fn doubt(&self, text: &[u8]) -> Option<String> {
        let column = &self.column;
        if let Some(word) = &self.unknown_word {
            let why = format!(
                "where has the word {word:?}, and column {column} is an enum that had no such label \
                 when the session began"
            );
            return Some(why);
        }
        let is_known = self.labels.iter().any(|label| label.as_bytes() == text);
        (!is_known).then(|| {
            format!(
                "its value of column {column}, which where names, is no label that the enum had \
                 when the session began: it was renamed or added"
            )
        })
    }
}

/// What the list says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterKind {
    /// Rows with one of the values are events.
    In,
    /// Rows with any other value are events.
    NotIn,
}

impl Filter {
    /// Whether a row is an event, from its column's text.
    ///
    /// # Errors
    /// The text, or a word of the list, is none of the labels: what the value means for the list
    /// is not known.
    pub(super) fn takes(&self, text: Option<&[u8]>) -> Result<bool, String> {
        if let (Some(known), Some(text)) = (&self.labels, text)
            && let Some(why) = known.doubt(text)
        {
            return Err(why);
        }
        Ok(self.kind.takes(&self.values, text.map(|text| self.compared.of_text(text))))
    }
}

impl FilterKind {
    /// Whether a row is an event, from its column's text and these values, as the stream writes
    /// them.
    pub fn takes(self, values: &[String], text: Option<&[u8]>) -> bool {
        let Some(text) = text else { return false };
        let is_listed = values.iter().any(|value| value.as_bytes() == text);
        match self {
            Self::In => is_listed,
            Self::NotIn => !is_listed,
        }
    }
}

/// The part of a value's text that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparedText {
    /// All of it.
    Whole,
    /// All before the blanks at its end (`char`).
    WithoutBlanks,
    /// All before the zeros at the end of its fraction (`numeric`).
    WithoutLastZeros,
}

impl ComparedText {
    /// That of this text.
    #[inline]
    pub fn of_text(self, text: &[u8]) -> &[u8] {
        if self == Self::Whole { text } else { self.shortened(text) }
    }

    #[inline(never)]
    fn shortened(self, text: &[u8]) -> &[u8] {
        let without = |text: &'_ [u8], last: u8| {
            text.iter().rposition(|byte| *byte != last).map_or(0, |at| at + 1)
        };
        let end = match self {
            Self::Whole => text.len(),
            Self::WithoutBlanks => without(text, b' '),
            Self::WithoutLastZeros if text.contains(&b'.') => {
                let end = without(text, b'0');
                end - usize::from(text.get(..end).is_some_and(|rest| rest.ends_with(b".")))
            }
            Self::WithoutLastZeros => text.len(),
        };
        text.get(..end).unwrap_or(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_taken_by_its_columns_value() {
        let filter = |kind| {
            let values = vec!["a".into(), "b".into()];
            Filter { position: 0, values, kind, compared: ComparedText::Whole, labels: None }
        };
        let (listed, others) = (filter(FilterKind::In), filter(FilterKind::NotIn));
        for (text, is_listed, is_other) in [
            (Some("a"), true, false),
            (Some("b"), true, false),
            (Some("A"), false, true),
            (Some(""), false, true),
            (None, false, false),
        ] {
            assert_eq!(listed.takes(text.map(str::as_bytes)), Ok(is_listed), "{text:?}");
            assert_eq!(others.takes(text.map(str::as_bytes)), Ok(is_other), "{text:?}");
        }
    }

    #[test]
    fn beside_a_word_that_is_no_label_no_value_says_anything() {
        let values = vec!["b".to_owned()];
        let labels = Some(Labels::new("status", &["a".to_owned()], &values));
        let (kind, compared) = (FilterKind::In, ComparedText::Whole);
        let filter = Filter { position: 0, values, kind, compared, labels };
        let why = filter.takes(Some(b"a")).unwrap_err();
        assert!(why.contains("the word \"b\", and column status"), "{why}");
        assert_eq!(filter.takes(None), Ok(false));
    }

    #[test]
    fn a_value_that_is_no_label_is_neither_taken_nor_left_out() {
        let filter = |kind| {
            let (values, compared) = (vec!["a".into()], ComparedText::Whole);
            let labels = Some(Labels::new("status", &["a", "b"].map(str::to_owned), &values));
            Filter { position: 0, values, kind, compared, labels }
        };
        for (kind, of_a, of_b) in [(FilterKind::In, true, false), (FilterKind::NotIn, false, true)]
        {
            let takes = |text: Option<&str>| filter(kind).takes(text.map(str::as_bytes));
            assert_eq!(takes(Some("a")), Ok(of_a));
            assert_eq!(takes(Some("b")), Ok(of_b));
            assert_eq!(takes(None), Ok(false), "NULL is no label");
            for unknown in ["A", "", "a ", "secret"] {
                let why = takes(Some(unknown)).unwrap_err();
                assert!(why.contains("column status") && !why.contains("secret"), "{why}");
            }
        }
    }
}
