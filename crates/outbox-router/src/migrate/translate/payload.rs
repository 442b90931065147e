//! What the value is made of: tombstones, the expansion of JSON, and what an UPDATE means.

use super::{
    super::{draft::Text, properties::Property, report::PropertyFinding},
    chain::EventRouter,
    context::Context,
    converters::Converters,
    given::GivenConverter,
};

pub(super) fn translate(
    context: &mut Context<'_>,
    router: &mut EventRouter,
    converters: Converters,
) {
    expansion(context, router, converters);
    tombstones(context, router, converters);
    updates(context, router);
}

fn expansion(context: &mut Context<'_>, router: &mut EventRouter, converters: Converters) {
    let option = router.carry(context, "table.expand.json.payload");
    let keeps_nulls = keeps(context, router, "table.json.payload.null.behavior", "optional_bytes");
    let keeps_arrays =
        keeps(context, router, "table.json.payload.empty.array.behavior", "optional_string");
    let Some(option) = option.filter(|option| option.is("true")) else { return };
    match converters.value {
        GivenConverter::Json => {}
        GivenConverter::String => {
            let text = "the value is the column's JSON as it is, so nothing has to be expanded; \
                        Debezium's StringConverter would write Struct{…}";
            context.report.different(PropertyFinding::of(&option, text));
            return;
        }
        GivenConverter::Bytes => {
            let text = "a value of bytes is not expanded; Debezium warns and leaves it, too";
            context.report.different(PropertyFinding::of(&option, text));
            return;
        }
    }
    let how = match (keeps_nulls, keeps_arrays) {
        (true, true) => "compact",
        (false, true) => "drop_nulls",
        (true, false) => "drop_empty_arrays",
        (false, false) => "drop_both",
    };
    context.draft.outbox.text("expand_json", &Text::literal(how));
    context.draft.outbox.raw("on_not_json", "\"as_text\"");
    let text = "the payload is embedded as it is, without inferring a schema: numbers keep their \
                digits, and an array as the whole payload, arrays of elements of different types \
                and single values pass, where Debezium fails or falls back to a text; what is no \
                JSON is written as a text, as in Debezium; objects in an array keep their own \
                members, where Debezium adds to each, as null, those that only others of them have";
    let hint = "on_not_json = \"halt\" stops the router at such a row instead";
    context.report.different(PropertyFinding::of(&option, text).hint(hint));
}

/// Whether the option has the word with which Debezium keeps such members.
fn keeps(context: &mut Context<'_>, router: &mut EventRouter, name: &str, word: &str) -> bool {
    let is_known = |option: &Property| option.is("ignore") || option.is(word);
    if router.get(name).is_none_or(is_known) {
        return router.carry(context, name).is_some_and(|option| option.is(word));
    }
    if let Some(option) = router.take(name) {
        let text = format!("neither ignore nor {word}: Debezium refuses it");
        context.report.unsupported(PropertyFinding::of(&option, text));
    }
    false
}

fn tombstones(context: &mut Context<'_>, router: &mut EventRouter, converters: Converters) {
    let option = router.carry(context, "route.tombstone.on.empty.payload");
    let is_on = option.is_some_and(|option| option.is("true"));
    match (is_on, converters.value) {
        (true, _) => context.draft.outbox.raw("tombstone_on", "[\"null\", \"blank\"]"),
        // JsonConverter writes the four bytes `null`.
        (false, GivenConverter::Json) => context.draft.outbox.raw("tombstone_on", "[]"),
        // A null is Kafka's null with the other converters, and that is our default.
        (false, GivenConverter::String | GivenConverter::Bytes) => {}
    }
}

fn updates(context: &mut Context<'_>, router: &mut EventRouter) {
    let Some(option) = router.carry(context, "table.op.invalid.behavior") else { return };
    if option.is("fatal") {
        context.draft.outbox.raw("on_update", "\"error\"");
        let text = "an UPDATE stops the router if the publication publishes updates; the one that \
                    setup creates does not";
        context.report.different(PropertyFinding::of(&option, text));
    } else if !option.is("warn") && !option.is("error") {
        let text = "neither warn, error nor fatal: Debezium refuses it";
        context.report.unsupported(PropertyFinding::of(&option, text));
    }
}
