//! The page of error codes.

use outbox_router::codes::{
    Explanation, Hint, KAFKA_TOOLS, after_repair, explanations, meanwhile, typed,
};

const HEAD: &str = "\
# Errors

Every error code, with what it means and what to type. Logs, `/status.json`, `outbox-router status`
and the commands print the same remedies with the names filled in; here, words in capitals stand for
them. `outbox-router explain CODE` prints one of these entries, without a configuration and without
connecting. This page is generated from the tables in
[`codes/`](../crates/outbox-router/src/codes/mod.rs) by
`UPDATE_DOCS=1 cargo test -p outbox-router --test generated_docs`; without the variable the same
command fails when the page is not current.

The word after a code's title is its class. *Transport*: the router keeps trying, with waits that
grow to 5 s, and continues as soon as the cause is gone; where a person has to remove it, the entry
says how. *Replay*: the session begins again from the slot; the third time at one position it counts
as mendable. *Mendable*: somebody has to repair the cause; the router tries again every 30 s. *Gap*:
rows may be missing; the router waits until somebody accepts that. *Note*: it is reported, and
nothing stops. Codes of the configuration have no class: the command ends with exit code 78.

*Stops* means that nothing more is sent: the state is failed, and a person is needed. The process
stays up and tries again every 30 s; at a gap it continues only after `outbox-router accept`
(without a state topic, also after a restart). With `--exit-on-fatal` it exits with code 79 instead.
The *witness* is the record in the state topic that says what is acknowledged; *pipeline* is what
one router, and its standbys, move under one `name`.

`P…` concerns PostgreSQL, `K…` Kafka, `R…` a row, `C…` the configuration; `D…` is advice of
`outbox-router doctor` ([doctor.md](doctor.md)), which stops nothing. A code never changes its
meaning, and a code that was removed is not used again.
";

/// The whole page.
pub(crate) fn page() -> String {
    let mut page = format!("{HEAD}\n{}\n", escaped(KAFKA_TOOLS));
    let mut letter = None;
    for explanation in explanations() {
        let first = explanation.code.chars().next();
        if letter != first {
            letter = first;
            let title = match first {
                Some('P') => "PostgreSQL",
                Some('K') => "Kafka",
                Some('R') => "Rows",
                Some('D') => "Advice of doctor",
                _ => "Configuration",
            };
            page.push_str(&format!("\n## {title}\n"));
        }
        page.push_str(&entry(explanation));
    }
    page
}

/// One code.
pub(crate) fn entry(explanation: &Explanation) -> String {
    let Explanation { code, title, meaning, remedy, cases } = explanation;
    let class = explanation.class().map(|class| format!(" *{}*:", class.as_str()));
    let class = class.unwrap_or_default();
    let mut entry = format!("\n### {code}\n\n**{title}.**{class} {}\n", escaped(meaning));
    if !remedy.is_empty() {
        entry.push_str(&format!("\n* {}\n", markdown(&typed(remedy))));
    }
    let separator = if remedy.is_empty() && !cases.is_empty() { "\n" } else { "" };
    entry.push_str(separator);
    for case in *cases {
        entry.push_str(&format!("* If {}: {}\n", case.when, markdown(&typed(case.remedy))));
    }
    if let Some(closing) = after_repair(explanation) {
        entry.push_str(&format!("\n{}\n", escaped(&closing)));
    }
    if let Some(meanwhile) = meanwhile(explanation) {
        entry.push_str(&format!("\n{}\n", escaped(&meanwhile)));
    }
    entry
}

/// A hint with its commands as code.
pub(crate) fn markdown(hint: &Hint) -> String {
    let mut text = String::new();
    let mut rest: &str = hint;
    for command in hint.commands() {
        let (before, after) = rest.split_once(command.as_str()).expect("a part of the hint");
        text.push_str(&format!("{}`{command}`", escaped(before)));
        rest = after;
    }
    text + &escaped(rest)
}

/// Markdown takes `*` and `<` for its own.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('*', "\\*").replace('<', "\\<")
}
