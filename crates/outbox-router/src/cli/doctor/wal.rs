//! How much WAL the server keeps for slots, and for how long.

use relay::{Name, Names};

use super::{
    check::{Check, warning},
    facts::{ConfigurationFacts, ServerFacts},
    finding::{Finding, Severity},
};
use crate::{codes::Advice, config::print_size, wording};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "the WAL that slots keep has a limit",
        reports: &[warning(Advice::WalUnlimited.as_str())],
        judge: |facts| Ok(unlimited(facts.server()?)),
    },
    Check {
        name: "the router's alarm comes before that limit",
        reports: &[warning(Advice::AlarmTooLate.as_str())],
        judge: |facts| Ok(too_late(facts.server()?, &facts.configuration)),
    },
    Check {
        name: "an idle slot is not invalidated",
        reports: &[warning(Advice::IdleTimeout.as_str())],
        judge: |facts| Ok(idle(facts.server()?)),
    },
];

fn unlimited(server: &ServerFacts) -> Vec<Finding> {
    if server.wal_limit.is_some() {
        return Vec::new();
    }
    let what = "max_slot_wal_keep_size is -1: a router that is down fills the disk of pg_wal";
    vec![Finding::advice(Severity::Warning, Advice::WalUnlimited, what, &Names::default())]
}

/// Of the limit, what may be used before somebody is called.
const ALARM_PERCENT: u64 = 60;

fn too_late(server: &ServerFacts, configuration: &ConfigurationFacts) -> Vec<Finding> {
    let critical = configuration.critical_bytes;
    let Some(limit) = server.wal_limit.filter(|limit| critical >= *limit) else {
        return Vec::new();
    };
    let mut names = Names::default();
    let proposed = (limit / 100).saturating_mul(ALARM_PERCENT) >> 20 << 20;
    names.set(Name::Bytes, print_size(proposed.max(1 << 20)));
    let what = format!(
        "monitor.bytes_behind.critical is {}, and the slot is lost after {} \
         (max_slot_wal_keep_size)",
        wording::bytes(critical),
        wording::bytes(limit)
    );
    vec![Finding::advice(Severity::Warning, Advice::AlarmTooLate, what, &names)]
}

fn idle(server: &ServerFacts) -> Vec<Finding> {
    let Some(timeout) = &server.idle_timeout else { return Vec::new() };
    let what = format!("idle_replication_slot_timeout is {timeout}");
    vec![Finding::advice(Severity::Warning, Advice::IdleTimeout, what, &Names::default())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::samples::{codes, configuration, server};

    #[test]
    fn a_limit_of_wal_is_advised_where_there_is_none() {
        assert_eq!(codes(&unlimited(&ServerFacts { wal_limit: None, ..server() })), ["D010"]);
        assert!(unlimited(&server()).is_empty());
    }

    #[test]
    fn the_alarm_has_to_come_before_the_slot_is_lost() {
        let limit = |wal_limit| ServerFacts { wal_limit, ..server() };
        let found = too_late(&limit(Some(1 << 30)), &configuration());
        assert_eq!(codes(&found), ["D011"]);
        let remedy = found[0].remedy.as_deref().unwrap();
        assert!(remedy.starts_with("lower monitor.bytes_behind.critical to 614MiB"), "{remedy}");
        assert!(too_late(&limit(Some(10 << 30)), &configuration()).is_empty());
        assert!(too_late(&limit(None), &configuration()).is_empty());
    }

    #[test]
    fn a_timeout_of_idle_slots_is_named() {
        let timeout = ServerFacts { idle_timeout: Some("1d".to_owned()), ..server() };
        assert_eq!(codes(&idle(&timeout)), ["D012"]);
        assert!(idle(&server()).is_empty());
    }
}
