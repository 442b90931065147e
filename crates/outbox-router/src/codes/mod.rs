//! Every error code: its title, what it means, and what to type. The hints of failures in logs,
//! `status` and `/status.json`, `outbox-router explain` and `docs/errors.md` are made from this
//! table, so they cannot differ.
//!
//! The core says what happened ([`Failure`]): a code, a case of it, and the names of the objects
//! concerned. A remedy is a text in which `{topic}` stands for such a name. Errors of the
//! configuration (`C…`) carry what to write instead of the value themselves, since it depends on
//! the key.

mod configuration;
mod doctor;
mod explain;
mod explanation;
mod foreign_code;
mod hint;
mod kafka;
mod publication;
mod recovery;
mod retention;
mod row_source;
mod rows;
mod server;
mod slot;
mod template;

use std::error::Error;

use relay::{Case, Class, Failure, Name, Names};

use crate::config::SourceKind;
use row_source::{RowSource, dead_letter_option, skip_option, with_correction};

pub use doctor::Advice;
pub use explain::{KAFKA_TOOLS, after_repair, explain, meanwhile, typed, write_parts};
pub use explanation::{CaseRemedy, Explanation};
pub use hint::{Hint, HintPart};
pub use template::{ADMIN, REPLAY_ALL};

/// The tables, in the order in which they are documented.
const TABLES: [&[Explanation]; 13] = [
    server::EXPLANATIONS,
    slot::EXPLANATIONS,
    publication::EXPLANATIONS,
    retention::EXPLANATIONS,
    recovery::EXPLANATIONS,
    foreign_code::EXPLANATIONS,
    kafka::EXPLANATIONS,
    rows::EXPLANATIONS,
    configuration::EXPLANATIONS,
    doctor::POSTGRES,
    doctor::KAFKA,
    doctor::CONFIGURATION,
    doctor::POLLED,
];

/// Every entry, ordered by code within each letter.
pub fn explanations() -> impl Iterator<Item = &'static Explanation> {
    TABLES.into_iter().flatten()
}

/// The entry of a code.
pub fn explanation(code: &str) -> Option<&'static Explanation> {
    explanations().find(|explanation| explanation.code == code)
}

/// The entry of a code as a person types it: in any case, or within the name of a gap.
///
/// # Errors
/// There is no such code; the message lists all.
pub fn typed_code(text: &str) -> Result<&'static Explanation, String> {
    if text.starts_with("Outbox") {
        return Err("that is an alert; its annotation runbook_url leads to its page, and \
             outbox-router status names the code behind it"
            .to_owned());
    }
    let code = text.split('@').next().unwrap_or(text).to_ascii_uppercase();
    explanation(&code).ok_or_else(|| {
        let codes: Vec<&str> = explanations().map(|explanation| explanation.code).collect();
        format!("no such code; there are {}", codes.join(" "))
    })
}

/// What a person can do about a gap, unless its remedy says it: repairing the defect brings no row
/// back, and the router waits for the acceptance.
const CLOSING: &str = "{recover}; or {accept} gives them up";

/// What to type where no state topic is configured, so that no witness is kept.
pub const NO_WITNESS_KEPT: &str = "set kafka.state_topic";

/// What to observe while a gap is open that is not in the witness, besides the remedy of the gap.
pub const GAP_UNWRITTEN: &str =
    "do not restart the router before the missing rows are inserted again";

/// What to type about a failure, with the names filled in; `None` where nothing helps but waiting.
/// What a failure below needs comes first; what a case above it needs follows.
pub fn hint(failure: &Failure) -> Option<String> {
    to_type(failure).map(Hint::into_text)
}

/// The same, with its commands.
pub fn to_type(failure: &Failure) -> Option<Hint> {
    full_hint(failure, None, RowSource::of(failure))
}

/// What to type about a row, where it is known whether it is streamed or polled.
pub fn hint_of_row(failure: &Failure, source: SourceKind) -> Option<String> {
    to_type_of_row(failure, source).map(Hint::into_text)
}

/// The same, with its commands.
pub fn to_type_of_row(failure: &Failure, source: SourceKind) -> Option<Hint> {
    full_hint(failure, None, RowSource::known(source))
}

/// What to type about what `doctor` advises, with the names filled in.
pub fn advised(advice: Advice, names: &Names) -> String {
    let remedy = explanation(advice.as_str()).map_or("", |explanation| explanation.remedy);
    template::fill(remedy, names, None).into_text()
}

/// What to type about a finding that the pipeline's witness lists as open under this name.
pub fn hint_of_open(failure: &Failure, name: &str) -> Option<String> {
    to_type_of_open(failure, name).map(Hint::into_text)
}

/// The same, with its commands.
pub fn to_type_of_open(failure: &Failure, name: &str) -> Option<Hint> {
    full_hint(failure, Some(name), RowSource::of(failure))
}

fn full_hint(failure: &Failure, name: Option<&str>, from: RowSource) -> Option<Hint> {
    let below = failure.source().and_then(|cause| cause.downcast_ref::<Failure>());
    let below = below.and_then(to_type);
    let is_open = name.is_some() && failure.class() == Class::Gap;
    let closing = (failure.is_of_gap() || is_open).then_some(CLOSING);
    let own = remedy(failure, closing, from);
    let own = own.map(|remedy| template::fill(&remedy, &failure.names, name));
    match (below, failure.case) {
        (None, _) => own,
        // The failure has the code of the one below, and nothing to add.
        (below @ Some(_), None) => below,
        (Some(below), Some(_)) => Some(match own {
            Some(own) => below.then(own),
            None => below,
        }),
    }
}

/// PostgreSQL's own advice, which no code knows.
const OF_SERVER: &str = "{server_hint} (PostgreSQL's own hint)";

fn remedy(failure: &Failure, closing: Option<&str>, from: RowSource) -> Option<String> {
    let own = with_correction(own_remedy(failure, closing), failure.code, from);
    let has_hint = failure.names.get(Name::ServerHint).is_some();
    let of_server = has_hint.then(|| OF_SERVER.to_owned());
    let (of_server, own) = match failure.case {
        Some(Case::ServerHint) => (None, own),
        // A refusal with a hint has another reason than a privilege.
        Some(Case::PermissionDenied | Case::CommandDenied) if has_hint => (of_server, None),
        Some(_) | None => (of_server, own),
    };
    let options = [of_server, own, dead_letter_option(failure, from), skip_option(failure)];
    let options: Vec<String> = options.into_iter().flatten().collect();
    (!options.is_empty()).then(|| options.join("; "))
}

fn own_remedy(failure: &Failure, closing: Option<&str>) -> Option<String> {
    let explanation = explanation(failure.code.as_str())?;
    let of_case = |case| explanation.cases.iter().find(|remedy| remedy.case == case);
    let remedy = failure.case.and_then(of_case).map_or(explanation.remedy, |case| case.remedy);
    match (remedy, closing.filter(|_| !remedy.contains("{accept}"))) {
        ("", closing) => closing.map(str::to_owned),
        (remedy, None) => Some(remedy.to_owned()),
        (remedy, Some(closing)) => Some(format!("{remedy}; {closing}")),
    }
}

#[cfg(test)]
mod tests;
