//! The connection on which tables are described, read and marked.

use relay::{
    Case, Class, Failure, TableName,
    delivered::ServerSession,
    polling::{
        Claimed, Described, FetchRequest, Fetched, More, PendingRow, RowId, SettleRequest, Settled,
        TableIndex, Written,
    },
};
use tokio::time::Instant;
use tokio_postgres::Client;

use super::{
    blocked::Blocked,
    cascades::refuse_cascades,
    connection::{Answer, Connection, REQUEST_LIMIT, run},
    facts::Facts,
    failure::{Write, malformed, of_lease, of_table, of_write, unfit},
    fetch::FetchText,
    former::former,
    holders::polled_by_others,
    holders::{Shares, shares},
    marks::Decides,
    measure::measure,
    removal::Removal,
    rows::{self, Read, Wanted},
    settings::{SqlSettings, TableConfig},
    settle::{Look, SettleText, are_marks_undone},
    survey::{TableSurvey, survey},
    table::{IdentityColumn, PolledTable, not_described},
    transaction::{Access, BEGINS, COMMIT, Ways, begin},
};
use crate::{
    monitor::Connect,
    postgres::{Runs, Touched, look_for_foreign_code},
    retention::TableFigures,
};

/// A search for rows that are not blocked begins no reading after this part of a lease. Rows are
/// not sent that are found after half of it.
const SEARCHES_IN_LEASE: u32 = 10;

/// The polled tables, on one connection.
///
/// It is opened by the first request, and again by the next one after it was lost and after a
/// request whose answer was not awaited.
pub struct Database<C> {
    connection: Connection<C>,
    tables: Vec<Entry>,
    settings: SqlSettings,
}

struct Entry {
    config: TableConfig,
    known: Option<Known>,
    /// The first of the rows that were marked last.
    marked: Option<RowId>,
    /// For the rows of the last reading. If one comes again that was marked, a person may have made
    /// it pending, or a rule or a trigger that was made since the table was described.
    look: Look,
    trust: Trust,
}

/// Whether a table is as it was described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// As far as is known.
    Yes,
    /// It refuses what was written for that description: a column may have been renamed.
    No,
}

/// A table that was described, and its statements.
struct Known {
    table: PolledTable,
    fetch: FetchText,
    settle: SettleText,
    blocked: Blocked,
}

impl Known {
    /// Reads rows. Where those of blocked keys come first, it reads on behind them: otherwise they
    /// would be read, and left out, as long as they are blocked. If that takes long, the core asks
    /// for the rest: what it is told counts from its request, and other tables have their turn.
    async fn fetch(
        &mut self,
        client: &Client,
        request: &FetchRequest,
    ) -> Result<(Vec<PendingRow>, More), Failure> {
        let claimed = self.fetch.claimed;
        let until = Instant::now() + self.table.settings.lease / SEARCHES_IN_LEASE;
        self.blocked.forget();
        loop {
            let limit = request.limit;
            let looked_at = match claimed {
                Claimed::Yes => self.blocked.looked_at(limit),
                Claimed::No => limit,
            };
            let sql = self.fetch.sql(request, self.blocked.keys(), looked_at);
            let wanted = Wanted { limit, looked_at };
            let Read { rows, more, blocked } =
                rows::read(client, &self.table, (&sql, claimed), wanted).await?;
            let more = self.blocked.found(rows.len(), more, blocked);
            // What this worker has claimed it would claim again: so it reads on only without rows.
            if !rows.is_empty() || more != More::Maybe || Instant::now() >= until {
                return Ok((rows, more));
            }
        }
    }
}

impl<C: Connect> Database<C> {
    /// Opens no connection yet.
    pub fn new(connect: C, tables: Vec<TableConfig>, settings: SqlSettings) -> Self {
        let tables = tables.into_iter().map(|config| Entry {
            config,
            known: None,
            marked: None,
            look: Look::No,
            trust: Trust::Yes,
        });
        Self { connection: Connection::new(connect), tables: tables.collect(), settings }
    }

    /// Reads what a table looks like, and how its rows are marked.
    ///
    /// # Errors
    /// The table is missing (P028), cannot be polled (P041) or routed; the role may not read or
    /// mark it (P002); the connection fails.
    pub async fn describe(&mut self, table: TableIndex) -> Result<Described, Failure> {
        // All tables, since a role with those of several owners is more than each of them.
        let names: Vec<TableName> =
            self.tables.iter().map(|entry| entry.config.outbox.name.clone()).collect();
        let entry = self.tables.get_mut(table.0).ok_or_else(|| not_described(table.0))?;
        let name = &entry.config.outbox.name;
        let read = async |client: &Client| {
            look_for_foreign_code(client, Touched::RouterSchema, Runs::Inserts).await?;
            let tables = Touched::Tables(&names);
            let strangers = look_for_foreign_code(client, tables, Runs::Changes).await?;
            Ok((strangers, Facts::read(client, name).await?))
        };
        let (strangers, facts) = self.connection.ask(REQUEST_LIMIT, read).await?;
        let table = PolledTable::new(&entry.config, facts, &self.settings)?;
        let table = PolledTable { strangers, ..table };
        if table.marks.decides == Decides::Presence {
            let table = (table.name(), table.oid());
            let read =
                async |mut client: &Client| refuse_cascades(&mut client, table, names.iter()).await;
            self.connection.ask(REQUEST_LIMIT, read).await?;
        }
        let described = table.described();
        let (fetch, settle) = (FetchText::of(&table), SettleText::of(&table));
        entry.known = Some(Known { table, fetch, settle, blocked: Blocked::default() });
        entry.trust = Trust::Yes;
        Ok(described)
    }

    /// The same, for one that marks rows: what decides is noted where nothing is.
    ///
    /// # Errors
    /// As [`Self::describe`]; or this role may not note it (P042).
    pub async fn adopt(&mut self, table: TableIndex) -> Result<Described, Failure> {
        let described = self.describe(table).await?;
        let note = known(&self.tables, table)?.table.first_note();
        if let Some(note) = note {
            let sql = format!("{}{note}{COMMIT}", begin(Access::ReadWrite, Ways::Any));
            let write = async |client: &Client| run(client, &sql).await.map_err(of_lease);
            self.connection.ask(REQUEST_LIMIT, write).await?;
        }
        Ok(described)
    }

    /// The columns by which rows of a table are found again.
    fn identity(&self, table: TableIndex) -> Option<Vec<IdentityColumn>> {
        self.table(table).map(|table| table.identity.clone())
    }

    /// A table that was described.
    pub fn table(&self, table: TableIndex) -> Option<&PolledTable> {
        Some(&self.tables.get(table.0)?.known.as_ref()?.table)
    }

    /// Reads pending rows of a table that was described.
    ///
    /// # Errors
    /// As [`Self::describe`].
    pub async fn fetch(&mut self, request: &FetchRequest) -> Result<Fetched, Failure> {
        if request.shards.is_empty() || request.limit == 0 {
            let session = self.connection.session();
            return Ok(Fetched { rows: Vec::new(), more: More::No, claimed: Claimed::No, session });
        }
        let entry = self.tables.get_mut(request.table.0);
        let Some(Entry { known: Some(known), marked, look, .. }) = entry else {
            return Err(not_described(request.table.0));
        };
        let claimed = known.fetch.claimed;
        let fetch = async |client: &Client| known.fetch(client, request).await;
        let (rows, more) = self.connection.ask(REQUEST_LIMIT, fetch).await?;
        let comes_again = rows.iter().any(|row| Some(&row.id) == marked.as_ref());
        *look = if comes_again { Look::Yes } else { Look::No };
        Ok(Fetched { rows, more, claimed, session: self.connection.session() })
    }

    /// The connection that the last request had. What another one reads from now on counts here as
    /// long as this one lasts.
    pub const fn session(&self) -> ServerSession {
        self.connection.session()
    }

    /// Writes what became of rows, in one transaction, on the connection that has read them.
    ///
    /// # Errors
    /// As [`Self::describe`]. Whether it is committed is then not known.
    pub async fn settle(&mut self, request: &SettleRequest) -> Result<Settled, Failure> {
        let entry = self.tables.get(request.table.0);
        if entry.is_some_and(|entry| entry.trust == Trust::No) {
            let former = self.identity(request.table);
            self.describe(request.table).await?;
            if former.is_some() && former != self.identity(request.table) {
                // These rows were read by other columns, whose values name other rows here.
                return Ok(Settled::NOT_OURS);
            }
        }
        let settled = self.write(request).await;
        if let Err(failure) = &settled
            && failure.class() == Class::Mendable
            && let Some(entry) = self.tables.get_mut(request.table.0)
        {
            entry.trust = Trust::No;
        }
        settled
    }

    async fn write(&mut self, request: &SettleRequest) -> Result<Settled, Failure> {
        let entry = self.tables.get(request.table.0);
        let Some(Entry { known: Some(known), look, .. }) = entry else {
            return Err(not_described(request.table.0));
        };
        let Some(settle) = known.settle.sql(&known.table, request, *look)? else {
            return Ok(Settled::default());
        };
        let write = async |client: &Client| {
            run(client, &settle.sql).await.map_err(|error| match are_marks_undone(&error) {
                true => undone(known.table.name()),
                false => of_write(error, known.table.name(), Write::Marks),
            })
        };
        let written = self.connection.ask_in(request.session, REQUEST_LIMIT, write).await?;
        let Some(answers) = written else {
            return Ok(Settled { written: Written::SessionLost, published: 0 });
        };
        let held = answers.get(BEGINS + settle.fence).and_then(|answer| answer.rows.first());
        if held.and_then(|row| row.try_get(0).ok().flatten()) != Some("t") {
            return Ok(Settled::NOT_OURS);
        }
        if let (Some(first), Some(entry)) =
            (request.published.first(), self.tables.get_mut(request.table.0))
        {
            entry.marked = Some(first.row().id.clone());
        }
        let marked = settle.published.and_then(|place| answers.get(BEGINS + place));
        let published = marked.map_or(0, |answer| answer.count);
        Ok(Settled {
            written: Written::Yes,
            published: usize::try_from(published).unwrap_or(usize::MAX),
        })
    }

    /// Counts the rows of a table that was described, by their states.
    ///
    /// # Errors
    /// As [`Self::describe`].
    pub async fn survey(&mut self, table: TableIndex) -> Result<TableSurvey, Failure> {
        let known = known(&self.tables, table)?;
        let count = async |client: &Client| survey(client, &known.table).await;
        self.connection.ask(REQUEST_LIMIT, count).await
    }

    /// Reads how large a table that was described is, and how old its oldest row.
    ///
    /// # Errors
    /// As [`Self::describe`].
    pub async fn measure(
        &mut self,
        table: TableIndex,
        removal: Option<&Removal>,
    ) -> Result<TableFigures, Failure> {
        let known = known(&self.tables, table)?;
        let read = async |client: &Client| measure(client, &known.table, removal).await;
        self.connection.ask(REQUEST_LIMIT, read).await
    }

    /// Deletes published rows that are old enough by one statement, and returns how many.
    ///
    /// # Errors
    /// As [`Self::describe`].
    pub async fn remove(&mut self, table: TableIndex, removal: &Removal) -> Result<u64, Failure> {
        let Some(sql) = removal.delete() else { return Ok(0) };
        let answers = self.ask(table, sql).await?;
        // The limit for locks is a statement of its own.
        Ok(answers.get(BEGINS + 1).map_or(0, |answer| answer.count))
    }

    /// Counts such rows, up to a million.
    ///
    /// # Errors
    /// As [`Self::describe`].
    pub async fn count(&mut self, table: TableIndex, removal: &Removal) -> Result<u64, Failure> {
        let Some(sql) = removal.count() else { return Ok(0) };
        let answers = self.ask(table, sql).await?;
        let row = answers.get(BEGINS).and_then(|answer| answer.rows.first());
        let text = row.and_then(|row| row.try_get(0).ok().flatten());
        text.and_then(|text| text.parse().ok()).ok_or_else(|| malformed("counts no rows"))
    }

    async fn ask(&mut self, table: TableIndex, sql: &str) -> Result<Vec<Answer>, Failure> {
        let known = known(&self.tables, table)?;
        let statements = async |client: &Client| {
            run(client, sql).await.map_err(|error| of_table(error, known.table.name()))
        };
        self.connection.ask(REQUEST_LIMIT, statements).await
    }

    /// Reads which workers hold shards of a table, and whether it is handed to the stream.
    ///
    /// # Errors
    /// The tables of leases are missing, or may not be read (P042); the connection fails.
    pub async fn shares(&mut self, table: &TableName) -> Result<Shares, Failure> {
        let own = (self.settings.name.as_str(), &self.settings.stream);
        let read = async |client: &Client| shares(client, table, own).await;
        self.connection.ask(REQUEST_LIMIT, read).await
    }

    /// Refuses to remove rows of a table that another pipeline has polled, too, or with whose rows
    /// those of an outbox go.
    ///
    /// # Errors
    /// It has, or they do (P038); the table is not described; this role may not read who polls
    /// (P042); the connection fails.
    pub async fn refuse_shared(&mut self, table: TableIndex) -> Result<(), Failure> {
        let known = known(&self.tables, table)?;
        let (name, oid) = (known.table.name(), known.table.oid());
        let own = &self.settings.name;
        let names = self.tables.iter().map(|entry| &entry.config.outbox.name);
        let read = async |mut client: &Client| {
            refuse_cascades(&mut client, (name, oid), names.clone()).await?;
            polled_by_others(client, (name, oid), own).await
        };
        self.connection.ask(REQUEST_LIMIT, read).await?.map_or(Ok(()), Err)
    }

    /// Counts the pending rows of tables that were polled, and that the configuration names no
    /// more, each as the table whose marks it has.
    ///
    /// # Errors
    /// As [`Self::shares`].
    pub async fn former(&mut self) -> Result<Vec<(TableIndex, Failure)>, Failure> {
        let tables: Vec<&TableConfig> = self.tables.iter().map(|entry| &entry.config).collect();
        let count = async |client: &Client| former(client, &tables, &self.settings).await;
        self.connection.ask(REQUEST_LIMIT, count).await
    }
}

fn undone(table: &TableName) -> Failure {
    let what = "rows that were marked as published are pending still: a rule or a trigger of the \
                table keeps its rows from being updated or deleted, or changes them back";
    unfit(table, what).with_case(Case::MarksUndone)
}

fn known(tables: &[Entry], table: TableIndex) -> Result<&Known, Failure> {
    let entry = tables.get(table.0).and_then(|entry| entry.known.as_ref());
    entry.ok_or_else(|| not_described(table.0))
}
