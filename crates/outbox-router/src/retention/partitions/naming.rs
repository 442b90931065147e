//! The names of partitions.

use super::moment::{Range, compact};
use crate::postgres::object_name;

/// The name of a partition of this table: `outbox_p20260131`. `number` is 0, or greater where the
/// name is taken.
pub(crate) fn partition_name(table: &str, range: Range, number: u32) -> String {
    let again = if number == 0 { String::new() } else { format!("_{number}") };
    object_name(table, &format!("_p{}{again}", compact(range.from)))
}

#[cfg(test)]
mod tests {
    use super::{super::moment::SECOND, *};

    const NEW_YEAR: Range =
        Range { from: 1_767_225_600 * SECOND, to: (1_767_225_600 + 86_400) * SECOND };

    #[test]
    fn a_name_says_when_the_partition_begins() {
        assert_eq!(partition_name("outbox", NEW_YEAR, 0), "outbox_p20260101");
        assert_eq!(partition_name("outbox", NEW_YEAR, 2), "outbox_p20260101_2");
        let two_seconds = Range { from: NEW_YEAR.from + 2 * SECOND, to: NEW_YEAR.to };
        assert_eq!(partition_name("outbox", two_seconds, 0), "outbox_p20260101_000002");
    }

    #[test]
    fn names_of_long_tables_are_short_enough_and_differ() {
        let long = "é".repeat(31);
        let names: Vec<String> = ["a", "b"]
            .iter()
            .flat_map(|last| (0..3).map(move |number| (last, number)))
            .map(|(last, number)| partition_name(&format!("{long}{last}"), NEW_YEAR, number))
            .collect();
        for (at, name) in names.iter().enumerate() {
            assert!(name.len() <= 63, "{name}");
            assert!(!names[..at].contains(name), "{name}");
        }
    }
}
