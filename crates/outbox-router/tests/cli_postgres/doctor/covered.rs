//! Whether every code of doctor, and every check, is planted on real servers.
//!
//! Each test has a list of codes, and fails unless it has seen each of them found where the fault
//! was planted, and, of doctor's own codes, not found where it was not ([`Ledger::assert_proved`]).
//! The tests themselves are named here, so a list cannot outlive its test.
//!
//! [`Ledger::assert_proved`]: super::ledger::Ledger::assert_proved

use std::collections::BTreeSet;

use outbox_router::{cli::GROUPS, codes::Advice};

use super::{
    clusters, down, kafka_faults, other_servers, polled_faults, postgres_faults, table_faults,
};

/// A test, and what it proves.
type Proof = (fn(), &'static [&'static str]);

const PROOFS: &[Proof] = &[
    (
        clusters::each_fault_of_a_cluster_and_of_encryption_is_named_by_its_code_alone,
        clusters::CODES,
    ),
    (down::a_kafka_that_is_down_hides_nothing_of_postgres, down::CODES_OF_KAFKA),
    (down::a_postgres_that_is_down_hides_nothing_of_kafka, down::CODES_OF_POSTGRES),
    (kafka_faults::each_fault_of_kafka_is_named_by_its_code_alone, kafka_faults::CODES),
    (other_servers::each_fault_of_other_servers_is_named_by_its_code_alone, other_servers::CODES),
    (polled_faults::each_fault_of_a_polled_table_is_named_by_its_code_alone, polled_faults::CODES),
    (postgres_faults::each_fault_of_postgres_is_named_by_its_code_alone, postgres_faults::CODES),
    (table_faults::each_fault_of_a_table_is_named_by_its_code_alone, table_faults::CODES),
];

fn proved() -> BTreeSet<&'static str> {
    PROOFS.iter().flat_map(|(_, codes)| codes.iter().copied()).collect()
}

#[test]
fn every_code_of_doctor_is_planted_on_real_servers() {
    let proved = proved();
    let missing: Vec<&str> = Advice::ALL
        .iter()
        .map(|code| code.as_str())
        .filter(|code| !proved.contains(code))
        .collect();
    assert!(missing.is_empty(), "plant {missing:?} in one of the tests of this directory");
}

/// Checks that report codes of `run` alone are planted by one of these.
#[test]
fn every_check_finds_something_on_real_servers() {
    let proved = proved();
    let checks = GROUPS.iter().flat_map(|group| group.checks);
    let missing: Vec<&str> = checks
        .filter(|check| !check.reports.iter().any(|reports| proved.contains(reports.code)))
        .map(|check| check.name)
        .collect();
    assert!(missing.is_empty(), "nothing is planted for {missing:?}");
}
