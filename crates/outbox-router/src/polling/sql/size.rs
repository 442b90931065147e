//! How many bytes a row has, as an expression: before it is read, so that no batch exceeds its
//! limit. Nothing is decompressed for it but large values whose size cannot be told otherwise.

use tokio_postgres::types::Type;

use super::{
    facts::{ColumnFacts, Facts},
    shown::Shown,
};
use crate::postgres::quote_identifier;

/// Types whose texts are short: 40 bytes or less.
const SHORT: [Type; 11] = [
    Type::BOOL,
    Type::INT2,
    Type::INT4,
    Type::INT8,
    Type::FLOAT4,
    Type::FLOAT8,
    Type::UUID,
    Type::DATE,
    Type::TIME,
    Type::TIMESTAMP,
    Type::TIMESTAMPTZ,
];

/// Larger values of other types may be compressed, and are measured as texts.
const MEASURED_FROM: usize = 1_000;

/// What a row takes beside the texts of its columns, here and in the core.
const OVERHEAD: usize = 200;

/// By so much the size of a row may be more than its message has.
const SLACK: usize = 2 << 20;

/// A value that takes no more bytes as it is stored is printed whatever its row's size.
const SMALL: usize = 2_000;

/// A row whose size is more than this has a message of more than `row_bytes`.
pub(super) const fn certainly_larger(row_bytes: usize) -> usize {
    row_bytes.saturating_add(SLACK)
}

/// The column `name` of a row whose size is `size`, but NULL where it is large and the row is too
/// large in any case: the server cannot print each value that it can store, and an error would end
/// the reading of all others, too.
pub(super) fn printable(column: &ColumnFacts, row_bytes: usize, name: &str, size: &str) -> String {
    if column.is_of(&SHORT) {
        return name.to_owned();
    }
    let limit = certainly_larger(row_bytes);
    format!(
        "case when {size} > {limit} and pg_column_size({name}) > {SMALL} then null else {name} end"
    )
}

/// The size of a row `t`.
pub(super) fn size(facts: &Facts) -> String {
    let columns: Vec<&ColumnFacts> =
        facts.columns.iter().filter(|column| !column.is("virtual")).collect();
    let fixed = OVERHEAD + 40 * columns.len();
    let mut sum = format!("{fixed}::int8");
    for column in columns.iter().filter(|column| !column.is_of(&SHORT)) {
        let name = format!("t.{}", quote_identifier(&column.name));
        sum.push_str(&if column.is_of(&[Type::TEXT, Type::VARCHAR, Type::BPCHAR]) {
            format!(" + coalesce(octet_length({name}), 0)")
        } else if column.is_of(&[Type::BYTEA]) {
            // As a text it has two digits for each byte.
            format!(" + coalesce(2 * octet_length({name})::int8, 0)")
        } else {
            format!(
                " + coalesce(case when pg_column_size({name}) > {MEASURED_FROM} \
                 then octet_length({}) else pg_column_size({name}) end, 0)",
                Shown::of_own(column).sql("t", &column.name)
            )
        });
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::{super::facts::samples, *};

    #[test]
    fn only_large_values_of_unknown_size_are_measured() {
        let facts = samples::table(vec![
            samples::column("id", &Type::UUID, &[]),
            samples::column("a", &Type::TEXT, &[]),
            samples::column("b", &Type::BYTEA, &[]),
            samples::column("c", &Type::JSONB, &[]),
            samples::column("d", &Type::JSONB, &["generated", "virtual"]),
        ]);
        assert_eq!(
            size(&facts),
            "360::int8 + coalesce(octet_length(t.\"a\"), 0) \
             + coalesce(2 * octet_length(t.\"b\")::int8, 0) \
             + coalesce(case when pg_column_size(t.\"c\") > 1000 \
             then octet_length(t.\"c\"::text) else pg_column_size(t.\"c\") end, 0)"
        );
    }
}
