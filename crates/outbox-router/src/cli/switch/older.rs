//! Pending rows that no slot has sent: they were in their table before its rows were events.

use std::{collections::BTreeMap, io, sync::Arc};

use relay::{
    Case, Failure, Name, Oid, OutboxTable, TableName,
    delivered::{EventPart, EventsSince, Place, Streamed, StreamedRows, compared::FirstOfGap},
};
use tokio_postgres::Client;

use super::{
    Switching,
    args::{OlderPending, ToPollingArgs},
};
use crate::{
    cli::{TaskError, Terminal},
    polling::sql::PolledTable,
    retention::{
        NEXT, RetentionSettings,
        events::event_parts,
        is_event_sql, precedes_sql,
        session::{Backend, Session},
        target::age_column,
    },
};

/// From where on the rows of the tables are events; `None`: no witness says it.
pub(super) type Since = Option<Arc<BTreeMap<Place, EventsSince>>>;

/// Which rows of a table are events of the stream.
pub(super) struct Events {
    /// Where they are; `None`: a person has given up the other rows.
    parts: Option<Vec<EventPart>>,
    /// The condition that a row `t` is one of them, or that the slot has it still.
    pub(super) is_event: String,
    /// Only rows of transactions before this one are told from those that the slot has; `None`:
    /// all are.
    pub(super) before: Option<FirstOfGap>,
    /// Pending rows that are in no stream.
    pub(super) older: i64,
    /// The condition that a row `t` was left out, if any was.
    pub(super) left_out: Option<String>,
}

impl Events {
    /// Those that the stream has delivered, where the slot does not have them any more.
    pub(super) fn streamed(&self, streamed: Streamed) -> StreamedRows {
        let rows = match &self.parts {
            Some(parts) => streamed.rows_of(parts.clone()),
            None => streamed.rows_of(Vec::new()).with_older_given_up(),
        };
        match self.before {
            Some(first) => rows.written_before(first),
            None => rows,
        }
    }

    /// The condition that a row `t` that is pending, and not noted as one of the slot's, is
    /// delivered.
    pub(super) fn is_delivered(&self, streamed: &StreamedRows) -> String {
        let is_event = &self.is_event;
        match streamed.before() {
            Some(first) => {
                format!("({is_event}) and {}", precedes_sql(first.xid(), "t.xmin", NEXT))
            }
            None => is_event.clone(),
        }
    }
}

impl Switching<'_> {
    /// Which rows of each table are events, as this connection sees it.
    ///
    /// # Errors
    /// Rows of a table are in no stream, and no person has decided about them (P043).
    pub(super) async fn events(
        &self,
        client: &Client,
        tables: &[PolledTable],
        since: &Since,
        args: &ToPollingArgs,
    ) -> Result<Vec<Events>, TaskError> {
        let mut events = Vec::with_capacity(tables.len());
        for (table, config) in tables.iter().zip(&self.tables) {
            let left_out = self.is_left_out(client, table).await?;
            let of = (&config.outbox, table.oid());
            let (parts, mut is_event) = self.parts(client, of, since).await?;
            let mut parts = Some(parts);
            let count = table.count_older(&is_event, left_out.as_deref());
            let older = client.query_one(&count, &[]).await?.try_get(0)?;
            match args.older {
                None if older > 0 => return Err(refused(table.name(), older, args).into()),
                Some(OlderPending::GiveUp) => {
                    (parts, is_event) = (None, "true".to_owned());
                }
                None | Some(OlderPending::Send) => {}
            }
            events.push(Events { parts, is_event, before: None, older, left_out });
        }
        Ok(events)
    }

    /// Which rows of a table are events: none where nothing says since when they are.
    async fn parts(
        &self,
        client: &Client,
        (outbox, oid): (&OutboxTable, u32),
        since: &Since,
    ) -> Result<(Vec<EventPart>, String), TaskError> {
        let backend = Backend::of(client).await?;
        let session = Session { client, backend: &backend };
        let settings = RetentionSettings::of(self.config);
        let time = age_column(session, &settings, outbox).await?;
        let place = Place::table(Oid::from_u32(oid));
        let known = since.as_ref().filter(|since| since.contains_key(&place));
        let (Some(time), Some(known)) = (time, known) else {
            return Ok((Vec::new(), "false".to_owned()));
        };
        let parts = event_parts(session, (&outbox.name, oid), known).await?;
        let is_event = is_event_sql(Some(&parts), &time);
        Ok((parts, is_event))
    }

    /// Says what became of those rows.
    pub(super) fn say_older(
        &self,
        rows: &[i64],
        older: Option<OlderPending>,
        terminal: &mut Terminal<'_>,
    ) -> io::Result<()> {
        let is = match older {
            Some(OlderPending::GiveUp) => "given up and marked",
            None | Some(OlderPending::Send) => "left pending, and workers send them",
        };
        for (name, rows) in self.names.iter().zip(rows).filter(|(_, rows)| **rows > 0) {
            writeln!(
                terminal.out,
                "rows: {rows} of {name} from before the table was an outbox of the stream, or was \
                 altered, are {is}"
            )?;
        }
        Ok(())
    }
}

fn refused(table: &TableName, older: i64, args: &ToPollingArgs) -> Failure {
    let what = format!(
        "{older} pending rows of {table} are from before the table was an outbox of the stream, or \
         was altered: nothing shows that a slot has sent them, and they would be marked"
    );
    let failure = Failure::of(Case::SwitchOlder, what).naming(Name::Table, table);
    failure.naming(Name::TypedFlags, args.typed())
}
