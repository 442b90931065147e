//! A throw-away PostgreSQL 15 for one test: own directory, own port, loopback only, gone with the
//! value.

use std::{
    net::TcpListener,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use outbox_router::monitor::{Connect, ConnectBy, SqlSession};
use outbox_router::postgres::sql_failure;
use tempfile::TempDir;
use testbed::postgres::{Identity, copy_cluster};
use tokio_postgres::{Client, NoTls};

const BINARIES: &str = "/usr/lib/postgresql/15/bin";

pub(crate) struct Postgres {
    directory: TempDir,
    server: Child,
    port: u16,
}

impl Postgres {
    /// Starts a server with settings of its own beside those that every test wants.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        Self::start_as(Identity::Usual, settings).await
    }

    /// The same, with a system identifier that is usual or not.
    pub(crate) async fn start_as(identity: Identity, settings: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("monitor-").tempdir().unwrap();
        if let Some((uid, gid)) = unprivileged() {
            chown(directory.path(), Some(uid), Some(gid)).unwrap();
        }
        let data = directory.path().join("data");
        copy_cluster(Path::new(BINARIES), identity, &data).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = serve(directory.path(), port, settings);
        let postgres = Self { directory, server, port };
        postgres.ready().await;
        postgres
    }

    /// Starts again as a standby of nobody.
    pub(crate) async fn become_standby(&mut self) {
        assert!(self.control().args(["stop", "--mode=fast"]).status().unwrap().success());
        drop(self.server.wait());
        std::fs::write(self.data().join("standby.signal"), "").unwrap();
        self.server = serve(self.directory.path(), self.port, &[]);
        self.ready().await;
    }

    /// Begins another timeline.
    pub(crate) async fn promote(&mut self) {
        self.become_standby().await;
        self.client().await.execute("select pg_promote()", &[]).await.unwrap();
    }

    async fn ready(&self) {
        for _ in 0..300 {
            if self.try_connect("postgres", "postgres").await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap();
        panic!("PostgreSQL does not start:\n{log}");
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// What the monitor connects by.
    pub(crate) fn connector(&self) -> impl Connect + Send + Sync + 'static {
        let address = self.address("postgres", "postgres");
        ConnectBy(move || open(address.clone()))
    }

    /// A connection of the test's own.
    pub(crate) async fn client(&self) -> Client {
        self.try_connect("postgres", "postgres").await.unwrap()
    }

    #[expect(clippy::disallowed_methods, reason = "a test has no app.rs; it ends with the client")]
    pub(crate) async fn try_connect(
        &self,
        user: &str,
        database: &str,
    ) -> Result<Client, relay::Failure> {
        let connection = open(self.address(user, database)).await?;
        tokio::spawn(connection.driver);
        Ok(connection.client)
    }

    fn address(&self, user: &str, database: &str) -> String {
        format!("host=127.0.0.1 port={} user={user} dbname={database}", self.port)
    }

    /// What a router connects by.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    /// Begins a fast stop and does not wait for it.
    pub(crate) fn begin_stop(&self) {
        let stop = self.control().args(["stop", "--no-wait", "--mode=fast"]).status().unwrap();
        assert!(stop.success());
    }

    fn control(&self) -> Command {
        let mut control = command("pg_ctl");
        control.arg("--pgdata").arg(self.data()).stdout(Stdio::null()).stderr(Stdio::null());
        control
    }

    /// Streams from a slot.
    pub(crate) fn stream(&self, slot: &str, publication: &str) -> Streamer {
        stream_from(self.port, "postgres", slot, publication)
    }
}

/// Streams from a slot of any server.
pub(crate) fn stream_from(port: u16, database: &str, slot: &str, publication: &str) -> Streamer {
    let child = command("pg_recvlogical")
        .args(["--host=127.0.0.1", "--username=postgres", "--start"])
        .args(["--file=/dev/null", "--no-loop"])
        .args([format!("--dbname={database}"), format!("--port={port}"), format!("--slot={slot}")])
        .args(["--option=proto_version=1".to_owned()])
        .arg(format!("--option=publication_names={publication}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Streamer(child)
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let stopped = self.control().args(["stop", "--mode=immediate"]).status();
        if stopped.is_ok_and(|status| status.success()) || self.server.kill().is_ok() {
            // Reaped, so that the directory is not removed under a running server.
            drop(self.server.wait());
        }
    }
}

fn serve(directory: &Path, port: u16, settings: &[&str]) -> Child {
    let mut server = command("postgres");
    server.arg("-D").arg(directory.join("data"));
    server.args(["-h", "127.0.0.1", "-k", "", "-p", &port.to_string()]);
    let common = ["fsync=off", "autovacuum=off", "max_replication_slots=20"];
    for setting in common.iter().chain(["wal_level=logical"].iter()).chain(settings) {
        server.args(["-c", setting]);
    }
    let log = std::fs::File::create(directory.join("log")).unwrap();
    server.stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// A `pg_recvlogical`, ended with the value.
pub(crate) struct Streamer(Child);

impl Streamer {
    /// Holds it as it is: connected, and confirming nothing more.
    pub(crate) fn freeze(&self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
    }
}

impl Drop for Streamer {
    fn drop(&mut self) {
        if self.0.kill().is_ok() {
            drop(self.0.wait());
        }
    }
}

pub(crate) async fn open(address: String) -> Result<SqlSession, relay::Failure> {
    let (client, connection) =
        tokio_postgres::connect(&address, NoTls).await.map_err(sql_failure)?;
    // The client hears of the connection's end by itself.
    let driver = Box::pin(async move { drop(connection.await) });
    Ok(SqlSession { client, driver })
}

/// PostgreSQL refuses to run as root: then as the user `postgres`.
fn command(name: &str) -> Command {
    let program = Path::new(BINARIES).join(name);
    assert!(program.exists(), "{} is missing: apt-get install postgresql-15", program.display());
    let mut command = Command::new(program);
    command.current_dir("/");
    if let Some((uid, gid)) = unprivileged() {
        command.uid(uid).gid(gid);
    }
    command
}

fn unprivileged() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| -> u32 {
        let output = Command::new("id").args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    };
    (id(&["-u"]) == 0).then(|| (id(&["-u", "postgres"]), id(&["-g", "postgres"])))
}
