//! Every check, in the order in which they are run and documented.

use super::{
    check::{Check, Group},
    cluster, configuration, connection,
    facts::Facts,
    not_run::NotRun,
    polled, publication, router, slot, table, topics, versions, wal, witness,
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
    Group { title: POLLED, checks: polled::CHECKS },
    Group { title: "Kafka", checks: cluster::CHECKS },
    Group { title: "Topics", checks: topics::CHECKS },
    Group { title: "Running router", checks: router::CHECKS },
    Group { title: WITNESS, checks: witness::CHECKS },
];

/// What stands in the witness says more than what the other checks find of the same code.
pub(super) const WITNESS: &str = "Witness";

/// The checks of rows that are polled.
const POLLED: &str = "Polled tables";

/// Groups that are about a slot.
const OF_SLOT: [&str; 4] = ["WAL", "Slot", "Publication", WITNESS];

/// Checks of the other groups that are about a slot, or that another check makes where rows are
/// polled.
const CHECKS_OF_SLOT: [&str; 10] = [
    "a witness is kept",
    "PostgreSQL answers, takes the role, and can stream",
    "nothing pools the connection",
    "the role may read the views of the system",
    "events can be held, where errors make dead letters",
    "the minor version has no known fault in logical decoding",
    "no role but the owner may move rows to another partition",
    "rows are only inserted and deleted",
    "[retention] can do its work",
    "the state topic keeps the witness, and may be read and written",
];

/// Checks of what `switch` makes: whoever mends that in its place passes over the pending rows.
const CHECKS_OF_SWITCH: [&str; 3] = [
    "the slot exists, is fit and not lost",
    "the publication publishes every row of the outbox tables as it was inserted",
    "the pipeline has a witness",
];

/// Whether a group says something where rows come from this source: nothing is polled from a slot.
pub(super) fn is_shown(facts: &Facts, group: &Group) -> bool {
    facts.polled.is_some() || group.title != POLLED
}

/// Why a check has no meaning here.
pub(super) fn without_meaning(facts: &Facts, group: &Group, check: &Check) -> Option<NotRun> {
    if CHECKS_OF_SWITCH.contains(&check.name)
        && let Ok(postgres) = facts.postgres()
        && let Some(kept) = postgres.kept_from_slot()
    {
        return Some(NotRun::from(kept));
    }
    let is_of_slot = OF_SLOT.contains(&group.title) || CHECKS_OF_SLOT.contains(&check.name);
    (facts.polled.is_some() && is_of_slot).then(|| {
        let what = "rows are polled, so nothing depends on WAL, a slot, a publication or a witness";
        NotRun(what.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::explanation;

    /// What says something of a stream.
    const OF_STREAM: [&str; 8] = [
        "stops the router",
        "router stops",
        "recover",
        "slot",
        "publication",
        "WAL",
        "stream",
        "witness",
    ];

    /// What says that it does.
    const SAID: [&str; 3] = ["where rows are polled", "where they are polled", "from a slot"];

    #[test]
    fn a_check_of_polled_rows_says_nothing_of_a_stream_as_if_there_were_one() {
        let groups = GROUPS.iter().filter(|group| !OF_SLOT.contains(&group.title));
        let checks = groups.flat_map(|group| group.checks);
        let checks = checks.filter(|check| !CHECKS_OF_SLOT.contains(&check.name));
        let codes = checks.flat_map(|check| check.reports).map(|reports| reports.code);
        for code in codes.filter(|code| code.starts_with('D')) {
            let of = explanation(code).unwrap();
            for text in [of.title, of.meaning, of.remedy] {
                let lower = text.to_lowercase();
                let is_said = SAID.iter().any(|said| lower.contains(said));
                let word = OF_STREAM.iter().find(|word| text.contains(*word));
                assert!(is_said || word.is_none(), "{code}: {word:?} in {text}");
            }
        }
    }

    #[test]
    fn what_is_left_out_exists() {
        let names: Vec<&str> =
            GROUPS.iter().flat_map(|group| group.checks).map(|check| check.name).collect();
        let mut left_out = CHECKS_OF_SLOT.iter().chain(&CHECKS_OF_SWITCH);
        assert!(left_out.all(|name| names.contains(name)));
        let titles: Vec<&str> = GROUPS.iter().map(|group| group.title).collect();
        assert!(OF_SLOT.iter().all(|title| titles.contains(title)));
    }
}
