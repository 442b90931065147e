//! The monitor's SQL connection: a trait that opens it, a function that polls it without a task of
//! its own, and the [`Failure`]s of a connection that ended or did not answer.

use std::{future::Future, pin::Pin, time::Duration};

use relay::{Code, Failure};
use tokio_postgres::Client;

/// The second half of a `tokio_postgres` connection. It must be polled while the client is used,
/// and ends with the connection.
pub type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An open SQL connection.
pub struct SqlSession {
    /// Sends the queries.
    pub client: Client,
    /// To be polled while a query runs.
    pub driver: Driver,
}

/// Opens SQL connections. How the server is reached (addresses, TLS, password) is the
/// implementation's matter, not the monitor's.
pub trait Connect {
    /// Opens a connection.
    ///
    /// # Errors
    /// [`Code::ServerNotReady`] when the server answered that it is starting or stopping (57P03);
    /// another code for any other reason why there is no session.
    fn connect(&self) -> impl Future<Output = Result<SqlSession, Failure>> + Send;
}

/// Makes a [`Connect`] of a closure that opens connections.
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

/// The limit for one answer of the server, so that a silent server neither stops the monitor from
/// reading again nor makes its task look dead.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Runs `work` on a connection while polling its driver, within [`ANSWER_WITHIN`].
///
/// # Errors
/// Those of `work`; [`Code::ServerUnreachable`] when the connection ends or the time is over.
pub(crate) async fn drive<T>(
    driver: &mut Driver,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let both = drive_without_limit(driver, work, "the SQL connection to PostgreSQL");
    match tokio::time::timeout(ANSWER_WITHIN, both).await {
        Ok(result) => result,
        Err(_) => Err(unanswered("a catalog query")),
    }
}

/// Runs `work` on a connection while polling its driver. `connection` says which one it is.
///
/// # Errors
/// Those of `work`; [`Code::ServerUnreachable`] when the connection ends.
pub(crate) async fn drive_without_limit<T>(
    driver: &mut Driver,
    work: impl Future<Output = Result<T, Failure>>,
    connection: &str,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        result = work => result,
        () = driver => {
            let what = format!("{connection} was closed");
            Err(Failure::new(Code::ServerUnreachable, what))
        }
    }
}

/// The failure of a server that did not answer `what` within [`ANSWER_WITHIN`].
pub(super) fn unanswered(what: &str) -> Failure {
    let seconds = ANSWER_WITHIN.as_secs();
    Failure::new(
        Code::ServerUnreachable,
        format!("PostgreSQL did not answer {what} within {seconds} s"),
    )
}
