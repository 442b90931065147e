//! Which rows the flags select, and the reading of them.

use std::collections::BTreeSet;

use relay::TableName;
use tokio_postgres::Client;

use super::{
    super::args::NamedArgs,
    row::{Found, typed},
};
use crate::{
    cli::{
        EventRef, SelectArgs, Since, TaskError,
        polled_tables::{Failed, Tables},
        since,
    },
    polling::sql::{Stuck, StuckFilter, stuck},
};

/// What the flags select; `Err` says what is wrong with them.
pub(super) fn filter(args: &NamedArgs) -> Result<StuckFilter, String> {
    let mut keys = args.keys.clone();
    for key in &args.hex_keys {
        let text = String::from_utf8(key.0.clone());
        keys.push(text.map_err(|_| "--key-hex: a key of a polled table is a text".to_owned())?);
    }
    let ids = args.ids.iter().map(|id| id.text.clone()).collect();
    Ok(StuckFilter { ids, keys, ..StuckFilter::default() })
}

/// The same, with everything that selects.
pub(super) async fn select(
    args: &SelectArgs,
    client: &Client,
) -> Result<Result<StuckFilter, String>, TaskError> {
    let since = match read_since(args.since.as_ref(), client).await? {
        Ok(since) => since,
        Err(message) => return Ok(Err(message)),
    };
    let named = filter(&args.named);
    Ok(named.map(|named| StuckFilter { since, codes: args.codes.clone(), ..named }))
}

async fn read_since(
    since: Option<&Since>,
    client: &Client,
) -> Result<Result<Option<String>, String>, TaskError> {
    let Some(since) = since else { return Ok(Ok(None)) };
    Ok(since::read(client, "--since", since).await?.map(Some))
}

/// What was read.
pub(super) struct Rows {
    pub(super) found: Vec<Found>,
    /// Tables that cannot record such a row.
    pub(super) without: Vec<TableName>,
    /// Whether the limit has left rows out.
    pub(super) is_cut: bool,
}

/// Reads the rows of every table that can be read; the others are told by `tables`.
pub(super) async fn read(
    client: &Client,
    tables: &mut Tables,
    which: Stuck,
    filter: &StuckFilter,
) -> Result<Rows, TaskError> {
    let mut rows = Rows { found: Vec::new(), without: Vec::new(), is_cut: false };
    let mut failed = Vec::new();
    for table in &tables.readable {
        let left = filter.limit.map(|limit| {
            let have = u32::try_from(rows.found.len()).unwrap_or(u32::MAX);
            // One more says whether there are more.
            limit.saturating_sub(have).saturating_add(1)
        });
        let filter = StuckFilter { limit: left, ..filter.clone() };
        match stuck(client, table, which, &filter).await {
            Ok(Some(found)) => {
                let of_table = |row| Found { table: table.name().clone(), row };
                rows.found.extend(found.into_iter().map(of_table));
            }
            Ok(None) => rows.without.push(table.name().clone()),
            Err(failure) => failed.push(Failed::of(table.name(), failure, client).await?),
        }
    }
    tables.give_up(failed);
    if let Some(limit) = filter.limit.and_then(|limit| usize::try_from(limit).ok()) {
        rows.is_cut = rows.found.len() > limit;
        rows.found.truncate(limit);
    }
    Ok(rows)
}

impl Rows {
    /// How many rows wait behind them: those of one key once.
    pub(super) fn behind(&self) -> u64 {
        let mut keys = BTreeSet::new();
        let rows = self.found.iter();
        let firsts = rows.filter(|it| keys.insert((&it.table, &it.row.key)));
        firsts.map(|it| it.row.behind).sum()
    }

    /// The tables of the rows that are named so, as they are typed.
    pub(super) fn tables_of(&self, id: &EventRef) -> BTreeSet<String> {
        let named = self.found.iter().filter(|found| found.is_named(id));
        named.map(|found| typed(&found.table)).collect()
    }
}
