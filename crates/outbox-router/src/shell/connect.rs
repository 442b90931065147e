//! From nothing to a running stream: look by SQL whether everything is as it must be, then start replication.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use relay::{Code, Failure, Lsn, Outboxes};
use tokio::sync::watch;

use super::failure;
use crate::{
    monitor::{Baseline, Encoding, Expectations, Obstacle, SqlSession, preflight},
    postgres::{
        ClientEncoding, ConnInfo, Options, ReplicationConnection, ReplicationStream, ServerTrouble,
        connect_sql,
    },
};

/// How to reach PostgreSQL and what to expect there.
pub struct Source {
    /// Where.
    pub conninfo: ConnInfo,
    /// `application_name` of every connection.
    pub application_name: String,
    /// The slot.
    pub slot: String,
    /// The publication.
    pub publication: String,
    /// The tables.
    pub outboxes: Outboxes,
    /// The largest row that is read whole.
    pub row_bytes: usize,
    /// What the last preflight saw, for the monitor, and for the next one to compare with.
    pub baselines: watch::Sender<Option<Baseline>>,
    /// The highest position that the slot can have been told by us; `None` when another may have moved it.
    pub confirmed: Mutex<Option<Lsn>>,
}

/// A connection, or why there is none.
pub(super) enum Connected {
    /// The stream, and where the slot stood before it.
    Streaming(Box<ReplicationStream>, Lsn),
    Held(Option<i32>),
    Failed(Failure),
}

/// How often a standby looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long one look, or one attempt to connect, may take.
const PATIENCE: Duration = Duration::from_secs(20);

impl Source {
    /// An SQL connection.
    pub async fn sql(&self) -> Result<SqlSession, Failure> {
        let (client, connection) = connect_sql(&self.conninfo, &self.application_name)
            .await
            .map_err(|error| failure::connect_failure(&error))?;
        let driver = Box::pin(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an SQL connection ended");
            }
        });
        Ok(SqlSession { client, driver })
    }

    /// Notes what the server was told: the slot can stand no further than this when we come back.
    pub(super) fn told(&self, flush: Lsn) {
        let mut confirmed = self.confirmed.lock().unwrap_or_else(PoisonError::into_inner);
        *confirmed = (*confirmed).max(Some(flush));
    }

    /// Looks at slot and publication, connects and starts streaming.
    pub(super) async fn connect(&self) -> Connected {
        match tokio::time::timeout(PATIENCE, self.try_connect()).await {
            Ok(connected) => connected,
            Err(_) => Connected::Failed(Failure::new(
                Code::ServerUnreachable,
                format!(
                    "{} did not answer within {} s",
                    self.conninfo.target(),
                    PATIENCE.as_secs()
                ),
            )),
        }
    }

    async fn try_connect(&self) -> Connected {
        let baseline = match self.preflight().await {
            Ok(baseline) => baseline,
            Err(Obstacle::SlotInUse { pid }) => {
                self.forget_position();
                return Connected::Held(Some(pid));
            }
            Err(Obstacle::Failed(failure)) => return Connected::Failed(failure),
        };
        let encoding = match &baseline.server.encoding {
            Encoding::SqlAscii => ClientEncoding::SqlAscii,
            Encoding::Known(_) => ClientEncoding::Utf8,
        };
        let options = Options {
            application_name: self.application_name.clone(),
            client_encoding: encoding,
            row_bytes: self.row_bytes,
            ..Options::default()
        };
        let connection = match ReplicationConnection::connect(&self.conninfo, &options).await {
            Ok(connection) => connection,
            Err(error) => return Connected::Failed(failure::connect_failure(&error)),
        };
        match connection.start_replication(&self.slot, &[&self.publication]).await {
            Ok(stream) => {
                let slot_at = baseline.confirmed();
                self.remember(baseline);
                Connected::Streaming(Box::new(stream), slot_at)
            }
            Err(error) => match error.trouble() {
                Some(ServerTrouble::SlotInUse { pid }) => {
                    self.forget_position();
                    Connected::Held(pid.and_then(|pid| i32::try_from(pid).ok()))
                }
                _ => Connected::Failed(failure::command(&error)),
            },
        }
    }

    async fn preflight(&self) -> Result<Baseline, Obstacle> {
        let expected = Expectations {
            slot: self.slot.clone(),
            publication: self.publication.clone(),
            outboxes: self.outboxes.clone(),
            confirmed: *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner),
            earlier: self.baselines.borrow().clone(),
        };
        let SqlSession { client, driver } = self.sql().await?;
        tokio::select! {
            biased;
            result = preflight(&client, &expected) => result,
            () = driver => Err(lost().into()),
        }
    }

    fn remember(&self, baseline: Baseline) {
        self.told(baseline.confirmed());
        self.baselines.send_replace(Some(baseline));
    }

    /// Another process holds the slot and moves it: where it stood when we knew it says nothing any more.
    fn forget_position(&self) {
        *self.confirmed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns when the slot is free.
    pub(super) async fn watch_slot(&self) -> Result<(), Failure> {
        let SqlSession { client, driver } = self.sql().await?;
        let watch = async {
            const FREE: &str =
                "select active from pg_catalog.pg_replication_slots where slot_name = $1";
            loop {
                let row = client
                    .query_opt(FREE, &[&self.slot])
                    .await
                    .map_err(|error| crate::monitor::connection::sql_failure(&error))?;
                // A slot that is gone is for the preflight to report.
                if row.is_none_or(|row| !row.get::<_, bool>(0)) {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            biased;
            result = watch => result,
            () = driver => Err(lost()),
        }
    }
}

fn lost() -> Failure {
    Failure::new(Code::ServerUnreachable, "the SQL connection was closed")
}
