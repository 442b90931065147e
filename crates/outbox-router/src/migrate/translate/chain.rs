//! The chain of transforms: finds EventRouter under whatever alias it has, and names what else is
//! in the chain.

use super::{
    super::{
        names::{self, Treatment},
        properties::{Properties, Property},
        report::PropertyFinding,
    },
    context::Context,
    predicate::{Predicates, TopicPattern},
};

const EVENT_ROUTER_CLASS: &str = "io.debezium.transforms.outbox.EventRouter";

/// Classes of other transforms, by the end of their names, and why the router has none of them.
const OTHERS: [(&str, &str); 12] = [
    (
        "ExtractNewRecordState",
        "after EventRouter it does nothing, and before it EventRouter finds no event",
    ),
    ("ByLogicalTableRouter", "the topic is decided by topic and route_regex alone"),
    ("RegexRouter", "the topic is decided by topic and route_regex alone"),
    ("TimestampRouter", "the topic is decided by topic and route_regex alone"),
    ("ContentBasedRouter", "the topic is decided by topic and route_regex alone"),
    ("HeaderFrom", "headers come from columns (extra_headers) alone"),
    ("HeaderFrom$Value", "headers come from columns (extra_headers) alone"),
    ("InsertHeader", "a constant header is an item of extra_headers with a value"),
    ("DropHeaders", "the headers are those that extra_headers lists"),
    (
        "DecodeLogicalDecodingMessageContent",
        "messages of pg_logical_emit_message are not read; write rows",
    ),
    ("ActivateTracingSpan", "the router opens no span; columns.tracing passes a context on"),
    ("PartitionRouting", "the partition is murmur2 of the key, or columns.partition"),
];

/// EventRouter's options, without the prefix of its alias.
pub(super) struct EventRouter {
    options: Properties,
    topics: Option<TopicPattern>,
}

impl EventRouter {
    /// Takes an option that is carried over, and says so.
    pub(super) fn carry(&mut self, context: &mut Context<'_>, name: &str) -> Option<Property> {
        let option = self.options.take(name)?;
        if let Some(Treatment::Carried(key)) = names::treatment(names::EVENT_ROUTER_OPTIONS, name) {
            context.report.carried(&option, key);
        }
        Some(option)
    }

    /// Takes an option of which the translation says what becomes of it.
    pub(super) fn take(&mut self, name: &str) -> Option<Property> {
        self.options.take(name)
    }

    /// Looks at an option.
    pub(super) fn get(&self, name: &str) -> Option<&Property> {
        self.options.get(name)
    }

    /// The topics whose records reach it, where a predicate chooses them.
    pub(super) fn topics(&self) -> Option<&TopicPattern> {
        self.topics.as_ref()
    }

    /// Says what becomes of the options that no translation has taken.
    pub(super) fn finish(self, context: &mut Context<'_>) {
        for option in self.options.into_rest() {
            match names::treatment(names::EVENT_ROUTER_OPTIONS, &option.name)
                .and_then(|treatment| treatment.of(&option.value))
            {
                Some(outcome) => context.report.decided(&option, outcome),
                // Kafka Connect does not refuse an option that a transform does not know.
                None => {
                    let text = "EventRouter has no such option, so it has no effect in Debezium \
                                either";
                    let finding = PropertyFinding::of(&option, text);
                    let nearest = names::nearest(names::EVENT_ROUTER_OPTIONS, &option.name);
                    context.report.different(finding.meant(nearest));
                }
            }
        }
    }
}

/// Takes everything that belongs to transforms out of the input.
///
/// # Errors
/// There is no EventRouter, so the connector publishes no outbox.
pub(super) fn take(context: &mut Context<'_>) -> Result<EventRouter, PropertyFinding> {
    let list = context.input.take("transforms");
    if let Some(list) = &list {
        context.report.carried(list, "EventRouter is what the router does");
    }
    let aliases: Vec<&str> =
        list.iter().flat_map(|list| list.value.split(',')).map(str::trim).collect();
    let mut options = context.input.take_below("transforms.");
    let predicates = Predicates::take(context);
    let mut router: Option<EventRouter> = None;
    for alias in aliases.iter().filter(|alias| !alias.is_empty()) {
        let prefix = format!("transforms.{alias}.");
        let own: Vec<Property> =
            options.extract_if(.., |option| option.name.starts_with(&prefix)).collect();
        let Some(class) = own.iter().find(|option| option.name == format!("{prefix}type")) else {
            context.report.unsupported(match own.first() {
                Some(first) => {
                    let text = format!("the transform has no type{}", with_it(&own, first));
                    PropertyFinding::of(first, text)
                }
                None => {
                    PropertyFinding::absent(&format!("{prefix}type"), "the transform has no type")
                }
            });
            continue;
        };
        if class.value != EVENT_ROUTER_CLASS {
            let text = format!("{}{}", other(&class.value)?, with_it(&own, class));
            context.report.unsupported(PropertyFinding::of(class, text));
        } else if router.is_some() {
            let text = "a second EventRouter: every table of a connector has the same options here";
            let text = format!("{text}{}", with_it(&own, class));
            context.report.unsupported(PropertyFinding::of(class, text));
        } else {
            context.report.carried(class, "outbox.format = \"debezium\"");
            router = Some(EventRouter { options: stripped(own, &prefix), topics: None });
        }
    }
    for option in options {
        let text = "its alias is not in transforms, so it has no effect in Debezium either";
        context.report.different(PropertyFinding::of(&option, text));
    }
    let Some(mut router) = router else { return Err(without_router(list.as_ref())) };
    router.topics = predicates.apply(context, &mut router.options);
    Ok(router)
}

/// The other properties of what is not supported, so that none is missing in the lists.
fn with_it(all: &[Property], named: &Property) -> String {
    let others = all.iter().filter(|property| *property != named);
    let others: Vec<String> =
        others.map(|property| format!("{}: {}", property.line, property.written)).collect();
    if others.is_empty() { String::new() } else { format!("; with it {}", others.join(", ")) }
}

/// Why a transform of this class is not supported; an error where it is another outbox router.
fn other(class: &str) -> Result<String, PropertyFinding> {
    if class.ends_with("MongoEventRouter") {
        let text = "MongoDB's outbox router; outbox-router reads PostgreSQL alone";
        return Err(PropertyFinding::absent(class, text));
    }
    let short = class.rsplit('.').next().unwrap_or(class);
    let known = OTHERS.iter().find(|(name, _)| *name == short);
    let why = known.map_or("the router has no transforms", |(_, why)| why);
    Ok(format!("{class}: {why}"))
}

fn stripped(own: Vec<Property>, prefix: &str) -> Properties {
    let mut options = Properties::default();
    for option in own {
        let name = option.name.strip_prefix(prefix).unwrap_or(&option.name).to_owned();
        if name != "type" {
            options.push(Property { name, ..option });
        }
    }
    options
}

fn without_router(list: Option<&Property>) -> PropertyFinding {
    let text = "no transform is Debezium's EventRouter: the connector publishes changes of tables, \
                not an outbox";
    let hint = "for change data capture stay with Debezium; for an outbox give the connector with \
                io.debezium.transforms.outbox.EventRouter";
    let finding = list.map(|list| PropertyFinding::of(list, text));
    finding.unwrap_or_else(|| PropertyFinding::absent("transforms", text)).hint(hint)
}
