//! Reads a backlog by SQL: two connections of its own, each with a temporary copy of the slot.

use std::time::Duration;

use relay::{Code, Failure, Input, LONGEST_RECORD, NamedStandby, SqlReach, source::History};
use tokio::time::Instant;

use super::{
    Shell,
    backlog_watch::{BacklogWatch, Overdue, WaitsFor},
    connect::Source,
    ports::{Kafka, Postgres},
    slot_copy::position,
};
use crate::{
    monitor::watch::statement::{FAILOVER_SINCE, NAMED_STANDBYS},
    postgres::{
        Backlog, BatchLimits, ClientEncoding, ReplicationConnection, Row, SlotCopyOwner,
        command_failure, quote_literal,
    },
};

/// A server that takes longer has other work, and sends the backlog as a stream.
const LIMIT: Duration = Duration::from_secs(5);

/// The least is so much that beginning a batch costs little. A batch has as much as is decoded
/// again for it, so all in all a backlog is decoded about twice where `restart_lsn` stands still.
/// The most is what the server writes to a temporary file of each of the two batches.
const BATCH: BatchLimits = BatchLimits { least: 16 << 20, most: 256 << 20 };

/// With the first, a batch of this size stays in memory, and what is larger goes to a temporary
/// file. With the last, the server ends a statement whose connection was closed (PostgreSQL 14).
/// Every role may set them.
const SETTINGS: [&str; 4] = [
    "set work_mem = '64MB'",
    "set statement_timeout = 0",
    "set idle_session_timeout = 0",
    "set client_connection_check_interval = '5s'",
];

/// What is flushed: the server's functions read no further. On a standby, what is replayed.
const FLUSHED: &str = "\
    select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn() \
      else pg_catalog.pg_current_wal_flush_lsn() end";

/// The same, and what the standbys have received for which the slot's walsender waits: a line for
/// each of them. A server in recovery waits for none (`StandbySlotsHaveCaughtup` in slot.c).
///
/// All names are qualified: in a session with another `search_path` the server would print other
/// values of `regclass` and its like than the walsender does.
fn reach_statement(version: i32, slot: &str) -> String {
    if version < FAILOVER_SINCE {
        return FLUSHED.to_owned();
    }
    let slot = quote_literal(slot);
    format!(
        "select ({FLUSHED}), n.name, case when s.slot_type = 'physical' \
             and s.wal_status <> 'lost' and s.invalidation_reason is null then s.restart_lsn end \
           from (select) one left join {NAMED_STANDBYS} \
             on not pg_catalog.pg_is_in_recovery() and exists (select \
               from pg_catalog.pg_replication_slots where slot_name = {slot} and failover) \
           left join pg_catalog.pg_replication_slots s on s.slot_name = n.name::pg_catalog.name"
    )
}

fn reach(rows: &[Row]) -> Result<SqlReach, Failure> {
    let flushed = position(rows, "the end of WAL")?;
    let standby = |row: &Row| {
        let slot = row.get(1)?.clone()?;
        let received = row.get(2)?.as_deref().and_then(|lsn| lsn.parse().ok());
        Some(NamedStandby { slot, received })
    };
    let standbys = rows.iter().filter_map(standby).collect();
    Ok(SqlReach { flushed, standbys, longest_record: LONGEST_RECORD })
}

impl Source {
    /// What the slot has now, to be read by SQL. `None` where that is not possible; then the
    /// walsender sends it.
    ///
    /// The copy is made before the slot is held. If another router holds the slot in between and
    /// confirms more, the core finds the slot elsewhere than before, and begins again.
    pub(super) async fn backlog(
        &self,
        version: i32,
        encoding: ClientEncoding,
        history: &History,
    ) -> Option<Backlog> {
        let made = self.make_backlog(version, encoding, history);
        let made = tokio::time::timeout(LIMIT, made).await;
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
        version: i32,
        encoding: ClientEncoding,
        history: &History,
    ) -> Result<Backlog, Failure> {
        let mut connection = self.connect_to_read(encoding, history).await?;
        let statement = reach_statement(version, &self.slot);
        let reach_now = connection.query("the end of WAL", &statement).await;
        let reach = reach(&reach_now.map_err(command_failure)?)?;
        let copy = self.copied(&mut connection).await?;
        let until = reach.until(copy.begins_at)?;
        let other = match self.other_owner(encoding, history).await {
            Ok(other) => Some(other),
            Err(failure) => {
                tracing::info!(
                    slot = self.slot,
                    code = %failure.code,
                    "the backlog is read by one connection, as there is no second: {failure:#}"
                );
                None
            }
        };
        let publications = [self.publication.as_str()];
        Ok(Backlog::new(connection.with_copy(copy), other, &publications, until, BATCH))
    }

    /// The second connection. Its copy shows that the server has a slot for it, and is made anew
    /// when its turn comes.
    async fn other_owner(
        &self,
        encoding: ClientEncoding,
        history: &History,
    ) -> Result<SlotCopyOwner, Failure> {
        let mut connection = self.connect_to_read(encoding, history).await?;
        let copy = self.copied(&mut connection).await?;
        Ok(connection.with_copy(copy))
    }

    async fn connect_to_read(
        &self,
        encoding: ClientEncoding,
        history: &History,
    ) -> Result<ReplicationConnection, Failure> {
        let mut connection = self.connect_again(self.options(encoding), history).await?;
        for setting in SETTINGS {
            // The last two are unknown before PostgreSQL 14.
            let _set = connection.query("the limits of a session", setting).await;
        }
        Ok(connection)
    }
}

impl<P: Postgres, K: Kafka> Shell<P, K> {
    /// Tells the core whether the walsender lives, which frames do not show while a backlog is read
    /// by SQL. Gives up the connection by which it is read where nothing of it has been taken for
    /// long; the stream stays, and with it the slot, and when there is room again, another session
    /// reads what is left. Where the server is silent, another session reads a stream.
    pub(super) fn review_backlog(&mut self, now: Instant) {
        let Some(stream) = &mut self.stream else {
            self.backlog = BacklogWatch::default();
            return;
        };
        if stream.walsender_was_heard() {
            self.input(Input::BytesArrived);
        }
        let Some(stream) = &mut self.stream else { return };
        let wants_wal = self.relay.wants_wal();
        if stream.is_backlog_given_up() {
            if wants_wal {
                let what = "the rest of a backlog is read anew, since Kafka has taken nothing of \
                            it for a minute";
                self.disconnected(Failure::new(Code::ServerUnreachable, what));
            }
            return;
        }
        if stream.backlog_until().is_none() {
            self.backlog = BacklogWatch::default();
            return;
        }
        let waits_for = if wants_wal { WaitsFor::Server } else { WaitsFor::Kafka };
        match self.backlog.look(waits_for, now) {
            None => {}
            Some(Overdue::NotTaken) => stream.give_up_backlog(),
            Some(Overdue::Silent) => {
                let what = "the backlog cannot be read on by SQL: the server has sent nothing for \
                            30 s, so there is a transaction larger than what it may keep";
                self.disconnected(Failure::new(Code::Backlog, what));
            }
        }
    }
}
