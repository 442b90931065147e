//! `table.fields.additional.placement`: columns as headers, in the value, or as the partition.

use super::{
    super::{properties::Property, read::Form, report::Finding},
    chain::EventRouter,
    context::Context,
};
use crate::config::print::quoted;

/// One item of the list.
struct Placed<'p> {
    column: &'p str,
    place: &'p str,
    alias: Option<&'p str>,
}

impl Placed<'_> {
    fn toml(&self) -> String {
        let name = self.alias.unwrap_or(self.column);
        format!("{{ name = {}, column = {} }}", quoted(name), quoted(self.column))
    }
}

pub(super) fn translate(context: &mut Context<'_>, router: &mut EventRouter) {
    missing(context, router);
    let Some(option) = router.carry(context, "table.fields.additional.placement") else { return };
    let (mut headers, mut envelope) = (Vec::new(), Vec::new());
    for item in option.value.split(',') {
        let Some(placed) = item_of(item) else {
            let text =
                format!("{:?} is not column:placement[:alias]; Debezium refuses it", item.trim());
            context.report.unsupported(Finding::of(&option, text));
            continue;
        };
        match placed.place {
            "header" => headers.push(placed),
            "envelope" => envelope.push(placed),
            "partition" => partition(context, &option, &placed),
            other => {
                let text = format!(
                    "{other:?} is no placement (header, envelope or partition); Debezium fails at \
                     the first row"
                );
                context.report.unsupported(Finding::of(&option, text));
            }
        }
    }
    if headers.iter().any(|placed| placed.alias.unwrap_or(placed.column) == "id") {
        let text = "a second header id, beside the one with the event's id, as in Debezium";
        context.report.different(Finding::of(&option, text));
    }
    if !headers.is_empty() || !envelope.is_empty() {
        let text = "each column is written as in Debezium; columns of money, bit, oid, geometric types, \
                    arrays of several dimensions and what else Debezium writes in a way of its own \
                    are refused (R008)";
        context.report.different(Finding::of(&option, text));
    }
    list(context, "extra_headers", &headers);
    list(context, "envelope", &envelope);
}

fn item_of(item: &str) -> Option<Placed<'_>> {
    let mut parts = item.trim().split(':').map(str::trim);
    let (column, place, alias) = (parts.next()?, parts.next()?, parts.next());
    let is_whole = parts.next().is_none() && !column.is_empty() && !place.is_empty();
    is_whole.then_some(Placed { column, place, alias })
}

fn partition(context: &mut Context<'_>, option: &Property, placed: &Placed<'_>) {
    context.draft.outbox.raw("columns.partition", &quoted(placed.column));
    if context.form == Form::ServerProperties {
        let text =
            "a record goes to the column's partition; Debezium Server does not send it there";
        context.report.different(Finding::of(option, text));
    }
}

fn list(context: &mut Context<'_>, key: &str, items: &[Placed<'_>]) {
    let items: Vec<String> = items.iter().map(Placed::toml).collect();
    match items.as_slice() {
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
        context.report.unsupported(Finding::of(&option, text));
    }
}
