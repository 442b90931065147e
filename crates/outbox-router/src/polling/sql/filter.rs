//! `outbox.where` in SQL: the rows that the core would take, by the text that a stream shows of the
//! column.

use relay::{Case, ComparedText, Failure, FilterKind, RowFilter, TableName, ValueType};
use tokio_postgres::types::Type;

use super::{facts::Facts, failure::unfit, literals::list, shown::Shown};
use crate::{filter_labels::check_labels, postgres::quote_identifier};

/// The condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    rule: RowFilter,
    shown: Shown,
    compared: ComparedText,
    fixed: Fixed,
}

/// Whether the text of a value depends on nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fixed {
    Yes,
    No,
}

/// Their casts to text are immutable.
const FIXED: [Type; 7] =
    [Type::TEXT, Type::VARCHAR, Type::UUID, Type::INT2, Type::INT4, Type::INT8, Type::NUMERIC];

impl Filter {
    /// # Errors
    /// The table has no such column (P041).
    pub(super) fn of(table: &TableName, facts: &Facts, rule: &RowFilter) -> Result<Self, Failure> {
        let column = facts.column(&rule.column).ok_or_else(|| {
            unfit(table, &format!("outbox.where names a column {} that it has not", rule.column))
        })?;
        let modifier = if column.oid == column.base { column.modifier } else { -1 };
        let of = ValueType { oid: column.base, modifier };
        let values = rule.written(table, of);
        let values = values.map_err(|what| Failure::of(Case::FilterWord, what))?;
        check_labels(table, rule, column.labels.as_deref())?;
        let fixed = if column.is_of(&FIXED) { Fixed::Yes } else { Fixed::No };
        let rule = RowFilter { values, ..rule.clone() };
        Ok(Self { rule, shown: Shown::of(column), compared: of.compared(), fixed })
    }

    /// The same where an index may have it: a text that depends on no setting.
    pub(super) fn index_sql(&self, alias: &str) -> Option<String> {
        (self.fixed == Fixed::Yes).then(|| self.sql(alias))
    }

    /// The column.
    pub(super) fn column(&self) -> &str {
        &self.rule.column
    }

    /// Whether a row is an event, from the text that a stream shows of the column.
    pub(super) fn takes(&self, text: Option<&str>) -> bool {
        let text = text.map(|text| self.compared.of_text(text.as_bytes()));
        self.rule.kind.takes(&self.rule.values, text)
    }

    /// Of a row that the statement calls `alias`.
    pub(super) fn sql(&self, alias: &str) -> String {
        let column = &self.rule.column;
        let text = match self.compared {
            ComparedText::Whole => self.shown.sql(alias, column),
            ComparedText::WithoutBlanks => format!("rtrim({}, ' ')", self.shown.sql(alias, column)),
            ComparedText::WithoutLastZeros => {
                format!("trim_scale({alias}.{})::text", quote_identifier(column))
            }
        };
        let values = list(self.rule.values.iter().map(String::as_str));
        // As for the core, NULL is in no list, and in none of the others.
        match (self.rule.kind, self.rule.values.is_empty()) {
            (FilterKind::In, true) => "false".to_owned(),
            (FilterKind::In, false) => format!("({text}) collate \"C\" in ({values})"),
            (FilterKind::NotIn, true) => format!("({text}) is not null"),
            (FilterKind::NotIn, false) => format!("({text}) collate \"C\" not in ({values})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::facts::{ColumnFacts, samples},
        *,
    };

    #[test]
    fn null_is_in_neither_list() {
        let facts = samples::table(vec![
            samples::column("kind", &Type::TEXT, &[]),
            samples::column("flag", &Type::BOOL, &[]),
            samples::column("code", &Type::BPCHAR, &[]),
            samples::column("rate", &Type::NUMERIC, &[]),
        ]);
        let table = TableName { schema: "public".into(), name: "outbox".into() };
        let of = |column: &str, kind, values: &[&str]| {
            let values = values.iter().map(|&value| value.to_owned()).collect();
            let rule = RowFilter { column: column.into(), values, kind };
            Filter::of(&table, &facts, &rule).map(|filter| filter.sql("t"))
        };
        let kind = "(t.\"kind\"::text) collate \"C\"";
        let is = |kind, values| of("kind", kind, values).unwrap();
        assert_eq!(is(FilterKind::In, &["a", "b'"]), format!("{kind} in ('a', 'b''')"));
        assert_eq!(is(FilterKind::NotIn, &["a"]), format!("{kind} not in ('a')"));
        assert_eq!(is(FilterKind::In, &[]), "false");
        assert_eq!(is(FilterKind::NotIn, &[]), "(t.\"kind\"::text) is not null");
        assert!(of("flag", FilterKind::In, &["t"]).unwrap().contains("format('%s', t.\"flag\")"));
        let code = of("code", FilterKind::In, &["a "]).unwrap();
        assert!(code.starts_with("(rtrim(") && code.ends_with("in ('a')"), "{code}");
        let rate = of("rate", FilterKind::In, &["1.50"]).unwrap();
        assert_eq!(rate, "(trim_scale(t.\"rate\")::text) collate \"C\" in ('1.5')");
        assert!(of("other", FilterKind::In, &["t"]).is_err());
    }

    #[test]
    fn words_are_those_that_the_column_writes() {
        let labels = Some(vec!["order".to_owned(), "refund".to_owned()]);
        let kind = samples::column("kind", &Type::ANYENUM, &[]);
        let facts = samples::table(vec![
            samples::column("flag", &Type::BOOL, &[]),
            ColumnFacts { labels, oid: 16_500, base: 16_500, ..kind },
        ]);
        let table = TableName { schema: "public".into(), name: "outbox".into() };
        let of = |column: &str, word: &str| {
            let (column, values) = (column.into(), vec![word.to_owned()]);
            let rule = RowFilter { column, values, kind: FilterKind::NotIn };
            Filter::of(&table, &facts, &rule).map(|filter| filter.sql("t"))
        };
        assert!(of("flag", "FALSE").unwrap().ends_with("not in ('f')"));
        assert!(of("kind", "order").unwrap().ends_with("not in ('order')"));
        for (column, word) in [("flag", "nein"), ("kind", "ordre")] {
            assert_eq!(of(column, word).unwrap_err().case, Some(Case::FilterWord), "{word}");
        }
    }
}
