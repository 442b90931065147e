//! `route.topic.regex` and `route.topic.replacement` as `outbox.topic` and `outbox.route_regex`.

use relay::{JavaRegex, UnsupportedRegex};

use super::{
    super::{draft::Text, placeholder, properties::Property, read::Form, report::PropertyFinding},
    chain::EventRouter,
    context::Context,
    regex::{self, Part},
};

const REGEX: &str = "(?<routedByValue>.*)";
const REPLACEMENT: &str = "outbox.event.${routedByValue}";

pub(super) fn translate(context: &mut Context<'_>, router: &mut EventRouter) {
    let given = router.carry(context, "route.topic.regex");
    let pattern = given.as_ref().map_or(REGEX, |regex| regex.value.as_str());
    let replacement = router.carry(context, "route.topic.replacement");
    let (topic, groups) = topic(context, pattern, replacement.as_ref());
    let by_value = groups <= 1 && regex::takes_all(pattern);
    context.draft.outbox.text("topic", &topic);
    // Without a group in the topic, every value that the pattern matches has the same topic.
    if !by_value && (groups > 0 || given.is_some()) {
        context.draft.outbox.text("route_regex", &Text::literal(&pattern.replace("(?P<", "(?<")));
        context.draft.outbox.raw("on_route_mismatch", "\"value\"");
        if let (Err(why), Some(given)) = (java_regex(pattern), &given) {
            context.report.unsupported(PropertyFinding::of(given, format!("it has {why}")));
        }
        let text = "a value that the pattern does not match is itself the topic, as in Debezium";
        let hint = "outbox.on_route_mismatch = \"error\" stops the router instead";
        if let Some(given) = &given {
            context.report.different(PropertyFinding::of(given, text).hint(hint));
        }
    }
}

/// The topic, and how many groups of it the row fills.
fn topic(
    context: &mut Context<'_>,
    pattern: &str,
    replacement: Option<&Property>,
) -> (Text, usize) {
    let value = replacement.map_or(REPLACEMENT, |replacement| replacement.value.as_str());
    let single = unescaped(context, value, replacement);
    // An expression that `JavaRegex` refuses has unknown groups: each group of the replacement
    // counts as existing.
    let regex = java_regex(pattern).ok();
    let parts = regex::replacement(&single);
    let parts: Vec<Part> =
        parts.into_iter().flat_map(|part| with_own_digits(part, regex.as_ref())).collect();
    let is_group = |part: &Part| match part {
        Part::Literal(_) => false,
        Part::Named(name) => regex.as_ref().is_none_or(|regex| regex.has_group(name)),
        Part::Numbered(number) => {
            regex.as_ref().is_none_or(|regex| regex.numbered_group(number).is_some())
        }
    };
    let groups = parts.iter().filter(|part| is_group(part)).count();
    let by_value = groups <= 1 && regex::takes_all(pattern);
    let mut topic = Text::default();
    let mut filled = groups;
    for part in parts {
        match (&part, is_group(&part)) {
            (Part::Literal(literal), _) => topic.push(literal),
            (Part::Named(_) | Part::Numbered(_), true) if by_value => {
                topic.push_placeholder("aggregate_type");
            }
            (Part::Named(name), true) => topic.push_placeholder(name),
            (Part::Numbered(number), true) => topic.push(&format!("${number}")),
            (Part::Named(name), false) => {
                if is_filled_at_start(name) {
                    add_placeholder(context, &mut topic, name, replacement);
                } else {
                    filled += 1;
                    unknown_group(context, &format!("${{{name}}}"), replacement);
                    topic.push_placeholder("aggregate_type");
                }
            }
            (Part::Numbered(number), false) => {
                filled += 1;
                unknown_group(context, &format!("${number}"), replacement);
                topic.push_placeholder("aggregate_type");
            }
        }
    }
    (topic, filled)
}

/// `$12` is the group 1 and the text "2" where the expression has fewer than twelve groups.
fn with_own_digits(part: Part, regex: Option<&JavaRegex>) -> Vec<Part> {
    let Part::Numbered(digits) = &part else { return vec![part] };
    match regex.and_then(|regex| regex.numbered_group(digits)) {
        Some((_, "")) | None => vec![part],
        Some((number, rest)) => {
            vec![Part::Numbered(number.to_string()), Part::Literal(rest.to_owned())]
        }
    }
}

fn java_regex(pattern: &str) -> Result<JavaRegex, UnsupportedRegex> {
    // `(?P<name>…)` is how Confluent's managed connectors write it.
    JavaRegex::parse(&pattern.replace("(?P<", "(?<"))
}

/// Debezium Server replaces `${…}` in its file first, so a group's dollar has to be doubled there.
fn unescaped(context: &mut Context<'_>, value: &str, replacement: Option<&Property>) -> String {
    let Some(replacement) = replacement.filter(|_| context.form == Form::ServerProperties) else {
        return value.to_owned();
    };
    if !value.contains("$${") && value.contains("${routedByValue}") {
        let text = "Debezium Server replaces ${routedByValue} before EventRouter sees it, and does \
                    not start: the dollar has to be doubled there";
        context.report.different(PropertyFinding::of(replacement, text));
    }
    value.replace("$${", "${")
}

/// Whether it is filled in before EventRouter sees it: by a provider, or from an environment.
fn is_filled_at_start(name: &str) -> bool {
    name.contains(':') || !name.chars().any(|c| c.is_ascii_lowercase())
}

fn add_placeholder(
    context: &mut Context<'_>,
    topic: &mut Text,
    name: &str,
    replacement: Option<&Property>,
) {
    let translated = placeholder::translate(&format!("${{{name}}}"), context.form, "KAFKA_TOPIC");
    topic.append(translated.text);
    for note in translated.notes {
        if let Some(replacement) = replacement {
            context.report.different(PropertyFinding::of(replacement, note));
        }
    }
}

fn unknown_group(context: &mut Context<'_>, group: &str, replacement: Option<&Property>) {
    let text = format!(
        "route.topic.regex has no group {group}, so Debezium fails at the first row; the value of \
         route.by.field stands there"
    );
    let hint = "write ${routedByValue}, the group of Debezium's default regex";
    if let Some(replacement) = replacement {
        context.report.different(PropertyFinding::of(replacement, text).hint(hint));
    }
}
