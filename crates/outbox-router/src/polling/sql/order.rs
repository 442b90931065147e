//! In which order rows are read, and when they were written.

use relay::{EpochUnit, Failure, TableName};
use tokio_postgres::types::Type;

use super::{
    facts::{ColumnFacts, Facts},
    failure::unfit,
    settings::{Direction, Nulls, OrderColumn},
};
use crate::postgres::quote_identifier;

/// A column of hybrid logical clocks, which order rows better than any other.
const HLC: &str = "hlc";

/// The columns by which rows of a table are put in order. Its identity comes last, so that there is
/// one order.
///
/// # Errors
/// The table has no such column (P041).
pub(super) fn order(
    table: &TableName,
    facts: &Facts,
    configured: &[OrderColumn],
    identity: &[String],
    time: Option<&str>,
) -> Result<Vec<OrderColumn>, Failure> {
    for column in configured {
        if facts.column(&column.name).is_none() {
            let what = format!("outbox.order_by names a column {} that it has not", column.name);
            return Err(unfit(table, &what));
        }
    }
    let mut order =
        if configured.is_empty() { by_default(facts, time) } else { configured.to_vec() };
    for name in identity {
        if !order.iter().any(|column| column.name == *name) {
            order.push(ascending(name, Nulls::Default));
        }
    }
    Ok(order)
}

/// Numbers of a sequence follow each other as rows of one key were written, where the times of
/// their transactions may not: those are when each has begun, and the same for all of its rows.
fn by_default(facts: &Facts, time: Option<&str>) -> Vec<OrderColumn> {
    let time = time.map(|name| ascending(name, Nulls::Default));
    if facts.column(HLC).is_some() {
        return [ascending(HLC, Nulls::Last)].into_iter().chain(time).collect();
    }
    let mut sequences = facts.columns.iter().filter(|column| column.is_sequence());
    match (sequences.next(), sequences.next()) {
        (Some(one), None) => vec![ascending(&one.name, Nulls::Default)],
        // Of several, nothing says which one counts.
        (Some(_), Some(_)) | (None, _) => time.into_iter().collect(),
    }
}

fn ascending(name: &str, nulls: Nulls) -> OrderColumn {
    OrderColumn { name: name.to_owned(), direction: Direction::Asc, nulls }
}

/// What follows a column's name in ORDER BY.
pub(super) fn suffix(column: &OrderColumn) -> &'static str {
    match (column.direction, column.nulls) {
        (Direction::Asc, Nulls::Default | Nulls::Last) => "",
        (Direction::Asc, Nulls::First) => " nulls first",
        (Direction::Desc, Nulls::Default | Nulls::First) => " desc",
        (Direction::Desc, Nulls::Last) => " desc nulls last",
    }
}

/// When a row was written, in microseconds since 1970: by the first of these columns that is a
/// time, else now.
pub(super) fn written_at(column: Option<&ColumnFacts>, unit: EpochUnit, alias: &str) -> String {
    let now = "(extract(epoch from now()) * 1000000)::int8";
    let Some(column) = column else { return now.to_owned() };
    let name = format!("{alias}.{}", quote_identifier(&column.name));
    let written = if column.is_of(&NUMBERS) {
        let factor = match unit {
            EpochUnit::Seconds => 1_000_000,
            EpochUnit::Milliseconds => 1_000,
            EpochUnit::Microseconds => 1,
        };
        // A number that is no time must not end the statement.
        format!("least(greatest({name}::numeric * {factor}, -9e18), 9e18)::int8")
    } else {
        format!("(extract(epoch from case when isfinite({name}) then {name} end) * 1000000)::int8")
    };
    format!("coalesce({written}, {now})")
}

const NUMBERS: [Type; 3] = [Type::INT8, Type::INT4, Type::INT2];
const TIMES: [Type; 3] = [Type::TIMESTAMPTZ, Type::TIMESTAMP, Type::DATE];

/// The first of these columns that says when a row was written.
pub(super) fn time_column<'f, 'n>(
    facts: &'f Facts,
    names: impl Iterator<Item = &'n str>,
) -> Option<&'f ColumnFacts> {
    let mut columns = names.filter_map(|name| facts.column(name));
    columns.find(|column| column.is_of(&TIMES) || column.is_of(&NUMBERS))
}

#[cfg(test)]
mod tests {
    use super::{super::facts::samples, *};

    fn shown(facts: &Facts, configured: &[OrderColumn], time: Option<&str>) -> String {
        let table = TableName { schema: "public".into(), name: "outbox".into() };
        let order = order(&table, facts, configured, &["id".to_owned()], time).unwrap();
        let shown = order.iter().map(|column| format!("{}{}", column.name, suffix(column)));
        shown.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn the_best_order_that_a_table_has_is_taken() {
        let id = |of: &Type, flags: &[&str]| samples::column("id", of, flags);
        let uuid = samples::table(vec![id(&Type::UUID, &[])]);
        assert_eq!(shown(&uuid, &[], Some("created_at")), "created_at, id");
        assert_eq!(shown(&uuid, &[], None), "id");
        let identity = samples::table(vec![id(&Type::INT8, &["identity"])]);
        assert_eq!(shown(&identity, &[], Some("created_at")), "id");
        let hlc = samples::column("hlc", &Type::TEXT, &[]);
        let hlc = samples::table(vec![id(&Type::INT8, &["identity"]), hlc]);
        assert_eq!(shown(&hlc, &[], Some("created_at")), "hlc, created_at, id");
        let number = |name| samples::column(name, &Type::INT8, &["identity"]);
        let one = samples::table(vec![id(&Type::UUID, &[]), number("seq")]);
        assert_eq!(shown(&one, &[], Some("created_at")), "seq, id");
        let two = samples::table(vec![id(&Type::UUID, &[]), number("seq"), number("n")]);
        assert_eq!(shown(&two, &[], Some("created_at")), "created_at, id");
    }

    #[test]
    fn a_declared_order_ends_with_the_identity() {
        let facts = samples::table(vec![
            samples::column("id", &Type::UUID, &[]),
            samples::column("n", &Type::INT4, &[]),
        ]);
        let by = |name: &str, direction, nulls| OrderColumn { name: name.into(), direction, nulls };
        let declared = [by("n", Direction::Desc, Nulls::Last)];
        assert_eq!(shown(&facts, &declared, Some("x")), "n desc nulls last, id");
        let first =
            [by("id", Direction::Desc, Nulls::Default), by("n", Direction::Asc, Nulls::First)];
        assert_eq!(shown(&facts, &first, None), "id desc, n nulls first");
        let table = TableName { schema: "public".into(), name: "outbox".into() };
        let unknown = [by("other", Direction::Asc, Nulls::Default)];
        assert!(order(&table, &facts, &unknown, &[], None).is_err());
    }

    #[test]
    fn a_row_without_a_time_is_of_now() {
        let at = |of: &Type| {
            let column = samples::column("at", of, &[]);
            written_at(Some(&column), EpochUnit::Milliseconds, "t")
        };
        assert!(at(&Type::TIMESTAMPTZ).contains("isfinite(t.\"at\")"));
        assert!(at(&Type::INT8).contains("t.\"at\"::numeric * 1000,"));
        assert!(!written_at(None, EpochUnit::Seconds, "t").contains("coalesce"));
    }
}
