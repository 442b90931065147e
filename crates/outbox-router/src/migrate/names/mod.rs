//! Every name that is known of Debezium, Kafka Connect and the producer, with what becomes of it.
//! Debezium's names are those of its documentation up to 3.7 and their predecessors in 1.x. A name
//! that is in no table is reported as not supported, because it may matter.

mod connector;
mod event_router;
mod producer;
mod rule;

pub(super) use connector::{BY_LEAF, CONNECTOR};
pub(super) use event_router::EVENT_ROUTER_OPTIONS;
pub(super) use producer::{AsProperty, PRODUCER, as_property};
use rule::Rule;
pub(super) use rule::{Outcome, Treatment};

/// The treatment of a name; `None` where it is not known. A whole name goes before a prefix.
pub(super) fn treatment(table: &[Rule], name: &str) -> Option<Treatment> {
    let whole = |rule: &&Rule| rule.names.contains(&name);
    let prefix = |rule: &&Rule| {
        let fits = |known: &&str| known.strip_suffix('*').is_some_and(|p| name.starts_with(p));
        rule.names.iter().any(fits)
    };
    table.iter().find(whole).or_else(|| table.iter().find(prefix)).map(|rule| rule.treatment)
}

/// The known name that is most like this one, or that ends with it.
pub(super) fn nearest(table: &'static [Rule], name: &str) -> Option<&'static str> {
    let names = table.iter().flat_map(|rule| rule.names).copied();
    let whole: Vec<&'static str> = names.filter(|known| !known.ends_with('*')).collect();
    let tail = format!(".{name}");
    if let Some(known) = whole.iter().find(|known| known.ends_with(&tail)) {
        return Some(known);
    }
    let likeness = |known: &'static str| (strsim::normalized_levenshtein(name, known), known);
    let (likeness, nearest) = whole.into_iter().map(likeness).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness > 0.7).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_name_has_two_treatments() {
        for table in [CONNECTOR, EVENT_ROUTER_OPTIONS, PRODUCER] {
            let names: Vec<&str> = table.iter().flat_map(|rule| rule.names).copied().collect();
            let distinct: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(names.len(), distinct.len());
        }
    }

    #[test]
    fn a_whole_name_goes_before_a_prefix_and_a_value_decides() {
        let treatment_of = |name| treatment(CONNECTOR, name);
        assert_eq!(treatment_of("slot.name"), Some(Treatment::Carried("postgres.slot")));
        assert_eq!(treatment_of("no.such.name"), None);
        let tolerance = treatment_of("errors.tolerance").unwrap();
        assert!(matches!(tolerance.of("NONE"), Some(Outcome::Same(_))));
        assert!(matches!(tolerance.of("all"), Some(Outcome::Different(_))));
        assert_eq!(treatment_of("slot.name").unwrap().of("x"), None);
    }

    #[test]
    fn a_slip_is_recognised() {
        let payload = nearest(EVENT_ROUTER_OPTIONS, "table.field.payload");
        assert_eq!(payload, Some("table.field.event.payload"));
        let placement = nearest(EVENT_ROUTER_OPTIONS, "additional.placement");
        assert_eq!(placement, Some("table.fields.additional.placement"));
        assert_eq!(nearest(EVENT_ROUTER_OPTIONS, "table.field.event.aggregate.type"), None);
    }
}
