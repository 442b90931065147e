//! Which rows of a table are events: those whose column has one of the listed values, or none of
//! them. As in SQL, a row whose column is NULL fits neither list.

/// A list of values for one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    /// The column's position.
    pub(super) position: usize,
    pub(super) values: Vec<String>,
    pub(super) kind: FilterKind,
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
    pub(super) fn takes(&self, text: Option<&[u8]>) -> bool {
        self.kind.takes(&self.values, text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_taken_by_its_columns_value() {
        let filter = |kind| Filter { position: 0, values: vec!["a".into(), "b".into()], kind };
        let (listed, others) = (filter(FilterKind::In), filter(FilterKind::NotIn));
        for (text, is_listed, is_other) in [
            (Some("a"), true, false),
            (Some("b"), true, false),
            (Some("A"), false, true),
            (Some(""), false, true),
            (None, false, false),
        ] {
            assert_eq!(listed.takes(text.map(str::as_bytes)), is_listed, "{text:?}");
            assert_eq!(others.takes(text.map(str::as_bytes)), is_other, "{text:?}");
        }
    }
}
