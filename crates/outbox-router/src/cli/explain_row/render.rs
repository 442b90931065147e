//! What the core makes of a row, as text for people and as JSON for programs.

use std::io;

use relay::{ErrorPolicy, Format, OnError, PgTimestamp, wording::utc};
use serde_json::{Value, json};

use super::{
    explained::{Explained, Outcome, Partition, Produced, TimeSource},
    origins::source,
};
use crate::{
    cli::{print_failure::would, shown_bytes},
    codes::hint_of_row,
    config::SourceKind,
    wording,
};

type Out<'o> = &'o mut (dyn io::Write + Send);

/// How many bytes of a key or a header are shown to people.
const SHOWN_MAX: usize = 200;

/// Prints it for people.
pub(super) fn text(
    explained: &Explained,
    (policy, source_kind): (ErrorPolicy, SourceKind),
    out: Out<'_>,
) -> io::Result<()> {
    write!(out, "table      {}", explained.table)?;
    match &explained.rules {
        Some(rules) => {
            writeln!(out, ", preset {}, format {}", rules.preset, format_name(rules.format))?;
        }
        None => writeln!(out)?,
    }
    match &explained.outcome {
        Outcome::Produced(produced) => produced_text(explained, produced, out),
        Outcome::FilteredOut => writeln!(out, "outcome    no event: filtered by `where`"),
        Outcome::Refused(failure) => {
            let would = match source_kind {
                SourceKind::Stream => would(policy.of(failure.code)),
                SourceKind::Polling => would_of_polled(policy.of(failure.code)),
            };
            writeln!(out, "outcome    run would {would}: {failure:#}")?;
            hint_of_row(failure, source_kind)
                .map_or(Ok(()), |hint| writeln!(out, "           hint: {hint}"))
        }
    }
}

/// What `run` does at a row that is polled, after "run would".
const fn would_of_polled(policy: OnError) -> &'static str {
    match policy {
        OnError::Halt => "try it again until it can be delivered",
        OnError::DeadLetter => "abandon it after retry.max_attempts",
    }
}

fn produced_text(explained: &Explained, produced: &Produced, out: Out<'_>) -> io::Result<()> {
    write!(out, "topic      {}", produced.topic)?;
    if let Some(rules) = &explained.rules {
        write!(out, ", from {}", rules.topic)?;
        if let Some(column) = &rules.aggregate_type {
            write!(out, ", aggregate_type from {}", source(column))?;
        }
        if let Some(regex) = &rules.route_regex {
            write!(out, ", route_regex {regex}")?;
        }
    }
    writeln!(out, "\npartition  {}", partition(&produced.partition))?;
    let key = shown_bytes::text(&produced.key, SHOWN_MAX);
    let length = bytes(produced.key.len());
    writeln!(out, "key        {key} ({length}), from {}", produced.key_source)?;
    match produced.value.as_ref().map(Vec::len) {
        Some(length) => {
            writeln!(out, "value      {}, from {}", bytes(length), produced.value_source)?;
        }
        None => writeln!(out, "value      null (a tombstone), from {}", produced.value_source)?,
    }
    match &produced.time {
        TimeSource::Commit => writeln!(out, "timestamp  the transaction's commit time")?,
        TimeSource::ByColumn(column) => writeln!(out, "timestamp  that of column {column}")?,
        TimeSource::Reading => writeln!(out, "timestamp  when the row is read")?,
        TimeSource::Now => writeln!(out, "timestamp  when it is produced")?,
        TimeSource::Column(millis, column) => {
            let at = utc(PgTimestamp::from_unix_micros(millis.saturating_mul(1_000)));
            let at = at.map(|at| format!("{at}, ")).unwrap_or_default();
            writeln!(out, "timestamp  {at}{millis} ms, from column {column}")?;
        }
    }
    for (index, header) in produced.headers.iter().enumerate() {
        let label = if index == 0 { "headers    " } else { "           " };
        let value = header.value.as_deref().map(|value| shown_bytes::text(value, SHOWN_MAX));
        let name = shown_bytes::text(header.name.as_bytes(), SHOWN_MAX);
        let value = value.as_deref().unwrap_or("null");
        writeln!(out, "{label}{name}: {value}  ({})", header.source)?;
    }
    Ok(())
}

fn bytes(length: usize) -> String {
    wording::count(i64::try_from(length).unwrap_or(i64::MAX), "byte")
}

fn partition(partition: &Partition) -> String {
    let Partition { number, count, hash, column } = partition;
    match (number, count, column) {
        (Some(number), Some(count), Some(column)) => {
            format!("{number} of {count}, from column {column}")
        }
        (Some(number), None, Some(column)) => {
            format!("{number}, from column {column}; the topic's partition count is not known")
        }
        (Some(number), Some(count), None) => {
            format!("{number} of {count}: the key's murmur2 hash {hash} mod {count}")
        }
        (None, ..) | (Some(_), None, None) => {
            format!("the key's murmur2 hash {hash} mod the topic's partition count")
        }
    }
}

/// Prints it for programs.
pub(super) fn json(
    explained: &Explained,
    (policy, source_kind): (ErrorPolicy, SourceKind),
) -> Value {
    let rules = explained.rules.as_ref();
    let mut shown = json!({
        "table": explained.table,
        "preset": rules.map(|rules| rules.preset),
        "format": rules.map(|rules| format_name(rules.format)),
        "outcome": match &explained.outcome {
            Outcome::Produced(_) => "record",
            Outcome::FilteredOut => "filtered",
            Outcome::Refused(_) => "refused",
        },
    });
    let more = match &explained.outcome {
        Outcome::Produced(produced) => produced_json(explained, produced),
        Outcome::FilteredOut => json!({}),
        Outcome::Refused(failure) => json!({
            "refused": {
                "code": failure.code.as_str(),
                "message": failure.message_with_causes(),
                "hint": hint_of_row(failure, source_kind),
                "policy": policy.of(failure.code).as_str(),
            },
        }),
    };
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}

fn produced_json(explained: &Explained, produced: &Produced) -> Value {
    let rules = explained.rules.as_ref();
    let Partition { number, count, hash, column } = &produced.partition;
    let (timestamp, time_source) = match &produced.time {
        TimeSource::Commit => (None, "commit".to_owned()),
        TimeSource::Now => (None, "now".to_owned()),
        TimeSource::Column(millis, column) => (Some(millis), format!("column {column}")),
        TimeSource::ByColumn(column) => (None, format!("column {column}")),
        TimeSource::Reading => (None, "reading".to_owned()),
    };
    let headers: Vec<Value> = produced
        .headers
        .iter()
        .map(|header| {
            let value = shown_bytes::json(header.value.as_deref());
            json!({ "name": header.name, "value": value, "source": header.source })
        })
        .collect();
    json!({
        "topic": {
            "name": produced.topic,
            "template": rules.map(|rules| &rules.topic),
            "route_regex": rules.and_then(|rules| rules.route_regex.as_ref()),
            "aggregate_type": rules.and_then(|rules| rules.aggregate_type.as_ref()),
        },
        "partition": { "number": number, "count": count, "hash": hash, "column": column },
        "key": {
            "value": shown_bytes::json(Some(&produced.key)),
            "bytes": produced.key.len(),
            "source": produced.key_source,
        },
        "value": { "bytes": produced.value.as_ref().map(Vec::len), "source": produced.value_source },
        "timestamp": { "milliseconds": timestamp, "source": time_source },
        "headers": headers,
    })
}

const fn format_name(format: Format) -> &'static str {
    match format {
        Format::Plain => "plain",
        Format::Debezium => "debezium",
    }
}
