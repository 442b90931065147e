//! `switch`: from tables that are polled to the stream of a slot, and back, while writers go on.
//!
//! `switch stream` divides the rows by the snapshot of a new slot. The pending rows that it sees
//! are polled to their end by this command, which alone holds the leases of the tables meanwhile;
//! everything else comes in the slot's stream. `switch polling` marks the rows that the stream has
//! delivered, which are those that are committed and not in the slot any more.
//!
//! After a kill at any step the same command goes on: [`relay::handover::switch`] says with what.

/// The command is at a place of [`SwitchPlace`](crate::failpoint::SwitchPlace): a test may end it
/// here. Without the feature `failpoints` it is nothing.
macro_rules! reached {
    ($place:ident) => {
        #[cfg(feature = "failpoints")]
        crate::failpoint::reached_in_switch(crate::failpoint::SwitchPlace::$place)
    };
}

mod abandoned;
mod args;
mod commits;
mod delivered;
mod drain;
mod later;
mod left_out;
mod older;
mod polling;
mod state;
mod stream;
mod unsent;

use std::{io, time::Duration};

use relay::{
    Case, Code, Failure, TableName,
    delivered::Unproved,
    handover::switch::{Found, Presence, SlotFound},
    polling::TableIndex,
    source::Catalog,
};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{
    Effect, Exit, TaskError, Terminal,
    connect::{Access, with_connection},
    decision_args::HowArgs,
    republication::session,
    setup::check_slot,
    witness::Records,
};
use crate::{
    config::{Config, SourceKind},
    polling::sql::{
        Database, PolledTable, RowScope, SqlSettings, TableConfig, not_described, switch_session,
    },
    prepare,
    republish::journal,
    shell::{Endpoint, Source},
};
pub use args::{Switch, ToPollingArgs, ToStreamArgs};
use state::{Standing, Switched, Towards};

/// The name of the command in the audit.
const COMMAND: &str = "switch";

/// How often something is asked that is waited for.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// How often a person is told what is waited for.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Switches.
pub(super) async fn switch(
    command: &Switch,
    config: &Config,
    access: Access<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<Exit, TaskError> {
    let how = match command {
        Switch::Stream(ToStreamArgs { how, .. }) | Switch::Polling(ToPollingArgs { how, .. }) => {
            how
        }
    };
    if config.postgres.source == SourceKind::Stream {
        let hint = match command {
            Switch::Stream(_) => {
                "leave postgres.source = \"polling\" until the command is complete; it says when to \
                 change it"
            }
            Switch::Polling(_) => {
                "set postgres.source = \"polling\", and the keys that say how the tables are marked \
                 and ordered; but start no worker before the command is complete"
            }
        };
        writeln!(terminal.err, "error: switch reads how the tables are polled")?;
        writeln!(terminal.err, "  hint: {hint}")?;
        return Ok(Exit::Usage);
    }
    if config.outbox.is_empty() {
        writeln!(terminal.err, "error: no table is named that could be polled")?;
        writeln!(terminal.err, "  hint: name each one in an [[outbox]]")?;
        return Ok(Exit::Usage);
    }
    let by = how.person(access.environment);
    let work = with_connection(access, COMMAND, async |books| {
        books.batch_execute(&session()).await?;
        books.batch_execute(&switch_session()).await?;
        if let Err(holder) = journal::lock(books, &config.name).await? {
            writeln!(terminal.err, "error: nothing was done: {holder}")?;
            return Ok(Exit::Failure);
        }
        let tables = config.polled_tables();
        let names: Vec<TableName> = tables.iter().map(|table| table.outbox.name.clone()).collect();
        let switched = Switched::find(books, &names).await?;
        if !switched.lock(books).await? {
            let what =
                "another switch of these tables is at work, of a configuration with another name";
            writeln!(terminal.err, "error: nothing was done: {what}")?;
            return Ok(Exit::Failure);
        }
        switched.refuse_beside(books, config.postgres.publication.as_str()).await?;
        let towards = match command {
            Switch::Stream(_) => Towards::Stream,
            Switch::Polling(_) => Towards::Polling,
        };
        let standing = switched.standing(books, towards).await?;
        let work = Switching { config, access, books, tables, names, switched, standing, by: &by };
        match command {
            Switch::Stream(args) => Box::pin(work.to_stream(args, terminal)).await,
            Switch::Polling(args) => Box::pin(work.to_polling(args, terminal)).await,
        }
    });
    Box::pin(work).await
}

/// What both directions work with.
struct Switching<'s> {
    config: &'s Config,
    access: Access<'s>,
    /// Has the lock of the pipeline's runs, so this is the only such command.
    books: &'s Client,
    tables: Vec<TableConfig>,
    names: Vec<TableName>,
    switched: Switched,
    standing: Standing,
    by: &'s str,
}

/// The tables, as a worker knows them.
struct Described {
    worker: Uuid,
    database: Database<Endpoint>,
    tables: Vec<PolledTable>,
}

impl Switching<'_> {
    fn slot(&self) -> &str {
        self.config.postgres.slot.as_str()
    }

    fn source(&self) -> Result<Source, Failure> {
        Ok(prepare::source(self.config, self.endpoint()?))
    }

    fn endpoint(&self) -> Result<Endpoint, Failure> {
        self.access.endpoint(COMMAND)
    }

    /// What there is.
    ///
    /// # Errors
    /// The slot is another database's, or of another plugin.
    async fn found(&self) -> Result<Found<'_>, TaskError> {
        check_slot(self.books, self.slot()).await?;
        let query = "select wal_status is not distinct from 'lost' from pg_replication_slots \
                     where slot_name = $1";
        let is_lost = self.books.query_opt(query, &[&self.slot()]).await?;
        let slot = match is_lost.map(|row| row.try_get(0)).transpose()? {
            Some(true) => SlotFound::Lost,
            Some(false) => SlotFound::There,
            None => SlotFound::Missing,
        };
        let witness = match Records::of(self.config, self.access)? {
            Some(records) if records.read().await?.witness.is_some() => Presence::There,
            Some(_) => Presence::Missing,
            None => Presence::NotKept,
        };
        Ok(Found { state: self.standing.state, slot, witness, name: self.slot() })
    }

    /// Publication and tables as they are now; those of an earlier reading are found by their OIDs.
    async fn catalog(&self, earlier: Option<&Catalog>) -> Result<Catalog, Failure> {
        self.source()?.catalog(earlier).await
    }

    fn sql_settings(&self, worker: Uuid, scope: RowScope) -> SqlSettings {
        SqlSettings { scope, ..prepare::polled_sql(self.config, worker) }
    }

    /// The tables, on a connection of their own.
    async fn described(&self, worker: Uuid) -> Result<Described, Failure> {
        let settings = self.sql_settings(worker, RowScope::All);
        let mut database = Database::new(self.endpoint()?, self.tables.clone(), settings);
        let mut described = Vec::with_capacity(self.tables.len());
        for index in (0..self.tables.len()).map(TableIndex) {
            database.describe(index).await?;
            let table = database.table(index).ok_or_else(|| not_described(index.0))?;
            described.push(table.clone());
        }
        Ok(Described { worker, database, tables: described })
    }

    /// Shows the steps, and asks. Returns the exit code where nothing is to be done.
    fn ask(
        &self,
        how: &HowArgs,
        steps: &[String],
        to: &str,
        terminal: &mut Terminal<'_>,
    ) -> io::Result<Option<Exit>> {
        for (place, step) in steps.iter().enumerate() {
            writeln!(terminal.out, "{}. {step}", place + 1)?;
        }
        if how.effect == Effect::Dry {
            writeln!(terminal.out, "nothing was changed; without --dry-run it is done")?;
            return Ok(Some(Exit::Done));
        }
        how.confirmation.ask(super::Form::Text, self.config, (to, "changed"), terminal)
    }

    /// A person may end the command, and so may a connection that breaks: then nothing is said.
    fn say_unpolled(&self, terminal: &mut Terminal<'_>) -> io::Result<()> {
        writeln!(
            terminal.out,
            "tables: nobody polls {} before this command is complete; should it end before, type \
             it again",
            self.table_list()
        )?;
        terminal.out.flush()
    }

    fn table_list(&self) -> String {
        let names: Vec<String> = self.names.iter().map(ToString::to_string).collect();
        names.join(", ")
    }
}

/// Rows may be in neither snapshot nor stream.
fn altered_meanwhile(what: &str) -> Failure {
    Failure::of(Case::SwitchAltered, format!("{what} while rows were divided"))
}

/// It is not proved what the stream has delivered.
fn unproved(unproved: Unproved) -> Failure {
    match unproved {
        Unproved::Unread => no_position(),
        Unproved::Altered(what) => altered_meanwhile(&what),
        // A router finds the same, and writes it down for a person.
        Unproved::OtherHistory(failure) => failure.with_case(Case::SwitchRestored),
    }
}

fn no_position() -> Failure {
    Failure::new(Code::Protocol, "the server names no position of its WAL")
}
