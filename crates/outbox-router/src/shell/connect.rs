//! From nothing to a running stream: look by SQL whether everything is as it must be, then start replication.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use relay::{
    Code, Failure, Lsn, Outboxes,
    failpoint::{self, Failpoint},
    source::{Baseline, Encoding, Expectations, Obstacle, TableOids, Word},
};
use tokio::sync::watch;

use super::clock::Clock;
use crate::{
    monitor::{Preflights, SqlSession, connection::drive, preflight},
    postgres::{
        ClientEncoding, ConnInfo, Options, ReplicationConnection, ReplicationStream, ServerTrouble,
        command_failure, connect_failure, connect_sql, sql_failure,
    },
};

/// How to reach PostgreSQL.
#[derive(Clone)]
pub struct Server {
    /// Where.
    pub conninfo: ConnInfo,
    /// `application_name` of every connection.
    pub application_name: String,
}

/// The server, and what to expect there.
pub struct Source {
    /// How to reach it.
    pub server: Server,
    /// The slot.
    pub slot: String,
    /// The publication.
    pub publication: String,
    /// The tables.
    pub outboxes: Outboxes,
    /// The largest row that is read whole.
    pub row_bytes: usize,
    /// What the last preflights saw, for the monitor, and for the next one to compare with.
    pub preflights: watch::Sender<Preflights>,
    /// The clock whose origin the core was made with.
    pub clock: Clock,
    /// What we last told the slot.
    pub word: Mutex<Word>,
}

/// A connection, or why there is none.
pub(super) enum Connected {
    /// The stream, where the slot stood before it, and whose its rows are.
    Streaming(Box<ReplicationStream>, Lsn, TableOids),
    Held(Option<i32>),
    Failed(Failure),
}

/// How often a standby looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long one attempt to connect may take.
const PATIENCE: Duration = Duration::from_secs(20);

impl Server {
    /// An SQL connection.
    pub async fn sql(&self) -> Result<SqlSession, Failure> {
        let (client, connection) = connect_sql(&self.conninfo, &self.application_name)
            .await
            .map_err(|error| connect_failure(&error))?;
        let driver = Box::pin(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an SQL connection ended");
            }
        });
        Ok(SqlSession { client, driver })
    }
}

impl Source {
    /// Notes what the server was told: for a while the slot can stand no further than this when we come back.
    pub(super) fn told(&self, flush: Lsn) {
        self.word().told(flush, self.clock.now().at);
    }

    /// Time has passed that nobody noticed: another process may have held the slot.
    pub(super) fn doubt_word(&self) {
        self.word().forget();
    }

    fn word(&self) -> MutexGuard<'_, Word> {
        self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at slot and publication, connects and starts streaming.
    pub(super) async fn connect(&self) -> Connected {
        match tokio::time::timeout(PATIENCE, self.try_connect()).await {
            Ok(connected) => connected,
            Err(_) => Connected::Failed(Failure::new(
                Code::ServerUnreachable,
                format!(
                    "{} did not answer within {} s",
                    self.server.conninfo.target(),
                    PATIENCE.as_secs()
                ),
            )),
        }
    }

    async fn try_connect(&self) -> Connected {
        let baseline = match self.preflight().await {
            Ok(baseline) => baseline,
            Err(Obstacle::SlotInUse { pid }) => {
                self.word().forget();
                return Connected::Held(Some(pid));
            }
            Err(Obstacle::Gap(gap)) => {
                let failure = gap.failure.clone();
                self.preflights.send_modify(|preflights| preflights.gap = Some(*gap));
                return Connected::Failed(failure);
            }
            Err(Obstacle::Failed(failure)) => return Connected::Failed(failure),
        };
        failpoint::reached(Failpoint::SlotChecked);
        let encoding = match &baseline.server.encoding {
            Encoding::SqlAscii => ClientEncoding::SqlAscii,
            Encoding::Known(_) => ClientEncoding::Utf8,
        };
        let options = Options {
            application_name: self.server.application_name.clone(),
            client_encoding: encoding,
            row_bytes: self.row_bytes,
            ..Options::default()
        };
        let connection = match ReplicationConnection::connect(&self.server.conninfo, &options).await
        {
            Ok(connection) => connection,
            Err(error) => return Connected::Failed(connect_failure(&error)),
        };
        failpoint::reached(Failpoint::Connected);
        match connection.start_replication(&self.slot, &[&self.publication]).await {
            Ok(stream) => {
                let (slot_at, tables) = (baseline.confirmed(), baseline.tables.clone());
                self.remember(baseline);
                Connected::Streaming(Box::new(stream), slot_at, tables)
            }
            Err(error) => match error.trouble() {
                Some(ServerTrouble::SlotInUse { pid }) => {
                    self.word().forget();
                    Connected::Held(pid.and_then(|pid| i32::try_from(pid).ok()))
                }
                _ => Connected::Failed(command_failure(&error)),
            },
        }
    }

    async fn preflight(&self) -> Result<Baseline, Obstacle> {
        let word = *self.word();
        let expected = Expectations {
            slot: self.slot.clone(),
            publication: self.publication.clone(),
            outboxes: self.outboxes.clone(),
            confirmed: word.holds(self.clock.now().at),
            furthest: word.furthest(),
            earlier: self.preflights.borrow().baseline.clone(),
        };
        let SqlSession { client, mut driver } = self.server.sql().await?;
        let look = async { Ok(preflight(&client, &expected).await) };
        drive(&mut driver, look).await?
    }

    fn remember(&self, baseline: Baseline) {
        self.word().found(baseline.confirmed(), self.clock.now().at);
        self.preflights.send_replace(Preflights { baseline: Some(baseline), gap: None });
    }

    /// Returns when the slot is free. Every look has its limit: a frozen server keeps connections alive that nobody
    /// answers on.
    pub(super) async fn watch_slot(&self) -> Result<(), Failure> {
        const HELD: &str =
            "select from pg_catalog.pg_replication_slots where slot_name = $1 and active";
        let SqlSession { client, mut driver } = self.server.sql().await?;
        loop {
            let look = async {
                client.query_opt(HELD, &[&self.slot]).await.map_err(|error| sql_failure(&error))
            };
            // A slot that is gone is for the preflight to report.
            if drive(&mut driver, look).await?.is_none() {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
