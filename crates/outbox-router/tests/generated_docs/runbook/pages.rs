//! The heads of the pages.

use outbox_router::{
    alerts::{Alert, Expression, Pace},
    codes::KAFKA_TOOLS,
};

use super::families::Family;
use crate::errors;

/// The head of an alert's page.
pub(super) fn of_alert(alert: &Alert) -> String {
    let Alert { name, expression, hold, severity, summary, description } = alert;
    let after = match hold {
        0 => "at once".to_owned(),
        hold => format!("after {}", Pace::AS_SHIPPED.seconds(*hold)),
    };
    let shown = match expression {
        Expression::Same(text) => code(text),
        Expression::ByScope { every, one } => format!(
            "{}\nIn the rules of one pipeline (`outbox-router alerts`):\n\n{}",
            code(every),
            code(one)
        ),
    };
    format!(
        "# {name}\n\n**{severity}**, {after}: {}.\n\n{}\n\n{shown}\n",
        spoken(summary),
        spoken(description)
    )
}

/// The head of a page of codes.
pub(super) fn of_family(family: &Family) -> String {
    let entries: String = family.explanations().map(errors::entry).collect();
    let tools = errors::escaped(KAFKA_TOOLS);
    let tools = if entries.contains("kafka-") { format!("\n{tools}\n") } else { String::new() };
    format!(
        "# {}\n\nWhat a class means: [docs/errors.md](../errors.md). Words in capitals stand for \
         names; `outbox-router status` prints the same remedies with the names filled in.\n{tools}\
         \n## Codes\n{entries}\n",
        family.title
    )
}

/// A template of Prometheus as a sentence: what it fills in stands in capitals.
fn spoken(template: &str) -> String {
    let mut spoken = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{ ") {
        let (action, after) = after.split_once(" }}").expect("an action that ends");
        spoken.push_str(before);
        match action {
            "with $labels.pipeline" | "end" | "else" => {}
            "." => spoken.push_str("PIPELINE"),
            action if action.starts_with("$value") => spoken.push_str("VALUE"),
            action => {
                let label = action.strip_prefix("$labels.").expect("a label");
                spoken.push_str(&label.to_uppercase());
            }
        }
        // What is said without the label is left out.
        rest = match action {
            "else" => after.split_once("{{ end }}").expect("an end").1,
            _ => after,
        };
    }
    errors::escaped(&(spoken + rest))
}

/// An expression in lines that end before an operator between two of its parts.
fn code(expression: &str) -> String {
    let mut lines = vec![String::new()];
    for word in expression.split(' ') {
        let is_operator = matches!(word, "unless" | "and" | "or" | ">" | "<" | "/" | "==");
        let line = lines.last_mut().expect("a line");
        let is_long = line.len() + 1 + word.len() > 98 || is_operator && line.len() > 60;
        if is_long {
            lines.push(format!("  {word}"));
        } else if line.is_empty() {
            line.push_str(word);
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    format!("```promql\n{}\n```\n", lines.join("\n"))
}
