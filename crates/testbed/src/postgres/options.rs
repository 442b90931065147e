//! Which server to start, and how it is set.

use std::time::Duration;

use crate::cache::Identity;

/// Which server to start, and how it is set.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    pub(super) version: u16,
    pub(super) minor: Option<u16>,
    pub(super) settings: Vec<(String, String)>,
    pub(super) hba: Vec<String>,
    pub(super) identity: Identity,
    pub(super) clock_ahead: Duration,
}

impl PostgresOptions {
    /// PostgreSQL of a major version. Its binaries are taken from `OUTBOX_PG_BIN_<version>`, from
    /// `PATH`, from `/usr/lib/postgresql`, or fetched by `scripts/postgres.sh`.
    pub fn version(version: u16) -> Self {
        Self {
            version,
            minor: None,
            settings: Vec::new(),
            hba: Vec::new(),
            identity: Identity::Usual,
            clock_ahead: Duration::ZERO,
        }
    }

    /// One release of PostgreSQL, such as 13.21: `OUTBOX_PG_BIN_13_21`, or what
    /// `scripts/postgres.sh` fetches. What is installed has another minor version.
    pub fn release(version: u16, minor: u16) -> Self {
        Self { minor: Some(minor), ..Self::version(version) }
    }

    /// Sets a parameter in `postgresql.conf`; it overrides the defaults of this crate.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Gives it another system identifier than all other servers of its version have.
    #[must_use]
    pub fn another_identity(mut self) -> Self {
        self.identity = Identity::Other;
        self
    }

    /// Adds a line of `pg_hba.conf` before those which trust everybody.
    #[must_use]
    pub fn hba(mut self, line: &str) -> Self {
        self.hba.push(line.to_owned());
        self
    }

    /// Gives its processes a clock that is ahead of this machine's.
    #[must_use]
    pub fn clock_ahead(mut self, by: Duration) -> Self {
        self.clock_ahead = by;
        self
    }
}
