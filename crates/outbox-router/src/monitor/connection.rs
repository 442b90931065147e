//! The monitor's SQL connection: how it is opened (by whoever knows how), driven without a task of its own, and how
//! its errors become [`Failure`]s.

use std::{error::Error as _, future::Future, pin::Pin, time::Duration};

use relay::{Code, Failure};
use tokio_postgres::{Client, error::SqlState};

/// The other half of a `tokio_postgres` connection: must be polled for anything to move, ends with the connection.
pub type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An open SQL connection.
pub struct SqlSession {
    /// For queries.
    pub client: Client,
    /// To be polled beside them.
    pub driver: Driver,
}

/// Opens SQL connections. The way to the server (addresses, TLS, password) is not the monitor's business.
pub trait Connect {
    /// Opens one.
    ///
    /// # Errors
    /// With [`Code::ServerNotReady`] when the server answered that it is starting or stopping (57P03).
    fn connect(&self) -> impl Future<Output = Result<SqlSession, Failure>> + Send;
}

/// A closure that opens connections.
pub struct ConnectBy<F>(
    /// The closure.
    pub F,
);

impl<F, R> Connect for ConnectBy<F>
where
    F: Fn() -> R,
    R: Future<Output = Result<SqlSession, Failure>> + Send,
{
    fn connect(&self) -> impl Future<Output = Result<SqlSession, Failure>> + Send {
        (self.0)()
    }
}

/// No answer of the server may keep the monitor from looking again, or from being seen alive.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Does `work` on a connection while driving it, within [`ANSWER_WITHIN`].
pub(super) async fn drive<T>(
    driver: &mut Driver,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let both = async {
        tokio::select! {
            biased;
            result = work => result,
            () = driver => Err(lost()),
        }
    };
    match tokio::time::timeout(ANSWER_WITHIN, both).await {
        Ok(result) => result,
        Err(_) => Err(unanswered("a catalog query")),
    }
}

/// The connection ended while nothing was asked.
pub(super) fn lost() -> Failure {
    Failure::new(Code::ServerUnreachable, "the monitor's connection to postgresql was closed")
}

/// Nothing came back in time.
pub(super) fn unanswered(what: &str) -> Failure {
    let seconds = ANSWER_WITHIN.as_secs();
    Failure::new(
        Code::ServerUnreachable,
        format!("postgresql did not answer {what} within {seconds} s"),
    )
}

/// What an SQL error means here.
pub fn sql_failure(error: &tokio_postgres::Error) -> Failure {
    let Some(server) = error.as_db_error() else {
        let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
        let code = if error.is_closed()
            || error.source().is_some_and(|cause| cause.is::<std::io::Error>())
        {
            Code::ServerUnreachable
        } else {
            Code::ServerError
        };
        return Failure::new(code, format!("{error}{cause}"));
    };
    let code = match server.code() {
        state
            if [
                SqlState::CANNOT_CONNECT_NOW,
                SqlState::ADMIN_SHUTDOWN,
                SqlState::CRASH_SHUTDOWN,
            ]
            .contains(state) =>
        {
            Code::ServerNotReady
        }
        state
            if [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION]
                .contains(state) =>
        {
            Code::AuthenticationFailed
        }
        state
            if [SqlState::TOO_MANY_CONNECTIONS, SqlState::CONFIGURATION_LIMIT_EXCEEDED]
                .contains(state) =>
        {
            Code::ServerFull
        }
        _ => Code::ServerError,
    };
    Failure::new(code, format!("postgresql said {}: {}", server.code().code(), server.message()))
}
