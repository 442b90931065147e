//! From when on rows are compared.

use std::time::Duration;

use relay::{Case, Failure, source::Gap};
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
pub(super) struct From {
    /// As PostgreSQL prints it: rows that were made then or later are compared.
    pub(super) rows: String,
    /// Records from then on are read, in milliseconds since 1970.
    pub(super) records_ms: i64,
    /// Where it comes from.
    pub(super) why: String,
}

/// The age of the oldest transaction that is open, in seconds.
const OLDEST: &str = "\
    select coalesce(extract(epoch from clock_timestamp() - least( \
      (select min(xact_start) from pg_stat_activity where backend_xid is not null), \
      (select min(prepared) from pg_prepared_xacts))), 0)::float8";

/// Takes `--since`, else the beginning of the oldest gap, and goes back by the margin.
pub(super) async fn find(
    client: &Client,
    args: &RecoverArgs,
    gaps: &[Gap],
) -> Result<Result<From, String>, TaskError> {
    client.batch_execute("set timezone = 'UTC'").await?;
    let (begin, why) = match &args.since {
        Some(given) => match since::read(client, "--since", given).await? {
            Ok(begin) => (begin, "--since".to_owned()),
            Err(why) => return Ok(Err(why)),
        },
        None => match beginning(gaps) {
            Some((at, gap)) => (at, format!("the beginning of {}", gap.name())),
            None => return Err(unknown(gaps).into()),
        },
    };
    let oldest: f64 = client.query_one(OLDEST, &[]).await?.try_get(0)?;
    let oldest = Duration::from_secs_f64(oldest.max(0.0));
    let (margin, of) = if oldest > args.margin {
        (oldest, ", the age of the oldest open transaction")
    } else {
        (args.margin, "")
    };
    let query = "select (t.at - $2::float8 * interval '1 second')::text, \
         ((extract(epoch from t.at) - $2 - $3::float8) * 1000)::int8 \
         from (select $1::text::timestamptz at) t";
    let apart = CLOCKS_APART.as_secs_f64();
    let row = client.query_one(query, &[&begin, &margin.as_secs_f64(), &apart]).await?;
    Ok(Ok(From {
        rows: row.try_get(0)?,
        records_ms: row.try_get::<_, i64>(1)?.max(0),
        why: format!("{why}, and {} before{of}", wording::roughly(margin)),
    }))
}

/// The earliest time at which a gap begins; `None` if that of one is not known.
fn beginning(gaps: &[Gap]) -> Option<(String, &Gap)> {
    let of = |gap: &'_ Gap| gap.interval.from.as_ref()?.at.clone();
    let mut earliest: Option<(String, &Gap)> = None;
    for gap in gaps {
        // Both have one form, in which the order of texts is that of times.
        let at = of(gap)?;
        if earliest.as_ref().is_none_or(|(known, _)| at < *known) {
            earliest = Some((at, gap));
        }
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

impl From {
    /// For a table that is compared as a whole: every record is read.
    pub(super) fn always(&self) -> Self {
        Self { records_ms: 0, ..self.clone() }
    }
}
