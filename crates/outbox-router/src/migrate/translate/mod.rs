//! From a connector's properties to a draft of our configuration, one concern in each file.
//!
//! Each translation takes its properties out of the input and says what became of them. What is
//! left at the end is decided by the table of names ([`rest`]).

mod chain;
mod columns;
mod connection;
mod context;
mod converters;
mod given;
mod jaas;
mod kafka;
mod payload;
mod placement;
mod position;
mod predicate;
mod refuse;
mod regex;
mod rest;
mod routing;
mod table_name;
mod tables;
mod types;

use super::{
    draft::Draft,
    read::Source,
    report::{Migration, Report},
};
use context::Context;
pub use given::{Given, GivenConverter};

/// Translates what was read.
pub(super) fn translate(source: Source, given: &Given) -> Migration {
    let mut context = Context {
        form: source.form,
        given,
        input: source.properties,
        draft: Draft::default(),
        report: Report::default(),
    };
    context.report.different.extend(source.remarks);
    let connector = context.input.get("name").map(|name| name.value.clone());
    let name = connector.as_ref().map(|name| format!(", connector {name}"));
    let source = format!("{}{}", context.form.as_str(), name.unwrap_or_default());
    match refuse::refusal(&context).map_or_else(|| chain::take(&mut context), Err) {
        Err(finding) => Migration {
            source,
            connector,
            toml: None,
            carried: Vec::new(),
            different: Vec::new(),
            unsupported: vec![finding],
        },
        Ok(router) => {
            everything(&mut context, router);
            let Context { draft, mut report, .. } = context;
            for list in [&mut report.carried, &mut report.different, &mut report.unsupported] {
                list.sort_by_key(|finding| finding.line.unwrap_or(usize::MAX));
            }
            Migration {
                toml: Some(draft.toml(&format!("{} ({})", given.file, context.form.as_str()))),
                source,
                connector,
                carried: report.carried,
                different: report.different,
                unsupported: report.unsupported,
            }
        }
    }
}

fn everything(context: &mut Context<'_>, mut router: chain::EventRouter) {
    position::translate(context);
    connection::translate(context);
    position::slot(context);
    tables::translate(context, router.topics());
    context.draft.outbox.raw("preset", "\"debezium\"");
    context.draft.outbox.raw("format", "\"debezium\"");
    let columns = columns::translate(context, &mut router);
    routing::translate(context, &mut router);
    columns.write(&mut context.draft.outbox);
    let converters = converters::translate(context, &router);
    payload::translate(context, &mut router, converters);
    placement::translate(context, &mut router);
    types::translate(context);
    kafka::translate(context);
    router.finish(context);
    rest::translate(context);
}

#[cfg(test)]
mod tests;
