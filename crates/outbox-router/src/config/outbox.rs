//! Checks that concern several keys of one outbox table at once. Each finds one contradiction; what
//! depends on the table's columns is known only with its Relation message.

use relay::{
    BytesFormat, Decimals, ExpandJson, Format, IllegalTemplate, Intervals, OnMismatch, OnNotJson,
    OutboxTable, Role, Times, Timestamp, TopicName, is_role_required,
};

use super::{
    error::{ConfigCode, ConfigError},
    polling::SourceKind,
    read::Problems,
};

/// A contradiction: what it is, and what to do.
type Contradiction = (String, Option<&'static str>);

/// Checks the keys of one table against each other. `place` is its name in messages.
pub(super) fn validate_table(
    place: &str,
    outbox: &OutboxTable,
    (source, state_topic): (SourceKind, Option<&TopicName>),
    problems: &mut Problems<'_>,
) {
    let found = columns_left_out(outbox)
        .into_iter()
        .chain(time_column_unread(outbox, source))
        .chain(topic_illegal(outbox))
        .chain(topic_of_state(outbox, state_topic))
        .chain(header_twice(outbox))
        .chain(envelope_not_json(outbox))
        .chain(expansion_without_json(outbox))
        .chain(not_json_without_expansion(outbox))
        .chain(types_without_debezium(outbox));
    for (what, hint) in found {
        let mut error = ConfigError::new(ConfigCode::Contradiction, format!("{place}{what}"));
        error.hint = hint.map(str::to_owned);
        problems.push(error);
    }
}

/// Roles that every event needs and that the configuration leaves without a column.
fn columns_left_out(outbox: &OutboxTable) -> Option<Contradiction> {
    let is_left_out = |role: &Role| outbox.columns.get(*role).is_some_and(<[_]>::is_empty);
    let roles: Vec<&str> = Role::ALL
        .into_iter()
        .filter(is_left_out)
        .filter(|role| is_role_required(outbox, *role))
        .map(Role::as_str)
        .collect();
    (!roles.is_empty()).then(|| {
        let what = format!(".columns leaves out {}", roles.join(", "));
        (what, Some("an empty list is for columns that an event can do without"))
    })
}

fn time_column_unread(outbox: &OutboxTable, source: SourceKind) -> Option<Contradiction> {
    let has_timestamp = outbox.columns.get(Role::Timestamp).is_some_and(|n| !n.is_empty());
    let is_read = match (outbox.timestamp, source) {
        (Timestamp::Column, _) => true,
        // It stands for the time of the commit, which a row does not have.
        (Timestamp::Commit, SourceKind::Polling) => true,
        (Timestamp::Commit, SourceKind::Stream) | (Timestamp::Now, _) => false,
    };
    (has_timestamp && !is_read).then(|| {
        let what = ".columns.timestamp names a column that is not read".to_owned();
        (what, Some("set timestamp = \"column\", or leave columns.timestamp out"))
    })
}

fn topic_illegal(outbox: &OutboxTable) -> Vec<Contradiction> {
    let mut found = Vec::new();
    if let Err(why) = outbox.check_topic() {
        let hint = match why {
            IllegalTemplate::NoRegex(_) => Some("set route_regex, or take the group out"),
            IllegalTemplate::NoGroup(_) => Some("give route_regex this group, or take it out"),
            IllegalTemplate::Template(_) | IllegalTemplate::Topic(_) => None,
        };
        found.push((format!(".topic: {why}"), hint));
    }
    if outbox.route_regex.is_none() && outbox.on_route_mismatch == OnMismatch::Value {
        let what = ".on_route_mismatch needs route_regex".to_owned();
        found.push((what, Some("without one every aggregate type has a topic")));
    }
    found
}

fn topic_of_state(outbox: &OutboxTable, state_topic: Option<&TopicName>) -> Option<Contradiction> {
    let (topic, state) = (outbox.topic.as_ref()?.to_string(), state_topic?);
    (topic == state.as_str()).then(|| {
        let what = format!(".topic is the kafka.state_topic ({state})");
        (what, Some("the record in the state topic is not for consumers"))
    })
}

/// With format = "debezium", two headers may have one name, as Debezium allows it.
fn header_twice(outbox: &OutboxTable) -> Option<Contradiction> {
    let mut names: Vec<&str> = Vec::new();
    if outbox.format == Format::Plain {
        names.extend([outbox.headers.id.as_str(), outbox.headers.event_type.as_str()]);
        names.extend(outbox.extra_headers.iter().map(|header| header.name.as_str()));
    }
    let twice =
        (1..names.len()).find(|at| names.iter().take(*at).any(|n| Some(n) == names.get(*at)));
    let (at, name) = (twice?, names.get(twice?)?);
    let key = if at < 2 { "headers" } else { "extra_headers" };
    Some((format!(".{key} gives two headers the name {name:?}"), None))
}

fn envelope_not_json(outbox: &OutboxTable) -> Vec<Contradiction> {
    let mut found = Vec::new();
    let is_json = matches!(outbox.value_format, BytesFormat::Auto | BytesFormat::Json);
    if !outbox.envelope.is_empty() && !is_json {
        let what = ".envelope makes the value JSON, and value_format is another".to_owned();
        found.push((what, Some("leave value_format out")));
    }
    let names: Vec<&str> = outbox.envelope.iter().map(|member| member.name.as_str()).collect();
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|known| known == name) {
            found.push((format!(".envelope gives two members the name {name:?}"), None));
        }
    }
    found
}

fn expansion_without_json(outbox: &OutboxTable) -> Option<Contradiction> {
    let is_json = outbox.value_format == BytesFormat::Json || !outbox.envelope.is_empty();
    (outbox.expand_json != ExpandJson::No && !is_json).then(|| {
        let what = ".expand_json has no effect: the value is the payload as it is".to_owned();
        (what, Some("set value_format = \"json\", or leave expand_json out"))
    })
}

fn not_json_without_expansion(outbox: &OutboxTable) -> Option<Contradiction> {
    let has_effect = outbox.expand_json != ExpandJson::No;
    (outbox.on_not_json != OnNotJson::Halt && !has_effect).then(|| {
        let what = ".on_not_json has no effect: no payload is expanded".to_owned();
        (what, Some("set expand_json, or leave on_not_json out"))
    })
}

fn types_without_debezium(outbox: &OutboxTable) -> Vec<Contradiction> {
    let is_set = [
        ("decimals", outbox.decimals != Decimals::Precise),
        ("times", outbox.times != Times::Adaptive),
        ("intervals", outbox.intervals != Intervals::Number),
    ];
    let without_effect = is_set.into_iter().filter(|(_, is)| *is && outbox.format == Format::Plain);
    without_effect
        .map(|(key, _)| {
            let what = format!(".{key} has no effect: a value is what PostgreSQL writes");
            (what, Some("set format = \"debezium\", or leave it out"))
        })
        .collect()
}
