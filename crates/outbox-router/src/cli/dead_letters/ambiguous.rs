//! Ids that rows of several tables have, where a person means one row.

use std::collections::BTreeSet;

use super::args::EventRef;
use crate::cli::shown_bytes;

/// What to say where one of these ids names rows of several tables; `tables` finds those of the
/// rows that an id names.
pub(super) fn ambiguous(
    ids: &[EventRef],
    tables: impl Fn(&EventRef) -> BTreeSet<String>,
) -> Option<String> {
    let (mut named, mut all) = (Vec::new(), BTreeSet::new());
    for id in ids {
        let of_id = tables(id);
        if of_id.len() > 1 {
            named.push(format!("--id {}", shown_bytes::id(id.text.as_bytes())));
            all.extend(of_id);
        }
    }
    if named.is_empty() {
        return None;
    }
    let all: Vec<String> = all.into_iter().collect();
    Some(format!(
        "{}: rows of several tables are named so; say whose are meant: --table, one of {}",
        named.join(" "),
        all.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_of_several_tables_has_to_be_told_apart() {
        let ids = ["1", "2", "3"].map(|id| id.parse::<EventRef>().unwrap());
        let tables = |id: &EventRef| -> BTreeSet<String> {
            let tables: &[&str] = match id.text.as_str() {
                "1" => &["public.a"],
                "2" => &["public.b"],
                _ => &["public.b", "public.a"],
            };
            tables.iter().map(|name| (*name).to_owned()).collect()
        };
        assert_eq!(ambiguous(&ids[..2], tables), None, "each id is that of one row");
        let expected = "--id 3: rows of several tables are named so; say whose are meant: \
                        --table, one of public.a, public.b";
        assert_eq!(ambiguous(&ids, tables).as_deref(), Some(expected));
    }
}
