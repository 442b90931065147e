//! In which order rows are read, and when they were written.

use relay::{EpochUnit, Failure, TableName};

use super::{
    facts::{ColumnFacts, Facts},
    failure::unfit,
    settings::{Direction, Nulls, OrderColumn},
};
use crate::{
    created_at::{NUMBERS, TIMES, micros_of_number, micros_of_time},
    postgres::quote_identifier,
};

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

/// Whether rows of one key have the order in which they were written, as far as the catalog says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WritingOrder {
    /// They have.
    Kept,
    /// Writers fill the columns that decide, and only they know how.
    Unknown,
    /// The server fills the last of them, with values of no order: a random UUID.
    Random,
}

/// Whether this order is the one in which rows of one key were written. Behind the identity nothing
/// decides any more.
pub(super) fn writing_order(
    facts: &Facts,
    order: &[OrderColumn],
    identity: &[String],
    time: Option<&str>,
) -> WritingOrder {
    let mut left: Vec<&String> = identity.iter().collect();
    let mut has_number = false;
    for name in order.iter().map(|column| &column.name) {
        let Some(column) = facts.column(name) else { continue };
        // Time columns may be numbers.
        let is_number = time != Some(name) && column.is_of(&NUMBERS);
        let is_identity = identity.contains(name);
        // The numbers of rows are counted up wherever they are counted.
        let ascends =
            name == HLC || column.is_sequence() || is_number && is_identity && !column.is("cached");
        if ascends || column.default.as_deref().is_some_and(ascends_by_default) {
            return WritingOrder::Kept;
        }
        has_number |= is_number;
        left.retain(|known| *known != name);
        if left.is_empty() {
            // Somebody has named a number, such as that of a version.
            let by_server = column.default.is_some() && !has_number;
            return if by_server { WritingOrder::Random } else { WritingOrder::Unknown };
        }
    }
    WritingOrder::Unknown
}

/// Whether a default, as `pg_get_expr` prints it, gives later rows larger values: the time of each
/// row, or an id that begins with that time, as a UUID of version 7 does.
fn ascends_by_default(default: &str) -> bool {
    let Some((function, _)) = default.split_once('(') else { return false };
    let function = function.rsplit('.').next().unwrap_or(function).to_ascii_lowercase();
    function == "clock_timestamp" || ["v7", "uuid7", "ulid"].iter().any(|of| function.contains(of))
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
    let written =
        if column.is_of(&NUMBERS) { micros_of_number(&name, unit) } else { micros_of_time(&name) };
    format!("coalesce({written}, {now})")
}

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
    use tokio_postgres::types::Type;

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

    fn written(columns: Vec<ColumnFacts>, configured: &[&str]) -> WritingOrder {
        let facts = samples::table(columns);
        let table = TableName { schema: "public".into(), name: "outbox".into() };
        let configured: Vec<OrderColumn> =
            configured.iter().map(|name| ascending(name, Nulls::Default)).collect();
        let identity = ["id".to_owned()];
        let time = facts.column("created_at").map(|column| column.name.as_str());
        let order = order(&table, &facts, &configured, &identity, time).unwrap();
        writing_order(&facts, &order, &identity, time)
    }

    /// A column that is filled by the server.
    fn filled(name: &str, of: &Type, default: &str) -> ColumnFacts {
        ColumnFacts { default: Some(default.to_owned()), ..samples::column(name, of, &[]) }
    }

    #[test]
    fn rows_of_one_transaction_have_no_order_by_a_time_and_a_random_uuid() {
        let id = || filled("id", &Type::UUID, "gen_random_uuid()");
        let time = || filled("created_at", &Type::TIMESTAMPTZ, "now()");
        let more = |column| vec![id(), time(), column];
        assert_eq!(written(vec![id(), time()], &[]), WritingOrder::Random);
        assert_eq!(written(vec![id()], &[]), WritingOrder::Random);
        assert_eq!(written(vec![id(), time()], &["created_at"]), WritingOrder::Random);
        // A time may be a number.
        let millis = samples::column("created_at", &Type::INT8, &[]);
        assert_eq!(written(vec![id(), millis], &[]), WritingOrder::Random);
        // What adding a number does: it is found by itself.
        let seq = || samples::column("seq", &Type::INT8, &["identity"]);
        assert_eq!(written(more(seq()), &[]), WritingOrder::Kept);
        let serial = filled("n", &Type::INT8, "nextval('public.n'::regclass)");
        assert_eq!(written(more(serial), &[]), WritingOrder::Kept);
        let hlc = samples::column("hlc", &Type::TEXT, &[]);
        assert_eq!(written(more(hlc), &[]), WritingOrder::Kept);
        // It is not read, or comes behind what is unique.
        assert_eq!(written(more(seq()), &["created_at"]), WritingOrder::Random);
        assert_eq!(written(more(seq()), &["id", "seq"]), WritingOrder::Random);
        assert_eq!(written(more(seq()), &["created_at", "seq"]), WritingOrder::Kept);
        // A number that writers count, such as the aggregate's version.
        let version = samples::column("version", &Type::INT8, &[]);
        assert_eq!(written(more(version), &["version"]), WritingOrder::Unknown);
    }

    #[test]
    fn an_identity_that_ascends_keeps_the_order() {
        let of = |id: ColumnFacts| written(vec![id], &[]);
        let uuid = |default| of(filled("id", &Type::UUID, default));
        for default in ["uuidv7()", "public.uuid_generate_v7()", "ext.gen_ulid()", "uuid7()"] {
            assert_eq!(uuid(default), WritingOrder::Kept, "{default}");
        }
        for default in ["gen_random_uuid()", "uuid_generate_v4()", "uuid_generate_v1()"] {
            assert_eq!(uuid(default), WritingOrder::Random, "{default}");
        }
        assert_eq!(of(samples::column("id", &Type::INT8, &["identity"])), WritingOrder::Kept);
        assert_eq!(of(samples::column("id", &Type::INT8, &[])), WritingOrder::Kept);
        assert_eq!(of(samples::column("id", &Type::UUID, &[])), WritingOrder::Unknown);
        assert_eq!(of(samples::column("id", &Type::VARCHAR, &[])), WritingOrder::Unknown);
        let id = filled("id", &Type::UUID, "gen_random_uuid()");
        let time = filled("created_at", &Type::TIMESTAMPTZ, "clock_timestamp()");
        assert_eq!(written(vec![id, time], &[]), WritingOrder::Kept);
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
