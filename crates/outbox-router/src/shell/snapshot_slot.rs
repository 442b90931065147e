//! A new slot with the snapshot that divides the rows of its tables: what the snapshot sees is read
//! from the tables, and everything else comes in the slot's stream (manual, section "Streaming
//! Replication Protocol").
//!
//! The connection that has created the slot holds it afterwards, so that no router takes it before
//! the rows of the snapshot were sent. The holder reads the stream and confirms nothing, so the
//! slot stays where it is, and the server can shut down meanwhile.

use std::time::Duration;

use pgoutput::Frame;
use relay::{Failure, Lsn};

use super::{
    command_stream::{CommandFrame, CommandStream, be_patient},
    connect::{Source, identify},
};
use crate::postgres::{
    ClientEncoding, CreatedSlot, Failover, ReplicationConnection, command_failure,
};

/// How long one wait for bytes lasts; between two, the server is told that the holder lives.
const WAIT: Duration = Duration::from_secs(1);

/// A connection that is about to create the slot.
pub(crate) struct SlotCreator {
    connection: ReplicationConnection,
    system_id: String,
    slot: String,
    publication: String,
}

/// The slot, with its snapshot.
pub(crate) struct SnapshotSlot {
    creator: SlotCreator,
    created: CreatedSlot,
}

/// The slot is held while this lives.
pub(crate) struct SlotHolder {
    stream: CommandStream,
    pid: Option<i32>,
}

impl Source {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the role.
    pub(crate) async fn slot_creator(&self) -> Result<SlotCreator, Failure> {
        let mut connection = self.connect(self.options(ClientEncoding::Utf8)).await?;
        be_patient(&mut connection).await?;
        let (history, _) = identify(&mut connection).await?;
        let (slot, publication) = (self.slot.clone(), self.publication.clone());
        Ok(SlotCreator { connection, system_id: history.system_id, slot, publication })
    }

    /// Holds the slot, which exists, where it stands.
    ///
    /// # Errors
    /// The server cannot be reached or refuses; another process holds the slot.
    pub(crate) async fn hold_slot(&self) -> Result<SlotHolder, Failure> {
        let SlotCreator { connection, slot, publication, .. } = self.slot_creator().await?;
        hold(connection, &slot, &publication).await
    }
}

impl SlotCreator {
    /// The walsender, which another session has to end where the creation waits for too long.
    pub(crate) fn pid(&self) -> Option<i32> {
        pid_of(&self.connection)
    }

    /// The server's system identifier.
    pub(crate) fn system_id(&self) -> &str {
        &self.system_id
    }

    /// The slot's name.
    pub(crate) fn slot(&self) -> &str {
        &self.slot
    }

    /// Creates the slot. It waits until every transaction has ended that is open, without a limit.
    ///
    /// # Errors
    /// The server refuses, or the connection breaks.
    pub(crate) async fn create(mut self, failover: Failover) -> Result<SnapshotSlot, Failure> {
        let created =
            self.connection.create_slot(&self.slot, failover).await.map_err(command_failure)?;
        Ok(SnapshotSlot { creator: self, created })
    }
}

impl SnapshotSlot {
    /// The slot's name.
    pub(crate) fn name(&self) -> &str {
        self.creator.slot()
    }

    /// Where the slot's stream begins.
    pub(crate) fn begins_at(&self) -> Option<Lsn> {
        self.created.consistent_point.parse().ok()
    }

    /// The name of the snapshot, to be imported before [`Self::hold`].
    pub(crate) fn snapshot(&self) -> &str {
        &self.created.snapshot
    }

    /// Holds the slot. From here on the snapshot cannot be imported any more; a transaction that
    /// has imported it keeps it.
    ///
    /// # Errors
    /// The server refuses, or the connection breaks.
    pub(crate) async fn hold(self) -> Result<SlotHolder, Failure> {
        let SlotCreator { connection, slot, publication, .. } = self.creator;
        hold(connection, &slot, &publication).await
    }
}

async fn hold(
    connection: ReplicationConnection,
    slot: &str,
    publication: &str,
) -> Result<SlotHolder, Failure> {
    let pid = pid_of(&connection);
    let stream = connection.start_replication(slot, &[publication]).await;
    let stream = CommandStream::new(stream.map_err(command_failure)?, publication);
    Ok(SlotHolder { stream, pid })
}

fn pid_of(connection: &ReplicationConnection) -> Option<i32> {
    connection.backend_pid().and_then(|pid| i32::try_from(pid).ok())
}

impl SlotHolder {
    /// The walsender that holds the slot.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// Holds the slot until that fails, and returns why. Cancel-safe.
    pub(crate) async fn lost(&mut self) -> Failure {
        loop {
            if let Err(failure) = self.read().await {
                return failure;
            }
        }
    }

    async fn read(&mut self) -> Result<(), Failure> {
        self.stream.fill(WAIT).await?;
        while let Some(frame) = self.stream.peek()? {
            let received = match frame {
                CommandFrame::Whole(payload) => end_of(payload),
                CommandFrame::Oversized { .. } => None,
            };
            if let Some(received) = received {
                self.stream.receive(received);
            }
            self.stream.consume();
        }
        Ok(())
    }
}

/// How far the server says that it has got.
fn end_of(payload: &[u8]) -> Option<Lsn> {
    match Frame::parse(payload).ok()? {
        Frame::Keepalive(keepalive) => Some(keepalive.wal_end),
        Frame::XLogData(_) => None,
    }
}
