//! A connection that removes rows: its settings, its lock, and what its errors mean.

use std::time::Duration;

use relay::{Case, Code, Failure, Name, TableName, source::History};
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow, error::SqlState};

use super::{references::Reference, settings::RetentionSettings};
use crate::{
    config::print_duration,
    monitor::server,
    postgres::{
        HiddenRows, ServerMessage, VALUE_FORMS, hidden_rows, quote_identifier, quote_literal,
        sql::NO_TIMEOUTS, sql_failure,
    },
};

/// How long one statement may take on the server. One batch takes milliseconds; this ends one that
/// takes another way through the table than intended.
const STATEMENT_LIMIT: Duration = Duration::from_secs(60);

/// How much longer than [`STATEMENT_LIMIT`] an answer is waited for: past that, nobody is there.
const ANSWER_MARGIN: Duration = Duration::from_secs(10);

/// How long the answer to a statement is waited for that reads a whole table, which may have
/// hundreds of gigabytes.
const WHOLE_LIMIT: Duration = Duration::from_secs(4 * 3_600);

/// What the statements rely on. Row security refuses instead of hiding rows: a row that is not seen
/// would look like one that is not there. The order of an index is taken whatever the server knows
/// of the table: without statistics it would rather sort. Open events are compared through a hash
/// table, which for a million of them needs this much memory.
const SETTINGS: &str = "\
    set default_transaction_isolation = 'read committed'; set row_security = off; \
    set default_transaction_read_only = off; set search_path = pg_catalog; \
    set enable_seqscan = off; set enable_bitmapscan = off; set enable_sort = off; set jit = off; \
    set work_mem = '128MB'";

/// Begins a transaction that removes rows. The settings that decide which rows those are hold in it
/// whatever a pooler's other client has set on this server process.
pub(in crate::retention) fn begin() -> String {
    let forms =
        VALUE_FORMS.map(|(name, value)| format!("set local {name} = {}", quote_literal(value)));
    format!(
        "begin; set local row_security = off; set local search_path = pg_catalog; {}",
        forms.join("; ")
    )
}

/// The server's end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Backend {
    /// Its process id. Horizons are valid in this process only.
    pub(super) pid: i32,
    /// The role that it runs as.
    pub(super) role: String,
    /// `server_version_num`.
    pub(crate) version: i32,
}

impl Backend {
    /// Makes a connection ready, and refuses a standby.
    ///
    /// # Errors
    /// The server refuses a setting, is a standby, or the connection breaks.
    pub(crate) async fn prepare(
        client: &Client,
        settings: &RetentionSettings,
    ) -> Result<Self, Failure> {
        let limits = format!(
            "set lock_timeout = {}; set statement_timeout = {}",
            settings.section.lock_timeout.as_millis(),
            STATEMENT_LIMIT.as_millis()
        );
        // So an id has the text that it has in the stream.
        let forms =
            VALUE_FORMS.map(|(name, value)| format!("set {name} = {}", quote_literal(value)));
        let all = format!("{SETTINGS}; {limits}; {}; {NO_TIMEOUTS}", forms.join("; "));
        client.batch_execute(&all).await.map_err(failure)?;
        Self::of(client).await
    }

    /// That of a connection as it is, for who removes nothing.
    ///
    /// # Errors
    /// The connection breaks.
    pub(crate) async fn of(mut client: &Client) -> Result<Self, Failure> {
        let version = server::version(&mut client).await?;
        let query = "select pg_backend_pid(), current_user::text";
        let row = client.query_one(query, &[]).await.map_err(failure)?;
        let (pid, role) = (row.try_get(0).map_err(failure)?, row.try_get(1).map_err(failure)?);
        Ok(Self { pid, role, version })
    }
}

/// A connection that is ready.
#[derive(Clone, Copy)]
pub(crate) struct Session<'c> {
    pub(crate) client: &'c Client,
    pub(crate) backend: &'c Backend,
}

impl Session<'_> {
    /// The rows that a statement returns.
    ///
    /// # Errors
    /// The server refuses it, or does not answer.
    pub(super) async fn rows(&self, sql: &str) -> Result<Vec<SimpleQueryRow>, Failure> {
        self.rows_within(STATEMENT_LIMIT + ANSWER_MARGIN, sql).await
    }

    async fn rows_within(
        &self,
        limit: Duration,
        sql: &str,
    ) -> Result<Vec<SimpleQueryRow>, Failure> {
        let answer = self.client.simple_query(sql);
        let Ok(answer) = tokio::time::timeout(limit, answer).await else {
            let what = format!("PostgreSQL did not answer within {}", print_duration(limit));
            return Err(Failure::new(Code::ServerUnreachable, what));
        };
        let mut rows = Vec::new();
        for message in answer.map_err(failure)? {
            if let SimpleQueryMessage::Row(row) = message {
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// The row of a statement that always returns one.
    pub(super) async fn row(&self, sql: &str) -> Result<SimpleQueryRow, Failure> {
        let row = self.rows(sql).await?.into_iter().next();
        row.ok_or_else(|| malformed("has no row"))
    }

    /// The row of a statement that reads a whole table.
    pub(super) async fn row_in_time(&self, sql: &str) -> Result<SimpleQueryRow, Failure> {
        let row = self.rows_within(WHOLE_LIMIT, sql).await?.into_iter().next();
        row.ok_or_else(|| malformed("has no row"))
    }

    /// Runs statements without a result, all or none: an error rolls back.
    pub(super) async fn execute(&self, sql: &str) -> Result<(), Failure> {
        self.rows(sql).await.map(drop)
    }

    /// Which server this is.
    ///
    /// # Errors
    /// The role may not ask: then nothing shows that the rows here are those that were sent.
    pub(crate) async fn identity(&self) -> Result<History, Failure> {
        server::identity(&mut { self.client }).await.map_err(|failure| {
            if failure.code != Code::AuthenticationFailed {
                return failure;
            }
            let role = quote_identifier(&self.backend.role);
            let what = format!("role {role} may not ask which server this is: {}", failure.message);
            let grant = format!(
                "grant execute on function pg_catalog.pg_control_system(), \
                 pg_catalog.pg_control_checkpoint() to {role}"
            );
            Failure::of(Case::RetentionForbidden, what).naming(Name::Statements, grant)
        })
    }

    /// Gets the lock of this pipeline. A sweep that has little to do ends within
    /// `retention.lock_timeout`.
    ///
    /// # Errors
    /// Another session keeps it for longer, and is named: two would only wait for each other.
    pub(crate) async fn lock(&self, settings: &RetentionSettings) -> Result<(), Failure> {
        let key = settings.lock_key();
        match self.execute(&format!("select pg_advisory_lock({key})")).await {
            Err(failure) if failure.case == Some(Case::RetentionLocked) => {}
            got => return got,
        }
        let holder = format!(
            "select l.pid, coalesce(a.application_name, ''), coalesce(a.usename::text, '') \
             from pg_locks l left join pg_stat_activity a using (pid) \
             where l.locktype = 'advisory' and l.objsubid = 1 and l.granted \
               and l.database = (select oid from pg_database where datname = current_database()) \
               and ((l.classid::int8 << 32) | l.objid::int8) = {key}"
        );
        let rows = self.rows(&holder).await?;
        let Some(row) = rows.first() else {
            let what = "another session has just removed rows of this pipeline";
            return Err(Failure::of(Case::RetentionBusy, what));
        };
        let (pid, application, role) = (text(row, 0)?, text(row, 1)?, text(row, 2)?);
        let what = format!(
            "another session removes rows of this pipeline: pid {pid}, \"{application}\", as role \
             {role}"
        );
        Err(Failure::of(Case::RetentionBusy, what).naming(Name::Pid, pid))
    }

    /// Gives the lock back.
    pub(crate) async fn unlock(&self, settings: &RetentionSettings) -> Result<(), Failure> {
        self.execute(&format!("select pg_advisory_unlock({})", settings.lock_key())).await
    }
}

/// Checks that the role sees every row: what is not seen would look as if it were not there.
///
/// # Errors
/// Row security hides rows of the table from the role, or the connection breaks.
pub(super) async fn check_row_security(session: Session<'_>, table: u32) -> Result<(), Failure> {
    let hidden = hidden_rows(session.client, table).await.map_err(sql_failure)?;
    hidden.map_or(Ok(()), |HiddenRows { why, grant }| {
        Err(Failure::of(Case::RetentionForbidden, why).naming(Name::Statements, grant))
    })
}

/// A value that cannot be NULL.
pub(super) fn text(row: &SimpleQueryRow, column: usize) -> Result<&str, Failure> {
    optional(row, column)?.ok_or_else(|| malformed("has a NULL where a value must be"))
}

/// A value, or NULL.
pub(super) fn optional(row: &SimpleQueryRow, column: usize) -> Result<Option<&str>, Failure> {
    row.try_get(column).map_err(sql_failure)
}

/// A value that is a number.
pub(super) fn number<T: std::str::FromStr>(
    row: &SimpleQueryRow,
    column: usize,
) -> Result<T, Failure> {
    let text = text(row, column)?;
    text.parse().map_err(|_| malformed("has a value of another type than expected"))
}

pub(super) fn malformed(what: &str) -> Failure {
    Failure::new(Code::Protocol, format!("the answer to a statement of retention {what}"))
}

/// What an error of a statement means.
fn failure(error: tokio_postgres::Error) -> Failure {
    let Some(server) = error.as_db_error() else { return sql_failure(error) };
    let what = format!("PostgreSQL said {}", ServerMessage::from(server));
    match *server.code() {
        SqlState::LOCK_NOT_AVAILABLE => Failure::of(Case::RetentionLocked, what),
        SqlState::INSUFFICIENT_PRIVILEGE => Failure::of(Case::RetentionForbidden, what)
            .naming(Name::Statements, "grant the role what PostgreSQL names"),
        // PostgreSQL 18 has a code of its own for `on delete restrict`.
        SqlState::FOREIGN_KEY_VIOLATION | SqlState::RESTRICT_VIOLATION => {
            let names = (server.schema(), server.table(), server.constraint());
            let (Some(schema), Some(table), Some(constraint)) = names else {
                return sql_failure(error);
            };
            let table = TableName { schema: schema.to_owned(), name: table.to_owned() };
            Reference { table, constraint: constraint.to_owned() }.failure(what)
        }
        _ => sql_failure(error),
    }
}
