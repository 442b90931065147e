//! Whether the order of a polled table is the one in which rows of one key were written.

use relay::{Name, Names};

use super::{
    check::Judged,
    facts::{Facts, PolledTableFacts},
    finding::{Finding, Severity},
};
use crate::{
    codes::Advice,
    polling::sql::{ColumnAdvice, Numbering, WritingOrder},
};

/// The tables whose order does not say it.
pub(super) fn judge(facts: &Facts) -> Judged {
    let tables = facts.polled()?.tables.iter();
    Ok(tables.filter_map(|table| found(table, table.columns.as_ref()?)).collect())
}

fn found(table: &PolledTableFacts, columns: &ColumnAdvice) -> Option<Finding> {
    let (name, order) = (&table.name, &columns.order);
    let (severity, what) = match columns.written {
        WritingOrder::Kept => return None,
        WritingOrder::Random => (
            Severity::Warning,
            format!(
                "the order of table {name} is {order}: rows of one key that one transaction has \
                 written come in any order"
            ),
        ),
        // Writers that make UUIDs of version 7, or count, need nothing.
        WritingOrder::Unknown => (
            Severity::Note,
            format!(
                "the order of table {name} is {order}: rows of one key that one transaction has \
                 written come in the order in which they were written only if writers give them \
                 ascending values there"
            ),
        ),
    };
    let mut names = Names::default();
    match &columns.numbering {
        Numbering::Statements(statements) => {
            names.set(Name::Statements, statements.join("; "));
            Some(Finding::advice(severity, Advice::OrderOfWriting, what, &names))
        }
        Numbering::Columns(columns) => {
            let finding = Finding::advice(severity, Advice::OrderOfWriting, what, &names);
            let remedy = Some(named(columns));
            Some(Finding { remedy, ..finding })
        }
    }
}

/// What to do where the table has numbers, and the order leaves them out.
fn named(columns: &[String]) -> String {
    let numbers = match columns {
        [only] => only.clone(),
        several => format!("the one that numbers the rows, of {},", several.join(", ")),
    };
    format!(
        "name {numbers} first in outbox.order_by, and make the index of that order: outbox-router \
         setup --apply --admin-url postgres://ADMIN@HOST:PORT/DATABASE"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::samples::polled_table;

    fn of(written: WritingOrder, numbering: Numbering) -> Option<Finding> {
        let order = "created_at, id".to_owned();
        found(&polled_table(), &ColumnAdvice { zoneless: Vec::new(), written, order, numbering })
    }

    #[test]
    fn an_order_that_ends_in_a_random_uuid_is_a_warning_and_the_number_is_named() {
        let add = || Numbering::Statements(vec!["first".to_owned(), "second".to_owned()]);
        assert_eq!(of(WritingOrder::Kept, add()), None);
        let finding = of(WritingOrder::Random, add()).unwrap();
        assert_eq!((finding.code, finding.severity), ("D059", Severity::Warning));
        assert!(finding.message.contains("public.outbox is created_at, id: "), "{finding:?}");
        let remedy = finding.remedy.unwrap();
        assert!(remedy.contains("first; second; "), "{remedy}");
        let unknown = of(WritingOrder::Unknown, add()).unwrap();
        assert_eq!((unknown.code, unknown.severity), ("D059", Severity::Note));
    }

    #[test]
    fn a_number_that_the_order_leaves_out_is_to_be_named_in_it() {
        let finding = of(WritingOrder::Random, Numbering::Columns(vec!["seq".to_owned()])).unwrap();
        let remedy = finding.remedy.unwrap();
        assert!(remedy.starts_with("name seq first in outbox.order_by"), "{remedy}");
        let two = Numbering::Columns(vec!["seq".to_owned(), "n".to_owned()]);
        let remedy = of(WritingOrder::Random, two).unwrap().remedy.unwrap();
        assert!(
            remedy.starts_with("name the one that numbers the rows, of seq, n, first"),
            "{remedy}"
        );
    }
}
