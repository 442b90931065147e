//! A throw-away PostgreSQL: started for the tests that need it, stopped when the last of them lets
//! go.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use outbox_router::postgres::{ConnInfo, connect_sql};
use tempfile::TempDir;

/// Generous: two cores are shared with whatever else runs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Roles are let in by method; everybody else by trust.
const HBA: &str = "\
local   all md5_user               md5
local   all all                    trust
host    all md5_user     all       md5
host    all scram_user   all       scram-sha-256
host    all clear_user   all       password
hostssl all cert_user    all       cert
host    all cert_user    all       reject
host    all all          all       trust
";

const ROLES: &str = "\
CREATE ROLE scram_user LOGIN REPLICATION PASSWORD 'pass''word';
CREATE ROLE clear_user LOGIN REPLICATION PASSWORD 'pass''word';
CREATE ROLE cert_user LOGIN REPLICATION;
CREATE ROLE plain_user LOGIN;
SET password_encryption = 'md5';
CREATE ROLE md5_user LOGIN REPLICATION PASSWORD 'pass''word';
ALTER ROLE scram_user SET bytea_output = 'escape';
ALTER ROLE scram_user SET DateStyle = 'German';
ALTER ROLE scram_user SET IntervalStyle = 'iso_8601';
ALTER ROLE scram_user SET TimeZone = 'Asia/Kathmandu';
ALTER ROLE scram_user SET extra_float_digits = '-15';
ALTER ROLE scram_user SET wal_sender_timeout = '0';
ALTER ROLE scram_user SET search_path = 'public';
";

pub(crate) struct Cluster {
    directory: TempDir,
    postmaster: Child,
    port: u16,
}

static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());

impl Cluster {
    /// The server that tests share, so that not each of them pays for one.
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared: MutexGuard<'_, _> = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Self::start(""));
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    /// A server of one's own, with more settings.
    pub(crate) fn start(settings: &str) -> Self {
        Self::start_with(settings, &[])
    }

    /// The same, with files (name, content) beside its configuration.
    pub(crate) fn start_with(settings: &str, files: &[(&str, &str)]) -> Self {
        let directory = TempDir::with_prefix("wire-").unwrap();
        let data = directory.path().join("data");
        own(directory.path());
        run(as_postgres("initdb").arg("-D").arg(&data).args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]));
        for (name, content) in files {
            let path = data.join(name);
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            own(&path);
        }
        fs::write(data.join("pg_hba.conf"), HBA).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let base = format!(
            "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '{}'\n\
             wal_level = logical\nfsync = off\nmax_wal_senders = 20\nmax_replication_slots = 20\n{settings}",
            directory.path().display()
        );
        fs::write(data.join("postgresql.auto.conf"), base).unwrap();
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let postmaster = as_postgres("postgres")
            .arg("-D")
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut cluster = Self { directory, postmaster, port };
        cluster.wait_until_ready();
        cluster
    }

    fn wait_until_ready(&mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // A thread of its own: the test that calls may be inside a runtime already.
        let info = self.info("postgres");
        let ready = std::thread::spawn(move || {
            runtime.block_on(async {
                let attempts = async {
                    while connect_sql(&info, "wait").await.is_err() {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    sql(&info, ROLES).await;
                };
                tokio::time::timeout(DEADLINE, attempts).await.is_ok()
            })
        });
        if !ready.join().unwrap() {
            let log = fs::read_to_string(self.directory.path().join("log")).unwrap();
            panic!("PostgreSQL did not start:\n{log}");
        }
    }

    /// Over TCP on loopback, with further parameters.
    pub(crate) fn info(&self, user: &str) -> ConnInfo {
        self.info_with(user, "")
    }

    pub(crate) fn info_with(&self, user: &str, more: &str) -> ConnInfo {
        let text = format!("host=127.0.0.1 port={} user={user} dbname=postgres {more}", self.port);
        ConnInfo::resolve(Some(&text), &|_| None).unwrap()
    }

    /// Over the unix socket.
    pub(crate) fn socket_info(&self, user: &str) -> ConnInfo {
        let host = self.directory.path().display().to_string().replace('/', "%2F");
        let text = format!("postgres://{user}@{host}:{}/postgres", self.port);
        ConnInfo::resolve(Some(&text), &|_| None).unwrap()
    }

    /// A scratch file that nobody but the test reads.
    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Begins a fast stop and returns at once; the process that sees it through.
    pub(crate) fn begin_fast_stop(&self) -> Child {
        let data = self.directory.path().join("data");
        let seconds = DEADLINE.as_secs().to_string();
        as_postgres("pg_ctl")
            .args(["stop", "--wait", "--mode=fast", "--silent", "--timeout", &seconds, "-D"])
            .arg(data)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let data = self.directory.path().join("data");
        let stopped = as_postgres("pg_ctl")
            .args(["stop", "--wait", "--mode=immediate", "--silent", "-D"])
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !stopped.is_ok_and(|status| status.success()) {
            drop(self.postmaster.kill());
        }
        drop(self.postmaster.wait());
    }
}

/// Runs SQL statements, each in a transaction of its own, and returns the rows of all of them.
pub(crate) async fn sql(info: &ConnInfo, text: &str) -> Vec<Vec<Option<String>>> {
    let (client, connection) = connect_sql(info, "test").await.unwrap();
    let mut messages = Vec::new();
    let run = async {
        for statement in text.split_inclusive(';') {
            messages.extend(client.simple_query(statement).await.unwrap());
        }
    };
    tokio::select! {
        () = run => {}
        end = connection => panic!("the SQL session ended: {end:?}"),
    }
    let mut rows = Vec::new();
    for message in messages {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = message {
            rows.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
        }
    }
    rows
}

/// The single value of a query.
pub(crate) async fn value(info: &ConnInfo, text: &str) -> String {
    sql(info, text).await.remove(0).remove(0).unwrap_or_default()
}

/// PostgreSQL refuses to run as root; then it runs as the user its package made.
fn as_postgres(program: &str) -> Command {
    let mut command = Command::new(binary(program));
    if let Some((uid, gid)) = owner() {
        command.uid(uid).gid(gid).current_dir("/");
    }
    command
}

fn own(path: &Path) {
    if let Some((uid, gid)) = owner() {
        chown(path, Some(uid), Some(gid)).unwrap();
    }
}

fn owner() -> Option<(u32, u32)> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let root = status.lines().any(|line| line.starts_with("Uid:\t0\t"));
    root.then(|| {
        let users = fs::read_to_string("/etc/passwd").unwrap();
        let line = users.lines().find(|line| line.starts_with("postgres:"));
        let mut ids =
            line.expect("a user postgres").split(':').skip(2).map(|id| id.parse().unwrap());
        (ids.next().unwrap(), ids.next().unwrap())
    })
}

fn binary(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = fs::read_dir("/usr/lib/postgresql") {
        places.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let mut found = places.into_iter().map(|place| place.join(program));
    found.find(|path| path.is_file()).unwrap_or_else(|| {
        panic!("{program} is neither in PATH nor below /usr/lib/postgresql; install PostgreSQL")
    })
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
