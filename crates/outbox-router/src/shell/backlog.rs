//! Reads a backlog by SQL: a connection of its own, with a temporary copy of the slot.

use std::time::Duration;

use relay::{Code, Failure, Input, Lsn, source::History};
use tokio::time::Instant;

use super::{
    Shell,
    connect::Source,
    ports::{Kafka, Postgres},
};
use crate::postgres::{Backlog, ClientEncoding, ReplicationStream, command_failure};

/// The statement that reads a batch holds back VACUUM until the batch is taken. So where Kafka
/// takes nothing for this long, the batch is given up, and what is left is read anew.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that takes longer has other work, and sends the backlog as a stream.
const LIMIT: Duration = Duration::from_secs(5);

/// How many changes a batch has: a transaction of one row has three messages. Each batch is decoded
/// from the copy's `restart_lsn` on, so small ones decode the same WAL more often; and the server
/// keeps the whole of a batch before it sends the first row.
const CHANGES: u32 = 60_000;

/// A batch stays in memory below this; above, the server writes it to a temporary file. Every role
/// may set it.
const SETTINGS: [&str; 3] =
    ["set work_mem = '64MB'", "set statement_timeout = 0", "set idle_session_timeout = 0"];

/// What is flushed: the server's functions read no further. On a standby, what is replayed.
const FLUSHED: &str = "\
    select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn() \
      else pg_catalog.pg_current_wal_flush_lsn() end";

impl Source {
    /// What the slot has now, to be read by SQL. `None` where that is not possible; then the
    /// walsender sends it.
    ///
    /// The copy is made before the slot is held. If another router holds the slot in between and
    /// confirms more, the core finds the slot elsewhere than before, and begins again.
    pub(super) async fn backlog(
        &self,
        encoding: ClientEncoding,
        history: &History,
    ) -> Option<Backlog> {
        let made = tokio::time::timeout(LIMIT, self.make_backlog(encoding, history)).await;
        let failure = match made {
            Ok(Ok(backlog)) => {
                let until = backlog.until();
                tracing::info!(slot = self.slot, %until, "the backlog is read by SQL");
                return Some(backlog);
            }
            Ok(Err(failure)) => failure,
            Err(_) => Failure::new(Code::ServerUnreachable, "the server did not answer in time"),
        };
        tracing::info!(
            slot = self.slot,
            code = %failure.code,
            "the backlog is read as a stream, since it cannot be read by SQL: {failure:#}"
        );
        None
    }

    async fn make_backlog(
        &self,
        encoding: ClientEncoding,
        history: &History,
    ) -> Result<Backlog, Failure> {
        let mut connection = self.connect_again(encoding, history).await?;
        for setting in SETTINGS {
            // The last is unknown before PostgreSQL 14.
            let _set = connection.query("the limits of a session", setting).await;
        }
        let flushed = connection.query("the end of WAL", FLUSHED).await.map_err(command_failure)?;
        let flushed: Option<Lsn> = flushed
            .first()
            .and_then(|row| row.first())
            .and_then(|lsn| lsn.as_deref()?.parse().ok());
        let Some(until) = flushed else {
            return Err(Failure::new(Code::Protocol, "the server names no end of WAL"));
        };
        let copy = self.copied(&mut connection).await?;
        Ok(connection.read_backlog(&copy, &[self.publication.as_str()], until, CHANGES))
    }
}

impl<P: Postgres, K: Kafka> Shell<P, K> {
    /// Tells the core whether the walsender lives, which frames do not show meanwhile. Gives up the
    /// connection by which a backlog is read where nothing of it has been taken for
    /// long. The stream stays, and with it the slot. When there is room again, another session
    /// reads what is left.
    pub(super) fn review_backlog(&mut self, now: Instant) {
        if self.stream.as_mut().is_some_and(ReplicationStream::walsender_was_heard) {
            self.input(Input::BytesArrived);
        }
        let Some(stream) = &mut self.stream else {
            self.backlog_waits_since = None;
            return;
        };
        if self.relay.wants_wal() {
            self.backlog_waits_since = None;
            if stream.is_backlog_given_up() {
                let what = "the rest of a backlog is read anew, since Kafka has taken nothing of \
                            it for a minute";
                self.disconnected(Failure::new(Code::ServerUnreachable, what));
            }
            return;
        }
        if stream.backlog_until().is_none() {
            return;
        }
        let since = *self.backlog_waits_since.get_or_insert(now);
        if now >= since + PATIENCE {
            stream.give_up_backlog();
        }
    }
}
