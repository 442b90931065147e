//! From when on rows are compared.

use std::time::Duration;

use relay::{
    Case, Failure, TableName,
    delivered::compared::{FirstOfGap, MadeSince, since_restore},
    source::Gap,
    witness::Witness,
};
use tokio_postgres::Client;

use super::args::RecoverArgs;
use crate::{
    cli::{TaskError, first_of_gap::first_of_gap, since},
    shell::SourceReading,
    wording::roughly,
};

/// A router's clock, or a broker's, may differ from PostgreSQL's by so much: topics are read from
/// so much earlier on.
const CLOCKS_APART: Duration = Duration::from_secs(90 * 60);

/// See the module's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Start {
    /// The first transaction that may have committed in a gap, where that is known.
    pub(super) first: Option<FirstOfGap>,
    /// The time that a person has named, or that is added where the server may have been restored,
    /// with the margin.
    pub(super) made: Option<MadeSince>,
    /// Everything that was committed before is delivered, as far as that has a time.
    pub(super) begin: Option<Begin>,
    /// Records from then on are read, in milliseconds since 1970.
    pub(super) records_ms: i64,
    /// From when on rows are compared, and where that comes from.
    pub(super) why: String,
    /// Whether the transactions of other roles are seen.
    pub(super) sight: Sight,
}

/// A time, without the margin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Begin {
    /// As PostgreSQL prints it.
    pub(super) at: String,
    /// In milliseconds since 1970.
    pub(super) ms: i64,
}

/// Whether this role sees when the transactions of others began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Sight {
    #[default]
    All,
    Own,
}

/// What [`since_restore`] is, for people.
const RESTORED: &str = "the last time before the slot was gone: a restored server gives ids again";

/// The age of the oldest transaction of the database, in seconds, and whether those of all roles
/// are seen. The one that asks is none of them. Of a prepared transaction, the time of its PREPARE
/// is known.
const OLDEST: &str = "\
    select coalesce(extract(epoch from clock_timestamp() - least( \
      (select min(xact_start) from pg_stat_activity \
       where datname = current_database() and pid <> pg_backend_pid()), \
      (select min(prepared) from pg_prepared_xacts where database = current_database()))), \
      0)::float8, pg_has_role('pg_read_all_stats', 'usage')";

/// The first transaction of the gaps, the time since when rows say that they were made, and when
/// records are read from: from the beginning of the oldest gap or what is acknowledged, whatever is
/// earlier, and earlier by the margin. Rows that are compared may be older, so
/// [`Start::reach_back`] follows.
pub(super) async fn find(
    client: &Client,
    args: &RecoverArgs,
    (gaps, witness): (&[Gap], &Witness),
    reading: &SourceReading,
) -> Result<Result<Start, String>, TaskError> {
    client.batch_execute("set timezone = 'UTC'").await?;
    let (first, _) = first_of_gap(client, (witness, gaps), reading).await?;
    let (begin, whence) = match &args.since {
        Some(given) => {
            let begin = match since::read(client, "--since", given).await? {
                Ok(begin) => begin,
                Err(why) => return Ok(Err(why)),
            };
            // The slot is made anew, and has nothing of what is not acknowledged.
            let unacknowledged = if first.is_none() { witness.mark().at } else { None };
            let begins = gaps
                .iter()
                .filter_map(|gap| Some((gap.name(), gap.interval.from.as_ref()?.at.clone()?)));
            let begins =
                begins.chain(unacknowledged.map(|at| ("what is not acknowledged".to_owned(), at)));
            if let Some(what) = begins_before(client, begins, &begin).await? {
                return Ok(Err(format!(
                    "--since: {what} begins before {begin}, so its rows would not be compared"
                )));
            }
            (Some(begin), "--since".to_owned())
        }
        None => match beginning(gaps, witness) {
            Some((begin, whence)) => (Some(begin), whence),
            None => (None, String::new()),
        },
    };
    let row = client.query_one(OLDEST, &[]).await?;
    let sight = if row.try_get(1)? { Sight::All } else { Sight::Own };
    let oldest = Duration::from_secs_f64(row.try_get::<_, f64>(0)?.max(0.0));
    // The oldest may have been as old already when the gap began.
    let margin = args.margin + oldest;
    let given = begin.as_ref().filter(|_| args.since.is_some());
    // Without transactions, a person says the time.
    let restored = first.and_then(|_| since_restore(witness, gaps));
    let query = "select (least($4::text::timestamptz, $5::text::timestamptz) \
           - $2::float8 * interval '1 second')::text, \
         (extract(epoch from t.at) * 1000)::int8, \
         ((extract(epoch from coalesce(t.at, now())) - $2 - $3::float8) * 1000)::int8, t.at::text \
         from (select $1::text::timestamptz at) t";
    let (seconds, apart) = (margin.as_secs_f64(), CLOCKS_APART.as_secs_f64());
    let row = client.query_one(query, &[&begin, &seconds, &apart, &given, &restored]).await?;
    let (made, ms): (Option<String>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
    let made = made.map(MadeSince);
    let whence = match (&args.since, &restored) {
        (Some(_), None) => whence,
        (None, _) => RESTORED.to_owned(),
        (Some(_), Some(_)) => format!("--since or {RESTORED}, whatever is earlier"),
    };
    let begin = row.try_get::<_, Option<String>>(3)?.zip(ms).map(|(at, ms)| Begin { at, ms });
    let why = why(first, made.as_ref(), &format!("{whence}, and {} before", roughly(margin)));
    let records_ms = row.try_get::<_, i64>(2)?.max(0);
    Ok(Ok(Start { first, made, begin, records_ms, why, sight }))
}

/// From when on rows are compared, for people.
fn why(first: Option<FirstOfGap>, made: Option<&MadeSince>, whence: &str) -> String {
    let made = made.map(|MadeSince(since)| format!("{since} ({whence})"));
    let first = first.map(|first| {
        let (xid, ended_by) = (first.xid().as_u64(), first.ended_by());
        format!("transaction {xid} (all before it had ended by {ended_by})")
    });
    match (first, made) {
        (Some(first), Some(made)) => format!("{first}, or made since {made}"),
        (Some(since), None) | (None, Some(since)) => since,
        (None, None) => "the beginning".to_owned(),
    }
}

/// The name of what begins before this time.
async fn begins_before(
    client: &Client,
    begins: impl Iterator<Item = (String, String)>,
    time: &str,
) -> Result<Option<String>, TaskError> {
    for (name, at) in begins {
        let query = "select $1::text::timestamptz < $2::text::timestamptz";
        if client.query_one(query, &[&at, &time]).await?.try_get(0)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// The earliest time at which a gap begins, or up to which everything is acknowledged; `None` if
/// that of a gap is not known. What the slot had not sent is dropped with it.
fn beginning(gaps: &[Gap], witness: &Witness) -> Option<(String, String)> {
    let mut earliest: Option<(String, String)> = None;
    let mut take = |at: String, what: String| {
        // All have one form, in which the order of texts is that of times.
        if earliest.as_ref().is_none_or(|(known, _)| at < *known) {
            earliest = Some((at, what));
        }
    };
    for gap in gaps {
        let at = gap.interval.from.as_ref()?.at.clone()?;
        take(at, format!("the beginning of {}", gap.name()));
    }
    if let Some(at) = witness.mark().at {
        take(at, "what is acknowledged".to_owned());
    }
    earliest
}

/// Nothing says which rows of the table belong to the gaps.
pub(super) fn unknown(gaps: &[Gap], table: &TableName) -> Failure {
    let gaps: Vec<String> = gaps.iter().map(Gap::name).collect();
    let what = format!(
        "it is not known which transactions committed in {}, so which rows of {table} may be \
         missing, their times alone would say",
        gaps.join(" and ")
    );
    Failure::of(Case::RecoverSince, what)
}

impl Start {
    /// Records are read from before the oldest row that is compared, whatever that says.
    pub(super) fn reach_back(&mut self, oldest_ms: Option<i64>) {
        let apart = i64::try_from(CLOCKS_APART.as_millis()).unwrap_or(i64::MAX);
        let from = oldest_ms.map_or(i64::MAX, |oldest| oldest.saturating_sub(apart));
        self.records_ms = self.records_ms.min(from.max(0));
    }

    /// For a table that is compared as a whole: every record is read.
    pub(super) fn always(&self) -> Self {
        Self { records_ms: 0, ..self.clone() }
    }
}
