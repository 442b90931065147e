//! Whether a command that was given `--admin-url` has reached the router's server: rows of another
//! one are no events of the pipeline, whatever its database is called.

use std::{pin::pin, time::Duration};

use relay::{Case, Failure};
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::postgres::{ConnInfo, connect_sql};

/// The router's server may not be reachable from where a person types.
const COMPARE_WITHIN: Duration = Duration::from_secs(2);

/// Two servers that are primaries are one if they have started at the same moment; a standby has
/// its primary's system identifier, which a role may be forbidden to read.
const IDENTITY: &str = "select pg_is_in_recovery(), \
    extract(epoch from pg_postmaster_start_time())::text";
const SYSTEM: &str = "select system_identifier::text from pg_catalog.pg_control_system()";

struct Identity {
    is_standby: bool,
    started: String,
    system: Option<String>,
}

impl Identity {
    /// `None`: the server does not say it.
    async fn read(client: &Client) -> Option<Self> {
        let row = client.query_one(IDENTITY, &[]).await.ok()?;
        let (is_standby, started) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
        let system = client.query_one(SYSTEM, &[]).await.ok();
        let system = system.and_then(|row| row.try_get(0).ok());
        Some(Self { is_standby, started, system })
    }

    fn differs(&self, other: &Self) -> bool {
        let is_other_system =
            self.system.as_ref().zip(other.system.as_ref()).is_some_and(|(one, two)| one != two);
        let is_other_primary =
            !self.is_standby && !other.is_standby && self.started != other.started;
        is_other_system || is_other_primary
    }
}

/// Refuses a server that is not the router's, where that one answers.
///
/// # Errors
/// [`Case::CommandElsewhere`]: it is another one.
pub(super) async fn refuse_other_server(
    client: &Client,
    here: &ConnInfo,
    mut routers: ConnInfo,
    name: &str,
) -> Result<(), Failure> {
    let address = |info: &ConnInfo| (info.host.clone(), info.hostaddr, info.port);
    if address(here) == address(&routers) {
        return Ok(());
    }
    routers.connect_timeout = routers.connect_timeout.min(COMPARE_WITHIN);
    let read = async {
        let (there, connection) = connect_sql(&routers, name).await.ok()?;
        let mut connection = pin!(connection);
        tokio::select! {
            biased;
            identity = Identity::read(&there) => identity,
            _ = &mut connection => None,
        }
    };
    let Ok(Some(theirs)) = timeout(COMPARE_WITHIN, read).await else { return Ok(()) };
    let Some(ours) = Identity::read(client).await else { return Ok(()) };
    if !ours.differs(&theirs) {
        return Ok(());
    }
    let what = format!(
        "this connection is to the server at {}, the router's is to another one, at {}",
        here.target(),
        routers.target()
    );
    Err(Failure::of(Case::CommandElsewhere, what))
}
