//! `table.fields.additional.placement`: columns as headers, in the value, or as the partition.

use super::{
    super::{properties::Property, read::Form, report::PropertyFinding},
    chain::EventRouter,
    context::Context,
};
use crate::config::print::quoted;

/// One additional field of the list.
struct AdditionalField<'p> {
    column: &'p str,
    placement: &'p str,
    alias: Option<&'p str>,
}

impl AdditionalField<'_> {
    fn name(&self) -> &str {
        self.alias.unwrap_or(self.column)
    }

    fn toml(&self) -> String {
        format!("{{ name = {}, column = {} }}", quoted(self.name()), quoted(self.column))
    }
}

pub(super) fn translate(context: &mut Context<'_>, router: &mut EventRouter) {
    missing(context, router);
    version(context, router);
    let Some(option) = router.carry(context, "table.fields.additional.placement") else { return };
    let (mut headers, mut envelope, mut partition) = (Vec::new(), Vec::new(), None);
    for item in option.value.split(',') {
        let Some(field) = field_of(item) else {
            let text =
                format!("{:?} is not column:placement[:alias]; Debezium refuses it", item.trim());
            context.report.unsupported(PropertyFinding::of(&option, text));
            continue;
        };
        match field.placement.to_ascii_lowercase().as_str() {
            "header" => headers.push(field),
            "envelope" if is_member(&envelope, field.name()) => {
                let text = format!(
                    "the envelope has a member {} already, so Debezium fails at the first row",
                    field.name()
                );
                let hint = "give the column another alias";
                context.report.unsupported(PropertyFinding::of(&option, text).hint(hint));
            }
            "envelope" => envelope.push(field),
            "partition" => partition = Some(field),
            _ => {
                let text = format!(
                    "{:?} is no placement (header, envelope or partition); Debezium fails at the \
                     first row",
                    field.placement
                );
                context.report.unsupported(PropertyFinding::of(&option, text));
            }
        }
    }
    if let Some(field) = partition {
        self::partition(context, &option, &field);
    }
    if headers.iter().any(|field| field.name() == "id") {
        let text = "a second header id, beside the one with the event's id, as in Debezium";
        context.report.different(PropertyFinding::of(&option, text));
    }
    if !headers.is_empty() || !envelope.is_empty() {
        let text = "each column is written as in Debezium; columns of money, bit, oid, geometric types, \
                    and what else Debezium writes in a way of its own are refused (R008); run stops at a \
                    row with NaN in a numeric, an array of several dimensions or an infinite time \
                    in an array (R009, R014)";
        context.report.different(PropertyFinding::of(&option, text));
    }
    list(context, "extra_headers", &headers);
    list(context, "envelope", &envelope);
}

/// Whether the envelope has a member of this name, beside the payload that it always has.
fn is_member(envelope: &[AdditionalField<'_>], name: &str) -> bool {
    name == "payload" || envelope.iter().any(|field| field.name() == name)
}

/// A comment, since a record of Debezium has no such header, and `compare` would report it.
fn version(context: &mut Context<'_>, router: &mut EventRouter) {
    let Some(option) = router.take("table.field.event.schema.version") else { return };
    let field = AdditionalField { column: &option.value, placement: "header", alias: None };
    let line = field.toml();
    let text = "there are no Connect schemas, and without them the version is in no record; a \
                comment in the TOML has the line that writes it as a header";
    let hint = format!("{line} in extra_headers");
    context.report.different(PropertyFinding::of(&option, text).hint(hint));
    context.draft.outbox.comment("The version as a header, which Debezium does not write:");
    context.draft.outbox.comment(&format!("extra_headers, one more: {line}"));
}

fn field_of(item: &str) -> Option<AdditionalField<'_>> {
    let mut parts = item.trim().split(':').map(str::trim);
    let (column, placement, alias) = (parts.next()?, parts.next()?, parts.next());
    // Java's split leaves out what is empty at the end.
    let alias = alias.filter(|alias| !alias.is_empty());
    let is_whole = parts.next().is_none() && !column.is_empty() && !placement.is_empty();
    is_whole.then_some(AdditionalField { column, placement, alias })
}

fn partition(context: &mut Context<'_>, option: &Property, field: &AdditionalField<'_>) {
    context.draft.outbox.raw("columns.partition", &quoted(field.column));
    if context.form == Form::ServerProperties {
        let text =
            "a record goes to the column's partition; Debezium Server does not send it there";
        context.report.different(PropertyFinding::of(option, text));
    }
}

fn list(context: &mut Context<'_>, key: &str, fields: &[AdditionalField<'_>]) {
    let fields: Vec<String> = fields.iter().map(AdditionalField::toml).collect();
    match fields.as_slice() {
        [] => {}
        [one] => context.draft.outbox.raw(key, &format!("[{one}]")),
        several => {
            let lines = several.join(",\n  ");
            context.draft.outbox.raw(key, &format!("[\n  {lines},\n]"));
        }
    }
}

fn missing(context: &mut Context<'_>, router: &mut EventRouter) {
    let Some(option) = router.carry(context, "table.field.additional.missing") else { return };
    if option.is("ignore") {
        context.draft.outbox.raw("missing_columns", "\"ignore\"");
    } else if !option.is("error") {
        let text = "neither error nor ignore: Debezium refuses it";
        context.report.unsupported(PropertyFinding::of(&option, text));
    }
}
