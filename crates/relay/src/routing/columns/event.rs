//! An outbox row: its values by role.

use crate::routing::table::{Role, ValueIndex};

/// The role of one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) index: ValueIndex,
    pub(super) encoding: Encoding,
}

/// How a value's text encodes its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// The text itself.
    Text,
    /// `\x` and two hexadecimal digits per byte (the connection sets `bytea_output = hex`).
    Hex,
}

/// The value of one role in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Value<'a> {
    /// The table has no such column.
    #[default]
    Absent,
    /// SQL NULL.
    Null,
    /// The value's text as the server sent it.
    Some(&'a [u8], Encoding),
}

/// An outbox row: its values by role.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Event<'a> {
    values: [Value<'a>; ValueIndex::COUNT],
}

impl<'a> Event<'a> {
    /// The value of one role.
    #[inline]
    pub(crate) fn get(&self, role: Role) -> Value<'a> {
        role.value_index().map_or(Value::Absent, |index| self.at(index))
    }

    /// The value at an index.
    #[inline]
    pub(super) fn at(&self, index: ValueIndex) -> Value<'a> {
        self.values.get(index.get()).copied().unwrap_or_default()
    }

    #[inline]
    pub(super) fn set(&mut self, index: ValueIndex, value: Value<'a>) {
        if let Some(kept) = self.values.get_mut(index.get()) {
            *kept = value;
        }
    }

    /// Removes the value of one role.
    pub(crate) fn forget(&mut self, role: Role) {
        if let Some(index) = role.value_index() {
            self.set(index, Value::Absent);
        }
    }

    /// Puts a text in the place of what the row has.
    pub(crate) fn replace(&mut self, role: Role, text: Option<&'a str>) {
        if let Some(index) = role.value_index() {
            let value = text.map(|text| Value::Some(text.as_bytes(), Encoding::Text));
            self.set(index, value.unwrap_or(Value::Null));
        }
    }
}
