//! Whose row an id names, where rows of several tables may be meant.

use relay::TableName;
use uuid::Uuid;

use crate::cli::shown_bytes;

/// What to say where rows of several tables have an id: one of them would be answered for, and
/// another be meant. `of`: the table of each row that was found.
pub(super) fn ambiguous<'t>(
    id: &str,
    of: impl IntoIterator<Item = &'t TableName>,
) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for table in of {
        let name = table.to_string();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (names.len() > 1).then(|| {
        format!(
            "{}: rows of several tables are named so; say whose is meant: --table, one of {}",
            shown_bytes::id(id.as_bytes()),
            names.join(", ")
        )
    })
}

/// What to say where the row of one table alone has an id that a deleted row of another may have
/// had. `takers`: the tables whose ids may be so.
pub(super) fn others<'t>(
    id: &str,
    of: &TableName,
    takers: impl IntoIterator<Item = &'t TableName>,
) -> Option<String> {
    let others = takers.into_iter().filter(|taker| *taker != of).map(ToString::to_string);
    let others: Vec<String> = others.collect();
    (!others.is_empty() && !is_unique(id)).then(|| {
        format!(
            "the row is of {of}; other tables have ids of this form, too, and their row may be \
             deleted ({}): --table says whose is meant",
            others.join(", ")
        )
    })
}

/// A UUID is given once; a number may be that of one row in each table.
pub(super) fn is_unique(id: &str) -> bool {
    Uuid::parse_str(id).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> TableName {
        TableName { schema: "public".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn rows_of_several_tables_are_ambiguous_and_rows_of_one_are_not() {
        let (a, b) = (table("a"), table("b"));
        assert_eq!(ambiguous("7", [&a, &a]), None);
        let why = "7: rows of several tables are named so; say whose is meant: --table, one of \
                   public.a, public.b";
        assert_eq!(ambiguous("7", [&a, &b, &b]).as_deref(), Some(why));
    }

    #[test]
    fn tables_are_named_that_may_have_had_the_id_of_another_tables_row() {
        let (a, b, c) = (table("a"), table("b"), table("c"));
        let note = "the row is of public.b; other tables have ids of this form, too, and their row \
                    may be deleted (public.a, public.c): --table says whose is meant";
        assert_eq!(others("7", &b, [&a, &b, &c]).as_deref(), Some(note));
        assert_eq!(others("7", &b, [&b]), None);
        assert_eq!(others("7", &b, []), None, "it is a primary key");
        let uuid = "0198c3f2-7d1a-7c3e-8b4f-000000000001";
        assert_eq!(others(uuid, &b, [&a, &b]), None, "no other row has had it");
    }
}
