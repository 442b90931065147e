//! The outboxes that have to be compared before a gap is closed: those that the witness knows, and
//! not only those that a configuration names now. A file of last week may name fewer, and a table
//! may have left a publication that says which tables are outboxes.

use crate::{
    routing::table::TableName,
    source::{Catalog, History},
    witness::Witness,
};

/// See the module's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Required {
    tables: Vec<TableName>,
    dropped: Vec<TableName>,
    given_up: Vec<TableName>,
}

impl Required {
    /// The configured tables, and the outboxes of the witness under their present names. Those that
    /// are partitions now are compared with their roots. A table that was dropped cannot be
    /// compared, and a person may give one up that is not configured. OIDs are those of one server:
    /// on another one, tables go by their names.
    pub fn of(
        witness: &Witness,
        (history, now): (&History, &Catalog),
        configured: &[TableName],
        given_up: &[TableName],
    ) -> Self {
        let is_same_server =
            witness.history.as_ref().is_some_and(|known| known.system_id == history.system_id);
        let mut required =
            Self { tables: configured.to_vec(), dropped: Vec::new(), given_up: Vec::new() };
        for oid in witness.outboxes() {
            // Of dropped tables, the catalog of a witness has the latest alone.
            let Some(then) = witness.catalog.with_oid(oid) else { continue };
            let root = now
                .relations
                .iter()
                .find(|table| table.partitions.iter().any(|partition| partition.oid == oid));
            let present = match root.or_else(|| now.with_oid(oid)) {
                _ if !is_same_server => Some(&then.name),
                present => present.map(|table| &table.name),
            };
            let Some(name) = present else {
                required.dropped.push(then.name.clone());
                continue;
            };
            if required.tables.contains(name) {
                continue;
            }
            let is_given_up = given_up.contains(name) || given_up.contains(&then.name);
            let list = if is_given_up { &mut required.given_up } else { &mut required.tables };
            list.push(name.clone());
        }
        required
    }

    /// All that have to be compared.
    pub(super) fn tables(&self) -> &[TableName] {
        &self.tables
    }

    /// Those that are none of the tables that are compared.
    pub fn without(&self, compared: &[TableName]) -> Vec<&TableName> {
        self.tables.iter().filter(|table| !compared.contains(table)).collect()
    }

    /// Outboxes that were dropped since the witness.
    pub fn dropped(&self) -> &[TableName] {
        &self.dropped
    }

    /// Whether records may be of an outbox that is not compared.
    pub const fn has_others(&self) -> bool {
        !self.dropped.is_empty() || !self.given_up.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pgoutput::{Lsn, Oid};

    use super::*;
    use crate::{
        delivered::compared::{
            ClosedGap, Compared, Figures, FilteredRows, HasTime, Scope, Settled,
        },
        source::{Partition, samples},
        witness::Former,
    };

    const NONE: [&str; 0] = [];

    fn name(name: &str) -> TableName {
        TableName { schema: "public".into(), name: name.into() }
    }

    fn names(names: &[&str]) -> Vec<TableName> {
        names.iter().copied().map(name).collect()
    }

    fn catalog(tables: &[(u32, &str)]) -> Catalog {
        let relations = tables.iter().map(|(oid, name)| samples::relation(*oid, name));
        Catalog { relations: relations.collect(), ..samples::healthy() }
    }

    fn history(system_id: &str) -> History {
        History { system_id: system_id.to_owned(), timeline: 1 }
    }

    /// `a` and `b` are outboxes, and `c` is a table that the catalog has besides.
    fn witness() -> Witness {
        Witness {
            history: Some(history("7")),
            catalog: catalog(&[(10, "a"), (20, "b"), (30, "c")]),
            tables: [10, 20].map(Oid::from_u32).to_vec(),
            ..Witness::at(Lsn::from_u64(100))
        }
    }

    fn required(now: &Catalog, configured: &[&str], given_up: &[&str]) -> Required {
        let (configured, given_up) = (names(configured), names(given_up));
        Required::of(&witness(), (&history("7"), now), &configured, &given_up)
    }

    fn without(required: &Required, compared: &[&str]) -> Vec<String> {
        let compared = names(compared);
        required.without(&compared).into_iter().map(|table| table.name.clone()).collect()
    }

    #[test]
    fn an_outbox_of_the_witness_is_required_whatever_is_configured_or_published() {
        let then = witness().catalog;
        for configured in [&["a"][..], &["a", "b"]] {
            let required = required(&then, configured, &[]);
            assert_eq!(without(&required, &["a"]), ["b"]);
            assert_eq!(without(&required, &["a", "b"]), NONE);
        }
        // A table that was added to the configuration is compared, too.
        assert_eq!(without(&required(&then, &["a", "b", "c"], &[]), &["a", "b"]), ["c"]);
        let renamed = catalog(&[(10, "a"), (20, "renamed")]);
        assert_eq!(without(&required(&renamed, &["a"], &[]), &["a", "b"]), ["renamed"]);
    }

    #[test]
    fn a_table_that_is_dropped_or_given_up_keeps_no_gap_open() {
        let then = witness().catalog;
        let dropped = required(&catalog(&[(10, "a")]), &["a"], &[]);
        assert_eq!((without(&dropped, &["a"]), dropped.dropped()), (vec![], &names(&["b"])[..]));
        assert!(dropped.has_others());
        let given_up = required(&then, &["a"], &["b"]);
        assert_eq!((without(&given_up, &["a"]), given_up.dropped()), (vec![], &[][..]));
        assert!(given_up.has_others());
        // Under the name that it had, too; and not a table that is configured.
        let renamed = catalog(&[(10, "a"), (20, "renamed")]);
        assert_eq!(without(&required(&renamed, &["a"], &["b"]), &["a"]), NONE);
        let configured = required(&then, &["a", "b"], &["b"]);
        assert_eq!(
            (without(&configured, &["a"]), configured.has_others()),
            (vec!["b".into()], false)
        );
    }

    #[test]
    fn no_gap_is_closed_without_every_outbox_of_the_witness() {
        let scope = Scope::of((&[], None), None, HasTime::No).unwrap();
        let compared = Compared::by(scope, name("a"), Figures::default());
        let is_closed = |now: &Catalog, given_up: &[&str]| {
            let required = required(now, &["a"], given_up);
            let settled = [(&compared, Settled::default())];
            ClosedGap::of(&required, &settled, FilteredRows::Kept).is_some()
        };
        let then = witness().catalog;
        assert!(!is_closed(&then, &[]), "b is configured no more, and may miss rows, too");
        assert!(is_closed(&then, &["b"]));
        assert!(is_closed(&catalog(&[(10, "a")]), &[]), "b was dropped");
    }

    #[test]
    fn an_outbox_that_is_a_partition_now_is_compared_with_its_root() {
        let mut now = witness().catalog;
        let storage = now.relations[0].storage;
        let partition = Partition { oid: Oid::from_u32(20), name: None, attached_by: 7, storage };
        now.relations[0].partitions = vec![partition];
        assert_eq!(without(&required(&now, &["a"], &[]), &["a"]), NONE);
    }

    #[test]
    fn on_another_server_tables_go_by_their_names() {
        let other = catalog(&[(20, "a")]);
        let of = |given_up: &[&str]| {
            let (configured, given_up) = (names(&["a"]), names(given_up));
            Required::of(&witness(), (&history("8"), &other), &configured, &given_up)
        };
        assert_eq!(without(&of(&[]), &["a"]), ["b"]);
        assert_eq!(without(&of(&["b"]), &["a"]), NONE);
    }

    #[test]
    fn a_former_outbox_is_required_until_the_slot_has_passed_its_rows() {
        let former = |until| {
            let former = Former {
                table: name("b"),
                successor: Oid::from_u32(10),
                until: Lsn::from_u64(until),
            };
            let witness = Witness { former: BTreeMap::from([(20, former)]), ..witness() };
            let now = witness.catalog.clone();
            let required = Required::of(&witness, (&history("7"), &now), &names(&["a"]), &[]);
            without(&required, &["a"])
        };
        assert_eq!(former(101), ["b"]);
        assert_eq!(former(100), NONE);
    }
}
