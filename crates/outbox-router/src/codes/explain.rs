//! How a code is explained to a person.

use std::fmt::{self, Write};

use relay::{Class, Code, ErrorClass, Names};

use super::{
    CLOSING,
    explanation::Explanation,
    hint::{Hint, HintPart},
    row_source::correction,
    template::fill,
};

/// Holds for every remedy that runs one of Kafka's command line tools.
pub const KAFKA_TOOLS: &str = "On a cluster with TLS or SASL, add --command-config FILE to every \
                               kafka-*.sh command; FILE holds the client's security.protocol, \
                               sasl.* and ssl.* settings.";

/// A remedy without a failure's names: words in capitals stand for them.
pub fn typed(remedy: &str) -> Hint {
    match remedy {
        "" => Hint::from("nothing to type".to_owned()),
        remedy => fill(remedy, &Names::default(), None),
    }
}

/// Writes what to type: each command on a line of its own, further in than what is said about it.
/// A text without a command, and a command alone, is a line as it is.
///
/// # Errors
/// Those of `out`.
pub fn write_parts(hint: &Hint, indent: &str, out: &mut dyn Write) -> fmt::Result {
    let parts = hint.parts();
    if hint.commands().is_empty() || parts.len() == 1 {
        return writeln!(out, "{indent}{hint}");
    }
    parts.into_iter().try_for_each(|part| match part {
        HintPart::Text(text) => writeln!(out, "{indent}{text}"),
        HintPart::Command(command) => writeln!(out, "{indent}    {command}"),
    })
}

/// What follows the repair of a gap, where the remedy does not say it.
pub fn after_repair(explanation: &Explanation) -> Option<String> {
    let is_half =
        explanation.class() == Some(Class::Gap) && !explanation.remedy.contains("{accept}");
    is_half.then(|| {
        let closing = typed(CLOSING);
        format!("If the router reported it as a gap, repairing is half of it: {closing}.")
    })
}

/// What stands before the statement that corrects a row.
const CORRECTED: &str = "A row that is streamed can no longer be changed; one that is polled can:";

/// What becomes of an event that cannot be delivered, in sentences: how a row that is polled is
/// corrected, and what lets the events of other keys go on.
pub fn meanwhile(explanation: &Explanation) -> Option<String> {
    let corrected = own_correction(explanation).map(|text| format!("{CORRECTED} {text}. "));
    Some(corrected.unwrap_or_default() + &others_go_on(explanation)?)
}

fn own_correction(explanation: &Explanation) -> Option<Hint> {
    correction(Code::parse(explanation.code)?).map(typed)
}

fn others_go_on(explanation: &Explanation) -> Option<String> {
    let class = ErrorClass::of(Code::parse(explanation.code)?)?.as_str();
    Some(format!(
        "With on_error.{class} = \"dead_letter\" the router does not stop at such an event, and the \
         events of other keys go on. One that is streamed goes into the table that outbox-router \
         setup --dead-letters makes. A row that is polled stays in its own table, marked as \
         abandoned: that takes a column abandoned_at, or a status with a word for abandoned."
    ))
}

/// Writes title, meaning and remedies of a code. Names that only a failure has stand in capitals.
///
/// # Errors
/// Those of `out`.
pub fn explain(explanation: &Explanation, out: &mut dyn Write) -> fmt::Result {
    let Explanation { code, title, meaning, remedy, cases } = explanation;
    let class = explanation.class().map(|class| format!(" ({})", class.as_str()));
    writeln!(out, "{code}: {title}{}\n\n{meaning}", class.unwrap_or_default())?;
    match (*remedy, cases.is_empty()) {
        ("", true) => writeln!(out, "\nThere is nothing to type.")?,
        ("", false) => writeln!(out, "\nThere is nothing to type, unless:")?,
        (remedy, _) => {
            writeln!(out, "\nWhat to type:")?;
            write_parts(&typed(remedy), "  ", out)?;
        }
    }
    each(explanation, out)?;
    if let Some(closing) = after_repair(explanation) {
        writeln!(out, "\n{closing}")?;
    }
    if let Some(correction) = own_correction(explanation) {
        writeln!(out, "\n{CORRECTED}")?;
        write_parts(&correction, "  ", out)?;
    }
    if let Some(others) = others_go_on(explanation) {
        writeln!(out, "\n{others}")?;
    }
    if runs_kafka_tool(explanation) {
        writeln!(out, "\n{KAFKA_TOOLS}")?;
    }
    Ok(())
}

fn runs_kafka_tool(explanation: &Explanation) -> bool {
    let of_cases = explanation.cases.iter().map(|case| case.remedy);
    let mut words = of_cases.chain([explanation.remedy]).flat_map(str::split_whitespace);
    words.any(|word| {
        let word = word.trim_start_matches(['(', '`']);
        word.starts_with("kafka-") && word.ends_with(".sh")
    })
}

fn each(explanation: &Explanation, out: &mut dyn Write) -> fmt::Result {
    explanation.cases.iter().try_for_each(|case| {
        writeln!(out, "\nIf {}:", case.when)?;
        write_parts(&typed(case.remedy), "  ", out)
    })
}
