//! What the columns of a table are, and what a type that is not built in is called.
//!
//! Manual: "Logical Replication Message Formats", Relation and Type. A tuple has no column names:
//! its columns stand in the order of the last Relation message of its table.

use core::fmt;

use crate::reader::Reader;
use crate::show::Name;
use crate::{DecodeError, Field, Oid};

/// The definition of a table, as of the changes that follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Relation<'a> {
    /// The table's OID: what the row messages refer to.
    pub id: Oid,
    /// Its schema; empty means `pg_catalog`.
    pub namespace: &'a [u8],
    /// Its name.
    pub name: &'a [u8],
    /// What an update or a delete says about the old row.
    pub replica_identity: ReplicaIdentity,
    columns: RelationColumns<'a>,
}

/// The setting `REPLICA IDENTITY` of a table (`pg_class.relreplident`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaIdentity {
    /// `d`: the primary key, if there is one.
    Default,
    /// `n`: nothing.
    Nothing,
    /// `f`: all columns.
    Full,
    /// `i`: the columns of an index.
    Index,
}

/// A published column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RelationColumn<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its type.
    pub type_oid: Oid,
    /// What the type was declared with, such as a length or a precision (`pg_attribute.atttypmod`);
    /// −1 for nothing.
    pub type_modifier: i32,
    /// Whether the column is part of the replica identity.
    pub key: KeyPart,
}

/// Whether a column is part of the replica identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPart {
    /// It is part of the key. Under [`ReplicaIdentity::Full`] every column is.
    Key,
    /// It is not part of the key.
    Ordinary,
}

/// The published columns, in the order in which tuples hold them.
///
/// Made by [`Relation::columns`]. Iterating cannot fail, because the columns were walked when the
/// message was parsed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RelationColumns<'a> {
    left: u16,
    rest: &'a [u8],
}

/// The name of a type that is not built in; precedes the Relation message that refers to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Type<'a> {
    /// The type's OID, also where it is a domain.
    pub id: Oid,
    /// Its schema, or that of a domain's base type; empty means `pg_catalog`.
    pub namespace: &'a [u8],
    /// Its name, or that of a domain's base type.
    pub name: &'a [u8],
}

impl<'a> Relation<'a> {
    /// The published columns, in the order in which tuples hold them.
    #[must_use]
    pub fn columns(&self) -> RelationColumns<'a> {
        self.columns
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.now_decoding("relation");
        let id = reader.oid("oid")?;
        let namespace = reader.string("namespace")?;
        let name = reader.string("name")?;
        let replica_identity = reader.choice(
            "replica identity",
            "100 (default), 110 (nothing), 102 (full) or 105 (index)",
            ReplicaIdentity::from_wire,
        )?;
        let left = reader.count("number of columns")?;
        let columns = RelationColumns { left, rest: reader.rest() };
        for ordinal in 1..=left {
            RelationColumn::read(reader, ordinal)?;
        }
        Ok(Self { id, namespace, name, replica_identity, columns: columns.ending_at(reader) })
    }
}

impl ReplicaIdentity {
    const fn from_wire(byte: u8) -> Option<Self> {
        match byte {
            b'd' => Some(Self::Default),
            b'n' => Some(Self::Nothing),
            b'f' => Some(Self::Full),
            b'i' => Some(Self::Index),
            _ => None,
        }
    }
}

impl<'a> RelationColumn<'a> {
    fn read(reader: &mut Reader<'a>, ordinal: u16) -> Result<Self, DecodeError> {
        let key =
            reader.choice(
                Field::nth("flags of column", ordinal),
                "0 or 1",
                |flags| match flags {
                    0 => Some(KeyPart::Ordinary),
                    1 => Some(KeyPart::Key),
                    _ => None,
                },
            )?;
        Ok(Self {
            key,
            name: reader.string(Field::nth("name of column", ordinal))?,
            type_oid: reader.oid(Field::nth("type of column", ordinal))?,
            type_modifier: reader.i32(Field::nth("type modifier of column", ordinal))?,
        })
    }
}

impl<'a> RelationColumns<'a> {
    /// Drops what follows the columns, so that equal columns compare equal.
    fn ending_at(self, reader: &Reader<'a>) -> Self {
        let length = self.rest.len().saturating_sub(reader.rest().len());
        Self { rest: self.rest.get(..length).unwrap_or_default(), ..self }
    }
}

impl<'a> Iterator for RelationColumns<'a> {
    type Item = RelationColumn<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let mut reader = Reader::new("relation", self.rest);
        let column = RelationColumn::read(&mut reader, 0).ok()?;
        self.rest = reader.rest();
        Some(column)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for RelationColumns<'_> {}

impl<'a> Type<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.now_decoding("type");
        Ok(Self {
            id: reader.oid("oid")?,
            namespace: reader.string("namespace")?,
            name: reader.string("name")?,
        })
    }
}

impl fmt::Debug for Relation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relation")
            .field("id", &self.id)
            .field("namespace", &Name(self.namespace))
            .field("name", &Name(self.name))
            .field("replica_identity", &self.replica_identity)
            .field("columns", &self.columns)
            .finish()
    }
}

impl fmt::Debug for RelationColumns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl fmt::Debug for RelationColumn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelationColumn")
            .field("name", &Name(self.name))
            .field("type_oid", &self.type_oid)
            .field("type_modifier", &self.type_modifier)
            .field("key", &self.key)
            .finish()
    }
}

impl fmt::Debug for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Type")
            .field("id", &self.id)
            .field("namespace", &Name(self.namespace))
            .field("name", &Name(self.name))
            .finish()
    }
}
