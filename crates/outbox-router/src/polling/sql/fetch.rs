//! The statement that reads pending rows, and claims them where the table has columns for that.
//!
//! Where rows are claimed, a row that another transaction has locked is left out, and with it the
//! later rows of its key: they must not pass it. The statement says which keys these are, so that
//! the next one can leave them out (`blocked`), however many rows of theirs come first.

use std::fmt::Write as _;

use relay::polling::{Claimed, FetchRequest, PassedOver, RowKey};

use super::{
    blocked::BlockedKey,
    conditions::{and, interval},
    key::{ShardOf, never_null},
    literals::{array, list, literal},
    order::suffix,
    settings::RowScope,
    settle::identities,
    size::{certainly_larger, printable, size},
    table::PolledTable,
    transaction::{Access, COMMIT, Ways, begin_claiming, begin_on},
};
use crate::postgres::quote_identifier;

/// The statement of a table, but for what differs between two requests.
#[derive(Debug, Clone)]
pub(super) struct FetchText {
    /// Up to the conditions of the request.
    head: String,
    /// Up to how many rows are looked at.
    order: String,
    /// Up to how many of them are claimed; then the rest.
    tail: [String; 2],
    key: String,
    shard: ShardOf,
    identity: Identity,
    pub(super) claimed: Claimed,
}

/// By what rows are named that are not to be read.
#[derive(Debug, Clone)]
struct Identity {
    types: Vec<String>,
    names: String,
    same_row: String,
}

impl Identity {
    fn of(table: &PolledTable) -> Self {
        let name = |place: usize| format!("k{place}");
        let names: Vec<String> = (0..table.identity.len()).map(name).collect();
        Self {
            types: table.element_types().map(str::to_owned).collect(),
            names: names.join(", "),
            same_row: table.same_row("x", name),
        }
    }
}

impl FetchText {
    pub(super) fn of(table: &PolledTable) -> Self {
        let claimed = if table.marks.claim.is_made() { Claimed::Yes } else { Claimed::No };
        let (select, tail) = match claimed {
            Claimed::Yes => claiming(table),
            Claimed::No => reading(table),
        };
        let [taken, rest] = tail;
        let ways = if table.has_pending_index() { Ways::Indexes } else { Ways::Any };
        let begin = match claimed {
            Claimed::Yes => begin_claiming(ways, table.strangers),
            Claimed::No => begin_on(Access::ReadWrite, ways, table.strangers),
        };
        let mut conditions = vec![table.is_the_one_named(), table.has_its_shape()];
        conditions.extend(table.conditions().ready("t"));
        conditions.extend(table.filter.as_ref().map(|filter| filter.sql("t")));
        match table.settings.scope {
            RowScope::All => {}
            RowScope::Switched => conditions.push(table.is_switched("t")),
        }
        if let Some(holds) = table.holds("h") {
            conditions.push(format!(
                "{} not in (select {} from {} h where {holds})",
                table.key.never_null("t"),
                table.key.never_null("h"),
                table.quoted()
            ));
        }
        Self {
            head: format!("{}{select} from {} t where {}", begin, table.quoted(), and(&conditions)),
            order: format!(" order by {} limit ", table.order_by()),
            tail: [taken, rest + COMMIT],
            key: table.key.never_null("t"),
            shard: table.key.shard("t"),
            identity: Identity::of(table),
            claimed,
        }
    }

    /// The statements of a request, without the rows of `blocked` keys, among so many rows.
    pub(super) fn sql(
        &self,
        request: &FetchRequest,
        blocked: &[BlockedKey],
        looked_at: usize,
    ) -> String {
        let Self { head, order, tail: [taken, rest], key, shard, identity, .. } = self;
        let length = head.len() + order.len() + taken.len() + rest.len();
        let mut sql = String::with_capacity(length + 300);
        sql.push_str(head);
        if let Some(among) = shard.among(request.shards) {
            // Writing into a String cannot fail.
            write!(sql, " and {among}").unwrap_or_default();
        }
        match &request.passed_over {
            PassedOver::Keys(keys) if !keys.is_empty() => {
                let keys: Vec<String> = keys.iter().map(RowKey::as_deref).map(never_null).collect();
                sql.push_str(&without_keys(key, keys.iter().map(String::as_str)));
            }
            PassedOver::Rows(rows) if !rows.is_empty() => {
                let Identity { types, names, same_row } = identity;
                let arrays = identities(types.iter().map(String::as_str), rows.iter());
                write!(
                    sql,
                    " and not exists (select from unnest({arrays}) as x ({names}) where {same_row})"
                )
                .unwrap_or_default();
            }
            PassedOver::Keys(_) | PassedOver::Rows(_) => {}
        }
        if !blocked.is_empty() {
            sql.push_str(&without_keys(key, blocked.iter().map(|key| &*key.key)));
        }
        write!(sql, "{order}{looked_at}{taken}").unwrap_or_default();
        if looked_at > request.limit {
            write!(sql, " order by l.n limit {}", request.limit).unwrap_or_default();
        }
        sql + rest
    }
}

/// That the key of a row, `key`, is none of these. An array is one literal, however many there are.
fn without_keys<'k>(key: &str, keys: impl Iterator<Item = &'k str>) -> String {
    format!(" and {key} not in (select unnest({}::text[]))", array(keys))
}

/// The columns of the row, then its key, its attempts, its time, its version. Behind these comes
/// its size, if some of its values are left out since it is too large.
fn row_columns(table: &PolledTable) -> String {
    let mut all = String::new();
    for (place, column) in table.row.columns.iter().enumerate() {
        write!(all, "t.{} as c{place}, ", quote_identifier(&column.name)).unwrap_or_default();
    }
    let attempts = table.marks.attempts.as_ref().map_or_else(
        || "0".to_owned(),
        // Another program may have written anything, and one row must not end the reading.
        |attempts| {
            let column = quote_identifier(&attempts.column);
            format!("least(greatest(coalesce(t.{column}, 0), 0), {})", i32::MAX)
        },
    );
    write!(
        all,
        "{} as k, {attempts} as a, {} as w, t.xmin as x",
        table.key.sql("t"),
        table.written_at
    )
    .unwrap_or_default();
    all
}

/// The names of those columns, and what is printed of them.
fn row_names(table: &PolledTable) -> String {
    let columns = table.row.columns.iter().enumerate().map(|(place, column)| {
        let name = format!("c{place}");
        let is_identity = table.identity.iter().any(|identity| identity.place == place);
        let shown = match table.facts.column(&column.name) {
            Some(facts) if !is_identity => printable(facts, table.settings.row_bytes, &name, "s"),
            Some(_) | None => name,
        };
        format!("{shown}, ")
    });
    let limit = certainly_larger(table.settings.row_bytes);
    columns.collect::<String>() + &format!("k, a, w, x, case when s > {limit} then s end")
}

/// The columns of the order under other names, and the order by those names.
fn order_columns(table: &PolledTable) -> (String, String) {
    let names = table.order.iter().enumerate();
    let columns = names
        .clone()
        .map(|(place, column)| format!("t.{} as o{place}", quote_identifier(&column.name)));
    let order = names.map(|(place, column)| format!("o{place}{}", suffix(column)));
    (columns.collect::<Vec<_>>().join(", "), order.collect::<Vec<_>>().join(", "))
}

/// What stands before FROM, and behind the limit, where rows are only read.
fn reading(table: &PolledTable) -> (String, [String; 2]) {
    let (names, (columns, order)) = (row_names(table), order_columns(table));
    let select = format!(
        "select {names}, r from (\
           select i.*, sum(i.s) over (order by {order} rows unbounded preceding) as r from (\
             select {}, {columns}, {} as s",
        row_columns(table),
        size(&table.facts)
    );
    let tail = format!(") i) o where o.r - o.s < {} order by {order}", table.settings.keep_bytes);
    (select, [tail, String::new()])
}

/// What stands before FROM, and behind the limit, where rows are claimed.
///
/// `picked`: which rows, and how many bytes up to each. `locked`: those of them that fit into
/// memory, locked. `blocked`: the first of each key that somebody else has locked; behind the rows
/// comes one for each such key, with nothing but the key. `taken`: those that come before it; the
/// keys of most rows are not blocked at all, which is found by hashing. Where a claim was not
/// written, a row of nothing says so: its row is not returned, and later ones of its key are.
///
/// The version of a claimed row is that of the claim, which this transaction has written; also
/// where the claim has moved the row to another partition, of which RETURNING has no `xmin`.
fn claiming(table: &PolledTable) -> (String, [String; 2]) {
    let (columns, order) = order_columns(table);
    let identity = table.identity.iter().enumerate();
    let identity =
        identity.map(|(index, column)| format!("t.{} as p{index}", quote_identifier(&column.name)));
    let select = format!(
        "with picked as materialized (\
           select i.*, row_number() over (order by {order}) as n, \
             sum(i.s) over (order by {order} rows unbounded preceding) as r from (\
             select {}, {columns}, {} as g, {} as s",
        identity.collect::<Vec<_>>().join(", "),
        table.key.never_null("t"),
        size(&table.facts),
    );
    let (bytes, quoted) = (table.settings.keep_bytes, table.quoted());
    let names = row_names(table);
    let columns_read = table.row.columns.len();
    let plain: String = (0..columns_read).map(|place| format!("c{place}, ")).collect();
    let claimed = columns_claimed(table);
    let picked = table.same_row("p", |index| format!("p{index}"));
    let taken = table.same_row("p", |index| {
        let place = table.identity.get(index).map_or(0, |column| column.place);
        format!("c{place}")
    });
    let taking = format!(
        ") i), \
         locked as materialized (select p.n, p.g, p.s, {} from picked p join {quoted} t on {picked} \
           where p.r - p.s < {bytes} and {} for update of t skip locked), \
         blocked as materialized (select p.g, min(p.n) as n from picked p \
           where p.r - p.s < {bytes} and p.n not in (select n from locked) group by p.g), \
         taken as materialized (select l.* from locked l \
           where (l.g not in (select g from blocked) \
             or l.n < (select b.n from blocked b where b.g = l.g))",
        row_columns(table),
        and(&table.conditions().ready("t")),
    );
    let nulls = "null, ".repeat(columns_read);
    let rest = format!(
        "), claimed as (update {quoted} t set {} from taken p where {taken} \
           returning {claimed}p.k, p.a, p.w, pg_current_xact_id()::xid as x, p.s, p.n) \
         select {names}, (select max(r) from picked), (select count(*) from picked) from (\
           select {plain}k, a, w, x, s, n from claimed union all \
           select {nulls}g, null, null, null, null, null from blocked union all \
           select {nulls}null, null, null, null, null, null \
             where (select count(*) from claimed) < (select count(*) from taken)) o order by n",
        claim(table),
    );
    (select, [taking, rest])
}

/// The columns of a claimed row: as they were read, but for those of its identity that the claim
/// has written, by which it is marked.
fn columns_claimed(table: &PolledTable) -> String {
    let written = claim_columns(table);
    let mut all = String::new();
    for (place, column) in table.row.columns.iter().enumerate() {
        let is_identity = table.identity.iter().any(|identity| identity.place == place);
        let is_written = is_identity && written.iter().any(|(name, _)| **name == column.name);
        if is_written {
            write!(all, "t.{} as c{place}, ", quote_identifier(&column.name)).unwrap_or_default();
        } else {
            write!(all, "p.c{place}, ").unwrap_or_default();
        }
    }
    all
}

/// What a claim writes.
fn claim(table: &PolledTable) -> String {
    let set = claim_columns(table);
    let set = set.iter().map(|(name, value)| format!("{} = {value}", quote_identifier(name)));
    set.collect::<Vec<_>>().join(", ")
}

/// The columns that a claim writes, each with its value.
fn claim_columns(table: &PolledTable) -> Vec<(&String, String)> {
    let claim = &table.marks.claim;
    let mut set = Vec::new();
    if let Some(status) = table.marks.written_status()
        && let Some(word) = &status.words.processing
    {
        set.push((&status.column, literal(word)));
    }
    if let Some(until) = &claim.until {
        set.push((until, format!("now() + {}", interval(table.settings.lease))));
    }
    set.extend(claim.since.as_ref().map(|since| (since, "now()".to_owned())));
    set.extend(
        claim.by.as_ref().map(|by| (by, list([table.settings.worker.to_string().as_str()]))),
    );
    set
}

#[cfg(test)]
mod tests {
    use relay::polling::{RowId, ShardSet, TableIndex};

    use super::{super::table::samples, *};

    fn request(shards: ShardSet, keys: Vec<RowKey>) -> FetchRequest {
        let passed_over = PassedOver::Keys(keys);
        FetchRequest { table: TableIndex(0), shards, limit: 25, passed_over }
    }

    fn sql(text: &FetchText, request: &FetchRequest) -> String {
        text.sql(request, &[], request.limit)
    }

    const KEY: &str = "coalesce('k' || (t.\"aggregate_id\"::text) collate \"C\", 'n')";

    #[test]
    fn rows_of_a_mark_alone_are_only_read() {
        let text = FetchText::of(&samples::table(samples::time()));
        assert_eq!(text.claimed, Claimed::No);
        let sql = sql(&text, &request(ShardSet::ALL, Vec::new()));
        assert!(sql.contains(
            "and i.indpred is null and i.indexprs is null)), 0)) = '5' then '1' \
             else 'the table was altered' end)::int = 1 and t.\"published_at\" is null \
             order by t.\"created_at\", t.\"id\" limit 25) i) o where o.r - o.s < 1000 \
             order by o0, o1; commit"
        ));
        assert!(!sql.contains("update") && !sql.contains("sha256") && !sql.contains("values"));
    }

    #[test]
    fn a_part_of_the_keys_is_read() {
        let text = FetchText::of(&samples::table(samples::time()));
        let shards = [3, 9].into_iter().collect();
        let sql = sql(&text, &request(shards, vec![None, Some("it's".into())]));
        assert!(sql.contains(&format!(
            "and {KEY} not in (select unnest('{{\"n\",\"kit''s\"}}'::text[])) order by"
        )));
        assert!(sql.contains("'UTF8')), 0) & 63) in (3, 9)"), "{sql}");
    }

    #[test]
    fn rows_that_wait_are_left() {
        let text = FetchText::of(&samples::table(samples::time()));
        let rows = ["7", "8"].map(|id| RowId([id.into()].into()));
        let passed_over = PassedOver::Rows(rows.into());
        let sql = sql(&text, &FetchRequest { passed_over, ..request(ShardSet::ALL, Vec::new()) });
        assert!(sql.contains(" and not exists (select from unnest('{\"7\",\"8\"}'::"), "{sql}");
        assert!(sql.contains("[]) as x (k0) where t.\"id\" "), "{sql}");
    }

    #[test]
    fn rows_with_a_state_are_taken_and_those_behind_waiting_ones_left() {
        let text = FetchText::of(&samples::table(samples::states()));
        assert_eq!(text.claimed, Claimed::Yes);
        let sql = sql(&text, &request(ShardSet::ALL, Vec::new()));
        assert!(sql.contains("for update of t skip locked"));
        assert!(sql.contains(
            "update \"public\".\"outbox\" t set \"status\" = 'PROCESSING', \
             \"locked_until\" = now() + make_interval(secs => 10), \
             \"locked_by\" = '00000000-0000-0000-0000-000000000000' from taken p"
        ));
        assert!(sql.contains(&format!("and {KEY} not in (select coalesce('k' || (h.")));
        assert!(sql.contains(" limit 25) i)") && !sql.contains("order by l.n"), "{sql}");
    }

    #[test]
    fn of_more_rows_that_are_looked_at_no_more_are_taken() {
        let text = FetchText::of(&samples::table(samples::states()));
        let request = request(ShardSet::ALL, Vec::new());
        let sql = text.sql(&request, &[BlockedKey::new("ka")], 100);
        let left_out = format!("and {KEY} not in (select unnest('{{\"ka\"}}'::text[])) order by");
        assert!(sql.contains(&left_out) && sql.contains(" limit 100) i)"), "{sql}");
        assert!(sql.contains(" order by l.n limit 25), claimed as "), "{sql}");
    }
}
