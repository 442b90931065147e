//! Turns one reading into an answer: what the router says, where one answers, so that the command
//! and the router never disagree; else what tables and leases show. That never is OK, since nothing
//! shows that rows flow.

use relay::Failure;

use super::reading::PollingReading;
use crate::{
    cli::status::{
        blame::{self, BlameLine, Who},
        finding::Finding,
        overall::{Overall, of_router},
        router,
        verdict::Verdict,
    },
    codes::Hint,
    config::Config,
    monitor::Blame,
    polling::survey::{Holder, RowCount, SurveyedTable},
    status::Word,
    wording,
};

/// The answer.
pub(super) struct Judged {
    pub(super) overall: Overall,
    pub(super) verdict: Verdict,
}

/// Judges a reading.
pub(super) fn judge(reading: &PollingReading, config: &Config) -> Judged {
    let of_router = of_router(reading.router.as_ref());
    let said = router::to_do(reading.router.as_ref());
    if let (Some(overall), Some(findings)) = (of_router, said) {
        let verdict =
            Verdict { blame: blame(reading), unanswered: None, findings, notes: Vec::new() };
        return unless_handed(reading, Judged { overall, verdict });
    }
    let mut findings: Vec<Finding> = Vec::new();
    add(&mut findings, failures(reading));
    let mut unanswered = None;
    let tables = reading.tables.as_deref().unwrap_or_default();
    for table in tables {
        match live(table).as_slice() {
            [] if table.holders.is_ok() && table.handed.is_none() => {
                findings.push(nobody(table));
            }
            [] => {}
            live => unanswered = unanswered.or_else(|| Some(silence(reading, table, live, config))),
        }
    }
    let blame = blame_without_router(reading);
    let (word, sentence) = match (findings.first(), &unanswered) {
        (Some(finding), _) => (Some(Word::Failed), named(finding)),
        (None, Some(silence)) => (None, silence.message.clone()),
        (None, None) => (None, "no table is configured".to_owned()),
    };
    let overall = Overall::without_router(word, sentence);
    Judged { overall, verdict: Verdict { blame, unanswered, findings, notes: Vec::new() } }
}

/// Who has to act, as the router says.
fn blame(reading: &PollingReading) -> BlameLine {
    let router = reading.router.as_ref();
    let blame = blame::of_router(router).unwrap_or_else(|| Who::Unknown.because(""));
    if blame.needs_person && reading.a_row_needs_person() {
        let why = "other keys go on, and what waits is tried again".to_owned();
        return BlameLine { why, ..blame };
    }
    blame
}

/// The router may not have seen yet that nobody may poll a table.
fn unless_handed(reading: &PollingReading, judged: Judged) -> Judged {
    let Judged { mut overall, mut verdict } = judged;
    if overall.is_well()
        && let Some(handed) = reading.handed()
    {
        let finding = Finding::of(handed);
        let why = "nobody polls the tables".to_owned();
        overall = Overall::without_router(Some(Word::Blocked), named(&finding));
        verdict.blame = BlameLine { who: Who::Part(Blame::of(handed)), needs_person: true, why };
    }
    add(&mut verdict.findings, failures(reading));
    Judged { overall, verdict }
}

/// Why the tables could not be read, or one of them.
fn failures(reading: &PollingReading) -> Vec<&Failure> {
    match &reading.tables {
        Err(failure) => vec![failure],
        Ok(tables) => tables
            .iter()
            .flat_map(|table| {
                let unread = [table.figures.as_ref().err(), table.holders.as_ref().err()];
                unread.into_iter().chain([table.handed.as_ref(), table.stranded.as_ref()])
            })
            .flatten()
            .collect(),
    }
}

fn add(findings: &mut Vec<Finding>, failures: Vec<&Failure>) {
    for finding in failures.into_iter().map(Finding::of) {
        let is_known = findings.iter().any(|known| known.code == finding.code);
        if !is_known {
            findings.push(finding);
        }
    }
}

fn live(table: &SurveyedTable) -> Vec<&Holder> {
    let holders = table.holders.as_deref().unwrap_or_default();
    holders.iter().filter(|holder| holder.is_live()).collect()
}

/// Nobody holds a shard of the table, so nobody reads it.
fn nobody(table: &SurveyedTable) -> Finding {
    let pending =
        table.figures.as_ref().ok().map_or(String::new(), |figures| match figures.pending {
            RowCount::Exactly(0) => ", in which nothing is pending".to_owned(),
            pending @ (RowCount::Exactly(_) | RowCount::AtLeast(_)) => {
                format!(", in which {} pending", counted(pending))
            }
        });
    Finding {
        code: None,
        message: format!("no worker polls {}{pending}", table.name),
        hint: Some(Hint::command("outbox-router run")),
        stops: true,
    }
}

/// Somebody holds shards, and no router says what becomes of the rows.
fn silence(
    reading: &PollingReading,
    table: &SurveyedTable,
    live: &[&Holder],
    config: &Config,
) -> Finding {
    let listen = config.admin.listen;
    let answers = match &reading.other {
        None => format!("no router answers at http://{listen}"),
        Some(other) => format!("another router answers at http://{listen} ({})", other.is),
    };
    let shards: u32 = live.iter().map(|holder| holder.shards).sum();
    let workers = wording::count(i64::try_from(live.len()).unwrap_or(i64::MAX), "worker");
    let hold = if live.len() == 1 { "holds" } else { "hold" };
    Finding {
        code: None,
        message: format!(
            "{answers}, and {workers} {hold} {shards} of {} shards of {}",
            relay::polling::SHARDS,
            table.name
        ),
        hint: Some(Hint::marked(
            "`outbox-router status` on the host of a worker, or with --set \
             admin.listen=HOST:PORT",
        )),
        stops: false,
    }
}

fn blame_without_router(reading: &PollingReading) -> BlameLine {
    match &reading.tables {
        Err(_) => Who::Unknown.because("PostgreSQL cannot be asked"),
        Ok(tables) if tables.iter().any(|table| !live(table).is_empty()) => {
            Who::Unknown.because("no router answers")
        }
        Ok(_) => Who::Part(Blame::Router).because("it is not running, or holds no lease"),
    }
}

fn named(finding: &Finding) -> String {
    let code = finding.code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default();
    format!("{}{code}", finding.message)
}

/// Rows as people count them, with their verb.
pub(super) fn counted(rows: RowCount) -> String {
    match rows {
        RowCount::Exactly(1) => "1 row is".to_owned(),
        RowCount::Exactly(rows) => format!("{rows} rows are"),
        RowCount::AtLeast(rows) => format!("more than {rows} rows are"),
    }
}

#[cfg(test)]
mod tests;
