//! A throw-away PgBouncer before a PostgreSQL server, in transaction mode: transactions of several
//! clients share a session of the server. It refuses the startup parameters that it refuses unless
//! it is told to ignore them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::data;
use crate::ports::free_port;
use crate::process::{Process, ProcessSpec, find_program};
use crate::wait::until_ok;

/// With it a session for SQL begins, although its settings are not what they seem.
pub const LENIENT: (&str, &str) = ("ignore_startup_parameters", "extra_float_digits,options");

const START_DEADLINE: Duration = Duration::from_secs(20);

/// A PgBouncer of its own. It ends when this is dropped.
#[derive(Debug)]
pub struct PgBouncer {
    // Before `dir`: fields are dropped in order, and the process has to end before its files are
    // removed.
    _process: Process,
    port: u16,
    _dir: TempDir,
}

impl PgBouncer {
    /// Starts one that passes on to the server on this port of the loopback address, where every
    /// client becomes `role`, and returns when it listens.
    ///
    /// # Errors
    ///
    /// Fails when the program is missing or does not come up.
    pub async fn start(server: u16, role: &str) -> anyhow::Result<Self> {
        Self::start_with(server, role, &[]).await
    }

    /// The same with more settings, such as `default_pool_size`.
    ///
    /// # Errors
    ///
    /// As [`Self::start`].
    pub async fn start_with(
        server: u16,
        role: &str,
        more: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let program = program().context("no pgbouncer: run scripts/install.sh test")?;
        // It refuses to run as root, as the server does.
        let run_as = data::run_as()?;
        let dir = data::own_dir(None, run_as)?;
        let port = free_port()?;
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={server} user={role}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\n{}",
            more.iter().map(|(name, value)| format!("{name} = {value}\n")).collect::<String>()
        );
        let file = dir.path().join("pgbouncer.ini");
        data::write_private(&file, settings.as_bytes(), run_as)?;
        let spec = ProcessSpec::new(program, dir.path().join("log"))
            .arg(file.display().to_string())
            .run_as(run_as);
        let process = Process::start(&spec)?;
        until_ok(START_DEADLINE, "PgBouncer", async || {
            Ok(TcpStream::connect(("127.0.0.1", port)).await.map(drop)?)
        })
        .await
        .with_context(|| process.output().unwrap_or_default())?;
        Ok(Self { _process: process, port, _dir: dir })
    }

    /// Where clients connect, on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Packages put it where the `PATH` of few people leads.
fn program() -> Option<PathBuf> {
    let packaged = PathBuf::from("/usr/sbin/pgbouncer");
    find_program("pgbouncer").or_else(|| packaged.is_file().then_some(packaged))
}
