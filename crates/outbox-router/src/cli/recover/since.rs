//! From when on rows are compared.

use std::time::Duration;

use relay::{Case, Failure, source::Gap, witness::Witness};
use tokio_postgres::Client;

use super::args::RecoverArgs;
use crate::{
    cli::{TaskError, since},
    wording,
};

/// A router's clock, or a broker's, may differ from PostgreSQL's by so much: topics are read from
/// so much earlier on.
const CLOCKS_APART: Duration = Duration::from_secs(90 * 60);

/// See the module's header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// As PostgreSQL prints it: rows that were made then or later are compared.
    pub(super) rows: String,
    /// Everything that was committed before is delivered: in the same form, without the margin.
    pub(super) begin: String,
    /// The same, in milliseconds since 1970.
    pub(super) begin_ms: i64,
    /// Records from then on are read, in milliseconds since 1970.
    pub(super) records_ms: i64,
    /// Where it comes from.
    pub(super) why: String,
    /// Whether the transactions of other roles are seen.
    pub(super) sight: Sight,
}

/// Whether this role sees when the transactions of others began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Sight {
    #[default]
    All,
    Own,
}

/// The age of the oldest transaction of the database, in seconds, and whether those of all roles
/// are seen. The one that asks is none of them. Of a prepared transaction, the time of its PREPARE
/// is known.
const OLDEST: &str = "\
    select coalesce(extract(epoch from clock_timestamp() - least( \
      (select min(xact_start) from pg_stat_activity \
       where datname = current_database() and pid <> pg_backend_pid()), \
      (select min(prepared) from pg_prepared_xacts where database = current_database()))), \
      0)::float8, pg_has_role('pg_read_all_stats', 'usage')";

/// Takes `--since`, else the beginning of the oldest gap or what is acknowledged, whatever is
/// earlier, and goes back by the margin.
pub(super) async fn find(
    client: &Client,
    args: &RecoverArgs,
    gaps: &[Gap],
    witness: &Witness,
) -> Result<Result<Start, String>, TaskError> {
    client.batch_execute("set timezone = 'UTC'").await?;
    let (begin, why) = match &args.since {
        Some(given) => {
            let begin = match since::read(client, "--since", given).await? {
                Ok(begin) => begin,
                Err(why) => return Ok(Err(why)),
            };
            if let Some(gap) = begins_before(client, gaps, &begin).await? {
                return Ok(Err(format!(
                    "--since: {} begins before {begin}, so rows of its interval would not be \
                     compared",
                    gap.name()
                )));
            }
            (begin, "--since".to_owned())
        }
        None => match beginning(gaps, witness) {
            Some(begin) => begin,
            None => return Err(unknown(gaps).into()),
        },
    };
    let row = client.query_one(OLDEST, &[]).await?;
    let sight = if row.try_get(1)? { Sight::All } else { Sight::Own };
    let oldest = Duration::from_secs_f64(row.try_get::<_, f64>(0)?.max(0.0));
    // The oldest may have been as old already when the gap began.
    let margin = args.margin + oldest;
    let query = "select (t.at - $2::float8 * interval '1 second')::text, \
         (extract(epoch from t.at) * 1000)::int8, \
         ((extract(epoch from t.at) - $2 - $3::float8) * 1000)::int8, t.at::text \
         from (select $1::text::timestamptz at) t";
    let apart = CLOCKS_APART.as_secs_f64();
    let row = client.query_one(query, &[&begin, &margin.as_secs_f64(), &apart]).await?;
    Ok(Ok(Start {
        rows: row.try_get(0)?,
        begin_ms: row.try_get(1)?,
        records_ms: row.try_get::<_, i64>(2)?.max(0),
        begin: row.try_get(3)?,
        why: format!("{why}, and {} before", wording::roughly(margin)),
        sight,
    }))
}

/// A gap that begins before this time.
async fn begins_before<'g>(
    client: &Client,
    gaps: &'g [Gap],
    time: &str,
) -> Result<Option<&'g Gap>, TaskError> {
    for gap in gaps {
        let Some(at) = gap.interval.from.as_ref().and_then(|from| from.at.as_deref()) else {
            continue;
        };
        let query = "select $1::text::timestamptz < $2::text::timestamptz";
        if client.query_one(query, &[&at, &time]).await?.try_get(0)? {
            return Ok(Some(gap));
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

fn unknown(gaps: &[Gap]) -> Failure {
    let unknown = gaps
        .iter()
        .find(|gap| gap.interval.from.as_ref().is_none_or(|from| from.at.is_none()))
        .map_or_else(String::new, Gap::name);
    Failure::of(Case::RecoverSince, format!("it is not known at what time {unknown} begins"))
}

impl Start {
    /// For a table that is compared as a whole: every record is read.
    pub(super) fn always(&self) -> Self {
        Self { records_ms: 0, ..self.clone() }
    }
}
