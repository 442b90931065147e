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
    if all_default {
        lines.clear();
    }
    timestamp(context, router, &mut lines);
    tracing(context, router, &mut lines);
    Columns { lines }
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
        "a record carries this column's time; Debezium Server sends it without any"
    } else {
        "the column may also be a timestamptz or a date, at which Debezium's task fails; where it \
         is NULL, the time is that of the commit"
    };
    context.report.different(PropertyFinding::of(&option, text));
}

fn tracing(
    context: &mut Context<'_>,
    router: &mut EventRouter,
    lines: &mut Vec<(&'static str, String)>,
) {
    let Some(option) = router.carry(context, "tracing.span.context.field") else { return };
    lines.push(("tracing", Text::literal(&option.value).toml()));
    let text = "traceparent and tracestate of the column become headers as they are; Debezium \
                writes those of a span that it opens";
    context.report.different(PropertyFinding::of(&option, text));
}
