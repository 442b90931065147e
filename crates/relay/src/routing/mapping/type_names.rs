//! Types that are not built in. The server names each in a Type message before the Relation message
//! that refers to it; of a domain it names the base type.

use pgoutput::{Oid, RelationColumn, Type};

use super::{form::Form, words::ValueType};
use crate::routing::table::OutboxTable;

/// How many types are kept: `MaxHeapAttributeNumber`, the most columns that a table has.
const TYPES_MAX: usize = 1_600;

/// Types whose text is another than what Debezium writes: of hstore it makes JSON, of vectors
/// lists, of PostGIS' types objects.
const OF_THEIR_OWN: [&[u8]; 6] =
    [b"hstore", b"vector", b"halfvec", b"sparsevec", b"geometry", b"geography"];

/// What the Type messages before a Relation message say.
#[derive(Debug, Default)]
pub(crate) struct TypeNames {
    named: Vec<(Oid, Named)>,
}

/// What a type's name says.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    /// It is a domain over a built-in type.
    Domain(Vec<u8>),
    /// Its values are texts for Debezium, too.
    Text,
    /// Debezium writes another text.
    OfItsOwn,
}

/// A column of a relation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column<'r> {
    pub(crate) name: &'r [u8],
    pub(crate) type_oid: Oid,
    /// What its text means.
    pub(crate) form: Form,
    /// The built-in type, or that of the domain.
    pub(crate) value_type: ValueType,
}

impl TypeNames {
    /// Notes a Type message.
    pub(crate) fn note(&mut self, named: &Type<'_>) {
        let what = match (named.namespace, named.name) {
            // `pg_catalog`: the type itself would not be named, so it is a domain's base.
            (b"", base) => Named::Domain(base.to_vec()),
            // The name of an array's type begins so (`makeArrayTypeName`).
            (_, [b'_', ..]) => Named::OfItsOwn,
            (_, name) if OF_THEIR_OWN.contains(&name) => Named::OfItsOwn,
            (_, _) => Named::Text,
        };
        if self.named.len() < TYPES_MAX {
            self.named.push((named.id, what));
        }
    }

    /// A column of a table, whose type may be one of these.
    pub(crate) fn column<'r>(
        &self,
        column: &RelationColumn<'r>,
        table: &OutboxTable,
    ) -> Column<'r> {
        let known = self.named.iter().find(|(oid, _)| *oid == column.type_oid);
        let form = match known {
            None => Form::of(column, table),
            Some((_, Named::Domain(base))) => Form::of_domain(base, table),
            Some((_, Named::Text)) => Form::Text,
            Some((_, Named::OfItsOwn)) => Form::Other,
        };
        let value_type = match known {
            Some((_, Named::Domain(base))) => ValueType::of_domain(base),
            Some((_, Named::Text | Named::OfItsOwn)) | None => {
                ValueType { oid: column.type_oid.as_u32(), modifier: column.type_modifier }
            }
        };
        Column { name: column.name, type_oid: column.type_oid, form, value_type }
    }
}

#[cfg(test)]
mod tests {
    use pgoutput::{KeyPart, Message};

    use super::*;
    use crate::{
        routing::{mapping::form::Unit, samples::table},
        testing::wire::{self, TEXT},
    };

    const OWN: u32 = 16_400;

    fn form(named: &[(u32, &str, &str)], type_oid: u32) -> Form {
        let mut types = TypeNames::default();
        for (oid, namespace, name) in named {
            let bytes = wire::type_message(*oid, namespace, name);
            let Ok(Message::Type(named)) = Message::parse(&bytes) else { panic!("a type") };
            types.note(&named);
        }
        let type_oid = Oid::from_u32(type_oid);
        let column =
            RelationColumn { name: b"c", type_oid, type_modifier: -1, key: KeyPart::Ordinary };
        types.column(&column, &table()).form
    }

    #[test]
    fn a_domain_has_the_form_of_its_base_type() {
        for (base, expected) in [
            ("int4", Form::Integer),
            ("bool", Form::Boolean),
            ("varchar", Form::Text),
            ("jsonb", Form::Json),
            ("bytea", Form::Bytea),
            ("date", Form::Date),
            ("timestamptz", Form::UnclearTime),
            ("numeric", Form::Other),
            ("_int4", Form::Other),
        ] {
            assert_eq!(form(&[(OWN, "", base)], OWN), expected, "{base}");
        }
    }

    #[test]
    fn a_type_of_ones_own_is_a_text_unless_debezium_writes_it_in_another_way() {
        for (name, expected) in [
            ("mood", Form::Text),
            ("citext", Form::Text),
            ("_mood", Form::Other),
            ("hstore", Form::Other),
            ("geometry", Form::Other),
        ] {
            assert_eq!(form(&[(OWN, "public", name)], OWN), expected, "{name}");
        }
    }

    #[test]
    fn a_built_in_type_keeps_its_form() {
        assert_eq!(form(&[(OWN, "", "int4")], TEXT), Form::Text);
        assert_eq!(form(&[], 1114), Form::Timestamp(Unit::Microseconds));
        assert_eq!(form(&[], OWN), Form::Text);
    }

    #[test]
    fn no_more_types_are_kept_than_a_table_has_columns() {
        let mut types = TypeNames::default();
        let bytes = wire::type_message(OWN, "", "int4");
        let Ok(Message::Type(named)) = Message::parse(&bytes) else { panic!("a type") };
        (0..2 * TYPES_MAX).for_each(|_| types.note(&named));
        assert_eq!(types.named.len(), TYPES_MAX);
    }
}
