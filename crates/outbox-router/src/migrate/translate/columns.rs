//! Which column is what. Debezium's own names are those of our preset `debezium`; as soon as one
//! differs, all are written out.

use super::{
    super::{
        draft::{Lines, Text},
        read::Form,
        report::PropertyFinding,
    },
    chain::EventRouter,
    context::Context,
};
use crate::config::print::quoted;

/// The columns of an outbox, as TOML.
pub(super) struct Columns {
    lines: Vec<(&'static str, String)>,
}

impl Columns {
    pub(super) fn write(&self, lines: &mut Lines) {
        for (role, value) in &self.lines {
            if *role == "timestamp" {
                lines.raw("timestamp", "\"column\"");
            }
            lines.raw(&format!("columns.{role}"), value);
        }
    }
}

/// Role, option, Debezium's default.
const ROLES: [(&str, &str, &str); 4] = [
    ("id", "table.field.event.id", "id"),
    ("aggregate_type", "route.by.field", "aggregatetype"),
    ("aggregate_id", "table.field.event.key", "aggregateid"),
    ("payload", "table.field.event.payload", "payload"),
];

/// How an outbox writes the names that Debezium writes in one word.
#[derive(Clone, Copy)]
enum Spelling {
    Snake,
    Camel,
}

impl Spelling {
    /// Of a role whose default has two words.
    fn of_role(self, role: &str) -> &'static str {
        match (self, role) {
            (Self::Snake, "aggregate_type") => "aggregate_type",
            (Self::Snake, _) => "aggregate_id",
            (Self::Camel, "aggregate_type") => "aggregateType",
            (Self::Camel, _) => "aggregateId",
        }
    }

    /// What the options that are given tell.
    fn of(router: &EventRouter) -> Option<Self> {
        let options = ["table.field.event.key", "route.by.field", "table.field.event.type"];
        let mut names = options.into_iter().filter_map(|option| router.get(option));
        names.find_map(|option| match option.value.as_str() {
            "aggregate_id" | "aggregate_type" | "event_type" => Some(Self::Snake),
            "aggregateId" | "aggregateType" | "eventType" => Some(Self::Camel),
            _ => None,
        })
    }
}

pub(super) fn translate(context: &mut Context<'_>, router: &mut EventRouter) -> Columns {
    let spelling = Spelling::of(router);
    let mut lines = Vec::new();
    let mut all_default = true;
    for (role, option, default) in ROLES {
        let value = match (router.carry(context, option), spelling) {
            (Some(property), _) => {
                let text =
                    context.text(&property, &format!("COLUMN_{}", role.to_ascii_uppercase()));
                all_default &= text.as_literal() == Some(default);
                text.toml()
            }
            (None, Some(spelling)) if matches!(role, "aggregate_type" | "aggregate_id") => {
                all_default = false;
                let (named, key) = (spelling.of_role(role), format!("columns.{role}"));
                let names = format!("[{}, {}]", quoted(default), quoted(named));
                let text = format!(
                    "it is left out, so Debezium reads the column {default} and fails at the first \
                     row if the table has {named} instead"
                );
                let hint = format!("{key} = {names} takes the one that the table has");
                context.report.different(PropertyFinding::absent(option, text).hint(hint));
                names
            }
            (None, _) => quoted(default),
        };
        lines.push((role, value));
    }
    nulls(context, &lines);
    if all_default {
        lines.clear();
    }
    timestamp(context, router, &mut lines);
    tracing(context, router, &mut lines);
    Columns { lines }
}

/// Debezium sends a row without a key or an id; the router stops there.
fn nulls(context: &mut Context<'_>, lines: &[(&'static str, String)]) {
    let text = "run stops at a row whose key or id is NULL (R001, R004); Debezium sends it without \
                a key, or with a header id without a value";
    let finding = PropertyFinding::absent("NULL as a key or an id", text);
    let name = |role: &str| {
        let (_, value) = lines.iter().find(|(known, _)| *known == role)?;
        let name = value.strip_prefix('"')?.strip_suffix('"')?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        name.chars().all(is_plain).then_some(name)
    };
    context.report.different(match (name("aggregate_id"), name("id")) {
        (Some(key), Some(id)) if key != id => finding.hint(format!(
            "columns.aggregate_id = \"${{{key}|{id}}}\" takes the id where the key is NULL"
        )),
        (_, _) => finding,
    });
}

fn timestamp(
    context: &mut Context<'_>,
    router: &mut EventRouter,
    lines: &mut Vec<(&'static str, String)>,
) {
    let is_server = context.form == Form::ServerProperties;
    let Some(option) = router.carry(context, "table.field.event.timestamp") else {
        let text = if is_server {
            "a record carries the time of its transaction's commit; Debezium Server's carries the \
             time of producing"
        } else {
            "a record carries the time of its transaction's commit; Debezium's carries the time at \
             which Debezium read it"
        };
        let hint = "outbox.timestamp = \"now\" is the time of producing";
        context
            .report
            .different(PropertyFinding::absent("table.field.event.timestamp", text).hint(hint));
        return;
    };
    let column = context.text(&option, "COLUMN_TIMESTAMP");
    lines.push(("timestamp", column.toml()));
    let text = if is_server {
        "a record carries this column's time; Debezium Server sends it without any; run stops at a \
         time of 1970 or before, and at an infinite one (R012)"
    } else {
        "the column may also be a timestamptz or a date, at which Debezium's task fails; where it \
         is NULL, the time is that of the commit; run stops at a time at or before 1970-01-01 \
         00:00:00, and at an infinite one (R012)"
    };
    let hint = "timestamp = \"commit\" in [[outbox]], if the table has such times";
    context.report.different(PropertyFinding::of(&option, text).hint(hint));
}

fn tracing(
    context: &mut Context<'_>,
    router: &mut EventRouter,
    lines: &mut Vec<(&'static str, String)>,
) {
    let Some(option) = router.carry(context, "tracing.span.context.field") else {
        let text = "no column is read; with OpenTelemetry Debezium reads tracingspancontext where \
                    the table has it, and writes traceparent and tracestate";
        let hint = "columns.tracing = \"tracingspancontext\", if the table has it";
        let finding = PropertyFinding::absent("tracing.span.context.field", text);
        context.report.different(finding.hint(hint));
        return;
    };
    lines.push(("tracing", Text::literal(&option.value).toml()));
    let text = "traceparent and tracestate of the column become headers as they are; Debezium \
                writes those of a span that it opens";
    context.report.different(PropertyFinding::of(&option, text));
}
