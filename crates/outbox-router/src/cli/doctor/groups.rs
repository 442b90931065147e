//! Every check, in the order in which they are run and documented.

use super::{
    check::Group, cluster, configuration, connection, publication, router, slot, table, topics,
    versions, wal, witness,
};

/// See the module's header.
pub const GROUPS: &[Group] = &[
    Group { title: "Configuration", checks: configuration::CHECKS },
    Group { title: "Connection and role", checks: connection::CHECKS },
    Group { title: "Versions and clocks", checks: versions::CHECKS },
    Group { title: "WAL", checks: wal::CHECKS },
    Group { title: "Slot", checks: slot::CHECKS },
    Group { title: "Publication", checks: publication::CHECKS },
    Group { title: "Outbox tables", checks: table::CHECKS },
    Group { title: "Kafka", checks: cluster::CHECKS },
    Group { title: "Topics", checks: topics::CHECKS },
    Group { title: "Running router", checks: router::CHECKS },
    Group { title: WITNESS, checks: witness::CHECKS },
];

/// What stands in the witness says more than what the other checks find of the same code.
pub(super) const WITNESS: &str = "Witness";
