//! Keys of an outbox table that say where columns go: into headers, into the envelope, into a
//! filter, and which payloads are tombstones.

use relay::{
    EmptyPayload, EnvelopeMember, ExtraHeader, FilterKind, HeaderValue, RowFilter, Template,
    TombstoneOn,
};

use super::{
    super::{
        error::{ConfigCode, ConfigError, Rejection},
        names::identifier,
        parse,
        print::{quoted, quoted_template},
        read::{Problems, Section},
    },
    leaves::Leaf,
};

/// `extra_headers = [{ name, column | value }, …]`
pub(in super::super) fn extra_headers() -> Leaf<Vec<ExtraHeader>> {
    let take = |key, from: &mut Section, problems: &mut Problems<'_>| {
        let items = from.sections(key, problems);
        Some(items.into_iter().filter_map(|item| extra_header(item, problems)).collect())
    };
    let print = |headers: &Vec<ExtraHeader>| {
        let items = headers.iter().map(|header| {
            let name = quoted(&header.name);
            match &header.value {
                HeaderValue::Column(column) => {
                    format!("{{ name = {name}, column = {} }}", quoted(column))
                }
                HeaderValue::Template(template) => {
                    let text = quoted_template(&template.to_string());
                    format!("{{ name = {name}, value = {text} }}")
                }
            }
        });
        list(items.collect())
    };
    let example =
        "[{ name = \"tenant\", column = \"tenant_id\" }, { name = \"source\", value = \"shop\" }]";
    Leaf::new("a list of { name, column } and { name, value }", take, print).with_example(example)
}

fn extra_header(mut item: Section, problems: &mut Problems<'_>) -> Option<ExtraHeader> {
    let place = item.path().to_owned();
    let name = item.text("name", problems, parse::header);
    let column = item.text("column", problems, |text| identifier(text).map(str::to_owned));
    let value = item.text("value", problems, |text| {
        Template::parse(text).map_err(|why| Rejection::value(format!("is no text: {why}")))
    });
    let problems_before = problems.count();
    item.finish(problems);
    let value = match (column, value) {
        (Some(column), None) => HeaderValue::Column(column),
        (None, Some(template)) => HeaderValue::Template(template),
        (Some(_), Some(_)) => {
            contradiction(problems, format!("{place} has both column and value"));
            return None;
        }
        (None, None) if problems_before == problems.count() => {
            contradiction(problems, format!("{place} has neither column nor value"));
            return None;
        }
        (None, None) => return None,
    };
    match name {
        Some(name) => Some(ExtraHeader { name, value }),
        None => {
            contradiction(problems, format!("{place} has no name"));
            None
        }
    }
}

/// `envelope = [{ name, column }, …]`
pub(in super::super) fn envelope() -> Leaf<Vec<EnvelopeMember>> {
    let take = |key, from: &mut Section, problems: &mut Problems<'_>| {
        let items = from.sections(key, problems);
        Some(items.into_iter().filter_map(|item| member(item, problems)).collect())
    };
    let print = |members: &Vec<EnvelopeMember>| {
        let item = |member: &EnvelopeMember| {
            let (name, column) = (quoted(&member.name), quoted(&member.column));
            format!("{{ name = {name}, column = {column} }}")
        };
        list(members.iter().map(item).collect())
    };
    Leaf::new("a list of { name, column }", take, print)
        .with_example("[{ name = \"eventType\", column = \"event_type\" }]")
}

fn member(mut item: Section, problems: &mut Problems<'_>) -> Option<EnvelopeMember> {
    let place = item.path().to_owned();
    let column = item.text("column", problems, |text| identifier(text).map(str::to_owned));
    let name = item.text("name", problems, parse::member).or_else(|| column.clone());
    item.finish(problems);
    match (name, column) {
        (Some(name), Some(_)) if name == "payload" => {
            contradiction(problems, format!("{place} has the payload's own name"));
            None
        }
        (Some(name), Some(column)) => Some(EnvelopeMember { name, column }),
        _ => {
            contradiction(problems, format!("{place} has no column"));
            None
        }
    }
}

/// `where = { column, in | not_in = […] }`
pub(in super::super) fn filter() -> Leaf<Option<RowFilter>> {
    let take = |key, from: &mut Section, problems: &mut Problems<'_>| {
        from.optional_section(key, problems).map(|section| row_filter(section, problems))
    };
    let print = |filter: &Option<RowFilter>| {
        let RowFilter { column, values, kind } = filter.as_ref()?;
        let word = match kind {
            FilterKind::In => "in",
            FilterKind::NotIn => "not_in",
        };
        let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        Some(format!("{{ column = {}, {word} = [{}] }}", quoted(column), values.join(", ")))
    };
    Leaf::new("{ column, in } or { column, not_in }", take, print)
        .with_example("{ column = \"status\", in = [\"pending\"] }")
}

fn row_filter(mut section: Section, problems: &mut Problems<'_>) -> Option<RowFilter> {
    let place = section.path().to_owned();
    let text = |text: &str| Ok(text.to_owned());
    let column = section.text("column", problems, |text| identifier(text).map(str::to_owned));
    let listed = section.texts("in", problems, text);
    let unlisted = section.texts("not_in", problems, text);
    section.finish(problems);
    let (values, kind) = match (listed, unlisted) {
        (Some(values), None) => (values, FilterKind::In),
        (None, Some(values)) => (values, FilterKind::NotIn),
        _ => {
            contradiction(problems, format!("{place} needs one of in and not_in"));
            return None;
        }
    };
    if values.is_empty() {
        contradiction(problems, format!("{place} lists no value"));
        return None;
    }
    match column {
        Some(column) => Some(RowFilter { column, values, kind }),
        None => {
            contradiction(problems, format!("{place} has no column"));
            None
        }
    }
}

/// The words of `tombstone_on`.
const EMPTY_PAYLOADS: [(&str, EmptyPayload); 3] = [
    ("null", EmptyPayload::Null),
    ("blank", EmptyPayload::Blank),
    ("empty_bytea", EmptyPayload::EmptyBytea),
];

/// `tombstone_on = ["null", …]`
pub(in super::super) fn tombstones() -> Leaf<TombstoneOn> {
    let take = |key, from: &mut Section, problems: &mut Problems<'_>| {
        let words = from.texts(key, problems, |text| {
            let found = EMPTY_PAYLOADS.into_iter().find(|(word, _)| *word == text);
            let hint = || format!("one of {}", EMPTY_PAYLOADS.map(|(word, _)| word).join(", "));
            found
                .map(|(_, payload)| payload)
                .ok_or_else(|| Rejection::value("is not a choice").hint(hint()))
        })?;
        Some(TombstoneOn(words))
    };
    let print = |on: &TombstoneOn| {
        let word = |payload: &EmptyPayload| {
            let found = EMPTY_PAYLOADS.into_iter().find(|(_, known)| known == payload);
            quoted(found.map_or("", |(word, _)| word))
        };
        let words: Vec<String> = on.0.iter().map(word).collect();
        Some(format!("[{}]", words.join(", ")))
    };
    let words = EMPTY_PAYLOADS.map(|(word, _)| word).join(", ");
    Leaf::new(format!("a list of {words}"), take, print)
}

fn list(items: Vec<String>) -> Option<String> {
    (!items.is_empty()).then(|| format!("[{}]", items.join(", ")))
}

fn contradiction(problems: &mut Problems<'_>, message: String) {
    problems.push(ConfigError::new(ConfigCode::Contradiction, message));
}
