//! The witness: `run` begins with one, so that it is noticed when somebody else moves the slot.

use relay::{Class, Code, Failure, witness::Witness};

use super::{source::of_failure, step::Step};
use crate::{
    cli::witness::{self, PipelineRecords},
    codes::hint,
    config::Config,
    shell::SourceReading,
};

const NAME: &str = "witness";

/// Whether `run` would continue from the witness that there is.
pub(super) fn for_router(
    config: &Config,
    stored: Option<&PipelineRecords>,
    reading: SourceReading,
    file: &str,
) -> Step {
    let Some(stored) = stored else {
        return Step::ready(NAME, "none is kept, since kafka.state_topic is empty");
    };
    let Some(known) = &stored.witness else {
        return Step::to_do(NAME, "there is none yet: setup begins it at the slot's position")
            .command(format!("outbox-router setup --apply --config {file}"))
            .command(format!("outbox-router accept --config {file}"))
            .detail("accept states that Kafka has everything before that position");
    };
    match witness::check_as_left(config, known, &stored.cluster, reading) {
        Ok(_) => {
            Step::ready(NAME, format!("everything before {} is accounted for", known.position))
        }
        Err(failure) => open(&failure, file),
    }
}

/// What a person has to accept, or to repair.
fn open(failure: &Failure, file: &str) -> Step {
    let accept = format!("outbox-router accept --config {file}");
    if ![Code::WitnessMissing, Code::SlotMoved].contains(&failure.code) {
        return of_failure(NAME, failure);
    }
    let step = Step::to_do(NAME, format!("{failure:#}")).command(accept);
    if failure.code == Code::SlotMoved {
        return step
            .detail("if only the connector had the slot since, the step before is the answer");
    }
    match hint(failure) {
        Some(hint) => step.detail(hint),
        None => step,
    }
}

/// The first gap that is not accepted. The router stopped at it, so no event after it is in Kafka.
pub(super) fn open_gap(witness: &Witness) -> Option<Failure> {
    let failures = witness.open_findings();
    failures.iter().map(witness::failure_of).find(|failure| failure.class() == Class::Gap)
}
