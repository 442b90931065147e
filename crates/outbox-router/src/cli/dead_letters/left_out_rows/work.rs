//! What is decided about rows that were left out, and how it is noted.

use relay::Failure;
use serde_json::json;
use tokio_postgres::Client;

use super::{
    super::{args::DecideArgs, decision::Decision},
    rows::table,
};
use crate::{
    cli::connect::Access,
    config::Config,
    postgres::sql_failure,
    republish::{
        journal::{Completeness, Run, Subject},
        left_out::{self, Entry, Settled},
    },
    wording::count,
};

/// The outcome for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Sent,
    Dropped,
    /// It still cannot become a record, or `where` filters it.
    LeftOut,
    /// Its event is held.
    Held,
    /// The table does not have it.
    WithoutRow,
    /// Another column has the ids of the table now, or a text stands for them.
    WithoutId,
}

impl Outcome {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Dropped => "dropped",
            Self::LeftOut => "left_out",
            Self::Held => "held",
            Self::WithoutRow => "without_row",
            Self::WithoutId => "without_id",
        }
    }

    /// Why a row is not settled.
    pub(super) const fn why(self) -> Option<&'static str> {
        match self {
            Self::Sent | Self::Dropped => None,
            Self::LeftOut => Some("stays left out"),
            Self::Held => Some("is held: outbox-router dead-letters list"),
            Self::WithoutRow => Some(
                "is in no row now: it was deleted, or its id was changed. Under its new id, \
                 outbox-router replay --id sends it; outbox-router dead-letters drop --left-out then \
                 deletes its entry",
            ),
            Self::WithoutId => Some(
                "cannot be told from other rows, since columns.id is not the column now that had its \
                 id, or that is not known: outbox-router replay --where sends it, outbox-router \
                 dead-letters drop --left-out then deletes its entry",
            ),
        }
    }
}

/// The command, and the outcomes.
pub(super) struct Work<'a> {
    pub(super) decision: Decision,
    pub(super) args: &'a DecideArgs,
    pub(super) config: &'a Config,
    pub(super) access: Access<'a>,
    /// Has the lock, and writes what is decided.
    pub(super) books: &'a Client,
    /// In the order of their tables.
    pub(super) rows: Vec<(Entry, Option<Outcome>)>,
    /// How many of the rows stay left out since `where` filters them.
    pub(super) filtered: usize,
    /// Lines of `outbox_router.republication`.
    pub(super) runs: Vec<i64>,
    pub(super) failure: Option<Failure>,
}

/// So many rows, for people: an entry may be several.
pub(super) fn count_of<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> String {
    count(entries.into_iter().map(|entry| entry.rows).sum::<i64>(), "row")
}

impl<'a> Work<'a> {
    /// Notes who decides what about these rows, and why.
    pub(super) async fn begin(
        &mut self,
        rows: &[(Entry, Option<Outcome>)],
    ) -> Result<Run<'a>, Failure> {
        let ids: Vec<&str> = rows.iter().map(|(entry, _)| entry.row.id.as_str()).collect();
        let of = rows.first().map(|(entry, _)| table(entry));
        let selection = json!({ "table": of, "left_out": ids }).to_string();
        let command = format!("dead-letters {}", self.decision.verb());
        let subject = Subject {
            pipeline: &self.config.name,
            slot: self.config.postgres.slot.as_str(),
            command: &command,
            selection: &selection,
        };
        let decider = self.args.decision.decider(self.access.environment);
        let run = Run::begin(self.books, subject, &decider.by, decider.reason).await?;
        self.runs.push(run.id());
        Ok(run)
    }

    /// Settles the entries that are sent or given up, and notes how it ended, at once.
    pub(super) async fn end(
        &self,
        run: &Run<'_>,
        rows: &[(Entry, Option<Outcome>)],
        (outcome, completeness): (&str, Completeness),
    ) -> Result<(), Failure> {
        let (became, settled) = match self.decision {
            Decision::Requeue => (Outcome::Sent, Settled::Sent),
            Decision::Drop(_) => (Outcome::Dropped, Settled::GivenUp),
        };
        let of_it = rows.iter().filter(|(_, outcome)| *outcome == Some(became));
        let ids: Vec<String> = of_it.map(|(entry, _)| entry.row.id.clone()).collect();
        let oid = rows.first().map_or(0, |(entry, _)| entry.oid);
        self.books.batch_execute("begin").await.map_err(sql_failure)?;
        left_out::settle(self.books, &self.config.name, (oid, &ids), settled).await?;
        run.end(outcome, completeness).await?;
        self.books.batch_execute("commit").await.map_err(sql_failure)
    }
}
