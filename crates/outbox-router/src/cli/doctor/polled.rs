//! The polled tables: whether rows can be read, shared and marked, and what will make that slow.
//! These checks take the place of those of slot, publication and WAL.

use relay::{Code, Name, Names};

use super::{
    check::{Check, Judged, either, error, note, warning},
    facts::{Facts, Notify, PolledTableFacts},
    finding::{Finding, Severity},
    writing_order, zones,
};
use crate::{
    codes::Advice,
    polling::{
        sql::{IndexTrouble, RowCount, TableSurvey, UpkeepFacts},
        survey::stranded,
    },
};

/// A pending row that is older than this waits for something.
const PENDING_SECONDS: f64 = 300.0;

/// So many dead rows, and as many as living ones: autovacuum does not keep up.
const DEAD_MIN: u64 = 50_000;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "PostgreSQL answers, and takes the polling role",
        reports: &[
            error(Code::ServerUnreachable.as_str()),
            error(Code::AuthenticationFailed.as_str()),
            error(Code::ServerFull.as_str()),
            error(Code::ServerNotReady.as_str()),
        ],
        judge: |facts| Ok(facts.postgres.as_ref().err().map(Finding::of).into_iter().collect()),
    },
    Check {
        name: "each table can be polled, and the role may mark its rows",
        reports: &[
            error(Code::Polling.as_str()),
            error(Code::TableMissing.as_str()),
            error(Code::RoleLacksReplication.as_str()),
            error(Code::ColumnMissing.as_str()),
            error(Code::ColumnType.as_str()),
            error(Code::PresetUnclear.as_str()),
            error(Code::ForeignCode.as_str()),
        ],
        judge: |facts| {
            let tables = facts.polled()?.tables.iter();
            let failures = tables.filter_map(|table| table.upkeep.as_ref().err());
            // That is the next check's, and the same for all tables.
            let own = failures.filter(|failure| failure.code != Code::LeaseTable);
            Ok(own.map(Finding::of).collect())
        },
    },
    Check {
        name: "workers can share the tables",
        reports: &[error(Code::LeaseTable.as_str())],
        judge: |facts| Ok(facts.polled()?.leases.as_ref().map(Finding::of).into_iter().collect()),
    },
    Check {
        name: "no slot streams the tables that are polled",
        reports: &[error(Code::Switched.as_str())],
        judge: |facts| Ok(facts.polled()?.streamed.iter().map(Finding::of).collect()),
    },
    Check {
        name: "no switch keeps workers from the tables",
        reports: &[error(Code::Switched.as_str())],
        judge: |facts| Ok(facts.polled()?.handed.iter().map(Finding::of).collect()),
    },
    Check {
        name: "an index finds the pending rows",
        reports: &[warning(Advice::PendingIndexMissing.as_str())],
        judge: |facts| each(facts, index),
    },
    Check {
        name: "new rows wake the router",
        reports: &[note(Advice::NotifyMissing.as_str())],
        judge: |facts| {
            let notify = facts.polled()?.notify;
            each(facts, |table, upkeep| missing_trigger(table, upkeep, notify))
        },
    },
    Check {
        name: "nothing announces rows to nobody",
        reports: &[warning(Advice::NotifyUnused.as_str())],
        judge: |facts| {
            let notify = facts.polled()?.notify;
            each(facts, |table, upkeep| unused_trigger(table, upkeep, notify))
        },
    },
    Check {
        name: "announcements of rows reach the router",
        reports: &[note(Advice::NotifyPooled.as_str())],
        judge: |facts| {
            let polled = facts.polled()?;
            let announced = polled.tables.iter().filter_map(|table| table.upkeep.as_ref().ok());
            let announced = announced.filter(|upkeep| upkeep.has_trigger).count();
            if !polled.is_pooled || polled.notify == Notify::Unheard || announced == 0 {
                return Ok(Vec::new());
            }
            let what = "postgres.url leads to a pooler, which passes no announcement on";
            let names = Names::default();
            Ok(vec![Finding::advice(Severity::Note, Advice::NotifyPooled, what, &names)])
        },
    },
    Check {
        name: "one pipeline polls a table",
        reports: &[warning(Advice::SeveralPipelines.as_str())],
        judge: |facts| each(facts, several),
    },
    Check {
        name: "rows of a key come in the order in which they were written",
        reports: &[either(Advice::OrderOfWriting.as_str(), &[Severity::Warning, Severity::Note])],
        judge: writing_order::judge,
    },
    Check {
        name: "writers and the router mean the same time by a mark",
        reports: &[either(Advice::MarksWithoutZone.as_str(), &[Severity::Warning, Severity::Note])],
        judge: zones::judge,
    },
    Check {
        name: "vacuum keeps up with the marks",
        reports: &[warning(Advice::DeadRows.as_str())],
        judge: |facts| each(facts, dead),
    },
    Check {
        name: "no row is abandoned",
        reports: &[warning(Advice::RowsAbandoned.as_str())],
        judge: |facts| surveyed(facts, abandoned),
    },
    Check {
        name: "the status of every row is known",
        reports: &[error(Code::StatusUnknown.as_str())],
        judge: |facts| {
            let unknown = |table: &PolledTableFacts, rows: &TableSurvey| {
                stranded(&table.name, rows).as_ref().map(Finding::of)
            };
            surveyed(facts, unknown)
        },
    },
    Check {
        name: "no table that was polled before has pending rows",
        reports: &[error(Code::Polling.as_str())],
        judge: |facts| Ok(facts.polled()?.former.iter().map(Finding::of).collect()),
    },
    Check {
        name: "no row is pending for long",
        reports: &[warning(Advice::RowsPendingLong.as_str())],
        judge: |facts| surveyed(facts, pending),
    },
    Check {
        name: "[retention] can remove polled rows",
        reports: &[warning(Code::Retention.as_str())],
        judge: |facts| Ok(facts.polled()?.retention.iter().map(Finding::caution).collect()),
    },
];

/// What is found at each table that can be polled.
fn each(
    facts: &Facts,
    judge: impl Fn(&PolledTableFacts, &UpkeepFacts) -> Option<Finding>,
) -> Judged {
    let tables = facts.polled()?.tables.iter();
    Ok(tables.filter_map(|table| judge(table, table.upkeep.as_ref().ok()?)).collect())
}

fn surveyed(
    facts: &Facts,
    judge: impl Fn(&PolledTableFacts, &TableSurvey) -> Option<Finding>,
) -> Judged {
    let tables = facts.polled()?.tables.iter();
    Ok(tables.filter_map(|table| judge(table, table.survey.as_ref().ok()?)).collect())
}

fn names(table: &PolledTableFacts, statements: Option<String>) -> Names {
    let mut names = Names::default();
    names.set(Name::QuotedTable, table.quoted.clone());
    if let Some(statements) = statements {
        names.set(Name::Statements, statements);
    }
    names
}

fn index(table: &PolledTableFacts, upkeep: &UpkeepFacts) -> Option<Finding> {
    let name = &table.name;
    let first = upkeep.indexes.first()?;
    let what = match &first.trouble {
        IndexTrouble::Missing => {
            format!("table {name} has no index of the kind that {}", first.purpose)
        }
        IndexTrouble::Invalid(index) => {
            format!("the index {index} of table {name} is invalid: its making was interrupted")
        }
        IndexTrouble::Outdated(index) => format!(
            "the index {index} of table {name} was made for other marks, another order or another \
             filter"
        ),
    };
    let statements = upkeep.indexes.iter().flat_map(|work| &work.statements);
    let statements: Vec<&str> = statements.map(String::as_str).collect();
    let names = names(table, Some(statements.join("; ")));
    Some(Finding::advice(Severity::Warning, Advice::PendingIndexMissing, what, &names))
}

fn missing_trigger(
    table: &PolledTableFacts,
    upkeep: &UpkeepFacts,
    notify: Notify,
) -> Option<Finding> {
    (notify == Notify::Heard && !upkeep.has_trigger).then(|| {
        let what = format!("no trigger announces new rows of table {}", table.name);
        Finding::advice(Severity::Note, Advice::NotifyMissing, what, &names(table, None))
    })
}

fn unused_trigger(
    table: &PolledTableFacts,
    upkeep: &UpkeepFacts,
    notify: Notify,
) -> Option<Finding> {
    (notify == Notify::Unheard && upkeep.has_trigger).then(|| {
        let what = format!(
            "a trigger announces new rows of table {}, and polling.notify is false",
            table.name
        );
        let drop = format!("drop trigger outbox_router_notify on {}", table.quoted);
        let names = names(table, Some(drop));
        Finding::advice(Severity::Warning, Advice::NotifyUnused, what, &names)
    })
}

fn several(table: &PolledTableFacts, upkeep: &UpkeepFacts) -> Option<Finding> {
    let pipelines = upkeep.pipelines.as_slice();
    (pipelines.len() > 1).then(|| {
        let what = format!("workers of {} poll table {}", pipelines.join(" and "), table.name);
        Finding::advice(Severity::Warning, Advice::SeveralPipelines, what, &names(table, None))
    })
}

fn dead(table: &PolledTableFacts, upkeep: &UpkeepFacts) -> Option<Finding> {
    let UpkeepFacts { dead, live, .. } = *upkeep;
    (dead >= DEAD_MIN && dead >= live).then(|| {
        let what = format!("table {} has {dead} dead rows and {live} living ones", table.name);
        Finding::advice(Severity::Warning, Advice::DeadRows, what, &names(table, None))
    })
}

fn abandoned(table: &PolledTableFacts, survey: &TableSurvey) -> Option<Finding> {
    let rows = match survey.abandoned {
        RowCount::Exactly(0) => return None,
        RowCount::Exactly(rows) => rows.to_string(),
        RowCount::AtLeast(rows) => format!("more than {rows}"),
    };
    let what = format!("rows of table {} that are abandoned: {rows}", table.name);
    Some(Finding::advice(Severity::Warning, Advice::RowsAbandoned, what, &names(table, None)))
}

fn pending(table: &PolledTableFacts, survey: &TableSurvey) -> Option<Finding> {
    let seconds = survey.oldest_seconds.filter(|&seconds| seconds > PENDING_SECONDS)?;
    let what = format!("a row of table {} is pending for {seconds:.0} s", table.name);
    Some(Finding::advice(Severity::Warning, Advice::RowsPendingLong, what, &names(table, None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::doctor::samples::{codes, polled_table, upkeep},
        polling::sql::IndexWork,
    };

    fn code(finding: Option<Finding>) -> Vec<&'static str> {
        codes(&finding.into_iter().collect::<Vec<_>>())
    }

    #[test]
    fn an_invalid_index_is_dropped_and_made_again() {
        assert!(index(&polled_table(), &upkeep()).is_none());
        let statements = ["drop index concurrently \"public\".\"i\"", "create index i"];
        let work = IndexWork {
            purpose: "finds pending rows",
            name: "outbox_router_pending_outbox".to_owned(),
            trouble: IndexTrouble::Invalid("\"public\".\"i\"".to_owned()),
            statements: statements.map(str::to_owned).into(),
        };
        let broken = UpkeepFacts { indexes: vec![work], ..upkeep() };
        let finding = index(&polled_table(), &broken).unwrap();
        let remedy = finding.remedy.unwrap();
        assert!(
            remedy.contains("drop index concurrently \"public\".\"i\"; create index i"),
            "{remedy}"
        );
    }

    #[test]
    fn many_dead_rows_are_more_than_the_living_ones() {
        let of = |dead, live| code(dead_of(dead, live));
        fn dead_of(rows: u64, live: u64) -> Option<Finding> {
            dead(&polled_table(), &UpkeepFacts { dead: rows, live, ..upkeep() })
        }
        assert_eq!(of(60_000, 100_000), [""; 0]);
        assert_eq!(of(49_999, 0), [""; 0]);
        assert_eq!(of(60_000, 50_000), ["D056"]);
    }

    #[test]
    fn a_trigger_and_the_setting_belong_together() {
        let without = UpkeepFacts { has_trigger: false, ..upkeep() };
        assert_eq!(code(missing_trigger(&polled_table(), &without, Notify::Heard)), ["D051"]);
        assert_eq!(code(missing_trigger(&polled_table(), &without, Notify::Unheard)), [""; 0]);
        assert_eq!(code(unused_trigger(&polled_table(), &upkeep(), Notify::Unheard)), ["D052"]);
        assert_eq!(code(unused_trigger(&polled_table(), &upkeep(), Notify::Heard)), [""; 0]);
    }
}
