//! The monitor's SQL connection: how it is opened (by whoever knows how), driven without a task of
//! its own, and how its errors become [`Failure`]s.

use std::{future::Future, pin::Pin, time::Duration};

use relay::{Code, Failure};
use tokio_postgres::Client;

/// The other half of a `tokio_postgres` connection: must be polled for anything to move, ends with
/// the connection.
pub type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An open SQL connection.
pub struct SqlSession {
    /// For queries.
    pub client: Client,
    /// To be polled beside them.
    pub driver: Driver,
}

/// Opens SQL connections. The way to the server (addresses, TLS, password) is not the monitor's
/// business.
pub trait Connect {
    /// Opens one.
    ///
    /// # Errors
    /// With [`Code::ServerNotReady`] when the server answered that it is starting or stopping
    /// (57P03).
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
pub(crate) async fn drive<T>(
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
    Failure::new(Code::ServerUnreachable, "the SQL connection to PostgreSQL was closed")
}

/// Nothing came back in time.
pub(super) fn unanswered(what: &str) -> Failure {
    let seconds = ANSWER_WITHIN.as_secs();
    Failure::new(
        Code::ServerUnreachable,
        format!("postgresql did not answer {what} within {seconds} s"),
    )
}
