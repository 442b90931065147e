//! Partitions whose rows no comparison reads any more.
//!
//! A row that was committed in a gap may be in a partition that was detached since: neither the
//! table nor the new slot has it then, and it is missing without being counted.

use std::collections::BTreeMap;

use crate::{
    routing::table::TableName,
    source::{Catalog, History, Oid},
    witness::Witness,
};

/// A partition that the witness knows, and that is part of no compared table now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GonePartition {
    /// The partition, which may be a table of its own now, or dropped.
    pub oid: Oid,
    /// The table whose partition it was.
    pub root: TableName,
}

/// The partitions of `compared` tables that are gone since the witness, or before, when the slot
/// had not sent their rows. OIDs are those of one server: of another one, nothing is known.
pub fn gone_partitions(
    witness: &Witness,
    (history, now): (&History, &Catalog),
    compared: &[TableName],
) -> Vec<GonePartition> {
    let known = witness.history.as_ref().map(|known| &known.system_id);
    if known != Some(&history.system_id) {
        return Vec::new();
    }
    let tables = || now.relations.iter().filter(|table| compared.contains(&table.name));
    let is_compared = |oid: Oid| {
        tables().any(|table| table.oid == oid || table.partitions.iter().any(|of| of.oid == oid))
    };
    let relations = witness.catalog.relations.iter();
    let known = relations.flat_map(|then| then.partitions.iter().map(|of| (of.oid, then.oid)));
    let before = witness.unsent_detached().map(|(oid, detached)| (oid, detached.root));
    let all: BTreeMap<u32, Oid> =
        known.chain(before).map(|(oid, root)| (oid.as_u32(), root)).collect();
    let mut gone = Vec::new();
    for (oid, root) in all {
        let (oid, root) = (Oid::from_u32(oid), tables().find(|table| table.oid == root));
        let Some(root) = root.filter(|_| !is_compared(oid)) else { continue };
        gone.push(GonePartition { oid, root: root.name.clone() });
    }
    gone
}

#[cfg(test)]
mod tests {
    use pgoutput::Lsn;

    use super::*;
    use crate::source::{Mark, Partition, samples};

    const NONE: [u32; 0] = [];

    #[test]
    fn partitions_that_the_witness_knows_and_no_compared_table_has_are_gone() {
        let history = |system_id: &str| History { system_id: system_id.to_owned(), timeline: 1 };
        let mut then = samples::healthy();
        let storage = then.relations[0].storage;
        let of = |oid| Partition { oid: Oid::from_u32(oid), name: None, attached_by: 7, storage };
        then.relations[0].partitions = vec![of(902), of(901)];
        let root = then.relations[0].name.clone();
        let witness = Witness {
            history: Some(history("7")),
            catalog: then.clone(),
            ..Witness::at(Lsn::from_u64(100))
        };
        let gone = |server: &str, now: &Catalog, compared: &[TableName]| -> Vec<u32> {
            let gone = gone_partitions(&witness, (&history(server), now), compared);
            assert!(gone.iter().all(|gone| gone.root == root));
            gone.into_iter().map(|gone| gone.oid.as_u32()).collect()
        };
        let compared = std::slice::from_ref(&root);
        assert_eq!(gone("7", &then, compared), NONE);
        let mut now = then.clone();
        now.relations[0].partitions = vec![of(903), of(902)];
        assert_eq!(gone("7", &now, compared), [901]);
        assert_eq!(gone("8", &now, compared), NONE, "another server has other OIDs");
        assert_eq!(gone("7", &now, &[]), NONE);
        // It is an outbox of its own now, whose rows are compared as such.
        let mut own = now.relations[0].clone();
        (own.oid, own.partitions) = (Oid::from_u32(901), Vec::new());
        own.name = TableName { schema: "public".into(), name: "own".into() };
        now.relations.push(own.clone());
        assert_eq!(gone("7", &now, &[root.clone(), own.name]), NONE);
        assert_eq!(gone("7", &now, compared), [901], "it is published, and not compared");
    }

    /// A reading without a defect had it no more, and the slot was lost before it was read so far.
    #[test]
    fn a_partition_that_a_reading_found_gone_is_known_until_the_slot_has_passed_its_rows() {
        let at = |lsn| Some(Mark { lsn: Lsn::from_u64(lsn), at: None });
        let mut then = samples::healthy();
        let storage = then.relations[0].storage;
        let of = |oid| Partition { oid: Oid::from_u32(oid), name: None, attached_by: 7, storage };
        then.relations[0].partitions = vec![of(902), of(901)];
        let (root, name) = (then.relations[0].oid, then.relations[0].name.clone());
        let history = History { system_id: "7".to_owned(), timeline: 1 };
        let mut witness = Witness {
            history: Some(history.clone()),
            catalog: then.clone(),
            checked: at(200),
            ..Witness::at(Lsn::from_u64(100))
        };
        let mut now = then.clone();
        now.relations[0].partitions = vec![of(902)];
        let gone = |witness: &Witness, now: &Catalog| -> Vec<u32> {
            let gone = gone_partitions(witness, (&history, now), std::slice::from_ref(&name));
            gone.into_iter().map(|gone| gone.oid.as_u32()).collect()
        };
        let read = |witness: &mut Witness, checked| {
            witness.checked = at(checked);
            witness.set_tables(vec![root], &now);
            witness.catalog = now.clone();
        };
        read(&mut witness, 300);
        assert_eq!(gone(&witness, &now), [901]);
        // It may have been detached after the end of WAL was read, so the next reading counts.
        witness.position = Lsn::from_u64(399);
        assert_eq!(gone(&witness, &now), [901]);
        read(&mut witness, 400);
        assert_eq!(gone(&witness, &now), [901]);
        assert_eq!(gone(&witness, &then), NONE, "it is attached again");
        witness.position = Lsn::from_u64(400);
        assert_eq!(gone(&witness, &now), NONE);
        read(&mut witness, 500);
        assert!(witness.detached.is_empty());
    }
}
