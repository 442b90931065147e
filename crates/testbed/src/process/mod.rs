//! Child processes that never outlive their parent.
//!
//! A server started by a test must be gone after the test, however the test ends: dropping a
//! [`Process`] kills what it started, and where `setpriv` exists the kernel kills the child when
//! the parent dies. That kernel feature (PR_SET_PDEATHSIG) watches the *thread* that started the
//! child, and a runtime's threads come and go, so one thread that lives as long as the parent
//! starts all of them.

mod proc;

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use anyhow::Context;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

pub use self::proc::{
    cpu_time, family_cpu_time, has_ended, peak_data_bytes, peak_resident_bytes, resident_bytes,
    thread_cpu_time, written_bytes,
};
use self::proc::{descendants_of, has_stopped};
use crate::wait::eventually;

/// Sends a signal to a command that was started. Does nothing if its end was waited for already.
///
/// # Errors
///
/// Fails when the signal may not be sent.
pub fn signal(child: &tokio::process::Child, signal: Signal) -> anyhow::Result<()> {
    // The child has an id until it is reaped, and no other process can have that id before.
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let Some(pid) = pid else { return Ok(()) };
    kill_process(pid, signal).with_context(|| format!("cannot signal process {pid:?}"))
}

/// Sends a signal to a process that is no child, as a backend of a server that has told its id.
///
/// # Errors
///
/// Fails when the signal may not be sent, or a process does not stop by it.
pub fn signal_pid(pid: i32, signal: Signal) -> anyhow::Result<()> {
    send(Pid::from_raw(pid).context("no process has this id")?, signal)
}

/// The user that a child runs as, if it is not the parent's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunAs {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// Which program to start, and how.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    run_as: Option<RunAs>,
}

impl ProcessSpec {
    /// `program`, whose standard output and standard error are appended to `log`.
    pub fn new(program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            log: log.into(),
            run_as: None,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<I: IntoIterator<Item = S>, S: Into<String>>(mut self, arguments: I) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the child's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Runs the child as another user.
    #[must_use]
    pub fn run_as(mut self, user: Option<RunAs>) -> Self {
        self.run_as = user;
        self
    }

    fn command(&self) -> anyhow::Result<Command> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .with_context(|| format!("cannot open log {}", self.log.display()))?;
        let mut command = match setpriv() {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        command
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A Ctrl-C meant for the parent must not reach the servers: the parent ends them in
            // order.
            .process_group(0);
        if let Some(user) = self.run_as {
            command.uid(user.uid).gid(user.gid).current_dir("/");
        }
        Ok(command)
    }
}

fn setpriv() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| find_program("setpriv")).as_deref()
}

/// The first file called `name` in the directories of `PATH`.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

type Job = Box<dyn FnOnce() + Send>;

fn spawn_on_lasting_thread(mut command: Command) -> anyhow::Result<Child> {
    static STARTER: OnceLock<SyncSender<Job>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, jobs) = sync_channel::<Job>(1);
        std::thread::spawn(move || jobs.iter().for_each(|job| job()));
        sender
    });
    let (answer, child) = sync_channel(1);
    let job: Job = Box::new(move || {
        // The receiver waits right below, so it cannot be gone.
        answer.send(command.spawn()).unwrap_or_default();
    });
    starter.send(job).ok().context("the thread that starts processes is gone")?;
    Ok(child.recv().context("the thread that starts processes is gone")??)
}

/// A running (or ended, not yet dropped) child process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: Pid,
    log: PathBuf,
}

impl Process {
    /// Starts `spec`.
    ///
    /// # Errors
    ///
    /// Fails when the log cannot be opened or the program cannot be started.
    pub fn start(spec: &ProcessSpec) -> anyhow::Result<Self> {
        let child = spawn_on_lasting_thread(spec.command()?)
            .with_context(|| format!("cannot start {}", spec.program.display()))?;
        let pid = Pid::from_child(&child);
        Ok(Self { child, pid, log: spec.log.clone() })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where its output goes.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Its output so far.
    ///
    /// # Errors
    ///
    /// Fails when the log cannot be read.
    pub fn output(&self) -> anyhow::Result<String> {
        let bytes = std::fs::read(&self.log)
            .with_context(|| format!("cannot read log {}", self.log.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Sends a signal. Does nothing if the process has ended already.
    ///
    /// # Errors
    ///
    /// Fails when the signal may not be sent.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        // As long as the child is not reaped, no other process can have its id.
        if self.child.try_wait()?.is_none() {
            send(self.pid, signal)?;
        }
        Ok(())
    }

    /// Sends a signal to it and to all its descendants: a server whose first process alone is
    /// stopped goes on serving.
    ///
    /// # Errors
    ///
    /// Fails when the signal may not be sent.
    pub fn signal_family(&mut self, signal: Signal) -> anyhow::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        // First, so that a stopped one starts no further child.
        send(self.pid, signal)?;
        for pid in descendants_of(self.pid)? {
            send(pid, signal)?;
        }
        Ok(())
    }

    /// Its exit status, or `None` while it runs.
    ///
    /// # Errors
    ///
    /// Fails when its status cannot be read.
    pub fn try_wait(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// Fails when it still runs after `deadline`.
    pub async fn wait_exit(&mut self, deadline: Duration) -> anyhow::Result<ExitStatus> {
        let what = format!("the end of process {}, log {}", self.pid(), self.log.display());
        eventually(deadline, what, || {
            let status = self.child.try_wait();
            async move { Ok(status?) }
        })
        .await
    }

    /// Kills it and all its descendants with SIGKILL and returns when they are gone.
    ///
    /// # Errors
    ///
    /// Fails when one of them cannot be killed.
    pub async fn kill9(&mut self) -> anyhow::Result<()> {
        let descendants = self.kill_tree()?;
        self.wait_exit(Duration::from_secs(10)).await?;
        eventually(Duration::from_secs(10), "the end of killed child processes", || {
            let gone = descendants.iter().all(|pid| has_ended(raw(*pid)));
            async move { Ok(gone.then_some(())) }
        })
        .await
    }

    /// A stopped parent cannot fork, so the list of its descendants is complete when they are
    /// killed.
    fn kill_tree(&mut self) -> anyhow::Result<Vec<Pid>> {
        if self.child.try_wait()?.is_some() {
            return Ok(Vec::new());
        }
        kill_process(self.pid, Signal::STOP)?;
        let descendants = descendants_of(self.pid)?;
        send(self.pid, Signal::KILL)?;
        for pid in &descendants {
            send(*pid, Signal::KILL)?;
        }
        Ok(descendants)
    }
}

/// Sends a signal to a process; one that has ended meanwhile needs none. After SIGSTOP it returns
/// when the process has really stopped: the signal takes effect when one thread handles it, and on
/// a busy machine the others run on until then.
fn send(pid: Pid, signal: Signal) -> anyhow::Result<()> {
    /// Half a minute, at least.
    const LOOKS_MAX: u32 = 30_000;
    match kill_process(pid, signal) {
        Ok(()) => {}
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot signal process {}", raw(pid)));
        }
    }
    if signal != Signal::STOP {
        return Ok(());
    }
    for _ in 0..LOOKS_MAX {
        if has_stopped(raw(pid)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    anyhow::bail!("process {} does not stop", raw(pid))
}

fn raw(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error could not be handled here. The kernel's own kill is the second safeguard.
        if self.kill_tree().is_ok() {
            drop(self.child.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn shell(script: &str) -> (Process, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let spec = ProcessSpec::new("/bin/sh", dir.path().join("log")).args(["-c", script]);
        (Process::start(&spec).unwrap(), dir)
    }

    async fn child_of(process: &Process) -> Pid {
        eventually(Duration::from_secs(10), "a grandchild", || {
            let found = descendants_of(process.pid);
            async move { Ok(found?.first().copied()) }
        })
        .await
        .unwrap()
    }

    #[tokio::test]
    async fn kill9_kills_the_descendants_too() {
        let (mut process, _dir) = shell("sleep 600 & wait");
        let child = child_of(&process).await;
        process.kill9().await.unwrap();
        assert!(has_ended(raw(child)));
        assert_eq!(process.try_wait().unwrap().unwrap().signal(), Some(9));
    }

    #[test]
    fn a_process_has_stopped_when_the_signal_is_sent_and_runs_on_afterwards() {
        let (mut process, _dir) = shell("while :; do :; done");
        assert!(!has_stopped(process.pid()));
        process.signal(Signal::STOP).unwrap();
        assert!(has_stopped(process.pid()));
        process.signal(Signal::CONT).unwrap();
        assert!(!has_stopped(process.pid()));
    }

    #[tokio::test]
    async fn dropping_a_process_kills_it() {
        let (process, _dir) = shell("sleep 600");
        let pid = process.pid;
        drop(process);
        assert!(has_ended(raw(pid)));
    }

    #[tokio::test]
    async fn output_and_exit_code_of_an_ended_process_can_be_read() {
        let (mut process, _dir) = shell("echo out; echo err >&2; exit 7");
        let status = process.wait_exit(Duration::from_secs(10)).await.unwrap();
        assert_eq!(status.code(), Some(7));
        assert_eq!(process.output().unwrap(), "out\nerr\n");
    }
}
