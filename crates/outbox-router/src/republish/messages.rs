//! A row as the messages that a walsender sends of it, so that the core decides about it as about
//! every other (manual, section "Logical Replication Message Formats").

use pgoutput::PgTimestamp;

use super::table_row::TableRow;

/// Begin of the row's transaction.
pub(crate) fn begin(committed_at: PgTimestamp) -> Vec<u8> {
    let mut message = vec![b'B'];
    message.extend(0_u64.to_be_bytes());
    message.extend(committed_at.as_micros().to_be_bytes());
    message.extend(1_u32.to_be_bytes());
    message
}

/// Type, of every type that is not built in; they come before the Relation that refers to them.
pub(crate) fn types(row: &TableRow) -> impl Iterator<Item = Vec<u8>> {
    row.types.iter().map(|named| {
        let mut message = vec![b'Y'];
        message.extend(named.oid.to_be_bytes());
        // The schema of the built-in types has no name here.
        let schema = if named.schema == "pg_catalog" { "" } else { named.schema.as_str() };
        for name in [schema, &named.name] {
            message.extend(name.as_bytes());
            message.push(0);
        }
        message
    })
}

/// Relation: the row's table.
pub(crate) fn relation(row: &TableRow) -> Vec<u8> {
    let mut message = vec![b'R'];
    message.extend(row.oid.to_be_bytes());
    for name in [&row.table.schema, &row.table.name] {
        message.extend(name.as_bytes());
        message.push(0);
    }
    message.push(b'd');
    message.extend(count(row).to_be_bytes());
    for column in &row.columns {
        message.push(0);
        message.extend(column.name.as_bytes());
        message.push(0);
        message.extend(column.sql_type.oid.to_be_bytes());
        message.extend(column.sql_type.modifier.to_be_bytes());
    }
    message
}

/// Insert: the row.
pub(crate) fn insert(row: &TableRow) -> Vec<u8> {
    let mut message = vec![b'I'];
    message.extend(row.oid.to_be_bytes());
    message.push(b'N');
    message.extend(count(row).to_be_bytes());
    for column in &row.columns {
        match &column.value {
            None => message.push(b'n'),
            Some(text) => {
                message.push(b't');
                // No value of PostgreSQL is larger than 1 GiB.
                message.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
                message.extend(text.as_bytes());
            }
        }
    }
    message
}

/// No table of PostgreSQL has more than 1,600 columns.
fn count(row: &TableRow) -> u16 {
    u16::try_from(row.columns.len()).unwrap_or(u16::MAX)
}

/// XLogData around a message, as a stream has it; its positions and its time are not read.
pub(crate) fn wal(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![b'w'];
    bytes.extend([0; 24]);
    bytes.extend(message);
    bytes
}

#[cfg(test)]
mod tests {
    use pgoutput::{Frame, Insert, Message, TupleData};
    use relay::TableName;

    use super::*;
    use crate::republish::{
        sql_type::SqlType,
        table_row::{Column, NamedType},
    };

    fn row() -> TableRow {
        let column = |name: &str, value: Option<&str>| Column {
            name: name.to_owned(),
            sql_type: SqlType { oid: 1114, modifier: 3 },
            value: value.map(str::to_owned),
        };
        let table = TableName { schema: "sales".into(), name: "outbox".into() };
        let named = |schema: &str| NamedType { oid: 9, schema: schema.into(), name: "x".into() };
        TableRow {
            oid: 7,
            table,
            columns: vec![column("a", Some("ü")), column("b", None)],
            types: vec![named("pg_catalog"), named("public")],
        }
    }

    #[test]
    fn the_messages_are_read_as_they_were_written() {
        let at = PgTimestamp::from_micros(-5);
        let frame = wal(&begin(at));
        let Ok(Frame::XLogData(data)) = Frame::parse(&frame) else { panic!("XLogData") };
        let Ok(Message::Begin(begin)) = Message::parse(data.data) else { panic!("begin") };
        assert_eq!(begin.committed_at, at);
        let message = relation(&row());
        let Ok(Message::Relation(relation)) = Message::parse(&message) else { panic!("relation") };
        let names = (relation.id.as_u32(), relation.namespace, relation.name);
        assert_eq!(names, (7, b"sales".as_slice(), b"outbox".as_slice()));
        let columns: Vec<_> = relation
            .columns()
            .map(|column| (column.name.to_vec(), column.type_oid.as_u32(), column.type_modifier))
            .collect();
        assert_eq!(columns, [(b"a".to_vec(), 1114, 3), (b"b".to_vec(), 1114, 3)]);
        let messages: Vec<Vec<u8>> = types(&row()).collect();
        let schemas = messages.iter().map(|message| match Message::parse(message) {
            Ok(Message::Type(named)) => (named.id.as_u32(), named.namespace, named.name),
            other => panic!("{other:?}"),
        });
        let schemas: Vec<_> = schemas.collect();
        assert_eq!(schemas, [(9, b"".as_slice(), b"x".as_slice()), (9, b"public", b"x")]);
        let message = insert(&row());
        let insert = Insert::parse(&message).unwrap().unwrap();
        let values: Vec<_> = insert.tuple.iter().collect();
        assert_eq!(values, [TupleData::Text("ü".as_bytes()), TupleData::Null]);
    }
}
