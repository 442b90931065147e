//! What the columns of a polled table say that is worth knowing. For people: this decides nothing.

use super::{
    key::Key,
    order::{WritingOrder, suffix, writing_order},
    table::PolledTable,
};
use crate::postgres::{quote_identifier, quote_literal};

/// See the module's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnAdvice {
    /// Marks that are times without a time zone, and that others fill than the router alone.
    pub zoneless: Vec<String>,
    /// Whether rows of one key have the order in which they were written.
    pub written: WritingOrder,
    /// The order in force.
    pub order: String,
    /// What would number the rows.
    pub numbering: Numbering,
}

/// A number that rows have, or may have, in the order in which they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Numbering {
    /// Columns that are filled by a sequence.
    Columns(Vec<String>),
    /// Statements that add one.
    Statements(Vec<String>),
}

/// What is known of it.
pub fn columns(table: &PolledTable) -> ColumnAdvice {
    let order = table.order.iter().map(|column| format!("{}{}", column.name, suffix(column)));
    ColumnAdvice {
        zoneless: table.marks.zoneless(&table.facts),
        written: written(table),
        order: order.collect::<Vec<_>>().join(", "),
        numbering: numbering(table),
    }
}

fn written(table: &PolledTable) -> WritingOrder {
    let identity: Vec<String> = table.identity.iter().map(|column| column.name.clone()).collect();
    // Where the key is the identity, no key has two rows.
    if let [only] = identity.as_slice()
        && Key::of(&table.name, &table.facts, only).is_ok_and(|key| key == table.key)
    {
        return WritingOrder::Kept;
    }
    writing_order(&table.facts, &table.order, &identity, table.time.as_deref())
}

/// The first version that adds an identity column to a table with partitions.
const NUMBERS_PARTITIONS: i32 = 170_000;

fn numbering(table: &PolledTable) -> Numbering {
    let known = table.facts.columns.iter().filter(|column| column.is_sequence());
    let known: Vec<String> = known.map(|column| column.name.clone()).collect();
    if !known.is_empty() {
        return Numbering::Columns(known);
    }
    let quoted = table.quoted();
    if !table.facts.is("partitioned") || table.facts.version >= NUMBERS_PARTITIONS {
        let add =
            format!("alter table {quoted} add column seq bigint generated always as identity");
        return Numbering::Statements(vec![add]);
    }
    let name = quote_identifier(&format!("{}_seq", table.name.name));
    let sequence = format!("{}.{name}", quote_identifier(&table.name.schema));
    // Whoever inserts takes a number, which an identity column grants by itself.
    Numbering::Statements(vec![
        format!("create sequence {sequence}"),
        format!("grant usage on sequence {sequence} to public"),
        format!(
            "alter table {quoted} add column seq bigint not null default nextval({})",
            quote_literal(&sequence)
        ),
    ])
}

#[cfg(test)]
mod tests {
    use tokio_postgres::types::Type;

    use super::{
        super::{facts, table::samples},
        *,
    };

    #[test]
    fn a_key_with_one_row_needs_no_order() {
        let mut table = samples::table(samples::time());
        table.facts.columns[0] = facts::samples::column("id", &Type::UUID, &[]);
        assert_eq!(written(&table), WritingOrder::Unknown);
        table.key = Key::of(&table.name, &table.facts, "id").unwrap();
        assert_eq!(written(&table), WritingOrder::Kept);
    }

    #[test]
    fn a_number_is_added_as_the_table_and_the_server_allow() {
        let mut table = samples::table(samples::time());
        let statements = |table: &PolledTable| match numbering(table) {
            Numbering::Statements(statements) => statements.join("; "),
            Numbering::Columns(columns) => panic!("{columns:?}"),
        };
        let expected = "alter table \"public\".\"outbox\" \
             add column seq bigint generated always as identity";
        assert_eq!(statements(&table), expected);
        table.facts.partition();
        let expected = "create sequence \"public\".\"outbox_seq\"; \
             grant usage on sequence \"public\".\"outbox_seq\" to public; \
             alter table \"public\".\"outbox\" add column seq bigint not null \
             default nextval('\"public\".\"outbox_seq\"')";
        assert_eq!(statements(&table), expected);
        table.facts.version = NUMBERS_PARTITIONS;
        assert!(statements(&table).contains("identity"));
        table.facts.columns.push(facts::samples::column("n", &Type::INT8, &["identity"]));
        assert_eq!(numbering(&table), Numbering::Columns(vec!["n".to_owned()]));
    }
}
