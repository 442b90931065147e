//! Where the connector begins: its name, the slot, the publication, and the snapshot that the
//! router does not take.

use super::{
    super::{draft::Text, names, properties::Property, report::PropertyFinding},
    context::Context,
    refuse::MANAGED,
};

/// Debezium's default slot and publication: the router uses those that exist.
const SLOT: &str = "debezium";
const PUBLICATION: &str = "dbz_publication";

/// Values of `snapshot.mode` that read no rows, with the names before 3.0.
const NO_ROWS: [&str; 4] = ["no_data", "never", "schema_only", "recovery"];

/// The connector's name, the plug-in and the snapshot.
pub(super) fn translate(context: &mut Context<'_>) {
    if let Some(name) = context.input.take("name") {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !name.value.is_empty() && name.value.len() <= 63 && name.value.chars().all(legal) {
            context.report.carried(&name, "name");
            context.draft.name = Some(Text::literal(&name.value));
        } else {
            let text = "the name has characters that ours may not have; it stays outbox-router";
            context.report.different(PropertyFinding::of(&name, text));
        }
    }
    let class = context.input.take("connector.class");
    if let Some(class) = &class {
        context.report.carried(class, "PostgreSQL, by its logical replication");
    }
    plugin(context, class.as_ref());
    snapshot(context);
    prefix(context);
}

fn plugin(context: &mut Context<'_>, class: Option<&Property>) {
    const CARRIED: &str = "the router reads pgoutput";
    let plugin = context.input.take("plugin.name");
    let text = match &plugin {
        Some(plugin) if plugin.is("pgoutput") => return context.report.carried(plugin, CARRIED),
        Some(plugin) => {
            format!(
                "the slot of that name decodes with {}; the router needs pgoutput",
                plugin.value
            )
        }
        // Confluent's managed connector has no such property, and makes its slot with pgoutput.
        None if class.is_some_and(|class| class.is(MANAGED)) => {
            return context.report.carried.push(PropertyFinding::absent("plugin.name", CARRIED));
        }
        None => "the slot of that name decodes with Debezium's default, decoderbufs; the router \
                 needs pgoutput"
            .to_owned(),
    };
    let finding = match &plugin {
        Some(plugin) => PropertyFinding::of(plugin, text),
        None => PropertyFinding::absent("plugin.name", text),
    };
    let hint = "give postgres.slot another name, and outbox-router setup creates it; drop the \
                connector's slot when the connector has sent everything from before, because what \
                it has yet to send is lost with its slot";
    context.report.different(finding.hint(hint));
}

fn snapshot(context: &mut Context<'_>) {
    let text = "no snapshot: rows that were written before the slot existed are not sent";
    match context.input.take("snapshot.mode") {
        Some(mode) if NO_ROWS.iter().any(|known| mode.is(known)) => {
            context.report.carried(&mode, "there is no snapshot");
        }
        Some(mode) => context.report.different(PropertyFinding::of(&mode, text)),
        None => {
            let text = format!("{text}; Debezium's default, initial, sends them");
            context.report.different(PropertyFinding::absent("snapshot.mode", text));
        }
    }
}

/// The prefix names nothing that EventRouter writes, except for headers of Debezium 3.
fn prefix(context: &mut Context<'_>) {
    const NOWHERE: &str = "EventRouter's topics do not have it";
    let server = context.input.take("database.server.name");
    let prefix = context.input.take("topic.prefix");
    for property in server.iter().chain(&prefix) {
        context.report.carried(property, NOWHERE);
    }
    let extended = context.input.take("extended.headers.enabled");
    if let Some(extended) = extended.as_ref().filter(|extended| extended.is("false")) {
        context.report.carried(extended, "no header is added");
        return;
    }
    // Before 2.0 the prefix was called the server's name, and those headers came with 3.0.
    let is_old = server.is_some() && prefix.is_none();
    if is_old && extended.is_none() {
        return;
    }
    let text = "Debezium 3 adds four headers, __debezium.context.connectorLogicalName, .taskId, \
                .connectorName and .runId; the router adds none";
    let hint = "compare leaves them out; a comment in the TOML has the lines for the first three, \
                which the router writes after its own headers, and Debezium before them";
    context.report.different(match &extended {
        Some(extended) => PropertyFinding::of(extended, text).hint(hint),
        None => PropertyFinding::absent("extended.headers.enabled", text).hint(hint),
    });
    context.draft.extended_headers = Some(prefix.map_or_else(
        || "PREFIX".to_owned(),
        // A `${…}` in the prefix is Debezium's; the doubled dollar keeps it as text.
        |prefix| prefix.value.replace("${", "$${"),
    ));
}

/// Slot and publication, under the names that the connector uses.
pub(super) fn slot(context: &mut Context<'_>) {
    for (name, key, default) in
        [("slot.name", "slot", SLOT), ("publication.name", "publication", PUBLICATION)]
    {
        let text = match context.carry(name) {
            Some(property) => {
                let variable = format!("POSTGRES_{}", key.to_ascii_uppercase());
                let text = context.text(&property, &variable);
                if name == "slot.name" && text.as_literal().is_some_and(|slot| !is_slot(slot)) {
                    let why = "PostgreSQL has no slot of such a name: a-z, 0-9 and _ are allowed";
                    let hint =
                        "give the file as it reaches Debezium, with its placeholders filled in";
                    context.report.unsupported(PropertyFinding::of(&property, why).hint(hint));
                    Text::variable(&variable)
                } else {
                    text
                }
            }
            None => {
                let text = format!("postgres.{key} = {:?}, Debezium's default", default);
                context.report.carried.push(PropertyFinding::absent(name, text));
                Text::literal(default)
            }
        };
        context.draft.postgres.text(key, &text);
    }
    if context.input.get("publish.via.partition.root").is_none() {
        let finding = PropertyFinding::absent("publish.via.partition.root", names::BY_LEAF);
        context.report.different(finding);
    }
}

fn is_slot(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty() && name.len() <= 63 && name.chars().all(legal)
}
