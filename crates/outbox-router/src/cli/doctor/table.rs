//! The outbox tables: whether their rows can become records, and what they will cost.

use relay::{Code, Failure, Name, Names};

use super::{
    check::{Check, error, note, warning},
    facts::{ColumnIndex, DefaultPartition, Ids, Layout, Removal, TableFacts},
    finding::{Finding, Severity},
    not_run::NotRun,
};
use crate::{codes::Advice, republish::left_out::LeftOutRows, wording};

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "the columns fit",
        reports: &[
            error(Code::ColumnMissing.as_str()),
            error(Code::PresetUnclear.as_str()),
            error(Code::ColumnType.as_str()),
            error(Code::TableMissing.as_str()),
        ],
        judge: |facts| {
            let unsuitable = facts.tables()?.iter().filter_map(|table| table.unsuitable.as_ref());
            Ok(unsuitable.map(Finding::of).collect())
        },
    },
    Check {
        name: "no column that names the record may be NULL",
        reports: &[warning(Advice::ColumnNullable.as_str())],
        judge: |facts| Ok(facts.tables()?.iter().flat_map(nullable).collect()),
    },
    Check {
        name: "no rule takes inserts away",
        reports: &[warning(Advice::RuleOnInsert.as_str())],
        judge: |facts| Ok(facts.tables()?.iter().flat_map(rules).collect()),
    },
    Check {
        name: "a partitioned table has partitions",
        reports: &[error(Advice::NoPartition.as_str())],
        judge: |facts| Ok(facts.tables()?.iter().flat_map(partitions).collect()),
    },
    Check {
        name: "no row waits in a default partition to be moved",
        reports: &[note(Advice::DefaultPartition.as_str())],
        judge: |facts| Ok(facts.tables()?.iter().flat_map(defaults).collect()),
    },
    Check {
        name: "no role but the owner may move rows to another partition",
        reports: &[warning(Code::RowsMove.as_str())],
        judge: |facts| {
            let moves = facts.postgres()?.moves.as_ref().map_err(NotRun::from)?;
            Ok(moves.iter().map(|may_move| Finding::of(&may_move.finding())).collect())
        },
    },
    Check {
        name: "rows are only inserted and deleted",
        reports: &[note(Advice::RowsUpdated.as_str())],
        judge: |facts| Ok(facts.tables()?.iter().flat_map(updated).collect()),
    },
    Check {
        name: "the column of the id is indexed",
        reports: &[warning(Advice::IdWithoutIndex.as_str())],
        judge: |facts| Ok(facts.tables()?.iter().flat_map(id_index).collect()),
    },
    Check {
        name: "ids are unique",
        reports: &[note(Advice::IdNotUnique.as_str())],
        judge: |facts| Ok(facts.tables()?.iter().flat_map(unique).collect()),
    },
    Check {
        name: "no subscription writes into the table",
        reports: &[warning(Advice::RowsOfSubscription.as_str())],
        judge: |facts| Ok(facts.tables()?.iter().flat_map(subscriptions).collect()),
    },
    Check {
        name: "the column of the time is indexed",
        reports: &[note(Advice::TimeWithoutIndex.as_str())],
        judge: |facts| Ok(facts.tables()?.iter().flat_map(time_index).collect()),
    },
    Check {
        name: "something removes delivered rows",
        reports: &[warning(Advice::TableGrows.as_str())],
        judge: |facts| Ok(facts.tables()?.iter().flat_map(growth).collect()),
    },
    Check {
        name: "no row waits that a person has left out",
        reports: &[warning(Advice::RowsLeftOut.as_str())],
        judge: |facts| {
            let left_out = facts.postgres()?.left_out.as_ref().map_err(NotRun::from)?;
            Ok(left_out.iter().map(rows_left_out).collect())
        },
    },
    Check {
        name: "[retention] can do its work",
        reports: &[
            warning(Code::Retention.as_str()),
            error(Code::ForeignCode.as_str()),
            error(Code::ServerUnreachable.as_str()),
            error(Code::AuthenticationFailed.as_str()),
            error(Code::ServerFull.as_str()),
            error(Code::ServerNotReady.as_str()),
            error(Code::ServerError.as_str()),
        ],
        judge: |facts| Ok(retention(facts.postgres()?.retention.as_deref().unwrap_or_default())),
    },
];

fn names(table: &TableFacts, statements: Option<String>) -> Names {
    let mut names = Names::default();
    names.set(Name::QuotedTable, table.quoted.clone());
    if let Some(statements) = statements {
        names.set(Name::Statements, statements);
    }
    names
}

fn nullable(table: &TableFacts) -> Vec<Finding> {
    if table.nullable.is_empty() {
        return Vec::new();
    }
    let alter = |column: &String| format!("alter column {column} set not null");
    let alter: Vec<String> = table.nullable.iter().map(alter).collect();
    let statement = format!("alter table {} {}", table.quoted, alter.join(", "));
    let what = format!("{} may be NULL in table {}", table.nullable.join(", "), table.name);
    let names = names(table, Some(statement));
    vec![Finding::advice(Severity::Warning, Advice::ColumnNullable, what, &names)]
}

fn rules(table: &TableFacts) -> Vec<Finding> {
    let finding = |rule: &String| {
        let statement = format!("drop rule {rule} on {}", table.quoted);
        let what = format!("rule {rule} rewrites inserts into table {}", table.name);
        let names = names(table, Some(statement));
        Finding::advice(Severity::Warning, Advice::RuleOnInsert, what, &names)
    };
    table.rules.iter().map(finding).collect()
}

fn partitions(table: &TableFacts) -> Option<Finding> {
    let is_empty = table.layout == Layout::Partitioned(0);
    let what = || format!("table {} is partitioned and has no partition", table.name);
    is_empty
        .then(|| Finding::advice(Severity::Error, Advice::NoPartition, what(), &names(table, None)))
}

fn updated(table: &TableFacts) -> Option<Finding> {
    let updates = i64::try_from(table.updated).unwrap_or(i64::MAX);
    let what =
        || format!("table {} has had {} of rows", table.name, wording::count(updates, "update"));
    (table.updated > 0)
        .then(|| Finding::advice(Severity::Note, Advice::RowsUpdated, what(), &names(table, None)))
}

/// On a partitioned table such a statement locks it until all partitions are indexed, and only with
/// the columns of its key it can be unique.
fn create_index(table: &TableFacts, column: &str, unique: &str) -> String {
    match table.layout {
        Layout::Plain => {
            format!("create {unique}index concurrently on {} ({column})", table.quoted)
        }
        Layout::Partitioned(_) => format!("create index on {} ({column})", table.quoted),
    }
}

/// One without an index is another check's matter.
fn unique(table: &TableFacts) -> Option<Finding> {
    let ColumnIndex { column, .. } = table.id.as_ref().filter(|id| id.is_indexed)?;
    let (what, statement) = match &table.ids {
        Ids::Unique => return None,
        Ids::MayRepeat => {
            let what = format!("table {} has no unique index of {column}", table.name);
            let statement = match table.layout {
                Layout::Plain => create_index(table, column, "unique "),
                Layout::Partitioned(_) => {
                    format!("create unique index on {} ({column}, PARTITION_KEY)", table.quoted)
                }
            };
            (what, statement)
        }
        Ids::Repeated { sequence, given, inserted } => {
            let what = format!(
                "{} were inserted into table {}, and the sequence of {column} has given {}: ids \
                 come again",
                wording::count(*inserted, "row"),
                table.name,
                wording::count(*given, "id"),
            );
            (what, format!("select setval({sequence}, {inserted})"))
        }
    };
    let names = names(table, Some(statement));
    Some(Finding::advice(Severity::Note, Advice::IdNotUnique, what, &names))
}

/// Rows of the default partition have to be moved before they can have a partition of their own.
fn defaults(table: &TableFacts) -> Vec<Finding> {
    let finding = |default: &DefaultPartition| {
        let mut what = format!(
            "default partition {} of table {} has {}",
            default.name,
            table.name,
            wording::count(default.rows, "row"),
        );
        if default.deleted > 0 && table.removal == Removal::Elsewhere {
            let deleted = wording::count(default.deleted, "row");
            what += &format!(
                ", and has had {deleted} deleted: one that was inserted again was sent again"
            );
        }
        Finding::advice(Severity::Note, Advice::DefaultPartition, what, &names(table, None))
    };
    table.defaults.iter().map(finding).collect()
}

fn subscriptions(table: &TableFacts) -> Vec<Finding> {
    let finding = |name: &String| {
        let what = format!("subscription {name} writes into table {}", table.name);
        let statement = format!("alter subscription {name} refresh publication");
        let names = names(table, Some(statement));
        Finding::advice(Severity::Warning, Advice::RowsOfSubscription, what, &names)
    };
    table.subscriptions.iter().map(finding).collect()
}

fn without_index(
    table: &TableFacts,
    column: Option<&ColumnIndex>,
    (severity, advice, unique): (Severity, Advice, &str),
) -> Option<Finding> {
    let ColumnIndex { column, .. } = column.filter(|column| !column.is_indexed)?;
    let what = format!("table {} has no index that begins with {column}", table.name);
    let names = names(table, Some(create_index(table, column, unique)));
    Some(Finding::advice(severity, advice, what, &names))
}

fn id_index(table: &TableFacts) -> Option<Finding> {
    without_index(table, table.id.as_ref(), (Severity::Warning, Advice::IdWithoutIndex, "unique "))
}

/// Retention itself reports it where it is on.
fn time_index(table: &TableFacts) -> Option<Finding> {
    let time = table.time.as_ref().filter(|_| table.removal == Removal::Elsewhere);
    without_index(table, time, (Severity::Note, Advice::TimeWithoutIndex, ""))
}

/// A table of this size is no table of a first try.
const GROWN_BYTES: u64 = 1 << 30;

fn growth(table: &TableFacts) -> Option<Finding> {
    let grows = table.bytes >= GROWN_BYTES
        && table.deleted == 0
        && table.removal == Removal::Elsewhere
        // Whoever has made partitions may drop them, which no statistic shows.
        && table.layout == Layout::Plain;
    let what = || {
        let size = wording::bytes(table.bytes);
        format!("table {} has {size}, and no row has ever been deleted", table.name)
    };
    grows.then(|| {
        Finding::advice(Severity::Warning, Advice::TableGrows, what(), &names(table, None))
    })
}

fn rows_left_out(of: &LeftOutRows) -> Finding {
    let mut names = Names::default();
    let table = match &of.table {
        Some(table) => {
            names.set(Name::Table, table.to_string());
            table.to_string()
        }
        None => "a table that is gone".to_owned(),
    };
    let what = format!("{} of {table} left out, in no topic", wording::count(of.rows, "row"));
    Finding::advice(Severity::Warning, Advice::RowsLeftOut, what, &names)
}

/// A missing table is the publication's finding, and an unsuitable one has its own.
fn retention(failures: &[Failure]) -> Vec<Finding> {
    const ELSEWHERE: [Code; 3] = [Code::TableMissing, Code::ColumnMissing, Code::PresetUnclear];
    let own = failures.iter().filter(|failure| !ELSEWHERE.contains(&failure.code));
    own.map(Finding::of).collect()
}

#[cfg(test)]
mod tests {
    use relay::Case;

    use super::*;
    use crate::cli::doctor::samples::{codes, table};

    #[test]
    fn a_table_as_setup_makes_it_gives_no_cause() {
        let table = table();
        assert!(nullable(&table).is_empty() && rules(&table).is_empty());
        assert!(subscriptions(&table).is_empty() && defaults(&table).is_empty());
        let single = [
            partitions(&table),
            updated(&table),
            id_index(&table),
            unique(&table),
            time_index(&table),
            growth(&table),
        ];
        assert!(single.iter().all(Option::is_none), "{single:?}");
    }

    #[track_caller]
    fn assert_advice(found: impl IntoIterator<Item = Finding>, code: &str, statement: &str) {
        let found: Vec<Finding> = found.into_iter().collect();
        assert_eq!(codes(&found), [code]);
        let remedy = found[0].remedy.as_deref().unwrap();
        assert!(remedy.contains(statement), "{remedy}");
    }

    #[test]
    fn each_fault_has_its_code_and_the_statement_that_mends_it() {
        let column = |is_indexed| Some(ColumnIndex { column: "\"c\"".to_owned(), is_indexed });
        let at = "\"public\".\"outbox\"";
        let found = nullable(&TableFacts { nullable: vec!["\"c\"".to_owned()], ..table() });
        assert_advice(found, "D026", &format!("alter table {at} alter column \"c\" set not null"));
        let found = rules(&TableFacts { rules: vec!["r".to_owned()], ..table() });
        assert_advice(found, "D025", &format!("drop rule r on {at}"));
        let found = partitions(&TableFacts { layout: Layout::Partitioned(0), ..table() });
        assert_advice(found, "D027", &format!("partition of {at} default"));
        let found = updated(&TableFacts { updated: 3, ..table() });
        assert_advice(found, "D028", "on_update = \"error\"");
        let found = id_index(&TableFacts { id: column(false), ..table() });
        let index = format!("create unique index concurrently on {at} (\"c\")");
        assert_advice(found, "D022", &index);
        let repeated = TableFacts { id: column(true), ids: Ids::MayRepeat, ..table() };
        assert_advice(unique(&repeated), "D120", &index);
        assert!(unique(&TableFacts { id: column(false), ..repeated }).is_none(), "D022 has it");
        let sequence = "'public.outbox_id_seq'".to_owned();
        let ids = Ids::Repeated { sequence, given: 1, inserted: 4 };
        let repeated = TableFacts { ids, ..table() };
        assert_advice(unique(&repeated), "D120", "select setval('public.outbox_id_seq', 4)");
        let default = DefaultPartition { name: "public.rest".to_owned(), rows: 2, deleted: 3 };
        let moved = TableFacts { defaults: vec![default], ..table() };
        assert_advice(defaults(&moved), "D123", "docs/guarantees.md");
        assert!(defaults(&moved)[0].message.contains("3 rows deleted"), "{:?}", defaults(&moved));
        let swept = TableFacts { removal: Removal::ByRouter, ..moved };
        assert!(!defaults(&swept)[0].message.contains("deleted"), "the router deletes them");
        let found = subscriptions(&TableFacts { subscriptions: vec!["s".to_owned()], ..table() });
        assert_advice(found, "D121", "alter subscription s refresh publication");
        let time = TableFacts { time: column(false), ..table() };
        assert_advice(time_index(&time), "D023", "(\"c\")");
        let retained = TableFacts { removal: Removal::ByRouter, ..time };
        assert!(time_index(&retained).is_none(), "retention reports it");
        let large = TableFacts { bytes: 2 << 30, ..table() };
        assert_advice(growth(&large), "D024", "retention.mode");
        assert!(growth(&TableFacts { deleted: 1, ..large.clone() }).is_none());
        assert!(growth(&TableFacts { removal: Removal::ByRouter, ..large }).is_none());
    }

    #[test]
    fn what_keeps_retention_from_its_work_has_the_code_of_run() {
        let index = Failure::of(Case::RetentionWithoutIndex, "no index")
            .naming(Name::Statements, "create index");
        let missing = Failure::new(Code::TableMissing, "no table");
        let unreachable = Failure::new(Code::ServerUnreachable, "retention.url leads nowhere");
        assert_eq!(codes(&retention(&[index, missing, unreachable])), ["P038", "P001"]);
        assert!(retention(&[]).is_empty());
    }
}
