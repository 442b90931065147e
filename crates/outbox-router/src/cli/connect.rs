//! SQL sessions for the commands, and what PostgreSQL's errors mean to them.
//!
//! A connection has to be polled while it is used. No task does this: [`with_connection`] polls it
//! beside the work, and ends with the work.

use std::pin::pin;

use relay::{Case, Code, Failure, Name};
use tokio_postgres::{Client, error::SqlState};

use super::{TaskError, same_server::refuse_other_server};
use crate::{
    config::{Config, Environment, Secret},
    postgres::{
        ConnInfo, Password, Runs, Session, Touched, connect_failure, connect_sql,
        refuse_foreign_code, sql_failure,
    },
    shell::Endpoint,
    shell_word::shell_word,
};

/// Where and as whom to connect.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    /// A URL or `key=value` form; without it the environment's `PG*` variables.
    pub(super) url: Option<&'a Secret<String>>,
    /// The connection string of the router itself; `url` differs from it when the command was given
    /// `--admin-url`.
    pub(super) own: Option<&'a Secret<String>>,
    pub(super) environment: &'a Environment,
    /// The router's name; commands append their own.
    pub(super) name: &'a str,
}

impl<'a> Access<'a> {
    /// To the server that the router reads from, as the router itself or as `admin`.
    pub(super) fn new(
        config: &'a Config,
        admin: Option<&'a Secret<String>>,
        environment: &'a Environment,
    ) -> Self {
        let own = config.postgres.url.as_ref();
        Self { url: admin.or(own), own, environment, name: &config.name }
    }

    fn conninfo(&self) -> Result<ConnInfo, Failure> {
        self.resolve(self.url)
    }

    fn resolve(&self, url: Option<&Secret<String>>) -> Result<ConnInfo, Failure> {
        let url = url.map(|url| url.expose().as_str());
        let environment = |name: &str| self.environment.get(name).map(str::to_owned);
        // A person has to correct a connection string that cannot be read, as with a wrong
        // password.
        ConnInfo::resolve(url, &environment)
            .map_err(|error| Failure::of(Case::UrlUnreadable, format!("postgres.url: {error}")))
    }

    /// The endpoint for a connection that another module makes.
    pub(super) fn endpoint(&self, command: &str) -> Result<Endpoint, Failure> {
        self.endpoint_at(self.url, command)
    }

    /// The same, of the router itself.
    pub(super) fn endpoint_of_router(&self, command: &str) -> Result<Endpoint, Failure> {
        self.endpoint_at(self.own, command)
    }

    fn endpoint_at(
        &self,
        url: Option<&Secret<String>>,
        command: &str,
    ) -> Result<Endpoint, Failure> {
        let application_name = format!("{} {command}", self.name);
        Ok(Endpoint { conninfo: self.resolve(url)?, application_name, session: Session::Own })
    }

    /// The database that the router connects to; it is a part of the witness's key.
    pub(super) fn database_of_router(&self) -> Result<String, Failure> {
        Ok(self.resolve(self.own)?.dbname)
    }

    /// The role that the router connects as; `None` where the settings cannot be read.
    pub(super) fn role_of_router(&self) -> Option<String> {
        self.resolve(self.own).ok().map(|conninfo| conninfo.user)
    }

    /// The password with which the router will log in as this role, if it knows one.
    pub(super) fn password_of_router(&self, role: &str) -> Option<Password> {
        let own = self.resolve(self.own).ok().filter(|conninfo| conninfo.user == role)?;
        own.password
    }

    /// The role that the command connects as; `None` where the settings cannot be read.
    pub(super) fn role(&self) -> Option<String> {
        self.conninfo().ok().map(|conninfo| conninfo.user)
    }

    /// The database that the command connects to; `None` where the settings cannot be read.
    pub(super) fn database(&self) -> Option<String> {
        self.conninfo().ok().map(|conninfo| conninfo.dbname)
    }
}

/// Connects, does the work, and disconnects. Only to the router's database, on its server: rows of
/// another one are no events of this pipeline, and slots are of the whole server.
pub(super) async fn with_connection<T>(
    access: Access<'_>,
    command: &str,
    work: impl AsyncFnOnce(&Client) -> Result<T, TaskError>,
) -> Result<T, TaskError> {
    let (conninfo, of_router) = (access.conninfo()?, access.resolve(access.own)?);
    let name = format!("{} {command}", access.name);
    let (client, connection) = connect_sql(&conninfo, &name).await.map_err(connect_failure)?;
    let mut connection = pin!(connection);
    let checked = async {
        // A pooler may have another name for it.
        let here = client.query_one("select pg_catalog.current_database()::text", &[]).await;
        let here: String = here.and_then(|row| row.try_get(0)).map_err(failure)?;
        same_database(&here, &of_router.dbname)?;
        refuse_other_server(&client, &conninfo, of_router, &name).await?;
        // Policies may call anything, and what they hide would look as if it were not there.
        client.batch_execute("set row_security = off").await.map_err(failure)?;
        // Every command may read or write the router's own tables.
        refuse_foreign_code(&client, Touched::RouterSchema, Runs::Inserts).await?;
        work(&client).await
    };
    tokio::select! {
        biased;
        done = checked => done.map_err(|trouble| as_owner(trouble, &conninfo)),
        ended = &mut connection => Err(match ended {
            Ok(()) => Failure::new(Code::ServerUnreachable, "PostgreSQL ended the connection").into(),
            Err(error) => failure(error).into(),
        }),
    }
}

/// Names the connection string with which a person is the owner of the code that a command does not
/// run.
fn as_owner(trouble: TaskError, conninfo: &ConnInfo) -> TaskError {
    match trouble {
        TaskError::Failure(failure)
            if failure.code == Code::ForeignCode && failure.case.is_none() =>
        {
            let role = failure.names.get(Name::Role).unwrap_or_default().to_owned();
            let admin = conninfo.as_role(&role);
            let case = failure.with_case(Case::CommandRunsForeign);
            case.naming(Name::Statements, format!("--admin-url {}", shell_word(&admin))).into()
        }
        TaskError::Failure(_) | TaskError::Output(_) => trouble,
    }
}

/// Turns an error of PostgreSQL into a failure, with the remedy of the person who typed the
/// command.
pub(super) fn failure(error: tokio_postgres::Error) -> Failure {
    let state = error.code().cloned();
    let failure = sql_failure(error);
    match state {
        Some(SqlState::INSUFFICIENT_PRIVILEGE) if failure.code == Code::RoleLacksReplication => {
            failure.with_case(Case::CommandMayNotReplicate)
        }
        Some(SqlState::INSUFFICIENT_PRIVILEGE) => failure.with_case(Case::CommandDenied),
        Some(SqlState::LOCK_NOT_AVAILABLE) => failure.with_case(Case::LockTimeout),
        Some(SqlState::CONFIGURATION_LIMIT_EXCEEDED) => failure.with_case(Case::NoFreeSlot),
        Some(_) | None => failure,
    }
}

/// The role of a command lacks what these statements grant.
pub(super) fn lacks(what: String, grants: &[String]) -> Failure {
    Failure::of(Case::CommandLacks, what).naming(Name::Statements, grants.join("; "))
}

/// A failure of a module that serves the router, too: where the role lacks a privilege, the hint
/// names `--admin-url`.
pub(super) fn denied(failure: Failure) -> Failure {
    match failure.case {
        Some(Case::PermissionDenied) => failure.with_case(Case::CommandDenied),
        _ => failure,
    }
}

/// Whether a table that a query names does not exist.
pub(super) fn is_absent(error: &tokio_postgres::Error) -> bool {
    let absent = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
    error.code().is_some_and(|state| absent.contains(state))
}

/// A failed query ends the command.
impl From<tokio_postgres::Error> for TaskError {
    fn from(error: tokio_postgres::Error) -> Self {
        failure(error).into()
    }
}

/// Checks that a database is the router's, by their names.
///
/// # Errors
/// It is not (P013).
pub(super) fn same_database(here: &str, routers: &str) -> Result<(), Failure> {
    if here == routers {
        return Ok(());
    }
    let message =
        format!("this connection is to the database {here}, the router's is to {routers}");
    Err(Failure::of(Case::OtherDatabase, message)
        .naming(Name::Database, here)
        .naming(Name::RouterDatabase, routers))
}
