//! A throw-away PostgreSQL server of any version: real, on a free port, in a temporary directory.
//!
//! The server can be stopped, killed and started again with its data, and is removed when the value
//! is dropped. `wal_level` is logical and `fsync` is off: killing the *process* loses nothing by
//! that (only a crash of the machine would), and no measurement depends on the disk of a test
//! machine.

mod binaries;
mod clock;
mod data;
mod leftovers;
mod options;
mod pooler;
mod session;
mod slot;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_postgres::types::PgLsn;

pub use crate::cache::Identity;
pub use data::{SETTINGS_FILE, copy_cluster};
pub use options::PostgresOptions;
pub use pooler::{LENIENT, PgBouncer};
pub use session::{DatabaseSession, copy_in};
pub use slot::{SlotRow, create_slot};

use crate::ports::free_port;
use crate::process::{Process, ProcessSpec, RunAs};
use crate::wait::until_ok;

/// The role that owns the cluster; every local connection is trusted.
pub const SUPERUSER: &str = "postgres";

/// The database that tests work in.
pub const DATABASE: &str = "shop";

const START_DEADLINE: Duration = Duration::from_secs(60);

/// How to stop the server, as in `pg_ctl stop -m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Ends sessions, waits for walsenders, writes a checkpoint.
    Fast,
    /// Waits for nothing and writes nothing; the next start recovers from the WAL.
    Immediate,
}

/// A PostgreSQL server of its own.
#[derive(Debug)]
pub struct PostgresServer {
    server: Option<Process>,
    binaries: PathBuf,
    version: u16,
    port: u16,
    settings: Vec<(String, String)>,
    environment: Vec<(&'static str, String)>,
    run_as: Option<RunAs>,
    dir: TempDir,
}

impl PostgresServer {
    /// Creates a cluster with an empty database [`DATABASE`] and starts it.
    ///
    /// # Errors
    ///
    /// Fails when the binaries cannot be had or the server does not come up.
    pub async fn start(options: PostgresOptions) -> anyhow::Result<Self> {
        let PostgresOptions { version, minor, hba, identity, .. } = &options;
        let binaries = match minor {
            Some(minor) => binaries::find_release(*version, *minor).await?,
            None => binaries::find(*version).await?,
        };
        let run_as = data::run_as()?;
        let dir = data::create(&binaries, run_as, hba, *identity).await?;
        let mut postgres = Self {
            server: None,
            binaries,
            version: options.version,
            port: free_port()?,
            settings: options.settings,
            environment: clock::environment(options.clock_ahead)?,
            run_as,
            dir,
        };
        postgres.start_again().await?;
        let session = postgres.connect_to("postgres").await?;
        session.batch_execute(&format!("CREATE DATABASE {DATABASE}")).await?;
        Ok(postgres)
    }

    /// A server with a copy of this server's files and settings, on a port of its own, which is not
    /// started. This server must be stopped.
    ///
    /// # Errors
    ///
    /// Fails when this one runs, or cannot be copied.
    pub async fn copied(&self, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        if self.server.is_some() {
            bail!("PostgreSQL on port {} runs, so its files cannot be copied", self.port);
        }
        let own = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Ok(Self {
            server: None,
            binaries: self.binaries.clone(),
            version: self.version,
            port: free_port()?,
            settings: self.settings.iter().cloned().chain(own).collect(),
            environment: self.environment.clone(),
            run_as: self.run_as,
            dir: data::copy_of(&self.data_dir(), self.run_as).await?,
        })
    }

    /// Starts the server again, with its data and on its port, after [`stop`](Self::stop) or
    /// [`kill9`](Self::kill9), and returns when it accepts connections.
    ///
    /// # Errors
    ///
    /// Fails when it runs already or does not come up.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        if self.server.is_some() {
            bail!("PostgreSQL on port {} runs already", self.port);
        }
        self.write_settings()?;
        let spec = ProcessSpec::new(self.binaries.join("postgres"), self.log())
            .args(["-D", &self.data_dir().to_string_lossy()])
            .run_as(self.run_as);
        let spec = self.environment.iter().fold(spec, |spec, (name, value)| spec.env(*name, value));
        let mut server = Process::start(&spec)?;
        let what = format!("PostgreSQL {} on port {}", self.version, self.port);
        let up =
            until_ok(START_DEADLINE, what, async || self.connect_to("postgres").await.map(drop));
        tokio::select! {
            up = up => up.with_context(|| format!("log {}", self.log().display()))?,
            status = server.wait_exit(START_DEADLINE) => {
                bail!("PostgreSQL ended while starting ({}): {}", status?, server.output()?);
            }
        }
        self.server = Some(server);
        Ok(())
    }

    /// Starts the stopped server as a standby, and promotes it, which begins a new timeline.
    ///
    /// # Errors
    ///
    /// Fails when it does not come up or is not promoted.
    pub async fn start_promoted(&mut self) -> anyhow::Result<()> {
        self.write_file("standby.signal", b"")?;
        self.start_again().await?;
        self.promote().await
    }

    /// Promotes a standby, and returns when it is the primary.
    ///
    /// # Errors
    ///
    /// Fails when the server is no standby, or does not become the primary.
    pub async fn promote(&self) -> anyhow::Result<()> {
        let session = self.connect_to("postgres").await?;
        let promoted: bool = session.query_one("SELECT pg_promote()", &[]).await?.get(0);
        ensure!(promoted, "the standby did not become the primary");
        Ok(())
    }

    /// Stops the server, and returns when it is gone, with the time that this took.
    ///
    /// # Errors
    ///
    /// Fails when it does not run or is still there after `deadline`.
    pub async fn stop(
        &mut self,
        how: ShutdownMode,
        deadline: Duration,
    ) -> anyhow::Result<Duration> {
        let mut server = self.server.take().context("PostgreSQL does not run")?;
        let started = Instant::now();
        server.signal(match how {
            ShutdownMode::Fast => Signal::INT,
            ShutdownMode::Immediate => Signal::QUIT,
        })?;
        match server.wait_exit(deadline).await {
            Ok(_) => Ok(started.elapsed()),
            Err(error) => {
                self.server = Some(server);
                Err(error)
            }
        }
    }

    /// Kills postmaster and backends with SIGKILL and returns when all are gone and reaped: as long
    /// as the postmaster is a zombie, its lock files prevent the next start. Its shared memory is
    /// removed, too, as by a crash of the host: if other files took the place of these, nothing
    /// would lead to it any more.
    ///
    /// # Errors
    ///
    /// Fails when it does not run.
    pub async fn kill9(&mut self) -> anyhow::Result<()> {
        self.server.take().context("PostgreSQL does not run")?.kill9().await?;
        leftovers::remove(&self.data_dir());
        Ok(())
    }

    /// Stops postmaster and backends with SIGSTOP: connections stay open, new ones are taken by the
    /// kernel, and nobody answers.
    ///
    /// # Errors
    ///
    /// Fails when it does not run.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.server.as_mut().context("PostgreSQL does not run")?.signal_family(Signal::STOP)
    }

    /// Continues them after [`pause`](Self::pause).
    ///
    /// # Errors
    ///
    /// Fails when it does not run.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.server.as_mut().context("PostgreSQL does not run")?.signal_family(Signal::CONT)
    }

    /// The process of the postmaster.
    ///
    /// # Errors
    ///
    /// Fails when the server does not run.
    pub fn process(&self) -> anyhow::Result<&Process> {
        self.server.as_ref().context("PostgreSQL does not run")
    }

    /// A session of the superuser in [`DATABASE`].
    ///
    /// # Errors
    ///
    /// Fails when the server cannot be reached.
    pub async fn connect(&self) -> anyhow::Result<DatabaseSession> {
        self.connect_to(DATABASE).await
    }

    /// A session of the superuser in any database.
    ///
    /// # Errors
    ///
    /// Fails when the server cannot be reached.
    pub async fn connect_to(&self, database: &str) -> anyhow::Result<DatabaseSession> {
        DatabaseSession::open(&self.url(SUPERUSER, database)).await
    }

    /// Connection URL over TCP.
    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// The TCP port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:PORT`, as a proxy's target.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The directory of the unix socket.
    pub fn socket_dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// The major version.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The server's log.
    pub fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Writes a file that only the server's user may read into the data directory, such as a key
    /// for `ssl_key_file`, and returns its path.
    ///
    /// # Errors
    ///
    /// Fails when it cannot be written.
    pub fn write_file(&self, name: &str, contents: &[u8]) -> anyhow::Result<PathBuf> {
        let file = self.data_dir().join(name);
        data::write_private(&file, contents, self.run_as)?;
        Ok(file)
    }

    /// Changes settings. Those which need no restart are in force for sessions that begin after
    /// this; the others from the next [`start_again`](Self::start_again).
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written or the server does not run.
    pub async fn set(&mut self, settings: &[(&str, &str)]) -> anyhow::Result<()> {
        let owned = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        self.settings.extend(owned);
        self.write_settings()?;
        let session = self.connect().await?;
        let before: f64 = session.query_one(CONF_LOADED, &[]).await?.get(0);
        session.batch_execute("SELECT pg_reload_conf()").await?;
        until_ok(Duration::from_secs(10), "the new settings", async || {
            let session = self.connect().await?;
            let now: f64 = session.query_one(CONF_LOADED, &[]).await?.get(0);
            if now > before { Ok(()) } else { bail!("settings not loaded again yet") }
        })
        .await
    }

    /// The write position of the WAL.
    ///
    /// # Errors
    ///
    /// Fails when the server cannot be reached.
    pub async fn current_wal_lsn(&self) -> anyhow::Result<PgLsn> {
        let session = self.connect().await?;
        Ok(session.query_one("SELECT pg_current_wal_lsn()", &[]).await?.get(0))
    }

    fn write_settings(&self) -> anyhow::Result<()> {
        let fixed = [
            ("port", self.port.to_string()),
            ("unix_socket_directories", self.dir.path().display().to_string()),
        ];
        let fixed = fixed.iter().map(|(name, value)| (*name, value.as_str()));
        let chosen = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        data::write_settings(&self.data_dir(), fixed.chain(chosen))
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // The server has to end before its shared memory and its files, which go with `dir`, are
        // removed.
        drop(self.server.take());
        leftovers::remove(&self.data_dir());
    }
}

const CONF_LOADED: &str = "SELECT extract(epoch FROM pg_conf_load_time())::float8";
