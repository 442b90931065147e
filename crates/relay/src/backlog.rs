//! How a backlog is read that a session begins with.

/// How what the slot has when a session begins is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BacklogFrom {
    /// As every later row: the walsender sends it.
    Stream,
    /// By SQL, if the server allows it. That costs the server less for small transactions.
    Sql,
}

/// How a long backlog is read, and which is long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacklogSettings {
    /// How a long one is read. A shorter one comes as a stream.
    pub from: BacklogFrom,
    /// A backlog of so many bytes of WAL is long.
    pub long_bytes: u64,
}

impl BacklogSettings {
    /// A long backlog is one for which the stream needs seconds: by SQL the server decodes in
    /// batches, each from the slot's `restart_lsn` on, and keeps a batch until it is sent.
    pub const fn of(from: BacklogFrom) -> Self {
        Self { from, long_bytes: 32 << 20 }
    }
}
