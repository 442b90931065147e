//! What a dry run prints of one row.

use std::io;

use relay::{Failure, Lsn, OnError, PgTimestamp, Record, Transaction, wording::utc};
use serde_json::{Value, json};

use crate::{
    cli::{form::Form, print_failure::would, shown_bytes},
    codes::hint_of_row,
    config::SourceKind,
    owned_record::OwnedRecord,
};

type Out<'o> = &'o mut (dyn io::Write + Send);

/// How many bytes of a key, a header or a value are shown to people.
const SHOWN_MAX: usize = 200;

/// A record that would be produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry<'r> {
    pub(super) record: &'r OwnedRecord,
    pub(super) topic: &'r str,
    /// `None`: the topic's partitions are not known.
    pub(super) partition: Option<i32>,
    pub(super) transaction: Transaction,
}

impl Entry<'_> {
    /// Prints it.
    ///
    /// # Errors
    /// Fails when `out` cannot be written.
    pub(super) fn write(&self, form: Form, out: Out<'_>) -> io::Result<()> {
        match form {
            Form::Text => self.write_text(out),
            Form::Json => writeln!(out, "{}", self.as_json()),
        }
    }

    fn write_text(&self, out: Out<'_>) -> io::Result<()> {
        let Self { record, topic, partition, transaction } = self;
        let partition = partition.map_or_else(|| "?".to_owned(), |number| number.to_string());
        let key = shown_bytes::text(&record.key, SHOWN_MAX);
        let value = match &record.value {
            Some(value) => format!("value of {} bytes", value.len()),
            None => "no value (a tombstone)".to_owned(),
        };
        let (at, lsn) = (time(transaction.committed_at), transaction.commit_lsn);
        write!(out, "{topic}-{partition}  key {key}, {value}, committed {at}at {lsn}")?;
        match record.timestamp_ms {
            Record::NOW => writeln!(out, ", timestamp: when it is produced")?,
            millis if millis == transaction.committed_at.unix_millis() => writeln!(out)?,
            millis => {
                let at = PgTimestamp::from_unix_micros(millis.saturating_mul(1_000));
                writeln!(out, ", timestamp {}({millis} ms)", time(at))?;
            }
        }
        for (name, value) in &record.headers {
            let value = value.as_deref().map(|value| shown_bytes::text(value, SHOWN_MAX));
            let name = shown_bytes::text(name.as_bytes(), SHOWN_MAX);
            writeln!(out, "    {name}: {}", value.as_deref().unwrap_or("null"))?;
        }
        if let Some(value) = &record.value {
            writeln!(out, "    {}", shown_bytes::text(value, SHOWN_MAX))?;
        }
        Ok(())
    }

    fn as_json(&self) -> Value {
        let Self { record, topic, partition, transaction } = self;
        let headers: Vec<Value> = record
            .headers
            .iter()
            .map(|(name, value)| {
                json!({ "name": name, "value": shown_bytes::json(value.as_deref()) })
            })
            .collect();
        json!({
            "topic": topic,
            "partition": partition,
            "key": shown_bytes::json(Some(&record.key)),
            "value": shown_bytes::json(record.value.as_deref()),
            "headers": headers,
            "timestamp_ms": (record.timestamp_ms != Record::NOW).then_some(record.timestamp_ms),
            "commit_lsn": transaction.commit_lsn.to_string(),
        })
    }
}

/// The time and a space; nothing for a time that has no such form.
fn time(at: PgTimestamp) -> String {
    utc(at).map(|at| format!("{at} ")).unwrap_or_default()
}

/// Prints a row that `run` could not deliver, and what it would do then.
///
/// # Errors
/// Fails when `out` cannot be written.
pub(super) fn write_refused(
    failure: &Failure,
    id: Option<&[u8]>,
    commit_lsn: Option<Lsn>,
    policy: OnError,
    form: Form,
    out: Out<'_>,
) -> io::Result<()> {
    // A dry run reads the slot.
    let hint = hint_of_row(failure, SourceKind::Stream);
    match form {
        Form::Text => {
            let at = commit_lsn.map(|lsn| format!(" at {lsn}")).unwrap_or_default();
            writeln!(out, "run would {}{at}: {failure:#}", would(policy))?;
            hint.map_or(Ok(()), |hint| writeln!(out, "    hint: {hint}"))
        }
        Form::Json => {
            let refused = json!({
                "code": failure.code.as_str(),
                "message": failure.message_with_causes(),
                "hint": hint,
                "policy": policy.as_str(),
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
    use relay::{Code, TopicId};

    fn transaction() -> Transaction {
        let committed_at = PgTimestamp::from_unix_micros(1_767_225_600_123_000);
        Transaction { commit_lsn: Lsn::from_u64(0x16B_3748), committed_at }
    }

    fn record() -> OwnedRecord {
        OwnedRecord {
            topic: TopicId::from_index(0).unwrap(),
            partition: 2,
            key: b"42".to_vec(),
            value: Some(b"{}".to_vec()),
            headers: vec![("id".into(), Some(b"\xff".to_vec())), ("type".into(), None)],
            timestamp_ms: 1_767_225_600_123,
        }
    }

    fn written(record: &OwnedRecord, partition: Option<i32>, form: Form) -> String {
        let mut out = Vec::new();
        let entry = Entry { record, topic: "orders", partition, transaction: transaction() };
        entry.write(form, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn people_see_one_line_for_the_record_and_one_for_each_header() {
        assert_eq!(
            written(&record(), Some(2), Form::Text),
            "orders-2  key 42, value of 2 bytes, committed 2026-01-01T00:00:00Z at 0/16B3748\n    \
             id: \\xff\n    type: null\n    {}\n"
        );
        let tombstone = OwnedRecord { value: None, timestamp_ms: Record::NOW, ..record() };
        let text = written(&tombstone, None, Form::Text);
        assert!(text.starts_with("orders-?  key 42, no value (a tombstone), committed "), "{text}");
        assert!(text.contains(", timestamp: when it is produced\n"), "{text}");
        let own = OwnedRecord { timestamp_ms: 1_000, ..record() };
        let text = written(&own, Some(2), Form::Text);
        assert!(text.contains(", timestamp 1970-01-01T00:00:01Z (1000 ms)\n"), "{text}");
    }

    #[test]
    fn programs_see_one_object_a_line() {
        let line = written(&record(), Some(2), Form::Json);
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
        let unknown = OwnedRecord { timestamp_ms: Record::NOW, ..record() };
        let line = written(&unknown, None, Form::Json);
        let found: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&found["partition"], &found["timestamp_ms"]), (&Value::Null, &Value::Null));
    }

    #[test]
    fn a_refused_row_has_code_message_and_hint() {
        let failure = Failure::new(Code::KeyIsNull, "the row with id 7 has no key");
        let written = |policy, form| {
            let mut out = Vec::new();
            let (id, lsn) = (Some(&b"7"[..]), Some(Lsn::from_u64(1)));
            write_refused(&failure, id, lsn, policy, form, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = written(OnError::Halt, Form::Text);
        let code = failure.code.as_str();
        assert!(text.starts_with("run would stop at 0/1: "), "{text}");
        assert!(text.contains(code) && text.contains("\n    hint: "), "{text}");
        let line: Value = serde_json::from_str(&written(OnError::Halt, Form::Json)).unwrap();
        assert_eq!((&line["refused"]["code"], &line["id"]), (&json!(code), &json!("7")));
        assert_eq!(line["refused"]["policy"], "halt");
        let text = written(OnError::DeadLetter, Form::Text);
        assert!(text.starts_with("run would make it a dead letter at 0/1: "), "{text}");
    }
}
