//! From where on the rows of a table are events: rows that were in it before were never sent.

use std::collections::BTreeMap;

use relay::{
    Case, Failure, Oid, TableName, Xid,
    delivered::{AgeColumn, EventPart, EventsSince, OlderRows, PartitionLink, Place},
};

use super::{
    session::{Session, malformed, number, text},
    time::TimeColumn,
};
use crate::postgres::{NEVER_NULL, quote_literal};

/// Where the table's rows are, and from where on they are events, by the witness. A partition of
/// which that is not known is left out.
///
/// # Errors
/// It is not known of the table; the statement fails.
pub(crate) async fn event_parts(
    session: Session<'_>,
    (name, oid): (&TableName, u32),
    known: &BTreeMap<Place, EventsSince>,
) -> Result<Vec<EventPart>, Failure> {
    let Some(table) = EventPart::table(Oid::from_u32(oid), known) else {
        let what =
            format!("{}: it is not known yet since when its rows are events, so all stay", name);
        return Err(Failure::of(Case::RetentionOpen, what));
    };
    let mut parts = Vec::new();
    for row in &session.rows(&partitions_sql(oid)).await? {
        let oid = Oid::from_u32(number(row, 0)?);
        parts.extend(table.partition(oid, links(text(row, 1)?)?, known));
    }
    parts.push(table);
    Ok(parts)
}

/// The partitions of all levels, each with its row of `pg_inherits` and those of the partitions
/// above it.
fn partitions_sql(root: u32) -> String {
    format!(
        "with recursive part (oid, links) as ( \
           select {root}::oid, '' \
           union all \
           select i.inhrelid, part.links || format(' %s/%s', i.inhrelid, i.xmin) \
           from part join pg_inherits i on i.inhparent = part.oid \
           join pg_class c on c.oid = i.inhrelid and c.relispartition) \
         select oid, links from part where links <> ''"
    )
}

/// The rows of `pg_inherits`, each as partition and `xmin`.
fn links(text: &str) -> Result<Vec<PartitionLink>, Failure> {
    let link = |link: &str| {
        let (part, attached_by) = link.split_once('/')?;
        let (part, attached_by) = (part.parse().ok()?, attached_by.parse().ok()?);
        Some(PartitionLink { part: Oid::from_u32(part), attached_by: Xid::from_u32(attached_by) })
    };
    let links = text.split_whitespace().map(link).collect::<Option<_>>();
    links.ok_or_else(|| malformed("names no partition"))
}

/// [`relay::delivered::DeliveredRows::has_event`] as SQL, of the row `t`; `next` is the next
/// transaction's `xid8`.
pub(super) fn has_event_sql(parts: &[EventPart], time: &TimeColumn, next: &str) -> String {
    let mut places: BTreeMap<EventsSince, Vec<String>> = BTreeMap::new();
    for part in parts {
        places.entry(part.since).or_default().push(part.oid.to_string());
    }
    let root = parts.iter().find(|part| part.links.is_empty());
    let root = root.map_or(0, |root| root.oid.as_u32());
    let is_aged_by = |number: i16, type_oid: u32, is_never_null: bool| {
        let not = if is_never_null { "" } else { "not " };
        format!(
            "exists (select from pg_attribute a where a.attrelid = {root} and a.attname = {} \
               and a.attnum = {number} and a.atttypid = {type_oid} \
               and {not}({NEVER_NULL}))",
            quote_literal(&time.name)
        )
    };
    let is_late = |older: OlderRows| match older.by {
        AgeColumn::Unknown | AgeColumn::None => "false".to_owned(),
        AgeColumn::Column { number, type_oid, is_never_null } => {
            let is_aged_by = is_aged_by(number, type_oid, is_never_null);
            format!("{} and {is_aged_by}", time.is_after("t", older.at))
        }
    };
    let places: Vec<String> = places
        .into_iter()
        .map(|(since, oids)| {
            let is_late = since.older.map(is_late);
            format!("t.tableoid in ({}) and {}", oids.join(", "), since_sql(since, is_late, next))
        })
        .collect();
    format!("(({}){})", places.join(" or "), still_attached_sql(parts))
}

/// [`EventsSince::has_event`] as SQL; `is_late`: that the row's time is later than that of rows
/// from before, if there were any.
fn since_sql(since: EventsSince, is_late: Option<String>, next: &str) -> String {
    if since == EventsSince::FIRST_ROW {
        return "true".to_owned();
    }
    // `xid` has no order, and no cast to a number: its text has.
    let (next, row) = (format!("{next}::text::int8"), "t.xmin::text::int8");
    let age = format!("(({next} - {row}) % 4294967296)");
    let is_late = is_late.map_or_else(String::new, |it| format!(" and coalesce({it}, false)"));
    let xid = since.xid.as_u64();
    format!("({row} >= 3 and {age} < 2147483648 and {next} - {age} >= {xid}{is_late})")
}

/// Whether the partition of a row is what it was when this was read: one that was detached and
/// attached again, or half detached, has another row in `pg_inherits`.
fn still_attached_sql(parts: &[EventPart]) -> String {
    let links: Vec<String> = parts
        .iter()
        .flat_map(|part| part.links.iter().map(|link| (part.oid, link)))
        .map(|(oid, link)| format!("({oid}::oid, {}::oid, '{}')", link.part, link.attached_by))
        .collect();
    if links.is_empty() {
        return String::new();
    }
    format!(
        " and t.tableoid in (select l.place from (values {}) l (place, part, xid) \
         left join pg_inherits i on i.inhrelid = l.part and i.xmin::text = l.xid \
         group by l.place having count(i.inhrelid) = count(*))",
        links.join(", ")
    )
}
