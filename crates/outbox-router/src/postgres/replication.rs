//! A connection in replication mode, before it streams: connect, identify the server, run
//! replication commands and SQL.
//!
//! [`ReplicationConnection::start_replication`] turns it into a [`ReplicationStream`]; they are two
//! types so that no command can be sent into a running stream. Time limits other than that of
//! connecting are the caller's.

use std::collections::BTreeMap;

use pgoutput::Lsn;
use postgres_protocol::message::frontend;

use super::backlog::{Backlog, CopiedSlot, SlotCopyOwner};
use super::frames::FrameLimits;
use super::link::{Link, LinkError};
use super::options::Options;
use super::quote::{publication_names_literal, quote_identifier};
use super::reply::Reply;
use super::session::ServerParameters;
use super::startup;
use super::stream::ReplicationStream;
use super::transport::Transport;
use super::{CommandError, ConnInfo, ConnectError, ProtocolError, ServerMessage};

/// The limit for an answer. The largest, about a publication of a hundred thousand partitions, has
/// some 30 MB.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A row of the answer to a command, in text form; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// What a row takes in memory, in bytes.
fn bytes_of(row: &Row) -> usize {
    let values = row.iter().flatten().map(String::len).sum::<usize>();
    values + size_of_val(row.as_slice()) + size_of::<Row>()
}

/// The answer to `IDENTIFY_SYSTEM`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentifySystem {
    /// The cluster's system identifier; with the timeline it names the server's history.
    pub system_id: String,
    /// The current timeline.
    pub timeline: u32,
    /// The current WAL flush position, as text (`X/X`).
    pub flush_lsn: String,
    /// The database of the connection; `None` on a connection for physical replication.
    pub database: Option<String>,
}

/// The answer to `CREATE_REPLICATION_SLOT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedSlot {
    /// Where the slot begins: every transaction whose commit record ends after it comes in its
    /// stream.
    pub consistent_point: String,
    /// The name of a snapshot that sees every other transaction, and nothing else. It can be
    /// imported (`SET TRANSACTION SNAPSHOT`) until the next command of the connection.
    pub snapshot: String,
}

/// Whether standbys can keep a slot, too (PostgreSQL 17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// They do not keep it.
    Off,
    /// They keep it, where they are set up for it.
    On,
}

/// A session in replication mode that is ready for a command.
#[derive(Debug)]
pub struct ReplicationConnection {
    link: Link,
    session: ServerParameters,
}

impl ReplicationConnection {
    /// Connects, encrypts, authenticates and sets the session's parameters, all within
    /// `connect_timeout`.
    ///
    /// # Errors
    /// The reason why there is no session; see [`ConnectError`].
    pub async fn connect(info: &ConnInfo, options: &Options) -> Result<Self, ConnectError> {
        let connect = async {
            let transport = Transport::connect(info, &options.socket).await?;
            let limits =
                FrameLimits { read_buffer: options.read_buffer, row_bytes: options.row_bytes };
            let mut link = Link::new(transport, limits);
            let timeout = format!("{}ms", options.wal_sender_timeout.as_millis());
            let parameters = startup::for_replication(info, options, &timeout);
            let session = startup::start(&mut link, info, &parameters).await?;
            Ok(Self { link, session })
        };
        let limit = info.connect_timeout;
        match tokio::time::timeout(limit, Box::pin(connect)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(ConnectError::Timeout { target: info.target(), after: limit }),
        }
    }

    /// Runs IDENTIFY_SYSTEM.
    ///
    /// # Errors
    /// The command fails, or its answer does not have the form that PostgreSQL's manual describes.
    pub async fn identify_system(&mut self) -> Result<IdentifySystem, CommandError> {
        let command = "IDENTIFY_SYSTEM";
        let rows = self.query(command, command).await?;
        let malformed = ProtocolError::Malformed { tag: 'D', doing: "reading IDENTIFY_SYSTEM" };
        let answer = rows.into_iter().next().and_then(|row| {
            let [system_id, timeline, flush_lsn, database] = row.try_into().ok()?;
            Some(IdentifySystem {
                system_id: system_id?,
                timeline: timeline?.parse().ok()?,
                flush_lsn: flush_lsn?,
                database,
            })
        });
        answer.ok_or(CommandError::Protocol { command, source: malformed })
    }

    /// The content of a timeline's history file (`TIMELINE_HISTORY`).
    ///
    /// # Errors
    /// The command fails, as it does for the first timeline, which has no history file; or its
    /// answer does not have the form that PostgreSQL's manual describes.
    pub async fn timeline_history(&mut self, timeline: u32) -> Result<String, CommandError> {
        let command = "TIMELINE_HISTORY";
        let rows = self.query(command, &format!("{command} {timeline}")).await?;
        let source = ProtocolError::Malformed { tag: 'D', doing: "reading TIMELINE_HISTORY" };
        let content = rows.into_iter().next().and_then(|row| {
            let [_name, content] = row.try_into().ok()?;
            content
        });
        content.ok_or(CommandError::Protocol { command, source })
    }

    /// Creates a slot, and exports the snapshot that divides the rows of every table between what
    /// is read from the table and what comes in the slot's stream. It waits until every transaction
    /// has ended that was open.
    ///
    /// # Errors
    /// The command fails, or its answer does not have the form that PostgreSQL's manual describes.
    pub async fn create_slot(
        &mut self,
        slot: &str,
        failover: Failover,
    ) -> Result<CreatedSlot, CommandError> {
        let command = "CREATE_REPLICATION_SLOT";
        let rows = self.query(command, &create_slot_command(slot, failover)).await?;
        let source = ProtocolError::Malformed { tag: 'D', doing: "reading the slot's position" };
        let created = rows.into_iter().next().and_then(|row| {
            let [_name, consistent_point, snapshot, _plugin] = row.try_into().ok()?;
            Some(CreatedSlot { consistent_point: consistent_point?, snapshot: snapshot? })
        });
        created.ok_or(CommandError::Protocol { command, source })
    }

    /// Runs a replication command (or, on this kind of connection, an SQL statement) and returns
    /// its rows as text.
    ///
    /// `name` stands for the command in errors; `text` is never shown.
    ///
    /// # Errors
    /// [`CommandError::Server`] when the server refuses: the connection then stays usable. Another
    /// variant when the connection breaks, or the server violates the protocol or sends more than
    /// 256 MiB: the connection is then of no further use.
    pub async fn query(
        &mut self,
        name: &'static str,
        text: &str,
    ) -> Result<Vec<Row>, CommandError> {
        self.send(name, text).await?;
        let mut rows = Vec::new();
        let mut room = ANSWER_BYTES_MAX;
        let mut refusal = None;
        loop {
            match self.reply(name).await? {
                Reply::Ready => break,
                Reply::Row(row) => {
                    room = room.checked_sub(bytes_of(&row)).ok_or_else(|| {
                        let source = ProtocolError::AnswerTooLarge { limit: ANSWER_BYTES_MAX };
                        CommandError::Protocol { command: name, source }
                    })?;
                    rows.push(row);
                }
                Reply::Error(message) => refusal = Some(message),
                Reply::Columns | Reply::Complete | Reply::Nothing => {}
                Reply::CopyBoth => return Err(unexpected(name, 'W')),
                Reply::Authentication(_) => return Err(unexpected(name, 'R')),
                Reply::Parameter { name, value } => self.session.note_parameter(name, value),
                Reply::Notice(notice) => self.session.note_notice(*notice),
                Reply::BackendKey(_) => return Err(unexpected(name, 'K')),
            }
        }
        match refusal {
            Some(message) => Err(CommandError::Server { command: name, message }),
            None => Ok(rows),
        }
    }

    /// Starts streaming from the slot's own position: `0/0` is given, since the slot is the only
    /// position to resume from.
    ///
    /// Only protocol version 1 is requested and no other option: whole transactions in commit
    /// order, values in text.
    ///
    /// # Errors
    /// The server refuses, violates the protocol, or the connection breaks; the connection is
    /// closed in each case.
    pub async fn start_replication(
        self,
        slot: &str,
        publications: &[&str],
    ) -> Result<ReplicationStream, CommandError> {
        self.start(slot, publications, None).await
    }

    /// The same, but what the slot has before a position is read by SQL, and the walsender begins
    /// there.
    ///
    /// # Errors
    /// Those of [`Self::start_replication`].
    pub async fn start_replication_after(
        self,
        backlog: Backlog,
        slot: &str,
        publications: &[&str],
    ) -> Result<ReplicationStream, CommandError> {
        self.start(slot, publications, Some(backlog)).await
    }

    async fn start(
        mut self,
        slot: &str,
        publications: &[&str],
        backlog: Option<Backlog>,
    ) -> Result<ReplicationStream, CommandError> {
        let name = "START_REPLICATION";
        let from = backlog.as_ref().map_or(Lsn::ZERO, Backlog::until);
        self.send(name, &start_replication_command(slot, from, publications)).await?;
        loop {
            match self.reply(name).await? {
                Reply::CopyBoth => {
                    return Ok(ReplicationStream::new(self.link, self.session, backlog));
                }
                Reply::Error(message) => {
                    return Err(CommandError::Server { command: name, message });
                }
                Reply::Parameter { name, value } => self.session.note_parameter(name, value),
                Reply::Notice(notice) => self.session.note_notice(*notice),
                Reply::Nothing => {}
                Reply::Ready => return Err(unexpected(name, 'Z')),
                Reply::Row(_) => return Err(unexpected(name, 'D')),
                Reply::Columns => return Err(unexpected(name, 'T')),
                Reply::Complete => return Err(unexpected(name, 'C')),
                Reply::Authentication(_) => return Err(unexpected(name, 'R')),
                Reply::BackendKey(_) => return Err(unexpected(name, 'K')),
            }
        }
    }

    /// The session as the owner of this copy of the slot, which it has made: a [`Backlog`] is read
    /// by it.
    #[must_use]
    pub fn with_copy(self, copy: CopiedSlot) -> SlotCopyOwner {
        SlotCopyOwner::new(self.link, copy)
    }

    /// The walsender's process id, as in `pg_stat_activity`.
    #[must_use]
    pub fn backend_pid(&self) -> Option<u32> {
        self.session.pid()
    }

    /// The parameters that the server reported (ParameterStatus): `server_version`,
    /// `server_encoding`, …
    #[must_use]
    pub fn parameters(&self) -> &BTreeMap<String, String> {
        &self.session.parameters
    }

    /// The first notices and warnings that came before streaming, 16 at most.
    #[must_use]
    pub fn notices(&self) -> &[ServerMessage] {
        &self.session.notices
    }

    async fn send(&mut self, name: &'static str, text: &str) -> Result<(), CommandError> {
        frontend::query(text, &mut self.link.out)
            .map_err(|source| CommandError::Io { command: name, source })?;
        self.link.flush().await.map_err(|error| error.during(name))
    }

    async fn reply(&mut self, name: &'static str) -> Result<Reply, CommandError> {
        self.link.reply(name).await.map_err(|error: LinkError| error.during(name))
    }
}

fn unexpected(command: &'static str, tag: char) -> CommandError {
    let source = ProtocolError::Unexpected { tag, doing: command };
    CommandError::Protocol { command, source }
}

/// The options in parentheses are known since PostgreSQL 15, and FAILOVER since 17.
fn create_slot_command(slot: &str, failover: Failover) -> String {
    let options = match failover {
        Failover::Off => "EXPORT_SNAPSHOT",
        Failover::On => "(SNAPSHOT 'export', FAILOVER true)",
    };
    format!("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput {options}", quote_identifier(slot))
}

fn start_replication_command(slot: &str, from: Lsn, publications: &[&str]) -> String {
    format!(
        "START_REPLICATION SLOT {} LOGICAL {from} (proto_version '1', publication_names {})",
        quote_identifier(slot),
        publication_names_literal(publications)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_command_names_slot_and_publications_and_no_position() {
        assert_eq!(
            start_replication_command("shop", Lsn::ZERO, &["orders", "o'd\"d"]),
            "START_REPLICATION SLOT \"shop\" LOGICAL 0/0 \
             (proto_version '1', publication_names '\"orders\",\"o''d\"\"d\"')"
        );
    }
}
