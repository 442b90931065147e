//! The columns of a held row, read from the messages that the server sent.

use pgoutput::{Message, TupleData};
use relay::{Failure, held::HeldMessages};

/// A column of the row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Column {
    pub(in crate::cli) name: String,
    /// The value; `None` is NULL.
    pub(in crate::cli) value: Option<Vec<u8>>,
}

/// The columns in the order of the table; `None` for a row that did not arrive whole.
///
/// # Errors
/// The messages are damaged (P007).
pub(in crate::cli) fn read(messages: &[u8]) -> Result<Option<Vec<Column>>, Failure> {
    let messages = HeldMessages::new(messages);
    let Some(insert) = messages.insert()? else { return Ok(None) };
    let mut names = Vec::new();
    for message in messages.description() {
        if let (_, Message::Relation(relation)) = message? {
            names = relation
                .columns()
                .map(|column| String::from_utf8_lossy(column.name).into_owned())
                .collect();
        }
    }
    let values = insert.tuple.iter().map(|data| match data {
        TupleData::Null | TupleData::UnchangedToast => None,
        TupleData::Text(value) | TupleData::Binary(value) => Some(value.to_vec()),
    });
    let columns = names.into_iter().zip(values).map(|(name, value)| Column { name, value });
    Ok(Some(columns.collect()))
}

#[cfg(test)]
mod tests {
    use relay::testing::wire::{self, TEXT, Value};

    use super::*;

    /// Messages, each with its length before it.
    fn held(messages: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
            bytes.extend(message);
        }
        bytes
    }

    #[test]
    fn every_column_has_its_name_and_value() {
        let relation = wire::relation_message(7, "outbox", &[("id", TEXT), ("payload", TEXT)]);
        let row = wire::insert_message(7, &[Value::Text("a"), Value::Null]);
        let column = |name: &str, value: Option<&[u8]>| Column {
            name: name.to_owned(),
            value: value.map(<[u8]>::to_vec),
        };
        let columns = read(&held(&[relation.clone(), row])).unwrap();
        assert_eq!(columns, Some(vec![column("id", Some(b"a")), column("payload", None)]));
        assert_eq!(read(&held(&[relation])).unwrap(), None, "the row did not arrive whole");
    }

    #[test]
    fn damaged_messages_are_an_error() {
        assert!(read(b"\0\0\0").is_err());
    }
}
