//! Collects what is known of an event, or of the latest events of a key.

use std::{io, time::Duration};

use relay::{Code, Failure, TableName};
use tokio_postgres::Client;

use super::{
    args::WhereArgs,
    evidence::{Event, Stream},
    position::{self, Horizon},
    search::{Search, Searched},
    settle::Settle,
    times,
    topics::Neighbour,
    verdict::by_held,
    whose,
};
use crate::{
    cli::{
        TaskError,
        connect::Access,
        dead_letters::{self, HeldEvent, Since},
        explain_row::{EventRow, EventRows, Sought},
        shown_bytes, since, skip,
    },
    config::Config,
    postgres::{TextQuery, quote_literal},
    wording,
};

/// How far back the topics are read for an event of which no time is known.
const DEFAULT_AGO: Duration = Duration::from_secs(3_600);

/// Of one id one row is expected, and a second shows that it is not alone.
const ROWS_OF_ID: u32 = 2;

/// What the command works with.
pub(super) struct Look<'l> {
    pub(super) args: &'l WhereArgs,
    pub(super) config: &'l Config,
    pub(super) access: Access<'l>,
    pub(super) client: &'l Client,
}

/// What was found.
pub(super) struct Looked {
    pub(super) events: Vec<Event>,
    /// How the stream is; `None` where no answer depends on it.
    pub(super) stream: Option<Stream>,
    pub(super) searched: Vec<Searched>,
    /// From when on topics were read, in words.
    pub(super) since: String,
}

/// A row, and the number of its table.
type OfTable = (usize, EventRow);

/// The rows that are looked for, and what is known of what was typed.
#[derive(Default)]
struct Rows<'t> {
    /// What was typed, as the tables write it.
    written: Vec<String>,
    /// The tables in whose column it may be.
    takers: Vec<&'t TableName>,
    found: Vec<OfTable>,
}

/// What rows are looked for by.
#[derive(Debug, Clone, Copy)]
enum By<'t> {
    Id(&'t str),
    Key(&'t str),
}

impl Look<'_> {
    /// Looks; `Err` within says what is wrong with the command line.
    pub(super) async fn look(
        &self,
        notes: &mut (dyn io::Write + Send),
    ) -> Result<Result<Looked, String>, TaskError> {
        // Times without a zone are UTC, as every time that is printed.
        self.client.batch_execute("set timezone = 'UTC'; set lock_timeout = '5s'").await?;
        let since = match &self.args.since {
            None => None,
            Some(given) => match since::read(self.client, "--since", given).await? {
                Ok(time) => Some(since::micros_of(self.client, &time).await? / 1_000),
                Err(why) => return Ok(Err(why)),
            },
        };
        let tables = match self.tables(notes).await? {
            Ok(tables) => tables,
            Err(why) => return Ok(Err(why)),
        };
        match (&self.args.id, &self.args.key) {
            (Some(id), _) => Box::pin(self.by_id(id, &tables, since, notes)).await,
            (None, key) => {
                let key = key.as_deref().unwrap_or_default();
                Box::pin(self.by_key(key, &tables, since, notes)).await
            }
        }
    }

    /// The tables to look in: the named one, or those that are configured, or published, without
    /// those whose columns do not fit.
    async fn tables(
        &self,
        notes: &mut (dyn io::Write + Send),
    ) -> Result<Result<Vec<EventRows>, String>, TaskError> {
        let configured: Vec<&TableName> = self.config.tables().map(|table| &table.name).collect();
        let names: Vec<TableName> = match &self.args.table {
            Some(named) if configured.is_empty() || configured.contains(&named) => {
                vec![named.clone()]
            }
            Some(named) => {
                let there: Vec<String> = configured.iter().map(ToString::to_string).collect();
                let there = there.join(", ");
                return Ok(Err(format!("{named} is no configured outbox; there are {there}")));
            }
            None if configured.is_empty() => self.published().await?,
            None => configured.into_iter().cloned().collect(),
        };
        let (mut tables, mut unfit) = (Vec::with_capacity(names.len()), None);
        for name in &names {
            match EventRows::describe(self.client, name, self.config).await {
                Ok(table) => tables.push(table),
                Err(TaskError::Failure(failure)) if failure.code.as_str().starts_with('R') => {
                    if names.len() > 1 {
                        writeln!(notes, "note: {name} is left out: {failure}")?;
                    }
                    unfit.get_or_insert(failure);
                }
                Err(other) => return Err(other),
            }
        }
        match unfit {
            Some(failure) if tables.is_empty() => Err(TaskError::Failure(failure)),
            Some(_) | None => Ok(Ok(tables)),
        }
    }

    async fn published(&self) -> Result<Vec<TableName>, TaskError> {
        let publication = self.config.postgres.publication.as_str();
        let query = format!(
            "select schemaname, tablename from pg_publication_tables where pubname = {} \
             order by 1, 2",
            quote_literal(publication)
        );
        let mut client = self.client;
        let mut tables = Vec::new();
        for mut row in client.rows("the published tables", &query).await? {
            tables.push(TableName { schema: row.text()?, name: row.text()? });
        }
        if tables.is_empty() {
            let what = format!("no table is configured, and none is in publication {publication}");
            return Err(Failure::new(Code::TableMissing, what).into());
        }
        Ok(tables)
    }

    /// The rows of each table that are looked for.
    async fn rows<'t>(
        &self,
        tables: &'t [EventRows],
        by: By<'_>,
        limit: u32,
        notes: &mut (dyn io::Write + Send),
    ) -> Result<Result<Rows<'t>, String>, TaskError> {
        let (mut refused, mut rows) = (None, Rows::default());
        let mut is_any_sought = false;
        for (number, table) in tables.iter().enumerate() {
            let sought = match by {
                By::Id(id) => table.by_id(self.client, id).await?,
                By::Key(key) => table.by_key(self.client, key).await?,
            };
            let sought: Sought = match sought {
                Ok(sought) => sought,
                Err(why) => {
                    refused = Some(why);
                    continue;
                }
            };
            is_any_sought = true;
            if let Some(advice) = table.advice(self.client, &sought).await? {
                writeln!(notes, "note: {advice}")?;
            }
            let found = table.latest(self.client, &sought, limit).await?;
            rows.found.extend(found.into_iter().map(|row| (number, row)));
            let Some(value) = sought.value else { continue };
            rows.takers.push(table.table());
            if !rows.written.contains(&value) {
                rows.written.push(value);
            }
        }
        Ok(match refused {
            Some(why) if !is_any_sought => Err(why),
            _ => Ok(rows),
        })
    }

    async fn by_id(
        &self,
        id: &str,
        tables: &[EventRows],
        since: Option<i64>,
        notes: &mut (dyn io::Write + Send),
    ) -> Result<Result<Looked, String>, TaskError> {
        let Rows { written: ids, takers, found: mut rows } =
            match self.rows(tables, By::Id(id), ROWS_OF_ID, notes).await? {
                Ok(rows) => rows,
                Err(why) => return Ok(Err(why)),
            };
        let horizon = position::horizon(self.client).await?;
        let of = rows.iter().filter_map(|(number, _)| tables.get(*number));
        if let Some(why) = whose::ambiguous(id, of.map(EventRows::table)) {
            return Ok(Err(why));
        }
        if rows.len() > 1 {
            writeln!(notes, "note: several rows have this id; this is one of them")?;
        }
        rows.truncate(1);
        let Some(row) = rows.pop() else {
            if ids.is_empty() {
                return Ok(Err(format!(
                    "no row has the primary key {}; to the record of a row that is deleted, the \
                     event's id leads alone",
                    shown_bytes::id(id.as_bytes())
                )));
            }
            return self.without_row(&ids, tables, since, notes).await.map(Ok);
        };
        let event = self.event(&ids, Some(row), tables, notes).await?;
        // Somebody may mean an event whose row is deleted.
        if !ids.is_empty() && !ids.contains(&event.id) {
            let id = shown_bytes::id(id.as_bytes());
            writeln!(notes, "note: no row has the id {id}; this one has it as its primary key")?;
        }
        // Without --table, every table was looked in, and what is meant may be gone from its own.
        if let Some(note) = event.table.as_ref().and_then(|of| whose::others(id, of, takers)) {
            writeln!(notes, "note: {note}")?;
        }
        self.settled(vec![event], tables, horizon, since).await.map(Ok)
    }

    async fn by_key(
        &self,
        key: &str,
        tables: &[EventRows],
        since: Option<i64>,
        notes: &mut (dyn io::Write + Send),
    ) -> Result<Result<Looked, String>, TaskError> {
        let limit = self.args.limit;
        let mut rows = match self.rows(tables, By::Key(key), limit, notes).await? {
            Ok(rows) => rows.found,
            Err(why) => return Ok(Err(why)),
        };
        let horizon = position::horizon(self.client).await?;
        // The rows of several tables, the latest first.
        rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.committed_ms.or(row.written_ms)));
        // Which of those that are equally old are later, their offsets say.
        let last = usize::try_from(limit).ok().and_then(|limit| limit.checked_sub(1));
        let time = |(_, row): &OfTable| row.committed_ms.or(row.written_ms);
        if let Some(last) = last.and_then(|last| rows.get(last)).map(time) {
            rows.retain(|row| time(row) >= last);
        }
        let mut events = Vec::with_capacity(rows.len());
        for (number, row) in rows {
            let id = tables.get(number).and_then(|table| table.id_of(&row)).unwrap_or_default();
            events.push(self.event(&[id], Some((number, row)), tables, notes).await?);
        }
        let mut looked = self.settled(events, tables, horizon, since).await?;
        // The rows of one transaction have one time.
        looked.events.sort_by_key(|event| {
            let offset = event.record().map_or(i64::MAX, |record| record.offset);
            std::cmp::Reverse((event.time_ms(), offset))
        });
        looked.events.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(Ok(looked))
    }

    /// What PostgreSQL says of an event.
    async fn event(
        &self,
        ids: &[String],
        row: Option<OfTable>,
        tables: &[EventRows],
        notes: &mut (dyn io::Write + Send),
    ) -> Result<Event, TaskError> {
        let of = row.as_ref().and_then(|(number, _)| tables.get(*number));
        let written = row.as_ref().and_then(|(_, row)| of?.id_of(row));
        let mut event = Event {
            id: written.or_else(|| ids.first().cloned()).unwrap_or_default(),
            table: of.map(|table| table.table().clone()),
            time_column: of.and_then(|table| table.time_column().map(str::to_owned)),
            of: row.as_ref().map(|(number, _)| *number),
            asked: self.args.table.clone(),
            asked_key: self.args.key.clone(),
            ..Event::default()
        };
        event.row = row.map(|(_, row)| row);
        let key = match of.zip(event.row.as_ref()) {
            Some((of, row)) if !whose::is_unique(&event.id) => of.key_of(row)?,
            Some(_) | None => None,
        };
        let table = event.table.as_ref().or(event.asked.as_ref()).map(ToString::to_string);
        let held =
            dead_letters::of_event(self.client, self.config, &event.id, table.as_deref()).await;
        event.held = readable(held, notes)?.flatten();
        // A dead letter of another row that had this id.
        let is_other = |held: &mut HeldEvent| {
            key.is_some_and(|key| held.key.as_deref().unwrap_or_default() != key)
        };
        event.held.take_if(is_other);
        let pipeline = (self.config.name.as_str(), self.config.postgres.slot.as_str());
        let skip = skip::of_event(self.client, pipeline, &event.id, table.as_deref()).await;
        event.skip = readable(skip, notes)?.flatten();
        Ok(event)
    }

    /// Searches what the table of held events does not answer.
    async fn settled(
        &self,
        events: Vec<Event>,
        tables: &[EventRows],
        horizon: Horizon,
        since: Option<i64>,
    ) -> Result<Looked, TaskError> {
        let words = match since {
            Some(millis) => format!("since {} (--since)", times::utc(millis)),
            None => "since the row's time".to_owned(),
        };
        if events.iter().all(|event| event.held.as_ref().and_then(by_held).is_some()) {
            return Ok(Looked { events, stream: None, searched: Vec::new(), since: words });
        }
        let search = Search::open(self.config, self.args.timeout)?;
        let default = self.default_since().await?;
        let mut settle = self.settle(tables, search, (since, default), events);
        let stream = settle.settle(horizon).await?;
        let (events, searched) = (settle.events, settle.search.searched);
        Ok(Looked { events, stream, searched, since: words })
    }

    /// The event has no row: it may be held, or in a topic.
    async fn without_row(
        &self,
        ids: &[String],
        tables: &[EventRows],
        since: Option<i64>,
        notes: &mut (dyn io::Write + Send),
    ) -> Result<Looked, TaskError> {
        let event = self.event(ids, None, tables, notes).await?;
        let (from, words) = match since {
            Some(millis) => (millis, format!("since {} (--since)", times::utc(millis))),
            None => {
                let ago = wording::roughly(DEFAULT_AGO);
                let words = format!("of the last {ago} (--since reads further back)");
                (self.default_since().await?, words)
            }
        };
        if event.held.as_ref().and_then(by_held).is_some() {
            let (events, searched) = (vec![event], Vec::new());
            return Ok(Looked { events, stream: None, searched, since: words });
        }
        let search = Search::open(self.config, self.args.timeout)?;
        let neighbours = Box::pin(self.neighbours()).await;
        let mut settle = self.settle(tables, search, (since, from), vec![event]);
        settle.search_topics(ids, from, &neighbours)?;
        let (events, searched) = (settle.events, settle.search.searched);
        Ok(Looked { events, stream: None, searched, since: words })
    }

    /// The configured tables beside the one that a person has named.
    async fn neighbours(&self) -> Vec<Neighbour> {
        let Some(named) = &self.args.table else { return Vec::new() };
        let mut neighbours = Vec::new();
        for table in self.config.tables().filter(|table| table.name != *named) {
            // What a regular expression makes is not known, nor what the preset of a table does
            // that this role may not read.
            let described = match &table.route_regex {
                Some(_) => None,
                None => EventRows::describe(self.client, &table.name, self.config).await.ok(),
            };
            let topic = described.map(|rows| rows.topic().to_owned());
            neighbours.push(Neighbour { table: table.name.clone(), topic });
        }
        neighbours
    }

    fn settle<'s>(
        &'s self,
        tables: &'s [EventRows],
        search: Search,
        (since, default): (Option<i64>, i64),
        events: Vec<Event>,
    ) -> Settle<'s> {
        let Self { args, config, access, client } = self;
        let key = args.key.as_deref();
        Settle { config, access: *access, client, key, tables, search, since, default, events }
    }

    async fn default_since(&self) -> Result<i64, TaskError> {
        match since::read(self.client, "--since", &Since::Ago(DEFAULT_AGO)).await? {
            Ok(time) => Ok(since::micros_of(self.client, &time).await? / 1_000),
            Err(why) => Err(Failure::new(Code::Protocol, why).into()),
        }
    }
}

/// What the router's tables say; `None` where this role may not read them, which is noted.
fn readable<T>(
    read: Result<T, TaskError>,
    notes: &mut (dyn io::Write + Send),
) -> Result<Option<T>, TaskError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(TaskError::Failure(failure)) if failure.code == Code::AuthenticationFailed => {
            writeln!(notes, "note: what is held or skipped is not known: {failure:#}")?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
