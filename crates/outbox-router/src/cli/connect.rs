//! SQL sessions for the commands, and what PostgreSQL's errors mean to them.
//!
//! A connection has to be driven while it is used. There is no task to do it: [`with_connection`] polls it beside the
//! work, and ends with the work.

use std::{pin::pin, time::Duration};

use relay::{Code, Failure};
use tokio_postgres::{Client, NoTls, error::SqlState};

use super::Trouble;
use crate::config::{Environment, Secret};

/// A host that swallows packets must not leave a person waiting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where and as whom to connect.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    /// A URL or `key=value` form; without it the environment's `PG*` variables.
    pub(super) url: Option<&'a Secret<String>>,
    pub(super) environment: &'a Environment,
    /// The router's name; commands append their own.
    pub(super) name: &'a str,
}

impl Access<'_> {
    fn settings(&self) -> Result<tokio_postgres::Config, Failure> {
        let mut settings = match self.url {
            Some(url) => url.expose().parse().map_err(|_| {
                // The parser's own message may quote a part of the password.
                Failure::new(Code::ServerUnreachable, "postgres.url is no connection string")
                    .hint("postgres://user@host:5432/database, or host=… user=… dbname=…")
            })?,
            None => tokio_postgres::Config::new(),
        };
        if settings.get_connect_timeout().is_none() {
            settings.connect_timeout(CONNECT_TIMEOUT);
        }
        let variable = |name| self.environment.get(name).filter(|value| !value.is_empty());
        if settings.get_hosts().is_empty() {
            settings.host(variable("PGHOST").unwrap_or("127.0.0.1"));
        }
        if settings.get_ports().is_empty()
            && let Some(port) = variable("PGPORT").and_then(|port| port.parse().ok())
        {
            settings.port(port);
        }
        if settings.get_user().is_none()
            && let Some(user) = variable("PGUSER").or_else(|| variable("USER"))
        {
            settings.user(user);
        }
        if settings.get_dbname().is_none()
            && let Some(database) = variable("PGDATABASE")
        {
            settings.dbname(database);
        }
        if settings.get_password().is_none()
            && let Some(password) = variable("PGPASSWORD")
        {
            settings.password(password);
        }
        Ok(settings)
    }

    /// The database that is connected to, where the settings say so.
    pub(super) fn database(&self) -> Option<String> {
        self.settings().ok()?.get_dbname().map(str::to_owned)
    }
}

/// Connects, does the work, and disconnects.
pub(super) async fn with_connection<T>(
    access: Access<'_>,
    command: &str,
    work: impl AsyncFnOnce(&Client) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let mut settings = access.settings()?;
    // Nobody's schema may put its own function in the place of a system one.
    settings
        .application_name(format!("{} {command}", access.name))
        .options("-c search_path=pg_catalog");
    let (client, connection) = settings.connect(NoTls).await.map_err(|e| failure(&e))?;
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        done = work(&client) => done,
        ended = &mut connection => Err(match ended {
            Ok(()) => Failure::new(Code::ServerUnreachable, "PostgreSQL ended the connection").into(),
            Err(error) => failure(&error).into(),
        }),
    }
}

/// What an error of PostgreSQL's means.
pub(super) fn failure(error: &tokio_postgres::Error) -> Failure {
    let Some(db) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        let message = cause.unwrap_or_else(|| error.to_string());
        return Failure::new(Code::ServerUnreachable, format!("PostgreSQL: {message}"));
    };
    let state = db.code();
    let code = match state {
        s if *s == SqlState::INVALID_PASSWORD
            || *s == SqlState::INVALID_AUTHORIZATION_SPECIFICATION =>
        {
            Code::AuthenticationFailed
        }
        s if *s == SqlState::OBJECT_IN_USE => Code::SlotInUse,
        s if *s == SqlState::TOO_MANY_CONNECTIONS
            || *s == SqlState::CONFIGURATION_LIMIT_EXCEEDED =>
        {
            Code::ServerFull
        }
        s if *s == SqlState::CANNOT_CONNECT_NOW => Code::ServerNotReady,
        _ => Code::ServerError,
    };
    let failure =
        Failure::new(code, format!("PostgreSQL: {} (SQLSTATE {})", db.message(), state.code()));
    let hint = match state {
        s if *s == SqlState::INSUFFICIENT_PRIVILEGE => {
            Some("connect as somebody who may do it: --admin-url postgres://postgres@host/database")
        }
        s if *s == SqlState::LOCK_NOT_AVAILABLE => Some(
            "something else holds a lock on the table; nothing was changed by this statement, run it again",
        ),
        s if *s == SqlState::CONFIGURATION_LIMIT_EXCEEDED => {
            Some("raise max_replication_slots, or drop a slot that nobody needs")
        }
        _ => db.hint(),
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A failed query ends the command.
impl From<tokio_postgres::Error> for Trouble {
    fn from(error: tokio_postgres::Error) -> Self {
        failure(&error).into()
    }
}
