//! What a dry run prints of one row, copied, since a record borrows from the frame that it came in.

use std::io;

use relay::{Failure, Lsn, PgTimestamp, Record, TopicId, Transaction, wording::utc};
use serde_json::{Value, json};

use crate::{
    cli::{form::Form, shown_bytes},
    codes::hint,
};

type Out<'o> = &'o mut (dyn io::Write + Send);

/// How many bytes of a key, a header or a value are shown to people.
const SHOWN_MAX: usize = 200;

/// A record that would be produced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Produced {
    pub(super) topic: TopicId,
    partition: i32,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    timestamp_ms: i64,
}

/// Where a record goes: the topic's name, and whether its partitions are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<'n> {
    /// They are.
    Known(&'n str),
    /// The topic does not exist.
    Unknown(&'n str),
}

impl Produced {
    pub(super) fn of(record: &Record<'_>) -> Self {
        let headers = record.headers.iter();
        let header =
            |header: relay::Header<'_>| (header.name.to_owned(), header.value.map(<[u8]>::to_vec));
        Self {
            topic: record.topic,
            partition: record.partition,
            key: record.key.to_vec(),
            value: record.value.map(<[u8]>::to_vec),
            headers: headers.map(header).collect(),
            timestamp_ms: record.timestamp_ms,
        }
    }

    /// Prints it.
    pub(super) fn write(
        &self,
        place: Place<'_>,
        transaction: Transaction,
        form: Form,
        out: Out<'_>,
    ) -> io::Result<()> {
        match form {
            Form::Text => self.write_text(place, transaction, out),
            Form::Json => writeln!(out, "{}", self.as_json(place, transaction)),
        }
    }

    fn write_text(
        &self,
        place: Place<'_>,
        transaction: Transaction,
        out: Out<'_>,
    ) -> io::Result<()> {
        let place = match place {
            Place::Known(topic) => format!("{topic}-{}", self.partition),
            Place::Unknown(topic) => format!("{topic}-?"),
        };
        let key = shown_bytes::text(&self.key, SHOWN_MAX);
        let value = match &self.value {
            Some(value) => format!("value of {} bytes", value.len()),
            None => "no value (a tombstone)".to_owned(),
        };
        let (at, lsn) = (time(transaction.committed_at), transaction.commit_lsn);
        write!(out, "{place}  key {key}, {value}, committed {at}at {lsn}")?;
        match self.timestamp_ms {
            Record::NOW => writeln!(out, ", timestamp: when it is produced")?,
            millis if millis == transaction.committed_at.unix_millis() => writeln!(out)?,
            millis => {
                let at = PgTimestamp::from_unix_micros(millis.saturating_mul(1_000));
                writeln!(out, ", timestamp {}({millis} ms)", time(at))?;
            }
        }
        for (name, value) in &self.headers {
            let value = value.as_deref().map(|value| shown_bytes::text(value, SHOWN_MAX));
            let name = shown_bytes::text(name.as_bytes(), SHOWN_MAX);
            writeln!(out, "    {name}: {}", value.as_deref().unwrap_or("null"))?;
        }
        if let Some(value) = &self.value {
            writeln!(out, "    {}", shown_bytes::text(value, SHOWN_MAX))?;
        }
        Ok(())
    }

    fn as_json(&self, place: Place<'_>, transaction: Transaction) -> Value {
        let (topic, partition) = match place {
            Place::Known(topic) => (topic, Some(self.partition)),
            Place::Unknown(topic) => (topic, None),
        };
        let headers: Vec<Value> = self
            .headers
            .iter()
            .map(|(name, value)| {
                json!({ "name": name, "value": shown_bytes::json(value.as_deref()) })
            })
            .collect();
        json!({
            "topic": topic,
            "partition": partition,
            "key": shown_bytes::json(Some(&self.key)),
            "value": shown_bytes::json(self.value.as_deref()),
            "headers": headers,
            "timestamp_ms": (self.timestamp_ms != Record::NOW).then_some(self.timestamp_ms),
            "commit_lsn": transaction.commit_lsn.to_string(),
        })
    }
}

/// The time and a space; nothing for a time that has no such form.
fn time(at: PgTimestamp) -> String {
    utc(at).map(|at| format!("{at} ")).unwrap_or_default()
}

/// Prints a row at which `run` would stop.
pub(super) fn write_refused(
    failure: &Failure,
    id: Option<&[u8]>,
    commit_lsn: Option<Lsn>,
    form: Form,
    out: Out<'_>,
) -> io::Result<()> {
    let hint = hint(failure);
    match form {
        Form::Text => {
            let at = commit_lsn.map(|lsn| format!(" at {lsn}")).unwrap_or_default();
            writeln!(out, "run would stop{at}: {failure:#}")?;
            hint.map_or(Ok(()), |hint| writeln!(out, "    hint: {hint}"))
        }
        Form::Json => {
            let refused = json!({
                "code": failure.code.as_str(),
                "message": failure.message_with_causes(),
                "hint": hint,
            });
            let line = json!({
                "refused": refused,
                "id": shown_bytes::json(id),
                "commit_lsn": commit_lsn.map(|lsn| lsn.to_string()),
            });
            writeln!(out, "{line}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use relay::Code;

    fn transaction() -> Transaction {
        let committed_at = PgTimestamp::from_unix_micros(1_767_225_600_123_000);
        Transaction { commit_lsn: Lsn::from_u64(0x16B_3748), committed_at }
    }

    fn produced() -> Produced {
        Produced {
            topic: TopicId::from_index(0).unwrap(),
            partition: 2,
            key: b"42".to_vec(),
            value: Some(b"{}".to_vec()),
            headers: vec![("id".into(), Some(b"\xff".to_vec())), ("type".into(), None)],
            timestamp_ms: 1_767_225_600_123,
        }
    }

    fn written(produced: &Produced, place: Place<'_>, form: Form) -> String {
        let mut out = Vec::new();
        produced.write(place, transaction(), form, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn people_see_one_line_for_the_record_and_one_for_each_header() {
        assert_eq!(
            written(&produced(), Place::Known("orders"), Form::Text),
            "orders-2  key 42, value of 2 bytes, committed 2026-01-01T00:00:00Z at 0/16B3748\n    \
             id: \\xff\n    type: null\n    {}\n"
        );
        let tombstone = Produced { value: None, timestamp_ms: Record::NOW, ..produced() };
        let text = written(&tombstone, Place::Unknown("orders"), Form::Text);
        assert!(text.starts_with("orders-?  key 42, no value (a tombstone), committed "), "{text}");
        assert!(text.contains(", timestamp: when it is produced\n"), "{text}");
        let own = Produced { timestamp_ms: 1_000, ..produced() };
        let text = written(&own, Place::Known("orders"), Form::Text);
        assert!(text.contains(", timestamp 1970-01-01T00:00:01Z (1000 ms)\n"), "{text}");
    }

    #[test]
    fn programs_see_one_object_a_line() {
        let line = written(&produced(), Place::Known("orders"), Form::Json);
        assert_eq!(line.lines().count(), 1);
        let found: Value = serde_json::from_str(&line).unwrap();
        let wanted = json!({
            "topic": "orders", "partition": 2, "key": "42", "value": "{}",
            "headers": [
                { "name": "id", "value": { "hex": "ff" } }, { "name": "type", "value": null }
            ],
            "timestamp_ms": 1_767_225_600_123_i64, "commit_lsn": "0/16B3748",
        });
        assert_eq!(found, wanted);
        let unknown = Produced { timestamp_ms: Record::NOW, ..produced() };
        let line = written(&unknown, Place::Unknown("orders"), Form::Json);
        let found: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&found["partition"], &found["timestamp_ms"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_refused_row_has_code_message_and_hint() {
        let failure = Failure::new(Code::KeyIsNull, "the row with id 7 has no key");
        let written = |form| {
            let mut out = Vec::new();
            write_refused(&failure, Some(b"7"), Some(Lsn::from_u64(1)), form, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = written(Form::Text);
        let code = failure.code.as_str();
        assert!(text.starts_with("run would stop at 0/1: "), "{text}");
        assert!(text.contains(code) && text.contains("\n    hint: "), "{text}");
        let line: Value = serde_json::from_str(&written(Form::Json)).unwrap();
        assert_eq!((&line["refused"]["code"], &line["id"]), (&json!(code), &json!("7")));
    }
}
