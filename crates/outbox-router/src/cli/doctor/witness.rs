//! The witness: what is open in it, and what a router that continues from it would find.

use relay::{
    Case, Code, Failure,
    source::{Expectations, PositionCheck, Present, gaps_since},
    witness::{OpenFinding, Witness},
};

use super::{
    check::{Check, Judged, error, warning},
    facts::{Facts, PostgresFacts, PublicationFacts, WitnessFacts},
    finding::Finding,
    not_run::NotRun,
    publication, slot,
};
use crate::codes::hint_of_open;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "no gap is open, and nothing happened to slot and server since the last session",
        reports: &[
            error(Code::SlotMissing.as_str()),
            error(Code::SlotLost.as_str()),
            error(Code::SlotMoved.as_str()),
            error(Code::HistoryChanged.as_str()),
            error(Code::PublicationMissing.as_str()),
            error(Code::PublicationLacksTable.as_str()),
            error(Code::PublicationLacksInsert.as_str()),
            error(Code::PublicationFiltersRows.as_str()),
            error(Code::PublicationLacksColumn.as_str()),
            error(Code::PublicationByLeaf.as_str()),
            error(Code::PublicationReplaced.as_str()),
            error(Code::TableReplaced.as_str()),
            error(Code::TableInherited.as_str()),
            error(Code::PublicationAltered.as_str()),
            error(Code::HeldTableBehind.as_str()),
            error(Code::ClusterChanged.as_str()),
        ],
        judge: gaps,
    },
    Check {
        name: "the pipeline has a witness",
        reports: &[warning(Code::WitnessMissing.as_str())],
        judge: missing,
    },
];

fn read(facts: &Facts) -> Result<Option<&WitnessFacts>, NotRun> {
    match &facts.witness {
        None => Ok(None),
        Some(Ok(records)) => Ok(Some(records)),
        Some(Err(failure)) => Err(failure.into()),
    }
}

fn missing(facts: &Facts) -> Judged {
    let Some(records) = read(facts)? else { return Ok(Vec::new()) };
    let beginning = |witness: &Witness| {
        let open = witness.open_findings();
        open.iter().any(|open| matches!(open, OpenFinding::Beginning(_)))
    };
    Ok(match &records.witness {
        None => {
            let what = "there is no witness of this pipeline in the state topic";
            vec![Finding::of(&Failure::of(Case::NoWitness, what))]
        }
        Some(witness) if beginning(witness) => {
            let what = "the pipeline began without a witness, and nobody has accepted that";
            vec![Finding::of(&Failure::new(Code::WitnessMissing, what))]
        }
        Some(_) => Vec::new(),
    })
}

/// What stands in the witness, under the name by which it is accepted; then what a router would
/// find, except what the checks of slot and publication report.
fn gaps(facts: &Facts) -> Judged {
    let records = read(facts)?;
    let Some((records, witness)) =
        records.and_then(|records| Some((records, records.witness.as_ref()?)))
    else {
        return Ok(Vec::new());
    };
    let mut findings: Vec<Finding> = Vec::new();
    for open in witness.open_findings() {
        if let OpenFinding::Gap(gap) = &open {
            let mut finding = Finding::of(&gap.failure);
            finding.message = format!("{} is open: {}", open.name(), finding.message);
            finding.remedy = hint_of_open(&gap.failure, &open.name());
            findings.push(finding);
        }
    }
    let (postgres, publication) = match (facts.postgres(), facts.publication()) {
        (Ok(postgres), Ok(publication)) => (postgres, publication),
        // What is open is known without PostgreSQL.
        (Err(_), _) | (_, Err(_)) if !findings.is_empty() => return Ok(findings),
        (Err(why), _) | (_, Err(why)) => return Err(why),
    };
    let found = since(postgres, publication, records, witness);
    let is_known =
        |code: Code| is_reported_elsewhere(code) || findings.iter().any(|open| open.is(code));
    let found: Vec<Finding> =
        found.iter().filter(|failure| !is_known(failure.code)).map(Finding::of).collect();
    findings.extend(found);
    Ok(findings)
}

/// The checks of slot and publication report these codes from the same facts.
fn is_reported_elsewhere(code: Code) -> bool {
    let checks = slot::CHECKS.iter().chain(publication::CHECKS);
    checks.flat_map(|check| check.reports).any(|reports| reports.code == code.as_str())
}

fn since(
    postgres: &PostgresFacts,
    publication: &PublicationFacts,
    records: &WitnessFacts,
    witness: &Witness,
) -> Vec<Failure> {
    // Without it, the check of the connection has said why.
    let Ok(source) = &postgres.source else { return Vec::new() };
    let slot = match &postgres.slots {
        Ok(slots) => slots.name.as_str(),
        Err(_) => return Vec::new(),
    };
    let expected = Expectations {
        slot,
        publication: &publication.name,
        outboxes: &publication.outboxes,
        witness: Some(witness),
        position_check: PositionCheck::Compared,
    };
    let present = Present {
        cluster: &records.cluster,
        server: source.server.clone(),
        timelines: &source.timelines,
        reading: &source.slot_reading,
        catalog: source.catalog.clone(),
        held: source.held.reading(),
    };
    gaps_since(witness, expected, present).into_iter().map(|gap| gap.failure).collect()
}

#[cfg(test)]
mod tests {
    use relay::{
        Lsn,
        source::{Gap, Interval, Mark},
    };

    use super::*;
    use crate::cli::doctor::samples::{codes, configuration};

    /// Neither server answers; the witness was read before.
    fn facts(witness: Option<Witness>) -> Facts {
        let silent = |code| Failure::new(code, "nobody answers");
        Facts {
            router: None,
            configuration: configuration(),
            postgres: Err(silent(Code::ServerUnreachable)),
            polled: None,
            kafka: Err(silent(Code::KafkaUnreachable)),
            witness: Some(Ok(WitnessFacts { cluster: "c".to_owned(), witness })),
        }
    }

    fn mark(lsn: u64) -> Mark {
        Mark { lsn: Lsn::from_u64(lsn), at: None }
    }

    #[test]
    fn an_open_gap_is_named_as_it_is_accepted_whether_or_not_postgres_answers() {
        let failure = Failure::new(Code::SlotMissing, "slot \"s\" does not exist");
        let gap = Gap::new(failure, Interval { from: Some(mark(5)), to: mark(9) });
        let witness = Witness { gaps: vec![gap], ..Witness::at(Lsn::from_u64(9)) };
        let found = gaps(&facts(Some(witness))).unwrap();
        assert_eq!(codes(&found), ["P010"]);
        assert!(found[0].message.starts_with("P010@0/5 is open: "), "{found:?}");
        assert!(found[0].remedy.as_deref().unwrap().contains("accept --gap P010@0/5"), "{found:?}");
    }

    #[test]
    fn without_an_open_gap_postgres_has_to_answer() {
        let whole = Witness::at(Lsn::from_u64(9));
        let why = gaps(&facts(Some(whole))).unwrap_err();
        assert!(why.0.starts_with("P001: "), "{why:?}");
        let unread = Facts {
            witness: Some(Err(Failure::new(Code::KafkaUnreachable, "nobody"))),
            ..facts(None)
        };
        assert!(gaps(&unread).unwrap_err().0.starts_with("K001: "));
        assert!(gaps(&Facts { witness: None, ..facts(None) }).unwrap().is_empty());
    }

    #[test]
    fn a_pipeline_without_a_witness_or_with_an_unaccepted_beginning_is_warned_of() {
        assert_eq!(codes(&missing(&facts(None)).unwrap()), ["K022"]);
        let whole = Witness::at(Lsn::from_u64(9));
        let began = Witness { began_without: Some(mark(5)), ..whole.clone() };
        assert_eq!(codes(&missing(&facts(Some(began))).unwrap()), ["K022"]);
        assert!(missing(&facts(Some(whole))).unwrap().is_empty());
        assert!(missing(&Facts { witness: None, ..facts(None) }).unwrap().is_empty());
    }
}
