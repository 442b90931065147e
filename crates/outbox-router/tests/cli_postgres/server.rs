//! A throw-away PostgreSQL on loopback, `psql` beside it, and commands typed against it.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command as Process, Stdio},
    sync::OnceLock,
    time::Duration,
};

use outbox_router::{
    cli::{self, Audience, Cli, Command, Exit, Terminal},
    config::Environment,
};
use testbed::postgres::{Identity, SETTINGS_FILE, copy_cluster};

use crate::kafka::SharedState;

/// A running server; stopped and removed when dropped.
pub(crate) struct Server {
    directory: tempfile::TempDir,
    pub(crate) port: u16,
    /// Of a pipeline that reads from it ([`crate::delivered`]).
    pub(crate) state: OnceLock<SharedState>,
}

/// How a command ended, and what it wrote.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) exit: Exit,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A process that is killed when the test is over.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("waited for");
    }
}

impl Running {
    /// Ends its input, and waits until it has succeeded.
    pub(crate) fn end_input(&mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("waited for").success());
    }
}

/// Where the server's programs are: `PG_BIN`, or the newest that Debian's packages installed.
fn programs() -> PathBuf {
    if let Some(directory) = std::env::var_os("PG_BIN") {
        return directory.into();
    }
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .expect("PostgreSQL's programs in /usr/lib/postgresql, or PG_BIN")
        .map(|entry| entry.expect("an entry").path().join("bin"))
        .filter(|path| path.join("initdb").exists())
        .collect();
    versions.sort();
    versions.pop().expect("an installed PostgreSQL server")
}

/// PostgreSQL refuses to run as root: then it runs as the user `postgres`.
fn server_user() -> Option<(u32, u32)> {
    if fs::metadata("/proc/self").expect("a process").uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("users");
    let line = users.lines().find(|line| line.starts_with("postgres:")).expect("user postgres");
    let mut ids = line.split(':').skip(2).map(|id| id.parse().expect("a number"));
    ids.next().zip(ids.next())
}

fn program(name: &str) -> Process {
    let mut process = Process::new(programs().join(name));
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear();
    process.current_dir("/");
    if let Some((uid, gid)) = server_user() {
        process.uid(uid).gid(gid);
    }
    process
}

fn succeed(process: &mut Process) {
    let status = process.status().expect("started");
    assert!(status.success(), "{process:?}: {status}");
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with_settings("")
    }

    pub(crate) fn with_settings(settings: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        if let Some((uid, gid)) = server_user() {
            std::os::unix::fs::chown(directory.path(), Some(uid), Some(gid)).expect("chown");
        }
        let data = directory.path().join("data");
        copy_cluster(&programs(), Identity::Usual, &data).expect("a cluster");
        let port =
            TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it").port();
        let settings = format!(
            "port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\n\
             wal_level = logical\nfsync = off\nmax_prepared_transactions = 2\n\
             shared_buffers = 16MB\n{settings}\n"
        );
        fs::write(data.join(SETTINGS_FILE), settings).expect("written");
        let server = Self { directory, port, state: OnceLock::new() };
        succeed(server.control("start").arg("-l").arg(server.directory.path().join("log")));
        server
    }

    fn control(&self, action: &str) -> Process {
        let mut process = program("pg_ctl");
        process.args([action, "-w", "-D"]).arg(self.directory.path().join("data"));
        process
    }

    /// Ends the server as a crash does, and starts it again.
    pub(crate) fn crash(&self) {
        succeed(self.control("stop").args(["-m", "immediate"]));
        succeed(self.control("start").arg("-l").arg(self.directory.path().join("log")));
    }

    pub(crate) fn url(&self, user: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/postgres", self.port)
    }

    /// What the server has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).expect("the server's log")
    }

    fn psql(&self) -> Process {
        let mut process = Process::new(programs().join("psql"));
        process.args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d"]);
        process.arg(self.url("postgres")).stderr(Stdio::inherit());
        process
    }

    /// Runs SQL as the superuser and returns what it printed.
    #[track_caller]
    pub(crate) fn sql(&self, text: &str) -> String {
        let output = self.psql().arg("-c").arg(text).output().expect("psql");
        assert!(output.status.success(), "{text}");
        String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
    }

    /// Runs a script as a person would: `outbox-router setup | psql`.
    #[track_caller]
    pub(crate) fn script(&self, text: &str) {
        let file = self.directory.path().join("script.sql");
        fs::write(&file, text).expect("written");
        let output = self.psql().arg("-f").arg(&file).output().expect("psql");
        assert!(output.status.success(), "{text}");
    }

    /// A session that sits in a transaction which has written something.
    pub(crate) fn open_transaction(&self, application: &str) -> Running {
        self.transaction(application, "create table held ()")
    }

    /// A session that sits in a transaction which has done this, which must be a change or a lock.
    pub(crate) fn transaction(&self, application: &str, done: &str) -> Running {
        let sql = format!("{done}; select pg_sleep(600)");
        let mut process = self.psql();
        process.env("PGAPPNAME", application).args(["-1", "-c", &sql]).stdout(Stdio::null());
        let running = Running(process.stderr(Stdio::null()).spawn().expect("psql"));
        self.wait_until(&format!(
            "select exists (select from pg_stat_activity where application_name = '{application}' \
             and backend_xid is not null and wait_event = 'PgSleep')"
        ));
        running
    }

    /// Runs statements, each in a transaction of its own, and returns whether all succeeded.
    pub(crate) fn try_sql(&self, statements: &[&str]) -> bool {
        let mut process = self.psql();
        for statement in statements {
            process.args(["-c", statement]);
        }
        process.stderr(Stdio::null()).status().expect("psql").success()
    }

    /// A session in a transaction whose statement waits for an advisory lock.
    pub(crate) fn transaction_that_waits(&self, application: &str, sql: &str) -> Running {
        let mut process = self.psql();
        process.env("PGAPPNAME", application).args(["-1", "-c", sql]).stdout(Stdio::null());
        let running = Running(process.stderr(Stdio::null()).spawn().expect("psql"));
        self.wait_until(&format!(
            "select exists (select from pg_stat_activity where application_name = '{application}' \
             and backend_xid is not null and wait_event = 'advisory')"
        ));
        running
    }

    /// A session whose COPY was sent these lines, has begun to write to that table, and waits for
    /// more. More than psql keeps back are needed.
    pub(crate) fn copy_of_which_more_comes(
        &self,
        application: &str,
        (copy, lines): (&str, &str),
        table: &str,
    ) -> Running {
        let mut process = self.psql();
        process.env("PGAPPNAME", application).args(["-c", copy]).stdin(Stdio::piped());
        let mut running = Running(process.spawn().expect("psql"));
        let input = running.0.stdin.as_mut().expect("a pipe");
        io::Write::write_all(input, lines.as_bytes()).expect("written");
        self.wait_until(&format!(
            "select exists (select from pg_locks join pg_stat_activity using (pid) \
             where application_name = '{application}' and relation = '{table}'::regclass)"
        ));
        running
    }

    /// Ends the sessions of [`Server::transaction`], and rolls back what they have done.
    pub(crate) fn end_transaction(&self, application: &str) {
        self.sql(&format!(
            "select pg_terminate_backend(pid) from pg_stat_activity \
             where application_name = '{application}'"
        ));
    }

    /// A reader that holds a slot.
    pub(crate) fn read_slot(&self, slot: &str, publication: &str) -> Running {
        self.read_slot_as("pg_recvlogical", slot, publication)
    }

    /// As somebody with this `application_name`.
    pub(crate) fn read_slot_as(&self, name: &str, slot: &str, publication: &str) -> Running {
        let mut process = Process::new(programs().join("pg_recvlogical"));
        let url = self.url("postgres");
        let joint = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{joint}application_name={name}");
        process.args(["--start", "-f", "/dev/null", "-S", slot, "-d", &url]);
        process.args(["-o", "proto_version=1", "-o", &format!("publication_names={publication}")]);
        let running = Running(process.stderr(Stdio::null()).spawn().expect("pg_recvlogical"));
        self.wait_until(&format!(
            "select exists (select from pg_replication_slots where slot_name = '{slot}' and active)"
        ));
        running
    }

    #[track_caller]
    pub(crate) fn wait_until(&self, condition: &str) {
        for _ in 0..200 {
            if self.sql(condition) == "t" {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("never became true: {condition}");
    }

    /// Types a command, as superuser.
    pub(crate) async fn run_command(&self, line: &[&str]) -> CommandOutput {
        self.run_command_answering(line, "").await
    }

    /// Types a command, as superuser, and answers what it asks.
    pub(crate) async fn run_command_answering(&self, line: &[&str], answer: &str) -> CommandOutput {
        run_command_at(&self.url("postgres"), line, answer).await
    }
}

/// Types a command with this connection string, and without a state topic unless the line names
/// one.
pub(crate) async fn run_command_at(url: &str, line: &[&str], answer: &str) -> CommandOutput {
    run_command_for(Audience::Machine, url, line, answer).await
}

/// The same, where somebody or nobody watches.
pub(crate) async fn run_command_for(
    audience: Audience,
    url: &str,
    line: &[&str],
    answer: &str,
) -> CommandOutput {
    let url = format!("postgres.url={url}");
    let head = ["--config", "/dev/null", "--set", &url, "--set", "kafka.state_topic="];
    let line: Vec<String> = head.iter().chain(line).map(ToString::to_string).collect();
    run_line(audience, &line, answer).await
}

/// Types a line after the program's name.
pub(crate) async fn run_line(audience: Audience, line: &[String], answer: &str) -> CommandOutput {
    run_line_with(audience, line, &mut io::Cursor::new(answer.to_owned())).await
}

/// The same, where something happens before the answer.
pub(crate) async fn run_line_with(
    audience: Audience,
    line: &[String],
    input: &mut (dyn io::BufRead + Send),
) -> CommandOutput {
    let program = std::iter::once("outbox-router");
    let cli = Cli::read(program.chain(line.iter().map(String::as_str))).expect("a command line");
    let environment = Environment::default();
    let config = cli::load_config(&cli, &environment).expect("a configuration");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut terminal = Terminal { out: &mut out, err: &mut err, input, audience };
    let exit = match &cli.command {
        Command::Task(task) => cli::execute(&cli, task, &config, &environment, &mut terminal).await,
        Command::Migrate(from) => cli::migrate(&cli, from, &environment, &mut terminal).await,
        Command::Explain(args) => {
            cli::explain_row(args, &config, &environment, &mut terminal).await
        }
        Command::Run(_) => panic!("it runs until it is stopped"),
    };
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    CommandOutput { exit, out: text(out), err: text(err) }
}

impl Drop for Server {
    fn drop(&mut self) {
        if Path::new(&self.directory.path().join("data/postmaster.pid")).exists() {
            succeed(self.control("stop").args(["-m", "immediate"]));
        }
    }
}
