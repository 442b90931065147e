//! `CopyData` payloads as a walsender writes them, for tests: the crate `pgoutput` only decodes.
//!
//! This file depends on nothing in the crate, so that integration tests can include it as it is.

/// The OID of `text`.
pub const TEXT: u32 = 25;

/// A value of a row.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// In text form.
    Text(&'a str),
    /// In text form, in any encoding.
    Bytes(&'a [u8]),
    /// An unchanged TOAST value, which an insert never has.
    Unchanged,
}

/// XLogData around one message.
pub fn wal(wal_start: u64, sent_at: i64, message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![b'w'];
    bytes.extend(wal_start.to_be_bytes());
    bytes.extend(wal_start.to_be_bytes());
    bytes.extend(sent_at.to_be_bytes());
    bytes.extend(message);
    bytes
}

/// A keepalive that does not request a reply.
pub fn keepalive(wal_end: u64) -> Vec<u8> {
    keepalive_with(wal_end, 0)
}

/// A keepalive that requests a reply.
pub fn reply_request(wal_end: u64) -> Vec<u8> {
    keepalive_with(wal_end, 1)
}

fn keepalive_with(wal_end: u64, reply: u8) -> Vec<u8> {
    let mut bytes = vec![b'k'];
    bytes.extend(wal_end.to_be_bytes());
    bytes.extend(0_i64.to_be_bytes());
    bytes.push(reply);
    bytes
}

/// Begin, sent at the time of the commit.
pub fn begin(commit_lsn: u64, committed_at: i64) -> Vec<u8> {
    begin_sent_at(commit_lsn, committed_at, committed_at)
}

/// Begin, sent at another time.
pub fn begin_sent_at(commit_lsn: u64, committed_at: i64, sent_at: i64) -> Vec<u8> {
    wal(commit_lsn, sent_at, &begin_message(commit_lsn, committed_at, 7))
}

/// Begin of the transaction with this number, sent at the time of the commit.
pub fn begin_of(commit_lsn: u64, committed_at: i64, xid: u32) -> Vec<u8> {
    wal(commit_lsn, committed_at, &begin_message(commit_lsn, committed_at, xid))
}

fn begin_message(commit_lsn: u64, committed_at: i64, xid: u32) -> Vec<u8> {
    let mut bytes = vec![b'B'];
    bytes.extend(commit_lsn.to_be_bytes());
    bytes.extend(committed_at.to_be_bytes());
    bytes.extend(xid.to_be_bytes());
    bytes
}

/// Commit.
pub fn commit(commit_lsn: u64, end_lsn: u64) -> Vec<u8> {
    let mut bytes = vec![b'C', 0];
    bytes.extend(commit_lsn.to_be_bytes());
    bytes.extend(end_lsn.to_be_bytes());
    bytes.extend(0_i64.to_be_bytes());
    wal(commit_lsn, 0, &bytes)
}

/// Origin.
pub fn origin(sent_at: i64) -> Vec<u8> {
    let mut bytes = vec![b'O'];
    bytes.extend(5_u64.to_be_bytes());
    bytes.extend(b"elsewhere\0");
    wal(0, sent_at, &bytes)
}

/// A message of which only the first letter and the table are right: enough for what is not read
/// any further. Update (`U`) and Delete (`D`) are of a row without columns.
pub fn change(letter: u8, relation: u32) -> Vec<u8> {
    let mut bytes = vec![letter];
    bytes.extend(relation.to_be_bytes());
    bytes.push(if letter == b'U' { b'N' } else { b'O' });
    bytes.extend(0_u16.to_be_bytes());
    wal(0, 0, &bytes)
}

/// Truncate of one table.
pub fn truncate(relation: u32) -> Vec<u8> {
    let mut bytes = vec![b'T'];
    bytes.extend(1_u32.to_be_bytes());
    bytes.push(0);
    bytes.extend(relation.to_be_bytes());
    wal(0, 0, &bytes)
}

/// The message Type, without XLogData around it.
pub fn type_message(oid: u32, namespace: &str, name: &str) -> Vec<u8> {
    let mut bytes = vec![b'Y'];
    bytes.extend(oid.to_be_bytes());
    for text in [namespace, name] {
        bytes.extend(text.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// The message Relation of `public.NAME`, without XLogData around it.
pub fn relation_message(oid: u32, name: &str, columns: &[(&str, u32)]) -> Vec<u8> {
    let mut bytes = vec![b'R'];
    bytes.extend(oid.to_be_bytes());
    bytes.extend(b"public\0");
    bytes.extend(name.as_bytes());
    bytes.extend([0, b'd']);
    bytes.extend(u16::try_from(columns.len()).unwrap_or(u16::MAX).to_be_bytes());
    for (column, type_oid) in columns {
        bytes.push(0);
        bytes.extend(column.as_bytes());
        bytes.push(0);
        bytes.extend(type_oid.to_be_bytes());
        bytes.extend((-1_i32).to_be_bytes());
    }
    bytes
}

/// Relation; its header carries no position.
pub fn relation(oid: u32, name: &str, columns: &[(&str, u32)]) -> Vec<u8> {
    wal(0, 0, &relation_message(oid, name, columns))
}

/// The message Insert, without XLogData around it.
pub fn insert_message(oid: u32, values: &[Value<'_>]) -> Vec<u8> {
    let mut bytes = vec![b'I'];
    bytes.extend(oid.to_be_bytes());
    bytes.push(b'N');
    bytes.extend(u16::try_from(values.len()).unwrap_or(u16::MAX).to_be_bytes());
    for value in values {
        let text = match value {
            Value::Null => {
                bytes.push(b'n');
                continue;
            }
            Value::Unchanged => {
                bytes.push(b'u');
                continue;
            }
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(text) => text,
        };
        bytes.push(b't');
        bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(text);
    }
    bytes
}

/// Insert.
pub fn insert(wal_start: u64, oid: u32, values: &[Value<'_>]) -> Vec<u8> {
    wal(wal_start, 0, &insert_message(oid, values))
}
