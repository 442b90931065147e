//! The server as plain data: its version, its encoding and the history of its WAL.

use pgoutput::Lsn;

use crate::failure::{Code, Failure};

/// The server at the other end of the replication connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `server_version_num`.
    pub version: i32,
    /// `server_encoding`.
    pub encoding: ServerEncoding,
    /// System identifier and timeline, by `IDENTIFY_SYSTEM`.
    pub history: History,
    /// The end of flushed WAL, from the same answer.
    pub wal_end: Lsn,
    /// How often the pipeline's notes of rows in no topic were written there; `None`: this role may
    /// not read it. Zero where they never were.
    pub note_writes: Option<u64>,
}

/// The database's encoding, which decides the stream's `client_encoding`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEncoding {
    /// Bytes of unknown meaning: ask for `client_encoding = SQL_ASCII`, since the server cannot
    /// convert them.
    SqlAscii,
    /// Characters: ask for UTF8.
    Known(String),
}

/// Names one history of WAL: LSNs mean something only within one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// `system_identifier` of the cluster.
    pub system_id: String,
    /// The timeline.
    pub timeline: u32,
}

/// The timelines before the present one, each with its switch point: the position at which the next
/// one forked off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimelineHistory {
    switch_points: Vec<(u32, Lsn)>,
}

impl TimelineHistory {
    /// Reads the file that `TIMELINE_HISTORY` returns: `parent TAB switch point TAB reason`, one
    /// line for each timeline. Empty lines and lines that begin with `#` are skipped
    /// (`readTimeLineHistory` in PostgreSQL's `timeline.c`).
    ///
    /// # Errors
    /// [`Code::Protocol`]: a line has no timeline or no position.
    pub fn parse(content: &str) -> Result<Self, Failure> {
        let mut switch_points = Vec::new();
        for line in content.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'))
        {
            let mut fields = line.split_ascii_whitespace();
            let timeline = fields.next().and_then(|field| field.parse().ok());
            let position = fields.next().and_then(|field| field.parse().ok());
            match (timeline, position) {
                (Some(timeline), Some(position)) => switch_points.push((timeline, position)),
                _ => {
                    return Err(Failure::new(
                        Code::Protocol,
                        "the timeline history file has a line without a timeline and a position",
                    ));
                }
            }
        }
        Ok(Self { switch_points })
    }

    /// Where the next timeline forked off this one; `None` if this one is not an ancestor.
    pub(super) fn switch_point(&self, timeline: u32) -> Option<Lsn> {
        self.switch_points
            .iter()
            .find(|(known, _)| *known == timeline)
            .map(|(_, position)| *position)
    }
}
