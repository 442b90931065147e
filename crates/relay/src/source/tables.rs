//! Which OIDs are the configured tables. The configuration gives names; an OID identifies the table
//! also in rows that were written while it had another name.

use std::collections::BTreeMap;

use pgoutput::{Lsn, Oid};

use super::catalog::Catalog;
use crate::{
    routing::table::{Outboxes, TableName},
    witness::Former,
};

/// The OIDs that belong to each configured table. Empty when none is configured: then every table
/// is an outbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableOids {
    by_oid: BTreeMap<Oid, TableName>,
    /// The partitions of configured tables, at every level, unless they are configured themselves.
    partitions: BTreeMap<Oid, TableName>,
}

impl TableOids {
    /// The tables that have a configured name now, and those that had one when they were last
    /// read. A table that has had two configured names belongs to the one that it has now.
    pub fn of(outboxes: &Outboxes, now: &Catalog, remembered: Option<&Catalog>) -> Self {
        let (mut by_oid, mut partitions) = (BTreeMap::new(), BTreeMap::new());
        for relation in remembered.into_iter().chain([now]).flat_map(|one| &one.relations) {
            let names = relation.formerly.iter().chain([&relation.name]);
            let configured = |name: &&TableName| outboxes.tables.iter().any(|t| t.name == **name);
            by_oid.extend(names.filter(configured).map(|name| (relation.oid, name.clone())));
        }
        // What is no partition now is not taken for one: a detached table may be an archive.
        for relation in &now.relations {
            let Some(table) = by_oid.get(&relation.oid) else { continue };
            let oids = relation.partitions.iter().map(|partition| partition.oid);
            partitions.extend(oids.map(|oid| (oid, table.clone())));
        }
        Self { by_oid, partitions }
    }

    /// Adds tables whose name another table has taken, for as long as the slot may have rows that
    /// were written to them before that.
    #[must_use]
    pub fn with_former(
        mut self,
        outboxes: &Outboxes,
        former: &BTreeMap<u32, Former>,
        slot: Lsn,
    ) -> Self {
        for (oid, former) in former.iter().filter(|(_, former)| former.until > slot) {
            let is_configured = outboxes.tables.iter().any(|table| table.name == former.table);
            // The table that took the name may itself have been renamed since, and be configured by
            // its new name.
            let successors = self.by_oid.get(&former.successor);
            if let Some(table) = successors.or(is_configured.then_some(&former.table)).cloned() {
                self.by_oid.entry(Oid::from_u32(*oid)).or_insert(table);
            }
        }
        self
    }

    /// The OIDs of all configured tables.
    pub fn oids(&self) -> impl Iterator<Item = Oid> {
        self.by_oid.keys().copied()
    }

    /// The configured table that this OID belongs to.
    pub fn table(&self, oid: Oid) -> Option<&TableName> {
        self.by_oid.get(&oid)
    }

    /// The configured table that this OID is a partition of. A walsender decodes with the
    /// publication of the row's time; so rows that were written before
    /// `publish_via_partition_root` was set arrive under their partition's OID and name.
    pub fn partitioned(&self, oid: Oid) -> Option<&TableName> {
        self.partitions.get(&oid)
    }
}

impl Catalog {
    /// The tables whose rows are events.
    pub fn outbox_tables(&self, outboxes: &Outboxes) -> Vec<Oid> {
        if outboxes.tables.is_empty() {
            let published = self.publication.iter().flat_map(|publication| &publication.tables);
            return published.map(|table| table.oid).collect();
        }
        TableOids::of(outboxes, self, None).oids().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        routing::table::OutboxTable,
        source::{
            Partition, Storage,
            samples::{healthy, name, relation},
        },
    };

    fn configured(names: &[&str]) -> Outboxes {
        let tables = names.iter().map(|&called| OutboxTable::with_defaults(name(called)));
        Outboxes { tables: tables.collect(), ..Outboxes::default() }
    }

    fn called(catalog: &[(u32, &str)]) -> Catalog {
        let relations = catalog.iter().map(|&(oid, name)| relation(oid, name)).collect();
        Catalog { relations, ..healthy() }
    }

    /// What OID 10 belongs to.
    fn ten(names: &[&str], now: &Catalog, remembered: Option<&Catalog>) -> Option<String> {
        let tables = TableOids::of(&configured(names), now, remembered);
        tables.table(Oid::from_u32(10)).map(|table| table.name.clone())
    }

    #[test]
    fn a_table_is_configured_by_its_name_now_or_when_it_was_last_seen() {
        let (then, now) = (called(&[(10, "outbox")]), called(&[(10, "outbox_v2")]));
        assert_eq!(ten(&["outbox_v2"], &now, None).as_deref(), Some("outbox_v2"));
        assert_eq!(ten(&["outbox"], &now, None), None, "nobody remembers it");
        assert_eq!(ten(&["outbox"], &now, Some(&then)).as_deref(), Some("outbox"));
        assert_eq!(ten(&["outbox"], &Catalog::default(), Some(&then)).as_deref(), Some("outbox"));
        assert_eq!(ten(&["outbox", "outbox_v2"], &now, Some(&then)).as_deref(), Some("outbox_v2"));
        assert_eq!(ten(&[], &now, Some(&then)), None);
    }

    #[test]
    fn a_partition_belongs_to_its_configured_root_while_it_is_attached() {
        let partition = |oid| Partition {
            oid: Oid::from_u32(oid),
            name: None,
            attached_by: 700,
            storage: Storage::default(),
        };
        let mut then = called(&[(10, "outbox"), (11, "orders")]);
        then.relations[0].partitions = vec![partition(30), partition(31)];
        then.relations[1].partitions = vec![partition(32)];
        let mut now = then.clone();
        now.relations[0].partitions.truncate(1);
        let tables = TableOids::of(&configured(&["outbox"]), &now, Some(&then));
        let partitioned = |oid| tables.partitioned(Oid::from_u32(oid));
        assert_eq!(partitioned(30), Some(&name("outbox")));
        assert_eq!([10, 31, 32].map(partitioned), [None; 3]);
        assert_eq!(tables.oids().collect::<Vec<_>>(), [Oid::from_u32(10)]);
    }

    #[test]
    fn a_renamed_table_is_remembered_by_its_configured_name_for_as_long_as_no_other_has_it() {
        let outboxes = configured(&["outbox"]);
        let first = called(&[(10, "outbox")]);
        let second = called(&[(10, "a")]).remember(&outboxes, Some(&first));
        let third = called(&[(10, "b")]).remember(&outboxes, Some(&second));
        assert_eq!(third.relations[0].formerly, [name("outbox")], "the one name that is asked for");
        let next = called(&[(10, "b")]);
        assert_eq!(ten(&["outbox"], &next, Some(&third)).as_deref(), Some("outbox"));
        let taken = called(&[(10, "b"), (11, "outbox")]);
        let accepted = taken.clone().remember(&outboxes, Some(&third));
        assert_eq!(ten(&["outbox"], &taken, Some(&accepted)), None, "it is an archive now");
        let back = called(&[(10, "outbox")]).remember(&outboxes, Some(&third));
        assert_eq!(back.relations[0].formerly, []);
    }

    /// The record is written often, so it stays small.
    #[test]
    fn where_tables_come_and_go_only_the_latest_that_are_gone_are_remembered() {
        let outboxes = Outboxes::default();
        let mut known = called(&[(10, "outbox")]);
        for day in 0..300 {
            let daily = format!("day_{day}");
            let now = called(&[(10, "outbox"), (1_000 + day, daily.as_str())]);
            known = now.remember(&outboxes, Some(&known));
        }
        assert!(known.relations.len() < 110, "{}", known.relations.len());
        let is_there = |oid| known.with_oid(Oid::from_u32(oid)).is_some();
        assert!(is_there(1_299) && is_there(1_298) && is_there(1_250) && !is_there(1_000));
    }
}
